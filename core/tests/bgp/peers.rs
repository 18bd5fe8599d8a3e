//! Peers and BFD profiles by themselves.

use std::time::Duration;

use ferrolb_api::v1beta1::BFDProfileSpec;
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_core::config::{Compiled, Neighbor, Peer, RemoteAs, Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bfd_profile, bgp_peer, expression, match_labels, node, peer_spec, peer_with, pool, secret,
};
use ferrolb_proto::bgp::Asn;
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{messages, of_severity};

fn peer(change: impl FnOnce(&mut BGPPeerSpec)) -> BGPPeer {
    let mut peer = bgp_peer("p", "1.2.3.4");
    change(&mut peer.spec);
    peer
}

fn compile_peer(peer: BGPPeer) -> Compiled {
    compile(&Resources::default().with_bgp_peers([peer]))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_peer_that_says_everything() {
    let spec = BGPPeerSpec {
        my_asn: 42,
        peer_asn: Some(142),
        local_asn: Some(65410),
        peer_address: text("1.2.3.4"),
        peer_port: Some(1179),
        source_address: text("10.20.30.40"),
        hold_time: text("180s"),
        connect_time: text("1s"),
        router_id: text("10.20.30.40"),
        enable_graceful_restart: Some(true),
        ebgp_multi_hop: Some(true),
        vrf: text("foo"),
        password: text("hunter2"),
        bfd_profile: text("fast"),
        dual_stack_address_family: true,
        node_selectors: vec![match_labels(&[("foo", "bar")])],
        ..Default::default()
    };
    let fast = BFDProfileSpec {
        receive_interval: Some(50),
        transmit_interval: Some(60),
        detect_multiplier: Some(5),
        echo_interval: Some(70),
        echo_mode: Some(false),
        passive_mode: Some(true),
        minimum_ttl: Some(250),
    };
    let resources = Resources::default()
        .with_bgp_peers([peer_with("peer1", spec)])
        .with_bfd_profiles([bfd_profile("fast", fast)])
        .with_nodes([node("a", &[("foo", "bar")]), node("b", &[])]);
    let compiled = compile(&resources);
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let peer = &compiled.config.peers()["peer1"];
    assert_eq!((peer.my_asn, peer.remote_as), (Asn(42), RemoteAs::Asn(Asn(142))));
    assert_eq!(peer.local_asn, Some(Asn(65410)));
    assert_eq!(peer.neighbor, Neighbor::Address("1.2.3.4".parse().unwrap()));
    assert_eq!((peer.port.get(), peer.source_address), (1179, "10.20.30.40".parse().ok()));
    let timers = peer.timers.unwrap();
    assert_eq!((timers.hold_seconds(), timers.keepalive()), (180, Duration::from_secs(60)));
    assert_eq!(peer.connect_time, Some(Duration::from_secs(1)));
    assert_eq!(peer.router_id, "10.20.30.40".parse().ok());
    assert!(peer.graceful_restart && peer.ebgp_multi_hop && peer.dual_stack);
    assert_eq!(peer.vrf.as_deref(), Some("foo"));
    assert_eq!(peer.password.as_ref().unwrap().expose(), "hunter2");
    assert!(!format!("{peer:?}").contains("hunter2"), "passwords are not for logs");
    assert_eq!(peer.nodes.iter().collect::<Vec<_>>(), ["a"]);
    let bfd = peer.bfd.as_ref().unwrap();
    assert_eq!(bfd.name, "fast");
    let millis = [bfd.receive_interval, bfd.transmit_interval, bfd.echo_interval].map(|it| it.as_millis());
    assert_eq!(millis, [50, 60, 70]);
    assert_eq!((bfd.detect_multiplier, bfd.minimum_ttl), (5, Some(250)));
    assert!(!bfd.echo_mode && bfd.passive_mode);
}

#[test]
fn what_is_accepted() {
    for spec in [
        BGPPeerSpec { my_asn: 42, peer_asn: Some(42), ..plain() },
        BGPPeerSpec { peer_asn: None, dynamic_asn: text("internal"), ..plain() },
        BGPPeerSpec { peer_asn: Some(0), dynamic_asn: text("external"), ..plain() },
        BGPPeerSpec { peer_address: None, interface: text("net0"), ..plain() },
        BGPPeerSpec { local_asn: Some(65410), ..plain() },
        BGPPeerSpec { hold_time: text("30s"), keepalive_time: text("30s"), ..plain() },
        BGPPeerSpec { connect_time: text("65535s"), ..plain() },
        BGPPeerSpec { node_selectors: vec![LabelSelector::default()], ..plain() },
        BGPPeerSpec { enable_graceful_restart: Some(true), ..plain() },
        BGPPeerSpec { vrf: text("red"), ..plain() },
        BGPPeerSpec { dual_stack_address_family: true, ..plain() },
        BGPPeerSpec { peer_address: text("2001:db8::1"), ..plain() },
        BGPPeerSpec { peer_address: text("127.0.0.1"), ..plain() },
        BGPPeerSpec { peer_address: text("::ffff:1.2.3.4"), ..plain() },
    ] {
        let compiled = compile_peer(peer_with("p", spec.clone()));
        assert_eq!(messages(&compiled), Vec::<String>::new(), "{spec:?}");
        assert_eq!(compiled.config.peers().len(), 1, "{spec:?}");
    }
}

fn plain() -> BGPPeerSpec {
    BGPPeerSpec { peer_address: text("1.2.3.4"), ..peer_spec() }
}

#[test]
fn what_is_refused_and_with_which_text() {
    let long = "x".repeat(81);
    for (object, expected) in [
        (peer(|it| it.my_asn = 0), "parsing peer p missing local ASN"),
        (peer(|it| it.peer_asn = None), "parsing peer p missing peer ASN and dynamicASN"),
        (peer(|it| it.peer_asn = Some(0)), "parsing peer p missing peer ASN and dynamicASN"),
        (
            peer(|it| it.dynamic_asn = text("internal")),
            "parsing peer p both peer ASN and dynamicASN specified",
        ),
        (
            peer(|it| (it.peer_asn, it.dynamic_asn) = (None, text("sideways"))),
            "parsing peer p invalid dynamicASN sideways",
        ),
        (peer(|it| it.local_asn = Some(0)), "parsing peer p invalid localASN 0"),
        (
            peer(|it| (it.peer_asn, it.ebgp_multi_hop) = (Some(100), Some(true))),
            "parsing peer p invalid ebgp-multihop parameter set for an ibgp peer",
        ),
        (peer(|it| it.peer_address = None), "parsing peer p peer has no Address or Interface specified"),
        (peer(|it| it.peer_address = text("")), "parsing peer p peer has no Address or Interface specified"),
        (
            peer(|it| it.interface = text("net0")),
            "parsing peer p peer has both Address and Interface specified",
        ),
        (
            peer(|it| it.peer_address = text("1.2.3.400")),
            "parsing peer p invalid BGPPeer address \"1.2.3.400\"",
        ),
        (peer(|it| it.peer_address = text("1.1.1")), "parsing peer p invalid BGPPeer address \"1.1.1\""),
        (peer(|it| it.peer_address = text("0.0.0.0")), "parsing peer p invalid BGPPeer address \"0.0.0.0\""),
        (peer(|it| it.peer_address = text("ff02::1")), "parsing peer p invalid BGPPeer address \"ff02::1\""),
        (
            peer(|it| (it.peer_address, it.interface) = (None, text("a/b"))),
            "parsing peer p invalid interface name \"a/b\"",
        ),
        (
            peer(|it| it.vrf = text("sixteen-letters-")),
            "parsing peer p invalid interface name \"sixteen-letters-\"",
        ),
        (peer(|it| it.peer_port = Some(0)), "parsing peer p invalid peerPort 0"),
        (
            peer(|it| it.router_id = text("oh god how do I BGP")),
            "parsing peer p invalid router ID \"oh god how do I BGP\"",
        ),
        (peer(|it| it.router_id = text("2001:db8::1")), "parsing peer p invalid router ID \"2001:db8::1\""),
        (peer(|it| it.router_id = text("0.0.0.0")), "parsing peer p invalid router ID \"0.0.0.0\""),
        (peer(|it| it.source_address = text("here")), "parsing peer p invalid source IP \"here\""),
        (
            peer(|it| it.source_address = text("2001:db8::1")),
            "parsing peer p invalid source IP \"2001:db8::1\": not of the family of peer address \"1.2.3.4\"",
        ),
        (
            peer(|it| (it.hold_time, it.keepalive_time) = (text("30s"), text("90s"))),
            "parsing peer p invalid BGPPeer timers: invalid keepaliveTime \"1m30s\", must be lower than holdTime \"30s\"",
        ),
        (
            peer(|it| it.hold_time = text("2999ms")),
            "parsing peer p invalid BGPPeer timers: invalid hold time \"2.999s\": must be 0 or >=3s",
        ),
        (
            peer(|it| it.keepalive_time = text("500ms")),
            "parsing peer p invalid BGPPeer timers: invalid hold time \"1.5s\": must be 0 or >=3s",
        ),
        (
            peer(|it| it.hold_time = text("20h")),
            "parsing peer p invalid BGPPeer timers: invalid hold time \"20h0m0s\": must be at most 65535s",
        ),
        (peer(|it| it.hold_time = text("abc")), "time: invalid duration \"abc\""),
        (
            peer(|it| it.connect_time = text("1500ms")),
            "parsing peer p invalid connect time \"1.5s\": must be whole seconds, 1s to 65535s",
        ),
        (
            peer(|it| it.node_selectors = vec![match_labels(&[("a", "b")]); 2]),
            "parsing peer p duplicate definition of nodeSelectors {map[\"a\":\"b\"] []}",
        ),
        (
            peer(|it| it.node_selectors = vec![expression("a", "surrounds", &["b"])]),
            "parsing peer p \"surrounds\" is not a valid label selector operator\n\
             failed to convert peer p node selector",
        ),
        (
            peer(|it| it.node_selectors = vec![expression("a", "", &["b"])]),
            "parsing peer p \"\" is not a valid label selector operator\nfailed to convert peer p node selector",
        ),
        (
            peer(|it| {
                it.password = text("a");
                it.password_secret = Some(SecretReference { name: text("s"), namespace: None });
            }),
            "parsing peer p can not have both password and secret ref set in peer config \"metallb-system\"/\"p\"",
        ),
        (
            peer(|it| it.password = Some(long.clone())),
            "parsing peer p password of 81 bytes, TCP MD5 takes up to 80",
        ),
    ] {
        let compiled = compile_peer(object);
        assert_eq!(messages(&compiled), [expected]);
        assert!(compiled.config.peers().is_empty(), "{expected}");
        assert_eq!(of_severity(&compiled, Severity::Invalid).len(), 1, "{expected}");
        let remedies = compiled.diagnostics.iter().map(|it| it.remedy());
        assert!(remedies.into_iter().all(|remedy| !remedy.is_empty()), "{expected}");
    }
    // A selector without a key is told in the words of Kubernetes.
    let compiled = compile_peer(peer(|it| it.node_selectors = vec![expression("", "In", &["b"])]));
    assert!(messages(&compiled)[0].starts_with("parsing peer p key: Invalid value: \"\""));
    assert!(compiled.config.peers().is_empty());
}

#[test]
fn everything_at_once() {
    let compiled = compile_peer(peer_with("p", BGPPeerSpec::default()));
    assert_eq!(
        messages(&compiled),
        [
            "parsing peer p missing local ASN",
            "parsing peer p missing peer ASN and dynamicASN",
            "parsing peer p peer has no Address or Interface specified"
        ]
    );
}

#[test]
fn timers_follow_from_each_other() {
    for (hold, keepalive, expected) in [
        (None, None, None),
        (text("180s"), None, Some((180, 60_000))),
        (None, text("60s"), Some((180, 60_000))),
        (text("0s"), text("0s"), Some((0, 0))),
        (text("4500ms"), text("4500ms"), Some((4, 4000))),
        (text("3s"), None, Some((3, 1000))),
    ] {
        let compiled = compile_peer(peer(|it| (it.hold_time, it.keepalive_time) = (hold, keepalive)));
        let timers = compiled.config.peers()["p"].timers;
        assert_eq!(timers.map(|it| (it.hold_seconds(), it.keepalive().as_millis())), expected);
    }
}

#[test]
fn what_is_in_force_but_remarkable() {
    for (object, severity, expected) in [
        (
            peer(|it| it.disable_mp = true),
            Severity::Deprecated,
            "disable mp is deprecated and has no effect since it's the default behavior now",
        ),
        (
            peer(|it| it.hold_time = text("500ms")),
            Severity::Doubtful,
            "BGPPeer \"p\": holdTime 500ms counts as 0: a dead peer is not noticed",
        ),
        (
            peer(|it| it.peer_address = text("fe80::1")),
            Severity::Doubtful,
            "BGPPeer \"p\": fe80::1 is link-local, which is not reached without an interface",
        ),
    ] {
        let compiled = compile_peer(object);
        assert_eq!(of_severity(&compiled, severity), [expected]);
        assert_eq!(compiled.config.peers().len(), 1);
    }
    // Checked all the same, which MetalLB forgets.
    let compiled = compile_peer(peer(|it| (it.disable_mp, it.my_asn) = (true, 0)));
    assert_eq!(of_severity(&compiled, Severity::Invalid), ["parsing peer p missing local ASN"]);
}

#[test]
fn secrets() {
    let object = || {
        peer(|it| {
            let namespace = text("elsewhere");
            it.password_secret = Some(SecretReference { name: text("bgp-password"), namespace });
        })
    };
    let with =
        |secrets: Vec<_>| compile(&Resources::default().with_bgp_peers([object()]).with_secrets(secrets));
    let basic = "kubernetes.io/basic-auth";
    for (secrets, expected, severity) in [
        (
            vec![],
            "parsing peer p secret ref not found for peer config \"metallb-system\"/\"p\"\n\
             failed to parse peer p password secret",
            Severity::Unresolved,
        ),
        (
            vec![secret("bgp-password", "Opaque", &[("password", "x")])],
            "parsing peer p secret type mismatch on \"metallb-system\"/\"bgp-password\", type \
             \"kubernetes.io/basic-auth\" is expected \nfailed to parse peer p password secret",
            Severity::Invalid,
        ),
        (
            vec![secret("bgp-password", basic, &[("username", "x")])],
            "parsing peer p password not specified in the secret \"metallb-system\"/\"bgp-password\"\n\
             failed to parse peer p password secret",
            Severity::Invalid,
        ),
    ] {
        let compiled = with(secrets);
        assert_eq!(of_severity(&compiled, severity), [expected]);
        assert!(compiled.config.peers().is_empty());
    }
    let password = |compiled: &Compiled| {
        let peer: &Peer = &compiled.config.peers()["p"];
        assert_eq!(peer.password_secret.as_deref(), Some("bgp-password"));
        peer.password.as_ref().map(|it| it.expose().to_owned())
    };
    let found = with(vec![secret("bgp-password", basic, &[("password", "nopass")])]);
    assert_eq!(password(&found), text("nopass"));
    // Who reads no Secrets keeps the reference.
    assert_eq!(password(&compile_peer(object())), None);
}

#[test]
fn bfd_profiles() {
    let with_profile = |spec: Option<BFDProfileSpec>, address: &str| {
        let mut object = bgp_peer("p", address);
        object.spec.bfd_profile = text("default");
        compile(
            &Resources::default()
                .with_bgp_peers([object])
                .with_bfd_profiles(spec.map(|spec| bfd_profile("default", spec)))
                .with_pools([pool("six", &["2001:db8::/64"])]),
        )
    };
    let compiled = with_profile(Some(BFDProfileSpec::default()), "1.2.3.4");
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let bfd = compiled.config.peers()["p"].bfd.clone().unwrap();
    assert_eq!((bfd.receive_interval.as_millis(), bfd.detect_multiplier, bfd.echo_mode), (300, 3, false));

    let compiled = with_profile(None, "1.2.3.4");
    let expected = ["peer p referencing non existing bfd profile default"];
    assert_eq!(of_severity(&compiled, Severity::Unresolved), expected);
    assert!(compiled.config.peers().is_empty());

    let interval = |value| BFDProfileSpec { receive_interval: Some(value), ..Default::default() };
    for value in [2, 90000] {
        let compiled = with_profile(Some(interval(value)), "1.2.3.4");
        let of_profile = format!(
            "parsing bfd profile default: invalid value {value}, must be in 10-60000 range\ninvalid receive interval value"
        );
        assert_eq!(
            messages(&compiled),
            [of_profile, "peer p referencing invalid bfd profile default".to_owned()]
        );
        assert!(compiled.config.peers().is_empty());
    }

    // Echo is possible towards an IPv4 router, whatever the pools have; towards another it is not used.
    let echo = || BFDProfileSpec { echo_mode: Some(true), ..Default::default() };
    let compiled = with_profile(Some(echo()), "1.2.3.4");
    assert_eq!(messages(&compiled), Vec::<String>::new());
    assert!(compiled.config.peers()["p"].bfd.as_ref().unwrap().echo_mode);
    let mut far = bgp_peer("p", "1.2.3.4");
    far.spec.bfd_profile = text("default");
    far.spec.ebgp_multi_hop = Some(true);
    let resources =
        Resources::default().with_bgp_peers([far]).with_bfd_profiles([bfd_profile("default", echo())]);
    assert!(!compile(&resources).config.peers()["p"].bfd.as_ref().unwrap().echo_mode);
    let compiled = with_profile(Some(echo()), "2001:db8::1");
    let expected = [
        "BGPPeer \"p\": echoMode of BFDProfile \"default\" is not used, it exists for IPv4 over one hop only",
    ];
    assert_eq!(of_severity(&compiled, Severity::Doubtful), expected);
    assert!(!compiled.config.peers()["p"].bfd.as_ref().unwrap().echo_mode);
}

#[test]
fn every_number_of_a_bfd_profile_has_bounds() {
    let spec = BFDProfileSpec {
        receive_interval: Some(9),
        transmit_interval: Some(60001),
        detect_multiplier: Some(1),
        echo_interval: Some(0),
        minimum_ttl: Some(255),
        ..Default::default()
    };
    let compiled = compile(&Resources::default().with_bfd_profiles([bfd_profile("b", spec)]));
    assert_eq!(
        messages(&compiled),
        [
            "parsing bfd profile b: invalid value 1, must be in 2-255 range\ninvalid detect multiplier value",
            "parsing bfd profile b: invalid value 9, must be in 10-60000 range\ninvalid receive interval value",
            "parsing bfd profile b: invalid value 60001, must be in 10-60000 range\ninvalid transmit interval value",
            "parsing bfd profile b: invalid value 255, must be in 1-254 range\ninvalid minimum ttl value",
            "parsing bfd profile b: invalid value 0, must be in 10-60000 range\ninvalid echo interval value",
        ]
    );
}
