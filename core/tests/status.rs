//! `configuration_state`: what a process says of the configuration it runs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ferrolb_api::v1beta1::{BGPAdvertisementSpec, ConfigurationResult, L2AdvertisementSpec};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::config::{Diagnostic, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::status::{concerns_controller, configuration_state};
use ferrolb_core::testing::{
    bgp_advertisement, bgp_peer, community, l2_advertisement, match_labels, node, pool, secret,
};
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

const CONDITION: &str = "poolReconcilerValid";

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn findings(pools: &[(&str, &[&str])], ads: &[(&str, &[&str])]) -> Vec<Diagnostic> {
    let names = |it: &[&str]| it.iter().map(|name| (*name).to_owned()).collect();
    let resources = Resources::default()
        .with_pools(pools.iter().map(|(name, addresses)| pool(name, addresses)))
        .with_l2_advertisements(ads.iter().map(|(name, pools)| {
            let spec = L2AdvertisementSpec { ip_address_pools: names(pools), ..Default::default() };
            l2_advertisement(name, spec)
        }));
    compile(&resources).diagnostics
}

#[test]
fn results_and_texts() {
    let valid = (ConfigurationResult::Valid, "", "True", "Reconciled");
    for (diagnostics, (result, summary, status, reason), message) in [
        (findings(&[("good", &["1.2.3.0/24"])], &[]), valid, ""),
        (
            findings(&[("pool1", &[])], &[]),
            (
                ConfigurationResult::Invalid,
                "configuration error: parsing address pool pool1: pool has no prefixes defined",
                "False",
                "ConfigurationError",
            ),
            "configuration error: parsing address pool pool1: pool has no prefixes defined",
        ),
        (
            findings(&[("pool1", &[]), ("pool2", &[])], &[]),
            (
                ConfigurationResult::Invalid,
                "configuration error: parsing address pool pool1: pool has no prefixes defined\n\
                 parsing address pool pool2: pool has no prefixes defined",
                "False",
                "ConfigurationError",
            ),
            "configuration error: parsing address pool pool1: pool has no prefixes defined\n\
             parsing address pool pool2: pool has no prefixes defined",
        ),
        (
            findings(&[("p", &["1.2.3.0/24"])], &[("ad", &["p", "p"])]),
            (
                ConfigurationResult::Invalid,
                "configuration error: duplicate definition of ipAddressPools \"p\" (L2Advertisement \"ad\")",
                "False",
                "ConfigurationError",
            ),
            "configuration error: duplicate definition of ipAddressPools \"p\" (L2Advertisement \"ad\")",
        ),
        (
            findings(&[], &[("ad", &["later"])]),
            valid,
            "L2Advertisement \"ad\" refers to IPAddressPool \"later\", which does not exist",
        ),
    ] {
        let state = configuration_state(&diagnostics, |_| true, CONDITION, at(1), None);
        assert_eq!(state.result, Some(result));
        assert_eq!(state.error_summary.as_deref(), Some(summary));
        let [condition] = &state.conditions[..] else { panic!("{state:?}") };
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), (status, reason));
        assert_eq!(condition.message, message);
        assert_eq!(condition.type_, CONDITION);
    }
}

#[test]
fn time_moves_with_transitions_only() {
    let bad = |name| findings(&[(name, &[])], &[]);
    let mut previous = None;
    for (second, diagnostics, transition) in
        [(1, vec![], 1), (2, vec![], 1), (3, bad("a"), 3), (4, bad("b"), 3), (5, vec![], 5), (6, vec![], 5)]
    {
        let state = configuration_state(&diagnostics, |_| true, CONDITION, at(second), previous.as_ref());
        assert_eq!(state.conditions[0].last_transition_time, at(transition), "at {second}");
        previous = Some(state);
    }
}

#[test]
fn a_message_is_never_too_long_for_the_api() {
    let name = "ä".repeat(100);
    let names: Vec<String> = (0..1000).map(|index| format!("{name}{index}")).collect();
    let pools: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let state = configuration_state(&findings(&pools, &[]), |_| true, CONDITION, at(1), None);
    assert!(state.conditions[0].message.len() <= 32768);
    assert!(state.conditions[0].message.ends_with('…'));
}

