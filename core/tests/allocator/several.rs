//! Several Services: sharing, waiting, and writes on their way.

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
            events(&allocation.outcomes[&key]),
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

#[test]
fn automatic_choice_and_reuse() {
    let config = config([pool("a", &["1.2.3.4/31"]), pool("b", &["1.2.3.10/31"])]);
    let mut world = World::with(["s1", "s2", "s3", "s4"].map(named));
    assert_eq!(world.settle(&config), ["1.2.3.4", "1.2.3.5", "1.2.3.10", "1.2.3.11"]);
    world.services.push(named("s5").shared("k"));
    assert_eq!(why(&world.pass(&config), "s5"), "no available IPs");
    world.services.remove(0);
    assert_eq!(world.settle(&config)[3], "1.2.3.4", "what is freed goes to who waits");
    world.services.push(named("s6"));
    world.services.push(named("s7").shared("k").ports(&[("TCP", 443)]));
    assert_eq!(world.settle(&config)[3..], ["1.2.3.4", "", "1.2.3.4"]);
}

#[test]
fn what_was_written_counts_before_it_is_seen() {
    let config = config([pool("p", &["1.2.3.4/31"])]);
    let services =
        |names: &[&str]| names.iter().map(|name| named(name).lb()).map(|it| (it.key.clone(), it)).collect();
    let mut held = Held::default();
    let first = allocate(&config, &services(&["b"]), &held);
    let (key, outcome) = first.outcomes.into_iter().next().unwrap();
    assert_eq!(outcome.assignment.as_ref().unwrap().addresses[0].to_string(), "1.2.3.4");
    held.record(key.clone(), outcome.write.unwrap());
    // The store still shows b without an address, and a new Service that comes first by name.
    let second = allocate(&config, &services(&["a", "b"]), &held);
    let address = |allocation: &Allocation, name: &str| {
        let key = ServiceKey { namespace: "ns".to_owned(), name: name.to_owned() };
        allocation.outcomes[&key].assignment.as_ref().unwrap().addresses[0].to_string()
    };
    assert_eq!((address(&second, "a"), address(&second, "b")), ("1.2.3.5".to_owned(), "1.2.3.4".to_owned()));
    assert_eq!(second.outcomes[&key].write, None, "not written twice");
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
