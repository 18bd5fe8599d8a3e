//! `compile`: what is accepted, what is found wrong and with which text, and that order does not
//! matter.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ferrolb_api::v1beta1::{IPAddressPool, L2AdvertisementSpec, PreferredNode, ServiceAllocation};
use ferrolb_core::config::{Compiled, Config, Interfaces, Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{expression, l2_advertisement, labels, match_labels, namespace, node, pool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;

fn compile_pools(pools: impl IntoIterator<Item = IPAddressPool>) -> Compiled {
    compile(&Resources::default().with_pools(pools))
}

fn messages(compiled: &Compiled) -> Vec<String> {
    compiled.diagnostics.iter().map(|diagnostic| diagnostic.message.to_string()).collect()
}

fn created(mut pool: IPAddressPool, second: i64) -> IPAddressPool {
    pool.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
    pool
}

fn allocation(change: impl FnOnce(&mut ServiceAllocation)) -> IPAddressPool {
    let mut pool = pool("p", &["1.2.3.0/24"]);
    change(pool.spec.service_allocation.get_or_insert_default());
    pool
}

fn pool_names(config: &Config) -> Vec<&str> {
    config.pools().keys().map(String::as_str).collect()
}

#[test]
fn nothing_is_fine() {
    let compiled = compile(&Resources::default());
    assert_eq!(compiled, Compiled::default());
    assert!(compiled.config.has_no_pools());
}

#[test]
fn the_seeds_refusal() {
    let compiled = compile_pools([pool("bad", &["192.168.10.220-192.168.10.200"])]);
    assert_eq!(
        messages(&compiled),
        [
            r#"parsing address pool bad: invalid CIDR "192.168.10.220-192.168.10.200" in pool "bad": invalid IP range "192.168.10.220-192.168.10.200": start IP "192.168.10.220" is after the end IP "192.168.10.200""#
        ]
    );
    let diagnostic = &compiled.diagnostics[0];
    assert_eq!(diagnostic.object.to_string(), r#"IPAddressPool "bad""#);
    assert_eq!(diagnostic.field, "spec.addresses[0]");
    assert_eq!(diagnostic.severity(), Severity::Invalid);
    assert!(diagnostic.remedy().contains("192.168.10.200-192.168.10.220"));
    assert!(compiled.config.pools().is_empty());
    assert!(compiled.config.left_out_pools()["bad"].has_unreadable_entries);
}

#[test]
fn wrong_pools_and_their_texts() {
    let two_namespace_selectors = [match_labels(&[("team", "x")]), match_labels(&[("team", "x")])];
    for (object, expected) in [
        (pool("", &["1.2.3.0/24"]), "parsing address pool : missing pool name"),
        (pool("p", &[]), "parsing address pool p: pool has no prefixes defined"),
        (
            pool("p", &["1.2.3.0/33"]),
            r#"parsing address pool p: invalid CIDR "1.2.3.0/33" in pool "p": invalid CIDR "1.2.3.0/33""#,
        ),
        (
            pool("p", &["1.2.3.4-2001:db8::1"]),
            r#"parsing address pool p: invalid CIDR "1.2.3.4-2001:db8::1" in pool "p": invalid IP range "1.2.3.4-2001:db8::1": start IP "1.2.3.4" and end IP "2001:db8::1" are of different families"#,
        ),
        (
            pool("p", &["10.0.0.0/24", "10.0.0.5-10.0.0.6"]),
            r#"CIDR "10.0.0.5/32" in pool "p" overlaps with already defined CIDR "10.0.0.0/24""#,
        ),
        (
            allocation(|it| it.namespaces = vec!["a".to_owned(), "a".to_owned()]),
            "parsing address pool p: duplicate definition in namespaces field",
        ),
        (
            allocation(|it| it.namespace_selectors = two_namespace_selectors.to_vec()),
            r#"parsing address pool p: duplicate definition of namespaceSelectors {map["team":"x"] []}"#,
        ),
        (
            allocation(|it| it.service_selectors = vec![expression("foo", "In", &["bar", "bar"])]),
            r#"parsing address pool p: duplicate definition of match expression value in label selector "bar""#,
        ),
        (
            allocation(|it| it.service_selectors = vec![expression("", "invalid", &[])]),
            "parsing address pool p: \"invalid\" is not a valid label selector operator\n\
             invalid service label selector {map[] [{ invalid []}]} in ip pool p",
        ),
        (
            allocation(|it| it.namespace_selectors = vec![expression("a", "near", &["b"])]),
            "parsing address pool p: \"near\" is not a valid label selector operator\n\
             invalid namespace label selector {map[] [{a near [b]}]} in ip pool p",
        ),
    ] {
        let compiled = compile_pools([object]);
        assert_eq!(messages(&compiled), [expected]);
        assert!(compiled.config.pools().is_empty(), "{expected}");
    }
}

#[test]
fn all_findings_at_once_and_only_the_bad_left_out() {
    let compiled = compile(
        &Resources::default()
            .with_pools([pool("good", &["1.2.3.0/24"]), pool("bad", &["1.2.3.4", "x-y", "1.2.3.9-1.2.3.10"])])
            .with_l2_advertisements([l2_advertisement(
                "ad",
                L2AdvertisementSpec {
                    ip_address_pools: vec!["good".to_owned(), "good".to_owned(), "gone".to_owned()],
                    ..Default::default()
                },
            )]),
    );
    assert_eq!(pool_names(&compiled.config), ["good"]);
    assert!(compiled.config.l2_advertisements().is_empty());
    let found: Vec<(String, String)> =
        compiled.diagnostics.iter().map(|it| (it.object.to_string(), it.field.clone())).collect();
    let bad = r#"IPAddressPool "bad""#.to_owned();
    let ad = r#"L2Advertisement "ad""#.to_owned();
    assert_eq!(
        found,
        [
            (bad.clone(), "spec.addresses[0]".to_owned()),
            (bad, "spec.addresses[1]".to_owned()),
            (ad.clone(), "spec.ipAddressPools[1]".to_owned()),
            (ad, "spec.ipAddressPools".to_owned()),
        ]
    );
}

#[test]
fn overlap_is_blamed_on_the_later_pool() {
    let cases: [(i64, i64, &str, &str); 3] = [
        (10, 20, "a", r#"CIDR "1.1.1.0/24" in pool "b" overlaps with already defined CIDR "1.1.1.15/32""#),
        (20, 10, "b", r#"CIDR "1.1.1.15/32" in pool "a" overlaps with already defined CIDR "1.1.1.0/24""#),
        (10, 10, "a", r#"CIDR "1.1.1.0/24" in pool "b" overlaps with already defined CIDR "1.1.1.15/32""#),
    ];
    for (a, b, survivor, message) in cases {
        let compiled = compile_pools([
            created(pool("a", &["1.1.1.15-1.1.1.20"]), a),
            created(pool("b", &["1.1.1.0/24"]), b),
        ]);
        assert_eq!(messages(&compiled), [message]);
        assert_eq!(pool_names(&compiled.config), [survivor]);
        let left_out = compiled.config.left_out_pools().values().next().unwrap();
        assert!(left_out.contains("1.1.1.16".parse().unwrap()));
    }
    let fine = compile_pools([pool("a", &["1.1.1.1-1.1.1.100"]), pool("b", &["1.1.1.101-1.1.1.200"])]);
    assert_eq!(messages(&fine), Vec::<String>::new());
}

#[test]
fn a_pool_that_is_left_out_claims_nothing() {
    let compiled = compile_pools([
        created(pool("bad", &["10.0.0.0/24", "nonsense"]), 1),
        created(pool("good", &["10.0.0.0/24"]), 2),
    ]);
    assert_eq!(pool_names(&compiled.config), ["good"]);
}

#[test]
fn restrictions_are_resolved() {
    let resources = |pool| {
        Resources::default()
            .with_pools([pool])
            .with_namespaces([namespace("test-ns1", &[]), namespace("test-ns2", &[("team", "metallb")])])
    };
    let team = |name| vec![match_labels(&[("team", name)])];
    let none = labels(&[]);
    let metallb = labels(&[("team", "metallb")]);
    for (object, namespace, service, admitted) in [
        (allocation(|it| it.priority = Some(1)), "any", &none, true),
        (allocation(|it| it.namespaces = vec!["test-ns1".to_owned()]), "test-ns1", &none, true),
        (allocation(|it| it.namespaces = vec!["test-ns1".to_owned()]), "test-ns2", &none, false),
        (allocation(|it| it.namespace_selectors = team("metallb")), "test-ns2", &none, true),
        (allocation(|it| it.namespace_selectors = team("metallb")), "test-ns1", &none, false),
        // No such namespace yet: nobody, rather than everybody.
        (allocation(|it| it.namespace_selectors = team("red")), "test-ns1", &none, false),
        (allocation(|it| it.service_selectors = team("metallb")), "any", &metallb, true),
        (allocation(|it| it.service_selectors = team("metallb")), "any", &none, false),
        (allocation(|it| it.service_selectors = vec![LabelSelector::default()]), "any", &none, true),
    ] {
        let compiled = compile(&resources(object.clone()));
        assert!(compiled.diagnostics.iter().all(|it| it.severity() == Severity::Unresolved));
        let pool = &compiled.config.pools()["p"];
        assert_eq!(pool.admits(namespace, service), admitted, "{object:?}");
    }
}

#[test]
fn wrong_advertisements_and_their_texts() {
    let spec = L2AdvertisementSpec::default;
    let app = |name| match_labels(&[("app", name)]);
    let unknown = || vec![expression("", "invalid", &[])];
    for (spec, expected) in [
        (
            L2AdvertisementSpec { ip_address_pools: vec!["p".to_owned(), "p".to_owned()], ..spec() },
            r#"duplicate definition of ipAddressPools "p""#,
        ),
        (
            L2AdvertisementSpec { node_selectors: vec![app("a"), app("a")], ..spec() },
            r#"duplicate definition of nodeSelectors {map["app":"a"] []}"#,
        ),
        (
            L2AdvertisementSpec { service_selectors: vec![app("a"), app("a")], ..spec() },
            r#"duplicate definition of serviceSelectors {map["app":"a"] []}"#,
        ),
        (
            L2AdvertisementSpec { ip_address_pool_selectors: vec![app("a"), app("a")], ..spec() },
            r#"duplicate definition of ipAddressPoolSelectors {map["app":"a"] []}"#,
        ),
        (
            L2AdvertisementSpec { node_selectors: unknown(), ..spec() },
            "\"invalid\" is not a valid label selector operator\ninvalid label selector {map[] [{ invalid []}]}\n\
             failed to parse node selector for ad",
        ),
        (
            L2AdvertisementSpec { service_selectors: unknown(), ..spec() },
            "invalid service selector {map[] [{ invalid []}]}: \"invalid\" is not a valid label selector operator\n\
             failed to parse service selector for ad",
        ),
        (
            L2AdvertisementSpec { ip_address_pool_selectors: unknown(), ..spec() },
            "\"invalid\" is not a valid label selector operator\ninvalid label selector {map[] [{ invalid []}]}",
        ),
        (
            L2AdvertisementSpec {
                preferred_node_selectors: vec![PreferredNode {
                    weight: 1,
                    preference: expression("", "invalid", &[]),
                }],
                ..spec()
            },
            "\"invalid\" is not a valid label selector operator\n\
             invalid preferred node selector {map[] [{ invalid []}]}\nfailed to parse preferred node selectors for ad",
        ),
    ] {
        let resources = Resources::default()
            .with_pools([pool("p", &["1.2.3.0/24"])])
            .with_l2_advertisements([l2_advertisement("ad", spec)]);
        let compiled = compile(&resources);
        let invalid = compiled.diagnostics.iter().filter(|it| it.severity() == Severity::Invalid);
        assert_eq!(invalid.map(|it| it.message.to_string()).collect::<Vec<_>>(), [expected]);
        assert!(compiled.config.l2_advertisements().is_empty(), "{expected}");
    }
}

#[test]
fn advertisements_select_pools() {
    let mut labelled = pool("labelled", &["1.2.3.0/24"]);
    labelled.metadata.labels = Some(labels(&[("zone", "a")]));
    let selector = |zone| vec![match_labels(&[("zone", zone)])];
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (names, selectors, expected, unresolved) in [
        (named(&[]), vec![], vec!["bad", "labelled", "plain"], 0),
        (named(&["plain"]), vec![], vec!["plain"], 0),
        (named(&["plain"]), selector("a"), vec!["labelled", "plain"], 0),
        (named(&["labelled"]), selector("a"), vec!["labelled"], 0),
        (named(&[]), selector("b"), vec![], 1),
        (named(&["missing"]), vec![], vec![], 1),
        // A pool that is left out exists: it is announced for what Services hold from it.
        (named(&["bad"]), vec![], vec!["bad"], 0),
    ] {
        let spec = L2AdvertisementSpec {
            ip_address_pools: names,
            ip_address_pool_selectors: selectors,
            ..Default::default()
        };
        let resources = Resources::default()
            .with_pools([labelled.clone(), pool("plain", &["1.2.4.0/24"]), pool("bad", &["x"])])
            .with_l2_advertisements([l2_advertisement("ad", spec)]);
        let compiled = compile(&resources);
        let advertisement = &compiled.config.l2_advertisements()["ad"];
        assert_eq!(advertisement.pools.iter().collect::<Vec<_>>(), expected);
        let dangling = compiled.diagnostics.iter().filter(|it| it.severity() == Severity::Unresolved);
        assert_eq!(dangling.count(), unresolved);
    }
}

#[test]
fn nodes_interfaces_and_scores() {
    let nodes = [
        node("edge-a", &[("role", "edge"), ("zone", "primary")]),
        node("edge-b", &[("role", "edge")]),
        node("worker-a", &[("role", "worker"), ("zone", "primary")]),
        node("worker-b", &[("role", "worker")]),
    ];
    let prefer = |weight, pairs: &[(&str, &str)]| PreferredNode { weight, preference: match_labels(pairs) };
    let edge = &[("role", "edge")][..];
    let worker = &[("role", "worker")][..];
    let primary = &[("zone", "primary")][..];
    let all = "edge-a edge-b worker-a worker-b";
    for (selectors, preferences, eligible, scores) in [
        (vec![], vec![], all, ""),
        (vec![], vec![prefer(100, edge)], all, "edge-a=100 edge-b=100"),
        (vec![], vec![prefer(60, primary), prefer(50, edge)], all, "edge-a=110 edge-b=50 worker-a=60"),
        (vec![match_labels(edge)], vec![prefer(100, primary)], "edge-a edge-b", "edge-a=100"),
        (vec![], vec![prefer(50, &[("role", "gpu")])], all, ""),
        (
            vec![],
            vec![prefer(40, edge), prefer(70, worker)],
            all,
            "edge-a=40 edge-b=40 worker-a=70 worker-b=70",
        ),
        (vec![match_labels(worker)], vec![prefer(50, edge)], "worker-a worker-b", ""),
        (vec![match_labels(edge)], vec![prefer(10, &[])], "edge-a edge-b", "edge-a=10 edge-b=10"),
        (vec![match_labels(&[("role", "ghost")])], vec![], "", ""),
    ] {
        let spec = L2AdvertisementSpec {
            node_selectors: selectors,
            preferred_node_selectors: preferences,
            interfaces: vec!["eth0".to_owned()],
            ..Default::default()
        };
        let resources = Resources::default()
            .with_nodes(nodes.clone())
            .with_l2_advertisements([l2_advertisement("ad", spec)]);
        let compiled = compile(&resources);
        let ad = &compiled.config.l2_advertisements()["ad"];
        assert_eq!(ad.nodes.iter().cloned().collect::<Vec<_>>().join(" "), eligible);
        let pairs: Vec<String> = ad.scores.iter().map(|(name, score)| format!("{name}={score}")).collect();
        assert_eq!(pairs.join(" "), scores);
        assert_eq!(ad.interfaces, Interfaces::Named(["eth0".to_owned()].into()));
    }
}

fn some_entry() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..4u8, 0..3u8).prop_map(|(net, len)| format!("10.0.{net}.0/{}", 23 + len)),
        (0..200u8, 0..60u8, 0..4u8)
            .prop_map(|(a, n, net)| format!("10.0.{net}.{a}-10.0.{net}.{}", a + n / 2)),
        Just("fd00::/64".to_owned()),
        Just("nonsense".to_owned()),
    ]
}

proptest! {
    /// Any order of the same objects gives the same configuration and the same findings, and no two
    /// pools in force share an address.
    #[test]
    fn order_of_input_does_not_matter(
        pools in prop::collection::vec((prop::collection::vec(some_entry(), 0..3), prop::option::of(0..3i64)), 0..6)
            .prop_map(|pools| {
                let entries = |it: &Vec<String>| it.iter().map(String::clone).collect::<Vec<_>>();
                pools.iter().enumerate().map(|(index, (addresses, time))| {
                    let mut object = pool(&format!("p{index}"), &[]);
                    object.spec.addresses = entries(addresses);
                    match time {
                        Some(second) => created(object, *second),
                        None => object,
                    }
                }).collect::<Vec<_>>()
            }),
        rotation in 0..6usize,
    ) {
        let straight = compile_pools(pools.clone());
        let mut turned = pools.clone();
        turned.rotate_left(rotation.min(pools.len()));
        turned.reverse();
        prop_assert_eq!(&straight, &compile_pools(turned));
        prop_assert_eq!(straight.config.pools().len() + straight.config.left_out_pools().len(), pools.len());
        let mut ranges: Vec<_> = straight.config.pools().values().flat_map(|pool| pool.ranges.clone()).collect();
        ranges.sort();
        for pair in ranges.windows(2) {
            prop_assert!(pair[0].family() != pair[1].family() || pair[0].last() < pair[1].first());
        }
    }

    #[test]
    fn no_text_makes_compile_fail(entries in prop::collection::vec(".*", 0..4)) {
        let mut object = pool("p", &[]);
        object.spec.addresses = entries;
        let compiled = compile_pools([object]);
        prop_assert_eq!(compiled.config.pools().len() + compiled.config.left_out_pools().len(), 1);
        let _ = messages(&compiled);
    }
}
