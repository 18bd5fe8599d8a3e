//! Pools: what they give, what their changes take away, and how full they are.

use super::*;

#[test]
fn dual_stack_choice() {
    let prefer = |it: ServiceBuilder| it.cluster(DUAL).policy("PreferDualStack");
    let (v4, v6) = (|| pool("v4", &["1.2.3.0/32"]), || pool("v6", &["1000::/128"]));
    let both = || pool("z", &["9.9.9.0/32", "9000::/128"]);
    for (pools, service, expected) in [
        (vec![v4(), v6(), both()], prefer(named("s")), "9.9.9.0 9000::"),
        // Where no pool has both families, two pools have.
        (vec![v4(), v6()], prefer(named("s")), "1.2.3.0 1000::"),
        (vec![v4(), v6()], prefer(named("s")).families(&["IPv6", "IPv4"]), "1.2.3.0 1000::"),
        (vec![v4(), v6()], named("s").cluster(DUAL).policy("RequireDualStack"), "1.2.3.0 1000::"),
        (vec![v4()], prefer(named("s")).families(&["IPv6", "IPv4"]), "1.2.3.0"),
        (vec![v6()], prefer(named("s")), "1000::"),
        (vec![v6()], named("s").cluster(DUAL).policy("RequireDualStack"), ""),
        // Who names a pool gets what that one has.
        (vec![v4(), v6()], prefer(named("s")).annotations(&[("metallb.io/address-pool", "v6")]), "1000::"),
        // A restricted pool comes first, even with one family only.
        (vec![restricted("r", "7.7.7.0/32", Some("ns"), None, 1), both()], prefer(named("s")), "7.7.7.0"),
    ] {
        assert_eq!(World::with([service]).settle(&config(pools)), [expected]);
    }
    // A pool that gets a second family completes its Services; one that loses one starts them afresh.
    let mut world = World::with([prefer(named("s"))]);
    assert_eq!(world.settle(&config([pool("p", &["1.2.3.0/32"])])), ["1.2.3.0"]);
    assert_eq!(world.settle(&config([pool("p", &["1.2.3.0/31", "1000::/128"])])), ["1.2.3.0 1000::"]);
    assert_eq!(world.settle(&config([pool("p", &["1000::/128"]), both()])), ["9.9.9.0 9000::"]);
    // One family asked for, two offered: nothing flaps.
    let mut single = World::with([named("s").policy("PreferDualStack")]);
    assert_eq!(single.settle(&dual_config()), ["1.2.3.0"]);
}

