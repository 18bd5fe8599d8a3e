//! What is told: conditions, slips in annotations, what two controllers or another writer did.

use ferrolb_core::allocator::Rival;
use ferrolb_core::service::AddressAssigned;

use super::*;

fn only(world: &mut World, config: &Config) -> Outcome {
    world.pass(config).outcomes.values().next().unwrap().clone()
}

fn condition(service: &ServiceBuilder) -> String {
    let show = |it: AddressAssigned| format!("{} {}: {}", it.status, it.reason, it.message);
    service.clone().lb().condition.map(show).unwrap_or_default()
}

#[test]
fn the_condition_comes_with_a_refusal_and_stays() {
    let (none, some) = (config([on_request("p", &["1.2.3.0/31"])]), config([pool("p", &["1.2.3.0/31"])]));
    // Who gets what it asks for has a status with nothing but the address.
    let mut world = World::with([named("s")]);
    world.settle(&some);
    assert_eq!(condition(&world.services[0]), "");
    // A pending Service says why; once served, that it is.
    let mut world = World::with([named("s")]);
    world.settle(&none);
    assert_eq!(condition(&world.services[0]), "false Exhausted: no available IPs");
    world.settle(&some);
    assert_eq!(condition(&world.services[0]), r#"true Assigned: Assigned IP ["1.2.3.0"]"#);
    world.change(0, |it| it.kind("ClusterIP"));
    world.settle(&some);
    assert_eq!(condition(&world.services[0]), "");
    for (service, expected) in [
        (named("s").cluster(&[]), "false NoClusterIP: the service has no cluster IP"),
        (
            named("s").policy("RequireDualStack"),
            "false NotEnoughClusterIPs: the service requires two cluster IPs",
        ),
        (asking("s", "9.9.9.9"), r#"false NotInPool: ["9.9.9.9"] is not allowed in config"#),
        (
            asking("s", "x").holding(&["1.2.3.0"]).from_pool("p"),
            r#"true InvalidRequest: invalid metallb.io/loadBalancerIPs: "x""#,
        ),
        (
            named("s").cluster(DUAL).policy("PreferDualStack"),
            r#"true OneFamily: ["1.2.3.0" "<nil>"] is not allowed in config"#,
        ),
        (
            named("s").annotations(&[("metallb.io/address-pool", "x")]),
            r#"false UnknownPool: unknown pool "x""#,
        ),
    ] {
        let mut world = World::with([service]);
        world.settle(&some);
        assert_eq!(condition(&world.services[0]), expected);
    }
    assert_eq!(
        condition(&{
            let mut world = World::with([named("s")]);
            world.settle(&config([]));
            world.services.remove(0)
        }),
        "false NoPools: no address pool is configured"
    );
}

#[test]
fn a_refusal_is_told_the_same_on_every_pass() {
    let config = config([pool("p", &["1.2.3.0/31", "1000::/127"])]);
    let mut world = World::with([
        named("b").created(2).shared("k"),
        asking("a", "1.2.3.0").created(1),
        asking("c", "1.2.3.1").created(0),
        named("d")
            .created(3)
            .cluster(DUAL)
            .policy("RequireDualStack")
            .annotations(&[("metallb.io/address-pool", "p")]),
        asking("e", "1.2.3.1").created(4),
    ]);
    let first = world.pass(&config);
    let second = world.pass(&config);
    for (key, outcome) in second.outcomes.iter() {
        assert_eq!(outcome.write, None, "{key}");
        assert_eq!(outcome.refusal, first.outcomes.get(key).unwrap().refusal, "{key}");
    }
}

#[test]
fn slips_in_annotations_are_told() {
    let config = config([pool("p", &["1.2.3.0/31"])]);
    let mut world = World::with([named("s").annotations(&[("metallb.io/loadBalancerIP", "1.2.3.1")])]);
    world.settle(&config);
    assert_eq!(
        events(&only(&mut world, &config)),
        ["Warning UnknownAnnotation: annotation metallb.io/loadBalancerIP means nothing, did you mean \
          metallb.io/loadBalancerIPs?"]
    );
    world.change(0, |it| it.kind("ClusterIP"));
    world.settle(&config);
    assert_eq!(events(&only(&mut world, &config)), Vec::<String>::new());
}

#[test]
fn a_late_write_of_an_earlier_leader_is_mended() {
    let config = config([pool("p", &["1.2.3.0/30"])]);
    let late = || named("late").created(1).holding(&["1.2.3.0"]).from_pool("p").granted(4);
    let first = || named("first").created(2).holding(&["1.2.3.0"]).from_pool("p").granted(5);
    let told = |world: &mut World| {
        let allocation = world.pass(&config);
        let key = ServiceKey { namespace: "ns".to_owned(), name: "late".to_owned() };
        events(allocation.outcomes.get(&key).unwrap())
    };
    let expected = [
        "Warning AddressGivenTwice: two controllers gave the same address, this Service has to give it up: can't \
         change sharing key for \"ns/late\", address also in use by ns/first",
        "Normal ClearAssignment: current IP for \"ns/late\" not allowed by config, will attempt for new IP assignment: \
         can't change sharing key for \"ns/late\", address also in use by ns/first",
        "Normal IPAllocated: Assigned IP [\"1.2.3.1\"]",
    ];
    // The leader sees it happen.
    let mut world = World::with([first()]);
    world.settle(&config);
    world.services.insert(0, late());
    assert_eq!(told(&mut world), expected);
    assert_eq!(world.settle(&config), ["1.2.3.1", "1.2.3.0"]);
    // It started later, and comes to the same.
    let mut world = World::with([late(), first()]);
    assert_eq!(told(&mut world), expected);
    assert_eq!(world.settle(&config), ["1.2.3.1", "1.2.3.0"]);
}

#[test]
fn an_overwritten_status_is_restored() {
    let config = config([pool("p", &["1.2.3.0/30"])]);
    let mut world = World::with([named("a"), named("b")]);
    assert_eq!(world.settle(&config), ["1.2.3.0", "1.2.3.1"]);
    for (found, shown) in [
        (&["7.7.7.7"][..], r#"["7.7.7.7"]"#),
        (&["1.2.3.3"], r#"["1.2.3.3"]"#),
        (&["1.2.3.0"], r#"["1.2.3.0"]"#),
        (&[], "[]"),
        (&["lb.example.org"], "[]"),
    ] {
        // Whether the controller knows what it gave, or learns it from the Service.
        for held in [world.held.clone(), Held::default()] {
            world.held = held;
            world.change(1, |it| it.holding(found));
            let allocation = world.pass(&config);
            let key = ServiceKey { namespace: "ns".to_owned(), name: "b".to_owned() };
            let expected = format!(
                "Warning StatusOverwritten: status was overwritten with {shown} by another writer, restoring [\"1.2.3.1\"]"
            );
            assert_eq!(events(allocation.outcomes.get(&key).unwrap()), [expected]);
            assert_eq!(world.settle(&config), ["1.2.3.0", "1.2.3.1"]);
        }
    }
}

#[test]
fn a_contested_status_is_left_alone_and_its_address_kept_back() {
    let config = config([pool("p", &["1.2.3.0/30"])]);
    let mut world = World::with([named("a"), named("b")]);
    world.settle(&config);
    world.change(0, |it| it.holding(&["1.2.3.2"]));
    let key = ServiceKey { namespace: "ns".to_owned(), name: "a".to_owned() };
    let rival = |insists| Rival { name: "cloud".to_owned(), insists };
    world.held.set_rivals([(key.clone(), rival(false))].into());
    assert_eq!(
        events(allocate(&config, &world.lbs(), &world.held).outcomes.get(&key).unwrap()),
        [
            r#"Warning StatusOverwritten: status was overwritten with ["1.2.3.2"] by "cloud", restoring ["1.2.3.0"]"#
        ]
    );
    world.held.set_rivals([(key.clone(), rival(true))].into());
    world.services.push(named("c"));
    let allocation = world.pass(&config);
    let outcome = allocation.outcomes.get(&key).unwrap();
    assert_eq!(outcome.write, None);
    assert_eq!(
        events(outcome),
        [
            "Warning StatusContested: status is written by \"cloud\" again and again, leaving it to them for now: set \
          spec.loadBalancerClass so that one load balancer handles the Service"
        ]
    );
    assert_eq!(world.settle(&config), ["1.2.3.2", "1.2.3.1", "1.2.3.3"]);
    // They gave up: it gets back what it was given.
    world.held.set_rivals([].into());
    assert_eq!(world.settle(&config), ["1.2.3.0", "1.2.3.1", "1.2.3.3"]);
}

/// A copy of an object carries our annotation, but not our word.
#[test]
fn annotations_of_copies_mean_nothing() {
    let config = config([pool("p", &["1.2.3.0/30"])]);
    let mut world = World::with([asking("a", "1.2.3.2").uid("u1")]);
    world.settle(&config);
    let copy = named("b").with_state_of(&world.services[0]).uid("u2").holding(&[]);
    world.services.push(copy);
    let allocation = world.pass(&config);
    let key = ServiceKey { namespace: "ns".to_owned(), name: "b".to_owned() };
    assert_eq!(
        events(allocation.outcomes.get(&key).unwrap()),
        [r#"Normal IPAllocated: Assigned IP ["1.2.3.0"]"#]
    );
}

/// What a speaker tells of: a host that is no speaker has the address.
#[test]
fn an_address_in_conflict_is_given_to_nobody_until_it_is_clear() {
    let config = config([pool("p", &["1.2.3.0/30"])]);
    let shared = |name: &str, port| named(name).shared("k").ports(&[("TCP", port)]);
    let mut world = World::with([shared("holder", 80)]);
    assert_eq!(world.settle(&config), ["1.2.3.0"]);
    world.held.set_conflicts(["1.2.3.0", "1.2.3.2"].iter().map(|it| it.parse().unwrap()).collect());
    world.services.extend([shared("sharer", 81), named("next"), named("none"), asking("asker", "1.2.3.2")]);
    // Who holds it keeps it, and nobody joins.
    assert_eq!(world.settle(&config), ["1.2.3.0", "", "1.2.3.1", "1.2.3.3", ""]);
    let refused = world.pass(&config);
    let text = r#"a host outside the cluster uses "1.2.3.2": remove it there, or ask for another address"#;
    assert_eq!(why(&refused, "asker"), text);
    assert_eq!(why(&refused, "sharer"), "no available IPs");
    world.change(0, |it| it.kind("ClusterIP"));
    assert_eq!(world.settle(&config)[0], "");
    world.held.set_conflicts(["1.2.3.0".parse().unwrap()].into());
    assert_eq!(world.settle(&config), ["", "", "1.2.3.1", "1.2.3.3", "1.2.3.2"]);
    world.held.set_conflicts(Default::default());
    assert_eq!(world.settle(&config), ["", "1.2.3.0", "1.2.3.1", "1.2.3.3", "1.2.3.2"]);
}
