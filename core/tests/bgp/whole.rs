//! Whole configurations: one that uses everything, and what MetalLB refuses by its BGP mode and we do not.

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolb_api::v1beta1::{BFDProfileSpec, BGPAdvertisementSpec, IPAddressPool, L2AdvertisementSpec};
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_core::config::{Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bfd_profile, bgp_advertisement, bgp_peer, community, expression, l2_advertisement, match_labels, node,
    peer_with, pool,
};
use ferrolb_proto::bgp::{Community, LargeCommunity};

use super::{messages, names, of_severity};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn everything_at_once() {
    let mut peer2 = bgp_peer("peer2", "2.3.4.5");
    peer2.spec.connect_time = text("1s");
    let mut selector = expression("bar", "In", &["quux"]);
    selector.match_labels = match_labels(&[("foo", "bar")]).match_labels;
    peer2.spec.node_selectors = vec![selector];
    let peer1 = BGPPeerSpec {
        my_asn: 42,
        peer_asn: Some(142),
        peer_address: text("1.2.3.4"),
        peer_port: Some(1179),
        hold_time: text("180s"),
        connect_time: text("1s"),
        router_id: text("10.20.30.40"),
        source_address: text("10.20.30.40"),
        enable_graceful_restart: Some(true),
        ebgp_multi_hop: Some(true),
        vrf: text("foo"),
        ..Default::default()
    };
    let mut pool1 = pool("pool1", &["10.20.0.0/16", "10.50.0.0/24"]);
    (pool1.spec.avoid_buggy_ips, pool1.spec.auto_assign) = (true, false);
    let pool3 =
        ["40.0.0.0/25", "40.0.0.150-40.0.0.200", "40.0.0.210 - 40.0.0.240", "40.0.0.250 - 40.0.0.250"];
    let bgp = BGPAdvertisementSpec::default;
    let of = |pool: &str, spec: BGPAdvertisementSpec| BGPAdvertisementSpec {
        ip_address_pools: names(&[pool]),
        ..spec
    };
    let resources = Resources::default()
        .with_nodes([node("n1", &[("foo", "bar"), ("bar", "quux")]), node("n2", &[("foo", "bar")])])
        .with_bgp_peers([peer_with("peer1", peer1), peer2])
        .with_pools([
            pool1,
            pool("pool2", &["30.0.0.0/8"]),
            pool("pool3", &pool3),
            pool("pool4", &["2001:db8::/64"]),
        ])
        .with_bgp_advertisements([
            bgp_advertisement(
                "adv1",
                of(
                    "pool1",
                    BGPAdvertisementSpec {
                        local_pref: Some(100),
                        communities: names(&["bar"]),
                        peers: names(&["peer1"]),
                        ..bgp()
                    },
                ),
            ),
            bgp_advertisement(
                "adv2",
                of(
                    "pool1",
                    BGPAdvertisementSpec { aggregation_length: 24, aggregation_length_v6: 64, ..bgp() },
                ),
            ),
            bgp_advertisement("adv3", of("pool2", bgp())),
        ])
        .with_l2_advertisements([
            l2_advertisement(
                "l2adv1",
                L2AdvertisementSpec { ip_address_pools: names(&["pool3"]), ..Default::default() },
            ),
            l2_advertisement("l2adv2", L2AdvertisementSpec::default()),
        ])
        .with_communities([community("c", &[("bar", "64512:1234")])]);
    let compiled = compile(&resources);
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let config = &compiled.config;
    let peer1 = &config.peers()["peer1"];
    assert_eq!(peer1.timers.map(|it| it.keepalive()), Some(Duration::from_secs(60)));
    assert_eq!((peer1.nodes.len(), config.peers()["peer2"].nodes.len()), (2, 1));
    let pool1 = &config.pools()["pool1"];
    assert!(pool1.avoid_buggy_ips && !pool1.auto_assign);
    assert_eq!(config.pools()["pool3"].ranges.len(), 4);
    let [adv1, adv2, adv3] = ["adv1", "adv2", "adv3"].map(|name| &config.bgp_advertisements()[name]);
    assert_eq!((adv1.aggregation_length, adv1.aggregation_length_v6), (32, 128));
    assert_eq!((adv1.local_preference, &adv1.communities), (100, &[Community::new(64512, 1234)].into()));
    assert!(adv1.selects_peer("peer1") && !adv1.selects_peer("peer2"));
    assert_eq!((adv2.aggregation_length, adv2.aggregation_length_v6), (24, 64));
    let pools = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(
        [adv1, adv2, adv3].map(|it| (*it.pools).clone()),
        ["pool1", "pool1", "pool2"].map(|it| pools(&[it]))
    );
    assert_eq!(*config.l2_advertisements()["l2adv2"].pools, pools(&["pool1", "pool2", "pool3", "pool4"]));
}

fn peer(change: impl FnOnce(&mut BGPPeerSpec)) -> BGPPeer {
    let mut peer = bgp_peer("p", "1.2.3.4");
    change(&mut peer.spec);
    peer
}

