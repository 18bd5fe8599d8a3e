//! Several Services: sharing, waiting, and writes on their way.

use std::sync::Arc;

use super::*;

#[test]
fn sharing() {
    let config = config([pool("p", &["1.2.4.0/24"])]);
    let base = || asking("s4", "1.2.4.3").shared("share");
    let third = || asking("s3", "1.2.4.3").shared("share").ports(&[("TCP", 443)]);
    for (s3, refusal) in [
        (third().ports(&[("TCP", 80)]), r#"port TCP/80 is already in use on "1.2.4.3""#),
        (
            third().shared("othershare"),
            r#"can't change sharing key for "ns/s3", address also in use by ns/s4"#,
        ),
        (asking("s3", "1.2.4.3"), r#"can't change sharing key for "ns/s3", address also in use by ns/s4"#),
        (
            third().local(true).selector(&[("a", "b")]),
            r#"can't change sharing key for "ns/s3", address also in use by ns/s4"#,
        ),
        (third().local(true), ""),
        (third(), ""),
        (third().ports(&[("UDP", 80)]), ""),
        (third().ports(&[]), ""),
    ] {
        let mut world = World::with([base()]);
        world.settle(&config);
        world.services.push(s3);
        let allocation = world.pass(&config);
        assert_eq!(why(&allocation, "s3"), refusal);
        assert_eq!(allocation.counters["p"].v4.assigned, 1, "a shared address counts once");
    }
    // The only user may change its key; the new one counts.
    let mut world = World::with([asking("s4", "1.2.4.3").shared("old")]);
    world.settle(&config);
    world.change(0, |it| it.shared("share"));
    world.services.push(third());
    assert_eq!(world.settle(&config), ["1.2.4.3", "1.2.4.3"]);
}

#[test]
fn whoever_stops_sharing_goes() {
    let config = config([pool("p", &["1.2.3.4/32"])]);
    for (changed, other) in [(0, 1), (1, 0)] {
        let names = ["a", "b"];
        let pair = || [named("a").shared("k"), named("b").shared("k").ports(&[("TCP", 443)])];
        let mut world = World::with(pair().map(|it| it.selector(&[("app", "x")])));
        assert_eq!(world.settle(&config), ["1.2.3.4", "1.2.3.4"]);
        world.change(changed, |it| it.local(true));
        let allocation = world.pass(&config);
        let key = ServiceKey { namespace: "ns".to_owned(), name: names[changed].to_owned() };
        assert_eq!(
            events(allocation.outcomes.get(&key).unwrap()),
            [
                format!(
                    "Normal ClearAssignment: current IP for \"{key}\" not allowed by config, will attempt for new \
                     IP assignment: can't change sharing key for \"{key}\", address also in use by ns/{}",
                    names[other]
                ),
                format!("Warning AllocationFailed: Failed to allocate IP for \"{key}\": no available IPs"),
            ]
        );
        world.change(other, |it| it.local(true));
        assert_eq!(world.settle(&config), ["1.2.3.4", "1.2.3.4"], "both Local: they share again");
    }
}

/// O10, B7.3: pods that differ keep Services with the policy Local apart, the one that changed goes, and they come
/// together again when the pods are the same.
#[test]
fn who_selects_other_pods_goes_and_comes_back() {
    let config = config([pool("p", &["1.2.3.4/32"])]);
    let local = |name: &str, port| named(name).shared("k").local(true).ports(&[("TCP", port)]);
    let app = |it: ServiceBuilder, app: &str| it.selector(&[("app", app)]);
    let mut world = World::with([app(local("a", 80), "x"), app(local("b", 443), "x")]);
    assert_eq!(world.settle(&config), ["1.2.3.4", "1.2.3.4"]);
    world.change(0, |it| app(it, "y"));
    assert_eq!(world.settle(&config), ["", "1.2.3.4"]);
    world.change(0, |it| app(it, "x"));
    assert_eq!(world.settle(&config), ["1.2.3.4", "1.2.3.4"]);
}

/// O11: who is refused is told everybody who is in the way.
#[test]
fn all_users_of_an_address_are_named() {
    let config = config([pool("p", &["1.2.3.4/32"])]);
    let shared = |name: &str, port| asking(name, "1.2.3.4").shared("k").ports(&[("TCP", port)]);
    let mut world = World::with([shared("a", 80), shared("b", 443)]);
    world.settle(&config);
    world.services.extend([shared("c", 80), asking("x", "1.2.3.4").ports(&[("TCP", 8080)])]);
    let allocation = world.pass(&config);
    assert_eq!(why(&allocation, "c"), r#"port TCP/80 is already in use on "1.2.3.4""#);
    assert_eq!(
        why(&allocation, "x"),
        r#"can't change sharing key for "ns/x", address also in use by ns/a,ns/b"#
    );
}

/// U1 to U3, in each family and in both.
#[test]
fn automatic_choice_and_reuse() {
    let config =
        config([pool("a", &["1.2.3.4/31", "1000::4/127"]), pool("b", &["1.2.3.10/31", "1000::10/127"])]);
    for (cluster, policy, expected) in [
        (&["10.96.0.1"][..], "SingleStack", ["1.2.3.4", "1.2.3.5", "1.2.3.10", "1.2.3.11"]),
        (V6, "SingleStack", ["1000::4", "1000::5", "1000::10", "1000::11"]),
        (
            DUAL,
            "RequireDualStack",
            ["1.2.3.4 1000::4", "1.2.3.5 1000::5", "1.2.3.10 1000::10", "1.2.3.11 1000::11"],
        ),
    ] {
        let of = |name: &str| named(name).cluster(cluster).policy(policy);
        let mut world = World::with(["s1", "s2", "s3", "s4"].map(of));
        assert_eq!(world.settle(&config), expected);
        world.services.push(of("s5").shared("k"));
        assert_eq!(why(&world.pass(&config), "s5"), "no available IPs");
        world.services.remove(0);
        assert_eq!(world.settle(&config)[3], expected[0], "what is freed goes to who waits");
        world.services.push(of("s6"));
        world.services.push(of("s7").shared("k").ports(&[("TCP", 443)]));
        assert_eq!(world.settle(&config)[3..], [expected[0], "", expected[0]]);
    }
}

/// O34: the address that a Service moves away from goes to who waits for it, in the same pass.
#[test]
fn what_a_move_frees_is_given_at_once() {
    let config = config([pool("p", &["1.2.3.4/31"])]);
    let mut world = World::with([asking("a", "1.2.3.4"), asking("b", "1.2.3.4")]);
    assert_eq!(world.settle(&config), ["1.2.3.4", ""]);
    world.change(0, |it| it.annotations(&[("metallb.io/loadBalancerIPs", "1.2.3.5")]));
    world.pass(&config);
    let shown: Vec<String> =
        world.services.iter().map(|it| it.clone().lb().ingress.texts().join(" ")).collect();
    assert_eq!(shown, ["1.2.3.5", "1.2.3.4"]);
}

/// Y2: whoever has an address has it after any number of restarts, and who waits goes on waiting.
#[test]
fn restarts_move_nobody() {
    let config = config([pool("p", &["1.2.3.4/31"])]);
    let mut world = World::with([named("c"), named("d"), named("a"), named("b")]);
    assert_eq!(world.settle(&config), ["", "", "1.2.3.4", "1.2.3.5"]);
    for _ in 0..5 {
        world.held = Held::default();
        let allocation = world.pass(&config);
        assert!(allocation.outcomes.values().all(|outcome| outcome.write.is_none()));
    }
}

#[test]
fn what_was_written_counts_before_it_is_seen() {
    let config = config([pool("p", &["1.2.3.4/31"])]);
    let services = |names: &[&str]| by_key(names.iter().map(|name| named(name).lb()));
    let mut held = Held::default();
    let first = allocate(&config, &services(&["b"]), &held);
    let (key, outcome) = first.outcomes.iter().next().map(|(key, it)| (Arc::clone(key), it.clone())).unwrap();
    assert_eq!(outcome.assignment.as_ref().unwrap().addresses[0].to_string(), "1.2.3.4");
    held.record(Arc::clone(&key), outcome.write.unwrap());
    // The store still shows b without an address, and a new Service that comes first by name.
    let second = allocate(&config, &services(&["a", "b"]), &held);
    let address = |allocation: &Allocation, name: &str| {
        let key = ServiceKey { namespace: "ns".to_owned(), name: name.to_owned() };
        allocation.outcomes.get(&key).unwrap().assignment.as_ref().unwrap().addresses[0].to_string()
    };
    assert_eq!((address(&second, "a"), address(&second, "b")), ("1.2.3.5".to_owned(), "1.2.3.4".to_owned()));
    assert_eq!(second.outcomes.get(&key).unwrap().write, None, "not written twice");
    // The write failed: nothing is held, a is first.
    held.forget(&key);
    let third = allocate(&config, &services(&["a", "b"]), &held);
    assert_eq!((address(&third, "a"), address(&third, "b")), ("1.2.3.4".to_owned(), "1.2.3.5".to_owned()));
}

#[test]
fn the_oldest_waits_the_least() {
    let config = config([pool("p", &["1.2.3.4/32"])]);
    let mut world = World::with([named("a").created(20), named("b").created(10), named("c")]);
    assert_eq!(world.settle(&config), ["", "1.2.3.4", ""]);
}
