//! What advertisements of both kinds select: pools, nodes, Services, and with which scores.

use std::collections::BTreeSet;

use ferrolb_api::v1beta1::{
    BGPAdvertisementSpec, IPAddressPool, L2AdvertisementSpec, PreferredNode, ServiceAllocation,
};
use ferrolb_core::config::{Compiled, Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bgp_advertisement, expression, l2_advertisement, labels, match_labels, node, pool,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

fn cluster() -> Resources {
    let mut labelled = pool("labelled", &["10.1.0.0/16"]);
    labelled.metadata.labels = Some(labels(&[("zone", "a")]));
    let host = |name: &str| node(name, &[("hostname", name)]);
    Resources::default()
        .with_pools([pool("plain", &["10.0.0.0/16"]), labelled])
        .with_nodes([host("first"), host("second")])
}

fn l2(spec: L2AdvertisementSpec) -> Resources {
    cluster().with_l2_advertisements([l2_advertisement("ad", spec)])
}

fn bgp(specs: impl IntoIterator<Item = BGPAdvertisementSpec>) -> Resources {
    let named = specs.into_iter().enumerate();
    cluster().with_bgp_advertisements(named.map(|(nth, spec)| bgp_advertisement(&format!("ad{nth}"), spec)))
}

fn texts(compiled: &Compiled, severity: Severity) -> Vec<String> {
    let found = compiled.diagnostics.iter().filter(|it| it.severity() == severity);
    found.map(|it| it.message.to_string()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// One selector whose two expressions say the same in another order.
fn the_same_twice() -> LabelSelector {
    let mut selector = expression("hostname", "In", &["first", "second"]);
    let again = expression("hostname", "In", &["second", "first"]).match_expressions;
    selector.match_expressions.get_or_insert_default().extend(again.unwrap_or_default());
    selector
}

#[test]
fn what_is_said_twice_in_a_selector_is_refused() {
    let value = || vec![expression("name", "In", &["pool1", "pool1"])];
    let repeated = r#"duplicate definition of match expression value in label selector "pool1""#;
    let expressions = r#"duplicate definition of match expressions {"hostname" "In" ["first" "second"]}"#;
    for (resources, expected) in [
        (l2(L2AdvertisementSpec { ip_address_pool_selectors: value(), ..Default::default() }), repeated),
        (bgp([BGPAdvertisementSpec { ip_address_pool_selectors: value(), ..Default::default() }]), repeated),
        (
            l2(L2AdvertisementSpec { node_selectors: vec![the_same_twice()], ..Default::default() }),
            expressions,
        ),
        (
            bgp([BGPAdvertisementSpec { node_selectors: vec![the_same_twice()], ..Default::default() }]),
            expressions,
        ),
    ] {
        let compiled = compile(&resources);
        assert_eq!(texts(&compiled, Severity::Invalid), [expected]);
        let config = compiled.config;
        assert!(config.l2_advertisements().is_empty() && config.bgp_advertisements().is_empty());
    }
}

#[test]
fn selectors_of_nothing_attach_nothing_and_cannot_clash() {
    let nothing = || vec![match_labels(&[("zone", "gone")])];
    let prefer = |preference| BGPAdvertisementSpec {
        ip_address_pool_selectors: nothing(),
        local_pref: Some(preference),
        ..Default::default()
    };
    let spec = L2AdvertisementSpec { ip_address_pool_selectors: nothing(), ..Default::default() };
    let resources = bgp([prefer(100), prefer(200)]).with_l2_advertisements([l2_advertisement("l2", spec)]);
    let compiled = compile(&resources);
    assert_eq!(texts(&compiled, Severity::Invalid), Vec::<String>::new());
    assert_eq!(texts(&compiled, Severity::Unresolved).len(), 3, "and it is said");
    let config = &compiled.config;
    assert!(config.l2_advertisements()["l2"].pools.is_empty());
    assert_eq!(config.bgp_advertisements().len(), 2);
    assert!(config.bgp_advertisements().values().all(|ad| ad.pools.is_empty()));
}

#[test]
fn without_node_selectors_every_node_announces() {
    let resources = bgp([BGPAdvertisementSpec::default()])
        .with_l2_advertisements([l2_advertisement("l2", L2AdvertisementSpec::default())]);
    let config = compile(&resources).config;
    assert_eq!(*config.l2_advertisements()["l2"].nodes, set(&["first", "second"]));
    assert_eq!(*config.bgp_advertisements()["ad0"].nodes, set(&["first", "second"]));
}

#[test]
fn services_are_selected_by_either_kind() {
    let app = |name| vec![match_labels(&[("app", name)])];
    let config =
        compile(&l2(L2AdvertisementSpec { service_selectors: app("web"), ..Default::default() })).config;
    let ad = &config.l2_advertisements()["ad"];
    assert!(ad.selects_service(&labels(&[("app", "web")])) && !ad.selects_service(&labels(&[])));
    // Lengths that say what is the default anyway exclude no selectors.
    for (v4, v6) in [(32, 128), (32, BGPAdvertisementSpec::default().aggregation_length_v6)] {
        let spec = BGPAdvertisementSpec {
            service_selectors: app("nginx"),
            aggregation_length: v4,
            aggregation_length_v6: v6,
            ..Default::default()
        };
        let compiled = compile(&bgp([spec]));
        assert_eq!(compiled.diagnostics, []);
        let ad = &compiled.config.bgp_advertisements()["ad0"];
        assert!(ad.selects_service(&labels(&[("app", "nginx")])) && !ad.selects_service(&labels(&[])));
    }
}

#[test]
fn scores_count_on_eligible_nodes_and_once_for_a_pool_selected_twice() {
    let nodes = [
        node("edge-a", &[("role", "edge"), ("zone", "primary")]),
        node("edge-b", &[("role", "edge"), ("zone", "secondary")]),
        node("worker-a", &[("role", "worker"), ("zone", "primary")]),
    ];
    let prefer = |weight, pairs: &[(&str, &str)]| PreferredNode { weight, preference: match_labels(pairs) };
    let edge = &[("role", "edge")];
    let spec = L2AdvertisementSpec {
        ip_address_pools: vec!["labelled".to_owned()],
        ip_address_pool_selectors: vec![match_labels(&[("zone", "a")])],
        node_selectors: vec![match_labels(edge)],
        preferred_node_selectors: vec![prefer(40, edge), prefer(30, &[("zone", "primary")])],
        ..Default::default()
    };
    let compiled = compile(&l2(spec).with_nodes(nodes));
    assert_eq!(compiled.diagnostics, []);
    let ad = &compiled.config.l2_advertisements()["ad"];
    assert_eq!(*ad.pools, set(&["labelled"]));
    let scores: Vec<String> = ad.scores.iter().map(|(name, score)| format!("{name}={score}")).collect();
    assert_eq!(scores, ["edge-a=70", "edge-b=40"]);
}

#[test]
fn pools_for_services_are_apart_by_their_selectors() {
    let for_team = |name: &str, address: &str, team: &str, priority| -> IPAddressPool {
        let mut object = pool(name, &[address]);
        object.spec.service_allocation = Some(ServiceAllocation {
            priority: Some(priority),
            service_selectors: vec![match_labels(&[("team", team)])],
            ..Default::default()
        });
        object
    };
    let pools = [for_team("metallb", "10.2.0.0/24", "metallb", 2), for_team("red", "10.3.0.0/24", "red", 3)];
    let config = compile(&Resources::default().with_pools(pools)).config;
    let admit = |team: &str| {
        let team = labels(&[("team", team)]);
        let pools = config.pools().values().filter(|pool| pool.admits("any", &team));
        pools.map(|pool| pool.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!([admit("metallb"), admit("red"), admit("blue")], [vec!["metallb"], vec!["red"], vec![]]);
}