#[test]
fn buggy_addresses_are_kept_back() {
    let config = config([buggy("p", &["1.2.3.254-1.2.4.2"])]);
    let mut world = World::with(["s1", "s2", "s3", "s4"].map(named));
    assert_eq!(world.settle(&config), ["1.2.3.254", "1.2.4.1", "1.2.4.2", ""]);
    let mut world = World::with([asking("s", "1.2.3.255"), asking("t", "1.2.4.0")]);
    assert_eq!(why(&world.pass(&config), "s"), r#"["1.2.3.255"] is not allowed in config"#);
    assert_eq!(why(&world.pass(&config), "t"), r#"["1.2.4.0"] is not allowed in config"#);
}

#[test]
fn changes_of_pools() {
    let start = || [pool("test", &["1.2.3.0/30", "1000::/126"])];
    let held = || {
        let mut world = World::with([asking("s1", "1.2.3.0"), asking("s2", "1000::").cluster(V6)]);
        world.settle(&config(start()));
        // They asked once; from now on they only hold.
        for index in 0..2 {
            world.change(index, |it| it.annotations(&[("metallb.io/loadBalancerIPs", "")]));
        }
        world
    };
    for (case, pools, expected) in [
        ("R1", vec![pool("test", &["1.2.3.0/30", "1000::/126"])], ["1.2.3.0 test", "1000:: test"]),
        ("R2", vec![pool("test", &["1.2.3.0/24", "1000::/120"])], ["1.2.3.0 test", "1000:: test"]),
        ("R4", vec![pool("test", &["1.2.3.2/31", "1000::/126"])], ["1.2.3.2 test", "1000:: test"]),
        ("R5", vec![pool("test", &["1.2.3.0/30", "1000::2/127"])], ["1.2.3.0 test", "1000::2 test"]),
        ("R6", vec![pool("test2", &["1.2.3.0/30", "1000::/126"])], ["1.2.3.0 test2", "1000:: test2"]),
        ("R8", vec![buggy("test2", &["1.2.3.0/31", "1000::/127"])], ["1.2.3.1 test2", "1000:: test2"]),
        (
            "autoAssign off",
            vec![on_request("test", &["1.2.3.0/30", "1000::/126"])],
            ["1.2.3.0 test", "1000:: test"],
        ),
        ("all deleted", vec![], [" ", " "]),
        ("other pool", vec![pool("new", &["4.5.6.0/24", "2000::/120"])], ["4.5.6.0 new", "2000:: new"]),
        ("closed", vec![restricted("test", "1.2.3.0/30", Some("other"), None, 0)], [" ", " "]),
        // A pool that is left out for an error takes nothing away, whichever way it broke.
        ("broken", vec![pool("test", &["1.2.3.3-1.2.3.0"])], ["1.2.3.0 test", "1000:: test"]),
        ("empty", vec![pool("test", &[])], ["1.2.3.0 test", "1000:: test"]),
        (
            "overlaps",
            vec![pool("a", &["1.2.3.2/32"]), pool("test", &["1.2.3.0/30"])],
            ["1.2.3.0 test", "1000:: test"],
        ),
        (
            "renamed and broken",
            vec![pool("new", &["1.2.3.0/30", "1000::/126", "x"])],
            ["1.2.3.0 new", "1000:: new"],
        ),
        // A pool that never had the addresses does not keep them either.
        ("deleted, other broken", vec![pool("new", &["x"])], [" ", " "]),
    ] {
        let mut world = held();
        world.settle(&config(pools));
        let state = world.services.iter().map(|it| it.clone().lb());
        let state: Vec<String> = state
            .map(|it| format!("{} {}", it.ingress.texts().join(" "), it.recorded_pool.unwrap_or_default()))
            .collect();
        assert_eq!(state, expected, "{case}");
    }
}

#[test]
fn a_broken_pool_gives_nothing_and_keeps_everything() {
    let broken = || config([pool("p", &["1.2.3.0/24", "nonsense"])]);
    let mut world = World::with([named("old").holding(&["1.2.3.7"]).from_pool("p"), named("new")]);
    assert_eq!(world.settle(&broken()), ["1.2.3.7", ""]);
    assert_eq!(why(&world.pass(&broken()), "new"), "no available IPs");
    // Without a record, the readable entries tell; without any, any pool might have been the one.
    for (pools, address) in [(broken(), "1.2.3.7"), (config([pool("p", &["x"])]), "5.5.5.5")] {
        assert_eq!(World::with([named("old").holding(&[address])]).settle(&pools), [address]);
    }
    // To ask for the broken pool by name costs nothing.
    let config = config([pool("p", &["x"]), pool("q", &["4.4.4.0/24"])]);
    let asks = || named("s").annotations(&[("metallb.io/address-pool", "p")]);
    let mut world = World::with([asks().holding(&["4.4.4.4"]).from_pool("q")]);
    assert_eq!(world.settle(&config), ["4.4.4.4"]);
    assert_eq!(why(&world.pass(&config), "s"), r#"unknown pool "p""#);
}

#[test]
fn addresses_of_others_are_left_alone_without_pools() {
    let mut world = World::with([
        named("foreign").holding(&["8.8.8.8"]),
        named("name").holding(&["lb.example.org"]),
        named("ours").holding(&["1.2.3.4"]).from_pool("deleted"),
        named("empty"),
    ]);
    let allocation = world.pass(&config([]));
    assert!(allocation.outcomes.values().all(|outcome| outcome.events.is_empty()));
    assert_eq!(world.settle(&config([])), ["8.8.8.8", "", "", ""]);
    assert!(!world.services[1].clone().lb().ingress.is_empty());
}

#[test]
fn counters() {
    let counted = |pools: Vec<IPAddressPool>, services: Vec<ServiceBuilder>| -> PoolCounters {
        World::with(services).pass(&config(pools)).counters["p"]
    };
    let max = i64::MAX;
    for (pools, capacity, v4, v6) in [
        (pool("p", &["1.2.3.0/24"]), 256, 256, 0),
        (pool("p", &["1.2.3.0/24", "2.3.4.128/25"]), 384, 384, 0),
        (pool("p", &["1.2.3.0/24", "1000::/64"]), max, 256, max),
        (pool("p", &["fc00::/64", "fd00::/120"]), max, 0, max),
        (pool("p", &["::/0"]), max, 0, max),
        (buggy("p", &["1.2.3.0/24", "2.3.4.128/25"]), 381, 381, 0),
        (buggy("p", &["1.2.3.0/24", "2.3.4.128/25", "1000::/64"]), max, 381, max),
        (buggy("p", &["1.2.3.0/31", "1000::/127"]), 3, 1, 2),
        (buggy("p", &["1.2.3.0/32"]), 0, 0, 0),
        (buggy("p", &["1.2.0.0/16"]), 65024, 65024, 0),
    ] {
        let counters = counted(vec![pools.clone()], vec![]);
        assert_eq!(
            (counters.capacity(), counters.v4.capacity, counters.v6.capacity),
            (capacity, v4, v6),
            "{pools:?}"
        );
    }
    let status_of = |pool, services| {
        let it = counted(vec![pool], services).status();
        (it.available_ipv4, it.available_ipv6, it.assigned_ipv4, it.assigned_ipv6)
    };
    let status = |services| status_of(pool("p", &["192.168.10.0/30", "fd00::/126"]), services);
    let both = named("s").cluster(DUAL).policy("RequireDualStack");
    assert_eq!(status(vec![]), (4, 4, 0, 0));
    assert_eq!(status(vec![both.clone()]), (3, 3, 1, 1));
    // Y20: the pool grows, and the Service goes.
    let larger = || pool("p", &["192.168.10.0/29", "fd00::/125"]);
    let held = both.holding(&["192.168.10.0", "fd00::"]).from_pool("p");
    assert_eq!(status_of(larger(), vec![held]), (7, 7, 1, 1));
    assert_eq!(status_of(larger(), vec![]), (8, 8, 0, 0));
    let shared = [80, 443, 23].map(|port| named(&format!("s{port}")).shared("k").ports(&[("TCP", port)]));
    assert_eq!(status(shared.to_vec()), (3, 4, 1, 0));
}

/// What is in use after each step, by one Service after the other and by three that share; a pool that is gone is
/// not counted.
#[test]
fn counters_follow_every_step() {
    let config = config([pool("p", &["1.2.3.4/30", "1000::4/126"])]);
    let shared = |name: &str, port| asking(name, "1.2.3.4").shared("k").ports(&[("TCP", port)]);
    let mut world = World::default();
    let mut counted = |change: &dyn Fn(&mut Vec<ServiceBuilder>)| {
        change(&mut world.services);
        let counters = world.pass(&config).counters["p"];
        let status = counters.status();
        assert_eq!((counters.capacity(), status.available_ipv6, status.assigned_ipv6), (8, 4, 0));
        assert_eq!(status.available_ipv4, 4 - status.assigned_ipv4);
        status.assigned_ipv4
    };
    assert_eq!(counted(&|_| ()), 0);
    assert_eq!(counted(&|it| it.push(asking("s1", "1.2.3.4"))), 1);
    assert_eq!(counted(&|it| it.push(asking("s2", "1.2.3.5"))), 2);
    assert_eq!(counted(&|it| drop(it.remove(0))), 1);
    assert_eq!(counted(&|it| it.clear()), 0);
    for (name, port) in [("s1", 80), ("s2", 443), ("s3", 23)] {
        assert_eq!(counted(&|it| it.push(shared(name, port))), 1);
    }
    for left in [1, 1, 0] {
        assert_eq!(counted(&|it| drop(it.remove(0))), left);
    }
    assert!(world.pass(&super::config([pool("q", &["9.9.9.9/32"])])).counters.keys().eq(["q"]));
}