/// MetalLB's native mode does not know them. Ours is one engine with all of it.
#[test]
fn what_native_mode_refuses_is_in_force() {
    let nothing = Resources::default;
    let of_peer = |change: fn(&mut BGPPeerSpec)| nothing().with_bgp_peers([peer(change)]);
    let six = || pool("six", &["2001:db8::/64"]);
    let mut labelled = six();
    labelled.metadata.labels = match_labels(&[("family", "six")]).match_labels;
    let advertised = |pool: IPAddressPool, specs: Vec<BGPAdvertisementSpec>| {
        let ads = specs.into_iter().enumerate();
        nothing()
            .with_pools([pool])
            .with_bgp_advertisements(ads.map(|(nth, spec)| bgp_advertisement(&format!("adv{nth}"), spec)))
    };
    let other = || BGPAdvertisementSpec { ip_address_pools: names(&["six"]), ..Default::default() };
    let selecting = BGPAdvertisementSpec {
        ip_address_pool_selectors: vec![match_labels(&[("family", "six")])],
        ..Default::default()
    };
    let large = BGPAdvertisementSpec { communities: names(&["large:123:456:789"]), ..other() };
    for (what, resources) in [
        ("a peer with a BFD profile", {
            let profile = bfd_profile("default", BFDProfileSpec::default());
            of_peer(|it| it.bfd_profile = text("default")).with_bfd_profiles([profile])
        }),
        ("a BFD profile", nothing().with_bfd_profiles([bfd_profile("b", BFDProfileSpec::default())])),
        ("an IPv6 pool that all select", advertised(six(), vec![BGPAdvertisementSpec::default()])),
        ("an IPv6 pool by name, of two", advertised(six(), vec![other(), other()])),
        ("an IPv6 pool by label", advertised(labelled, vec![other(), selecting])),
        ("an IPv6 pool that none selects", nothing().with_pools([six()])),
        ("graceful restart", of_peer(|it| it.enable_graceful_restart = Some(true))),
        ("dynamicASN", of_peer(|it| (it.peer_asn, it.dynamic_asn) = (None, text("external")))),
        ("interface", of_peer(|it| (it.peer_address, it.interface) = (None, text("net0")))),
        ("localASN", of_peer(|it| it.local_asn = Some(65410))),
        ("keepaliveTime", of_peer(|it| it.keepalive_time = text("1s"))),
        ("connectTime", of_peer(|it| it.connect_time = text("1s"))),
        ("VRF", of_peer(|it| it.vrf = text("red"))),
        ("both families", of_peer(|it| it.dual_stack_address_family = true)),
        ("a large community", advertised(six(), vec![large])),
        ("a large alias", nothing().with_communities([community("c", &[("a", "large:123:456:789")])])),
    ] {
        let compiled = compile(&resources);
        assert_eq!(messages(&compiled), Vec::<String>::new(), "{what}");
        let config = &compiled.config;
        assert_eq!(config.peers().len(), resources.bgp_peers.len(), "{what}");
        assert_eq!(config.bgp_advertisements().len(), resources.bgp_advertisements.len(), "{what}");
    }
    // Deprecated, with the warning that is known.
    let compiled = compile(&of_peer(|it| it.disable_mp = true));
    assert_eq!(of_severity(&compiled, Severity::Deprecated).len(), 1);
    assert_eq!(compiled.config.peers().len(), 1);
}

/// Its FRR modes want one router ID, and in a VRF one AS, of a node.
#[test]
fn peers_of_a_node_may_be_other_systems_to_each() {
    let peers = |specs: &[(Option<&str>, u32, &str)]| {
        let peer = |(nth, (id, asn, vrf)): (usize, &(Option<&str>, u32, &str))| {
            let mut peer = bgp_peer(&format!("p{nth}"), &format!("1.2.3.{nth}"));
            peer.spec.router_id = id.map(ToOwned::to_owned);
            peer.spec.my_asn = *asn;
            peer.spec.vrf = (!vrf.is_empty()).then(|| (*vrf).to_owned());
            peer
        };
        compile(
            &Resources::default()
                .with_nodes([node("n1", &[])])
                .with_bgp_peers(specs.iter().enumerate().map(peer)),
        )
    };
    let (a, b) = (Some("10.0.0.1"), Some("10.0.0.2"));
    for specs in [
        [(a, 123, ""), (a, 123, ""), (b, 123, "")],
        [(a, 123, ""), (a, 123, ""), (None, 123, "")],
        [(None, 123, ""), (None, 123, ""), (None, 124, "")],
        [(None, 123, ""), (None, 123, ""), (None, 124, "red")],
        [(None, 123, "red"), (None, 123, "red"), (None, 124, "")],
    ] {
        let compiled = peers(&specs);
        assert_eq!(messages(&compiled), Vec::<String>::new(), "{specs:?}");
        assert_eq!(compiled.config.peers().len(), 3, "{specs:?}");
    }
}

#[test]
fn a_large_alias_and_a_pool_that_is_missing() {
    let spec = |pool: &str, alias: &str| BGPAdvertisementSpec {
        ip_address_pools: names(&[pool]),
        communities: names(&[alias]),
        ..Default::default()
    };
    let resources = Resources::default()
        .with_pools([pool("pool1", &["10.0.0.0/16"])])
        .with_communities([community("c", &[("bar", "large:123:64512:1234")])])
        .with_bgp_advertisements([
            bgp_advertisement("adv1", spec("pool1", "bar")),
            bgp_advertisement("adv3", spec("pool2", "bar")),
        ]);
    let compiled = compile(&resources);
    let gone = r#"BGPAdvertisement "adv3" refers to IPAddressPool "pool2", which does not exist"#;
    assert_eq!(messages(&compiled), [gone]);
    let ads = compiled.config.bgp_advertisements();
    let large = LargeCommunity { global: 123, first: 64512, second: 1234 };
    assert_eq!(ads["adv1"].large_communities, BTreeSet::from([large]));
    assert!(ads["adv3"].pools.is_empty());
}
