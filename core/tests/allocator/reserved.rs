//! Reservations and quotas.

use ferrolb_api::v1alpha1::{AddressQuota, AddressReservation, ReservedService};
use ferrolb_core::testing::reservation;

use super::*;

fn with(
    pools: impl IntoIterator<Item = IPAddressPool>,
    reservations: impl IntoIterator<Item = AddressReservation>,
) -> Config {
    compile(&Resources::default().with_pools(pools).with_reservations(reservations)).config
}

fn for_service(name: &str, addresses: &[&str], service: &str) -> AddressReservation {
    let mut object = reservation(name, addresses);
    object.spec.service = Some(ReservedService { namespace: "ns".to_owned(), name: service.to_owned() });
    object
}

fn for_namespace(name: &str, addresses: &[&str], namespace: &str) -> AddressReservation {
    let mut object = reservation(name, addresses);
    object.spec.namespace = Some(namespace.to_owned());
    object
}

fn quota(namespace: &str, max_addresses: i64) -> AddressReservation {
    let mut object = reservation(&format!("quota-{namespace}-{max_addresses}"), &[]);
    object.spec.quotas = vec![AddressQuota { namespace: namespace.to_owned(), max_addresses }];
    object
}

fn other(name: &str) -> ServiceBuilder {
    service("other", name)
}

/// A Service is deleted, many others are given addresses, it is created again: it has the same address.
#[test]
fn a_service_finds_its_address_again() {
    let config = with([pool("p", &["10.0.0.0/16"])], [for_service("web", &["10.0.0.0", "10.0.0.9"], "web")]);
    let mut world = World::with([named("web").uid("first")]);
    assert_eq!(world.settle(&config), ["10.0.0.0"]);
    world.services.clear();
    world.services.extend((0..2000).map(|number| other(&format!("s{number}"))));
    let given = world.settle(&config);
    assert!(!given.contains(&"10.0.0.0".to_owned()) && !given.contains(&"10.0.0.9".to_owned()));
    world.services.push(named("web").uid("second"));
    assert_eq!(world.settle(&config).last().unwrap(), "10.0.0.0");
}