/// What the states of the controller and of the speakers of two nodes say.
fn summaries(resources: &Resources) -> [String; 3] {
    let nodes = ["node0", "node1"].map(|name| node(name, &[("name", name)]));
    let diagnostics = compile(&resources.clone().with_nodes(nodes)).diagnostics;
    let summary = |diagnostics: &[Diagnostic], in_charge: fn(&Diagnostic) -> bool| {
        let state = configuration_state(diagnostics, in_charge, CONDITION, at(1), None);
        assert_eq!(
            state.result == Some(ConfigurationResult::Valid),
            state.error_summary.as_deref() == Some("")
        );
        state.error_summary.unwrap()
    };
    let speaker = |node: &str| {
        let here: Vec<Diagnostic> = diagnostics.iter().filter(|it| it.concerns(node)).cloned().collect();
        summary(&here, |_| true)
    };
    [summary(&diagnostics, concerns_controller), speaker("node0"), speaker("node1")]
}

#[test]
fn each_process_speaks_of_what_it_does() {
    let on = |node: &str, mut peer: BGPPeer| {
        peer.spec.node_selectors = vec![match_labels(&[("name", node)])];
        peer
    };
    let mut with_secret = on("node0", bgp_peer("peer1", "1.2.3.4"));
    let name = Some("bgp-password".to_owned());
    with_secret.spec.password_secret = Some(SecretReference { name, namespace: None });
    let mut with_profile = on("node1", bgp_peer("peer1", "1.2.3.4"));
    with_profile.spec.bfd_profile = Some("my-bfd-profile".to_owned());
    let ad = BGPAdvertisementSpec { communities: vec!["my-valid-alias".to_owned()], ..Default::default() };
    let of_type = |type_: &str| secret("bgp-password", type_, &[("password", "x")]);
    let mismatch = "configuration error: parsing peer peer1 secret type mismatch on \
                    \"metallb-system\"/\"bgp-password\", type \"kubernetes.io/basic-auth\" is expected \n\
                    failed to parse peer peer1 password secret";
    let missing = "configuration error: parsing peer peer1 secret ref not found for peer config \
                   \"metallb-system\"/\"peer1\"\nfailed to parse peer peer1 password secret";
    let no_profile = "configuration error: peer peer1 referencing non existing bfd profile my-bfd-profile";
    let no_alias = "configuration error: invalid community format: my-valid-alias\n\
                    invalid community \"my-valid-alias\" in BGP advertisement";
    let bad_alias =
        "configuration error: parsing community \"a\": invalid community format: 1234 (Community \"c\")";
    let bad_pool = "configuration error: parsing address pool p: pool has no prefixes defined";
    let mut empty = on("node1", bgp_peer("peer1", ""));
    (empty.spec.my_asn, empty.spec.peer_asn, empty.spec.peer_address) = (0, None, None);
    let says_nothing = "configuration error: parsing peer peer1 missing local ASN\n\
                        parsing peer peer1 missing peer ASN and dynamicASN\n\
                        parsing peer peer1 peer has no Address or Interface specified";
    let nothing = Resources::default;
    let two_bad = || nothing().with_secrets::<k8s_openapi::api::core::v1::Secret>([]);
    let mut other_profile = with_profile.clone();
    (other_profile.metadata.name, other_profile.spec.peer_address) =
        (Some("peer2".to_owned()), Some("1.2.3.5".to_owned()));
    let both = "configuration error: parsing peer peer1 secret ref not found for peer config \
                \"metallb-system\"/\"peer1\"\nfailed to parse peer peer1 password secret\n\
                peer peer2 referencing non existing bfd profile my-bfd-profile";
    other_profile.spec.node_selectors = vec![match_labels(&[("name", "node0")])];
    for (resources, controller, node0, node1) in [
        (nothing().with_bgp_peers([empty]), "", "", says_nothing),
        // Two that are wrong, then one of them.
        (two_bad().with_bgp_peers([with_secret.clone(), other_profile]), "", both, ""),
        (nothing(), "", "", ""),
        (nothing().with_bgp_peers([with_secret.clone()]).with_secrets([of_type("Opaque")]), "", mismatch, ""),
        (
            nothing()
                .with_bgp_peers([with_secret.clone()])
                .with_secrets::<k8s_openapi::api::core::v1::Secret>([]),
            "",
            missing,
            "",
        ),
        (
            nothing().with_bgp_peers([with_secret]).with_secrets([of_type("kubernetes.io/basic-auth")]),
            "",
            "",
            "",
        ),
        (nothing().with_bgp_peers([with_profile]), "", "", no_profile),
        (nothing().with_bgp_advertisements([bgp_advertisement("ad", ad)]), "", no_alias, no_alias),
        (nothing().with_communities([community("c", &[("a", "1234")])]), bad_alias, bad_alias, bad_alias),
        (nothing().with_pools([pool("p", &[])]), bad_pool, bad_pool, bad_pool),
    ] {
        assert_eq!(summaries(&resources), [controller, node0, node1]);
    }
}
