//! BGP advertisements and aliases of communities.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrolb_api::v1beta1::{BGPAdvertisementSpec, IPAddressPool};
use ferrolb_core::config::{BgpAdvertisement, Compiled, Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bgp_advertisement, bgp_peer, community, expression, labels, match_labels, node, pool,
};
use ferrolb_proto::bgp::{Community, LargeCommunity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::{findings, messages, names, of_severity};

fn spec() -> BGPAdvertisementSpec {
    BGPAdvertisementSpec::default()
}

fn preference(preference: i64) -> BGPAdvertisementSpec {
    BGPAdvertisementSpec { local_pref: Some(preference), ..spec() }
}

fn cluster(pools: Vec<IPAddressPool>, ads: Vec<BGPAdvertisementSpec>) -> Resources {
    let ads = ads.into_iter().enumerate();
    let ads = ads.map(|(index, spec)| bgp_advertisement(&format!("adv{}", index + 1), spec));
    Resources::default()
        .with_pools(pools)
        .with_bgp_advertisements(ads)
        .with_bgp_peers([bgp_peer("peer1", "1.2.3.4"), bgp_peer("peer2", "1.2.3.5")])
        .with_nodes(["node1", "node2"].map(|name| node(name, &[("name", name)])))
}

fn with_one_pool(ads: Vec<BGPAdvertisementSpec>) -> Compiled {
    compile(&cluster(vec![pool("p", &["10.0.0.0/16"])], ads))
}

fn only(compiled: &Compiled) -> &BgpAdvertisement {
    compiled.config.bgp_advertisements().values().next().expect("in force")
}

#[test]
fn an_advertisement_that_says_everything() {
    let resources = cluster(
        vec![pool("p", &["10.0.0.0/16"]), pool("q", &["10.1.0.0/16"])],
        vec![BGPAdvertisementSpec {
            aggregation_length: 24,
            aggregation_length_v6: 64,
            local_pref: Some(4_294_967_295),
            communities: names(&["bar", "65535:65281", "large:1:2:3"]),
            ip_address_pools: names(&["p"]),
            node_selectors: vec![match_labels(&[("name", "node2")])],
            peers: names(&["peer1"]),
            ..spec()
        }],
    )
    .with_communities([community("c", &[("bar", "64512:1234"), ("unused", "large:4:5:6")])]);
    let compiled = compile(&resources);
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let ad = only(&compiled);
    assert_eq!((ad.aggregation_length, ad.aggregation_length_v6), (24, 64));
    assert_eq!(ad.local_preference, u32::MAX);
    assert_eq!(ad.communities, BTreeSet::from([Community::new(64512, 1234), Community::new(65535, 65281)]));
    let large = LargeCommunity { global: 1, first: 2, second: 3 };
    assert_eq!(ad.large_communities, BTreeSet::from([large]));
    assert_eq!(ad.pools.iter().collect::<Vec<_>>(), ["p"]);
    assert_eq!(ad.nodes.iter().collect::<Vec<_>>(), ["node2"]);
    assert!(ad.selects_peer("peer1") && !ad.selects_peer("peer2"));
}

#[test]
fn without_a_spec_it_is_for_everything() {
    let compiled = with_one_pool(vec![spec()]);
    assert_eq!(compiled.config.bgp_advertisements().len(), 1);
    let ad = only(&compiled);
    assert_eq!((ad.aggregation_length, ad.aggregation_length_v6, ad.local_preference), (32, 128, 0));
    assert_eq!((ad.pools.len(), ad.nodes.len(), &ad.peers), (1, 2, &None));
    assert!(ad.selects_service(&labels(&[])) && ad.selects_peer("any"));
}

#[test]
fn service_selectors_are_alternatives() {
    let app = |name| match_labels(&[("app", name)]);
    let service_selectors = vec![app("nginx"), app("apache")];
    let compiled = with_one_pool(vec![BGPAdvertisementSpec { service_selectors, ..spec() }]);
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let ad = only(&compiled);
    assert!(ad.selects_service(&labels(&[("app", "apache")])));
    assert!(!ad.selects_service(&labels(&[("app", "other")])));
    assert!(ad.services.is_sorted());
}

#[test]
fn what_is_refused_and_with_which_text() {
    let app = || vec![match_labels(&[("app", "a")])];
    let unknown = || vec![expression("", "invalid", &[])];
    for (spec, expected) in [
        (
            BGPAdvertisementSpec { ip_address_pools: names(&["p", "p"]), ..spec() },
            r#"duplicate definition of ipAddressPools "p""#,
        ),
        (
            BGPAdvertisementSpec { communities: names(&["1:2", "1:2"]), ..spec() },
            r#"duplicate definition of community "1:2""#,
        ),
        (
            BGPAdvertisementSpec { peers: names(&["peer1", "peer1"]), ..spec() },
            r#"duplicate definition of peers "peer1""#,
        ),
        (
            BGPAdvertisementSpec { node_selectors: vec![app()[0].clone(); 2], ..spec() },
            r#"duplicate definition of nodeSelectors {map["app":"a"] []}"#,
        ),
        (
            BGPAdvertisementSpec { service_selectors: vec![app()[0].clone(); 2], ..spec() },
            r#"duplicate definition of serviceSelectors {map["app":"a"] []}"#,
        ),
        (
            BGPAdvertisementSpec { ip_address_pool_selectors: vec![app()[0].clone(); 2], ..spec() },
            r#"duplicate definition of ipAddressPoolSelectors {map["app":"a"] []}"#,
        ),
        (
            BGPAdvertisementSpec { service_selectors: app(), aggregation_length: 24, ..spec() },
            "serviceSelectors and aggregationLength are mutually exclusive, both cannot be set in adv1",
        ),
        (
            BGPAdvertisementSpec { service_selectors: app(), aggregation_length_v6: 64, ..spec() },
            "serviceSelectors and aggregationLengthV6 are mutually exclusive, both cannot be set in adv1",
        ),
        (BGPAdvertisementSpec { aggregation_length: 34, ..spec() }, "invalid aggregation length 34 for IPv4"),
        (
            BGPAdvertisementSpec { aggregation_length_v6: 129, ..spec() },
            "invalid aggregation length 129 for IPv6",
        ),
        (
            BGPAdvertisementSpec { aggregation_length_v6: -1, ..spec() },
            "invalid aggregation length -1 for IPv6",
        ),
        (preference(1 << 32), "invalid local preference 4294967296, must be in 0-4294967295 range"),
        (
            BGPAdvertisementSpec { communities: names(&["1:99999999"]), ..spec() },
            "invalid community value: invalid section \"99999999\" of community \"1:99999999\", err: \
             \"strconv.ParseUint: parsing \\\"99999999\\\": value out of range\"\n\
             invalid community \"1:99999999\" in BGP advertisement",
        ),
        (
            BGPAdvertisementSpec { node_selectors: unknown(), ..spec() },
            "\"invalid\" is not a valid label selector operator\ninvalid label selector {map[] [{ invalid []}]}\n\
             failed to parse node selector for adv1",
        ),
        (
            BGPAdvertisementSpec { service_selectors: unknown(), ..spec() },
            "invalid service selector {map[] [{ invalid []}]}: \"invalid\" is not a valid label selector operator\n\
             failed to parse service selector for adv1",
        ),
    ] {
        let compiled = with_one_pool(vec![spec]);
        let expected = [expected.to_owned()];
        assert_eq!(of_severity(&compiled, Severity::Invalid), expected);
        assert!(compiled.config.bgp_advertisements().is_empty(), "{expected:?}");
        assert!(findings(&compiled).iter().all(|it| !it.remedy().is_empty()));
    }
}

#[test]
fn what_dangles_is_said_and_does_not_harm_unless_it_must() {
    let named = |field: fn(&mut BGPAdvertisementSpec)| {
        let mut spec = spec();
        field(&mut spec);
        with_one_pool(vec![spec])
    };
    for (compiled, expected, in_force) in [
        (
            named(|it| it.ip_address_pools = names(&["pool2"])),
            r#"BGPAdvertisement "adv1" refers to IPAddressPool "pool2", which does not exist"#,
            true,
        ),
        (
            named(|it| it.peers = names(&["peer3"])),
            r#"BGPAdvertisement "adv1" refers to BGPPeer "peer3", which does not exist"#,
            true,
        ),
        (
            named(|it| it.node_selectors = vec![match_labels(&[("name", "gone")])]),
            r#"nodeSelectors of BGPAdvertisement "adv1" match no Node"#,
            true,
        ),
        (
            named(|it| it.ip_address_pool_selectors = vec![match_labels(&[("zone", "gone")])]),
            r#"ipAddressPoolSelectors of BGPAdvertisement "adv1" match no IPAddressPool"#,
            true,
        ),
        // Without its community a route would go where it must not.
        (
            named(|it| it.communities = names(&["my-valid-alias"])),
            "invalid community format: my-valid-alias\ninvalid community \"my-valid-alias\" in BGP advertisement",
            false,
        ),
    ] {
        assert_eq!(of_severity(&compiled, Severity::Unresolved), [expected]);
        assert_eq!(compiled.config.bgp_advertisements().len(), usize::from(in_force), "{expected}");
        assert_eq!(findings(&compiled)[0].leaves_out(), !in_force);
    }
}

#[test]
fn prefixes_contain_no_foreign_addresses() {
    let lengths =
        |v4, v6| BGPAdvertisementSpec { aggregation_length: v4, aggregation_length_v6: v6, ..spec() };
    for (entries, spec, expected) in [
        (vec!["10.20.30.40/24", "1.2.3.0/28"], lengths(26, 128), vec![(26, 28, "1.2.3.0/28")]),
        (vec!["3.3.3.2-3.3.3.254"], lengths(24, 128), vec![(24, 26, "3.3.3.2-3.3.3.254")]),
        (vec!["10.20.30.0/24"], lengths(24, 128), vec![]),
        (vec!["192.0.2.167-192.0.2.169"], lengths(32, 64), vec![]),
        // Of each family its own length, and it is the one that is told.
        (vec!["2001:db8::/96", "10.0.0.0/24"], lengths(24, 64), vec![(64, 96, "2001:db8::/96")]),
    ] {
        let compiled = compile(&cluster(vec![pool("p", &entries), pool("q", &["10.99.0.0/16"])], vec![spec]));
        let texts: Vec<String> = expected
            .iter()
            .map(|(length, block, entry)| {
                format!(
                    "invalid aggregation length {length}: prefix {block} in this pool is more specific than the \
                     aggregation length for addresses {entry}"
                )
            })
            .collect();
        assert_eq!(of_severity(&compiled, Severity::Invalid), texts);
        // What fits is announced all the same.
        let fits = expected.is_empty();
        assert_eq!(
            only(&compiled).pools.iter().collect::<Vec<_>>(),
            if fits { vec!["p", "q"] } else { vec!["q"] }
        );
    }
}

#[test]
fn one_prefix_has_one_preference() {
    let v4 = || pool("p", &["10.0.0.0/16"]);
    let both = || pool("p", &["10.0.0.0/16", "2001:db8::/64"]);
    let on = |node: &str, it: BGPAdvertisementSpec| BGPAdvertisementSpec {
        node_selectors: vec![match_labels(&[("name", node)])],
        ..it
    };
    let to = |peers: &[&str], it: BGPAdvertisementSpec| BGPAdvertisementSpec { peers: names(peers), ..it };
    let lengths = |v4, v6, it: BGPAdvertisementSpec| BGPAdvertisementSpec {
        aggregation_length: v4,
        aggregation_length_v6: v6,
        ..it
    };
    let selected = |it: BGPAdvertisementSpec| BGPAdvertisementSpec {
        service_selectors: vec![match_labels(&[("a", "b")])],
        ..it
    };
    for (object, a, b, clash) in [
        (v4(), preference(100), preference(200), true),
        (v4(), preference(100), preference(100), false),
        (v4(), lengths(24, 120, preference(100)), preference(200), false),
        (v4(), preference(100), lengths(27, 128, preference(200)), false),
        (both(), lengths(24, 128, preference(100)), preference(200), true),
        (both(), lengths(24, 64, preference(100)), preference(200), false),
        (v4(), on("node1", preference(100)), on("node2", preference(200)), false),
        (v4(), on("node1", preference(100)), preference(200), true),
        (v4(), to(&["peer1"], preference(100)), to(&["peer2"], preference(200)), false),
        (v4(), to(&["peer1"], preference(100)), to(&["peer1", "peer2"], preference(200)), true),
        (v4(), to(&["peer1"], preference(100)), preference(200), true),
        (v4(), selected(preference(100)), preference(200), false),
    ] {
        let compiled = compile(&cluster(vec![object], vec![a, b]));
        let expected = "invalid local preference 200: local preferernce 100 was already set for the same type \
                        of BGP update. Check existing BGP advertisements with common pools and aggregation lengths";
        assert_eq!(messages(&compiled), vec![expected.to_owned(); usize::from(clash)]);
        if clash {
            let finding = findings(&compiled)[0];
            assert_eq!(finding.object.name, "adv2");
            assert!(finding.remedy().contains("\"adv1\"") && finding.remedy().contains("\"p\""));
        }
        // The later one is left out on the nodes that have both.
        let nodes =
            |name: &str| compiled.config.bgp_advertisements().get(name).map(|it| Arc::clone(&it.nodes));
        assert!(nodes("adv1").is_some_and(|nodes| !nodes.is_empty()));
        match (nodes("adv1"), nodes("adv2")) {
            (Some(a), Some(b)) => assert!(!clash || a.is_disjoint(&b)),
            (_, b) => assert!(clash && b.is_none()),
        }
    }
    // Pools that select nothing in common.
    let apart = |pool: &str, it: BGPAdvertisementSpec| BGPAdvertisementSpec {
        ip_address_pools: names(&[pool]),
        ..it
    };
    let pools = vec![v4(), pool("q", &["10.99.0.0/16"])];
    let compiled = compile(&cluster(pools, vec![apart("p", preference(1)), apart("q", preference(2))]));
    assert_eq!(messages(&compiled), Vec::<String>::new());
}

#[test]
fn a_clash_leaves_the_later_out_on_the_nodes_that_have_both() {
    let on = |nodes: &[&str], it| BGPAdvertisementSpec {
        node_selectors: vec![expression("name", "In", nodes)],
        ..it
    };
    let compiled =
        with_one_pool(vec![on(&["node1"], preference(100)), on(&["node1", "node2"], preference(200))]);
    let found = findings(&compiled);
    assert_eq!(["node1", "node2"].map(|node| found[0].concerns(node)), [true, false]);
    let nodes = &compiled.config.bgp_advertisements()["adv2"].nodes;
    assert_eq!(nodes.iter().collect::<Vec<_>>(), ["node2"]);
}

#[test]
fn aliases() {
    let compiled = |communities: Vec<_>, uses: &[&str]| {
        let ad = BGPAdvertisementSpec { communities: names(uses), ..spec() };
        compile(&cluster(vec![pool("p", &["10.0.0.0/16"])], vec![ad]).with_communities(communities))
    };
    for (communities, expected) in [
        (
            vec![community("c", &[("a", "1234"), ("good", "1:1")])],
            vec![r#"parsing community "a": invalid community format: 1234"#],
        ),
        (
            vec![community("c", &[("bar", "1111:2222"), ("bar", "1111:2222"), ("good", "1:1")])],
            vec![r#"duplicate definition of community "bar""#],
        ),
        (
            vec![
                community("c", &[("bar", "large:123:9999:123")]),
                community("d", &[("bar", "1:2"), ("good", "1:1")]),
            ],
            vec![r#"duplicate definition of community "bar""#],
        ),
        (
            vec![community("c", &[("a", "lar:123:9999:123"), ("good", "1:1")])],
            vec![
                r#"parsing community "a": invalid community value: invalid marker for large community, expected community to be of format large:<uint32>:<uint32>:<uint32> but got "lar:123:9999:123" instead"#,
            ],
        ),
    ] {
        let compiled = compiled(communities, &["good"]);
        assert_eq!(messages(&compiled), expected);
        // The other aliases of the object count.
        assert_eq!(only(&compiled).communities, BTreeSet::from([Community::new(1, 1)]));
    }
    // The name of an alias may look like a community; then it is the alias that counts.
    let colon = compiled(vec![community("c", &[("a:b", "7:7")])], &["a:b"]);
    assert_eq!(only(&colon).communities, BTreeSet::from([Community::new(7, 7)]));
}

#[test]
fn of_two_equal_aliases_the_older_counts() {
    let created = |name: &str, value: &str, second| {
        let mut object = community(name, &[("bar", value)]);
        object.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
        object
    };
    let ad = BGPAdvertisementSpec { communities: names(&["bar"]), ..spec() };
    let resources =
        cluster(vec![], vec![ad]).with_communities([created("young", "1:1", 20), created("zold", "2:2", 10)]);
    let compiled = compile(&resources);
    assert_eq!(only(&compiled).communities, BTreeSet::from([Community::new(2, 2)]));
    assert_eq!(
        findings(&compiled)[0].to_string(),
        r#"duplicate definition of community "bar" (Community "young")"#
    );
    assert_eq!(findings(&compiled)[0].field, "spec.communities[0].name");
}