#[test]
fn what_is_reserved_comes_first_and_for_nobody_else() {
    let pools = || [pool("a", &["1.2.3.0/30"]), pool("b", &["1.2.4.0/30"]), on_request("c", &["1.2.5.0/30"])];
    let config = with(
        pools(),
        [
            for_service("mine", &["1.2.5.2"], "mine"),
            for_namespace("ns", &["1.2.3.2-1.2.3.3", "1.2.4.0"], "ns"),
            reservation("none", &["1.2.3.0"]),
        ],
    );
    // By name from any pool; by namespace within the pool that is chosen.
    let mut world =
        World::with([named("mine"), named("n1"), named("n2"), named("n3"), other("o1"), other("o2")]);
    assert_eq!(world.settle(&config), ["1.2.5.2", "1.2.3.2", "1.2.3.3", "1.2.3.1", "1.2.4.1", "1.2.4.2"]);
    // Asked for by somebody else, each is refused with whom it is for.
    let ask = |name: &str, address: &str| other(name).annotations(&[("metallb.io/loadBalancerIPs", address)]);
    let mut world = World::with([ask("a", "1.2.5.2"), ask("b", "1.2.4.0"), ask("c", "1.2.3.0")]);
    let refused = world.pass(&config);
    let of = |name: &str| {
        let key = ServiceKey { namespace: "other".to_owned(), name: name.to_owned() };
        let refusal = refused.outcomes.get(&key).unwrap().refusal.as_ref().unwrap();
        (refusal.reason(), refusal.to_string())
    };
    let reserved = |text: &str| ("Reserved", text.to_owned());
    assert_eq!(
        of("a"),
        reserved(r#""1.2.5.2" is reserved for Service ns/mine by AddressReservation "mine""#)
    );
    assert_eq!(of("b"), reserved(r#""1.2.4.0" is reserved for namespace ns by AddressReservation "ns""#));
    assert_eq!(of("c"), reserved(r#""1.2.3.0" is reserved for nobody by AddressReservation "none""#));
    // Who it is for may ask for it too.
    assert_eq!(World::with([asking("x", "1.2.4.0")]).settle(&config), ["1.2.4.0"]);
    // A pool that does not admit the Service does not for a reservation either.
    let closed = [restricted("r", "1.2.6.0/30", Some("other"), None, 1), pool("a", &["1.2.3.0/30"])];
    let config = with(closed, [for_service("mine", &["1.2.6.1"], "mine")]);
    assert_eq!(World::with([named("mine")]).settle(&config), ["1.2.3.0"]);
}

#[test]
fn what_is_held_stays_and_is_shared_by_whom_it_is_for() {
    let plain = with([pool("p", &["1.2.3.0/30"])], []);
    let shared = |it: ServiceBuilder, port| it.shared("k").ports(&[("TCP", port)]);
    let mut world = World::with([shared(other("o1"), 80)]);
    assert_eq!(world.settle(&plain), ["1.2.3.0"]);
    // Reserved under a Service that has it: it keeps it, but nobody else joins.
    let config = with([pool("p", &["1.2.3.0/30"])], [for_namespace("ns", &["1.2.3.0/31"], "ns")]);
    world.services.extend([shared(other("o2"), 81), shared(named("n1"), 82), shared(named("n2"), 83)]);
    assert_eq!(world.settle(&config), ["1.2.3.0", "1.2.3.2", "1.2.3.0", "1.2.3.0"]);
    // A reservation that is wrong keeps its addresses from everybody.
    let mut wrong = for_namespace("ns", &["1.2.3.0/31", "nonsense"], "ns");
    wrong.spec.quotas = vec![AddressQuota { namespace: "other".to_owned(), max_addresses: 0 }];
    let config = with([pool("p", &["1.2.3.0/30"])], [wrong]);
    let mut world = World::with([named("n"), other("o")]);
    assert_eq!(world.settle(&config), ["1.2.3.2", "1.2.3.3"]);
}

#[test]
fn both_families_of_a_reservation() {
    let config = with(
        [
            pool("v4", &["1.2.3.0/30"]),
            pool("v6", &["1000::/126"]),
            pool("both", &["9.9.9.0/30", "9000::/126"]),
        ],
        [for_service("web", &["9.9.9.2", "9000::2"], "web")],
    );
    let dual = |name: &str| named(name).cluster(DUAL).policy("RequireDualStack");
    assert_eq!(
        World::with([dual("web"), dual("next")]).settle(&config),
        ["9.9.9.2 9000::2", "9.9.9.0 9000::"]
    );
    // One family only is reserved: the other is the next best, from another pool if need be.
    let of_one = |address: &str| {
        with(
            [pool("v4", &["1.2.3.0/30"]), pool("v6", &["1000::/126"])],
            [for_service("web", &[address], "web")],
        )
    };
    assert_eq!(World::with([dual("web")]).settle(&of_one("1.2.3.2")), ["1.2.3.2 1000::"]);
    assert_eq!(World::with([dual("web")]).settle(&of_one("1000::2")), ["1.2.3.0 1000::2"]);
    assert_eq!(World::with([named("web").cluster(V6)]).settle(&of_one("1.2.3.2")), ["1000::"]);
}

#[test]
fn a_quota_refuses_one_more_address() {
    let config = with([pool("p", &["1.2.3.0/24", "1000::/120"])], [quota("ns", 2), quota("ns", 5)]);
    let shared = |name: &str, port| named(name).shared("k").ports(&[("TCP", port)]);
    let mut world = World::with([named("a"), shared("b", 81), named("c"), other("o")]);
    assert_eq!(world.settle(&config), ["1.2.3.0", "1.2.3.1", "", "1.2.3.2"]);
    let text =
        "namespace ns may have 2 addresses (maxAddresses of an AddressReservation) and has no more left";
    let refused = world.pass(&config);
    assert_eq!(why(&refused, "c"), text);
    let key = ServiceKey { namespace: "ns".to_owned(), name: "c".to_owned() };
    assert_eq!(refused.outcomes.get(&key).unwrap().refusal.as_ref().unwrap().reason(), "QuotaExceeded");
    // An address that the namespace has already costs nothing.
    world.services.push(shared("d", 82).annotations(&[("metallb.io/loadBalancerIPs", "1.2.3.1")]));
    assert_eq!(world.settle(&config)[4], "1.2.3.1");
    // What is free goes to who waits; what is held beyond a lower quota stays.
    world.change(0, |it| it.kind("ClusterIP"));
    assert_eq!(world.settle(&config), ["", "1.2.3.1", "1.2.3.0", "1.2.3.2", "1.2.3.1"]);
    let lower = with([pool("p", &["1.2.3.0/24"])], [quota("ns", 0)]);
    assert_eq!(world.settle(&lower), ["", "1.2.3.1", "1.2.3.0", "1.2.3.2", "1.2.3.1"]);
    // The second family counts too.
    let one = with([pool("p", &["1.2.3.0/24", "1000::/120"])], [quota("ns", 1)]);
    let mut world = World::with([named("s").cluster(DUAL).policy("PreferDualStack").holding(&["1.2.3.7"])]);
    assert_eq!(world.settle(&one), ["1.2.3.7"]);
    assert!(why(&world.pass(&one), "s").starts_with("namespace ns may have 1 addresses"));
    // Who holds nothing yet is given what its namespace may have, its first family first.
    for (families, expected) in [(["IPv4", "IPv6"], "1.2.3.0"), (["IPv6", "IPv4"], "1000::")] {
        let dual = named("s").cluster(DUAL).families(&families);
        let mut world = World::with([dual.clone().policy("PreferDualStack")]);
        assert!(why(&world.pass(&one), "s").starts_with("namespace ns may have 1 addresses"));
        assert_eq!(world.settle(&one), [expected]);
        assert_eq!(World::with([dual.policy("RequireDualStack")]).settle(&one), [""]);
    }
}
