//! Addresses and pools by name: who may have them, in sequences on one allocator.

use ferrolb_core::testing::{match_labels, namespace};

use super::*;

fn sequence_config() -> Config {
    let mut test3 = restricted("test3", "1.2.5.0/24", Some("test-ns1"), None, 0);
    test3.spec.addresses.push("1000::5:0/120".to_owned());
    config([
        pool("test", &["1.2.3.4/31", "1000::4/127"]),
        buggy("test2", &["1.2.4.0/24", "1000::4:0/120"]),
        test3,
        restricted("test4", "1.2.6.0/24", None, Some("metallb"), 0),
        restricted("test5", "1.2.7.0/24", Some("test-ns1"), Some("metallb"), 20),
        restricted("test8", "1.2.8.0/24", Some("test-ns2"), Some("bar"), 20),
    ])
}

/// A Service asks for addresses and, in the same step, has these ports and keys. The answer is what it is
/// refused with; a refused request is withdrawn, so that it leaves no trace.
fn ask(world: &mut World, service: ServiceBuilder, addresses: &str) -> String {
    let config = sequence_config();
    let key = service.clone().lb().key;
    let at = world.services.iter().position(|it| it.clone().lb().key == key);
    let before = at.map(|index| world.services.remove(index));
    let asking = service.annotations(&[("metallb.io/loadBalancerIPs", addresses)]);
    let asking = before.iter().fold(asking, |it, before| it.with_state_of(before));
    world.services.push(asking);
    let refusal = world.pass(&config).outcomes.get(&key).unwrap().refusal.as_ref().map(ToString::to_string);
    if refusal.is_some() {
        world.services.pop();
        world.services.extend(before);
        world.pass(&config);
    }
    refusal.unwrap_or_default()
}

#[test]
fn one_address_after_the_other() {
    for (a, b, test2, buggy, v6) in [
        ("1.2.3.4", "1.2.3.5", "1.2.4.3", ["1.2.4.0", "1.2.4.255"], false),
        ("1000::4", "1000::5", "1000::4:3", ["1000::4:5", "1000::4:ff"], true),
    ] {
        let mut world = World::default();
        let of = |name: &str| if v6 { named(name).cluster(V6) } else { named(name) };
        let shared = |name: &str, protocol, port, key: &str| of(name).ports(&[(protocol, port)]).shared(key);
        let foreign = |it: ServiceBuilder| it.local(true).selector(&[("app", "other")]);
        let mut ask = |it, addresses: &str| ask(&mut world, it, addresses);
        let mismatch = |name: &str, other: &str| {
            format!("can't change sharing key for \"ns/{name}\", address also in use by ns/{other}")
        };
        assert_eq!(ask(of("s1"), a), "");
        assert_eq!(ask(of("s1"), a), "");
        assert_eq!(ask(of("s2"), a), mismatch("s2", "s1"));
        assert_eq!(ask(of("s2"), b), "");
        assert_eq!(ask(of("s1"), b), mismatch("s1", "s2"));
        // Freed, moved, and taken where the other one was.
        assert_eq!(ask(of("s1").kind("ClusterIP"), a), "");
        assert_eq!(ask(of("s2"), a), "");
        assert_eq!(ask(of("s1"), b), "");
        for address in buggy {
            let expected =
                if v6 { String::new() } else { format!(r#"["{address}"] is not allowed in config"#) };
            assert_eq!(ask(of("s3"), address), expected, "only IPv4 has such addresses");
        }
        assert_eq!(ask(shared("s4", "TCP", 80, "sharing"), test2), "");
        assert_eq!(
            ask(shared("s4", "TCP", 80, "share"), test2),
            "",
            "the only user changes its key in place"
        );
        let used = format!("port TCP/80 is already in use on \"{test2}\"");
        assert_eq!(ask(shared("s3", "TCP", 80, "share"), test2), used);
        assert_eq!(ask(shared("s3", "TCP", 443, "othershare"), test2), mismatch("s3", "s4"));
        assert_eq!(ask(shared("s3", "TCP", 443, "share"), test2), "");
        assert_eq!(ask(shared("s3", "UDP", 53, "share"), test2), "", "ports are replaced");
        assert_eq!(ask(foreign(shared("s3", "TCP", 443, "share")), test2), mismatch("s3", "s4"));
        assert_eq!(ask(shared("s3", "TCP", 443, "othershare"), test2), mismatch("s3", "s4"));
    }
}

#[test]
fn pairs_come_from_one_pool() {
    let dual = |name: &str| named(name).cluster(DUAL).policy("RequireDualStack");
    let mut world = World::default();
    assert_eq!(ask(&mut world, dual("s1"), "1.2.3.4,1000::4"), "");
    assert_eq!(
        ask(&mut world, dual("s2"), "1.2.4.5, 1000::5"),
        r#"["1.2.4.5" "1000::5"] is not allowed in config"#
    );
    assert_eq!(ask(&mut world, dual("s2"), "1000::5,1.2.3.5"), "");
    let order = world.services.last().unwrap().clone().lb().ingress.texts();
    assert_eq!(order, ["1000::5", "1.2.3.5"], "as asked for, and so it stays");
    let again = world.pass(&sequence_config());
    assert!(again.outcomes.values().all(|outcome| outcome.write.is_none()));
}

#[test]
fn restrictions_hold_for_who_asks_by_address_too() {
    let closed = |pool: &str| format!("pool {pool} not compatible for ip assignment");
    let team = |it: ServiceBuilder, team: &str| it.labels(&[("team", team)]);
    for (service, address, refusal) in [
        (service("test-ns3", "s"), "1.2.5.10", closed("test3")),
        (service("test-ns1", "s"), "1.2.5.10", String::new()),
        (team(service("test-ns9", "s"), "metallb"), "1.2.6.10", String::new()),
        (team(service("test-ns9", "s"), "red"), "1.2.6.10", closed("test4")),
        (team(service("test-ns2", "s"), "metallb"), "1.2.8.10", closed("test8")),
        (team(service("test-ns3", "s"), "bar"), "1.2.8.10", closed("test8")),
        (team(service("test-ns2", "s"), "bar"), "1.2.8.10", String::new()),
    ] {
        assert_eq!(ask(&mut World::default(), service, address), refusal, "{address}");
    }
}

#[test]
fn a_named_pool_until_it_is_full() {
    let config = || {
        config([
            pool("other", &["9.0.0.0/8", "9000::/64"]),
            on_request("test", &["1.2.3.4/31", "1.2.3.10/31", "1000::/127", "2000::/127"]),
        ])
    };
    for (cluster, policy, expected) in [
        (&["10.96.0.1"][..], "SingleStack", ["1.2.3.4", "1.2.3.5", "1.2.3.10", "1.2.3.11"]),
        (V6, "SingleStack", ["1000::", "1000::1", "2000::", "2000::1"]),
        (
            DUAL,
            "RequireDualStack",
            ["1.2.3.4 1000::", "1.2.3.5 1000::1", "1.2.3.10 2000::", "1.2.3.11 2000::1"],
        ),
        (
            DUAL,
            "PreferDualStack",
            ["1.2.3.4 1000::", "1.2.3.5 1000::1", "1.2.3.10 2000::", "1.2.3.11 2000::1"],
        ),
    ] {
        let of = |name: &str| {
            let it = named(name).cluster(cluster).policy(policy);
            it.annotations(&[("metallb.io/address-pool", "test")])
        };
        let mut world = World::with(["s1", "s2", "s3", "s4"].map(of));
        assert_eq!(world.settle(&config()), expected);
        world.services.remove(0);
        world.services.push(of("s5"));
        assert_eq!(world.settle(&config())[3], expected[0]);
        world.services.push(of("s6"));
        let full = if cluster.len() == 1 {
            // The pool has addresses, if none of this family.
            r#"["<nil>"] is not allowed in config"#
        } else {
            "no available IPs in pool test"
        };
        assert_eq!(why(&world.pass(&config()), "s6"), full);
        world.services.truncate(3);
        world.services.push(of("s5").shared("share"));
        world.services.push(of("s6").shared("share").ports(&[("TCP", 443)]));
        assert_eq!(world.settle(&config())[3..], [expected[0], expected[0]]);
    }
}

/// L9: a pool of one family serves who has that family, and one of both serves both.
#[test]
fn a_named_pool_of_one_family_or_both() {
    let (v4, v6) = (["1.2.3.4/31", "1.2.3.10/31"], ["1000::/127", "2000::/127"]);
    let pools = [on_request("test-v4", &v4), on_request("test-v6", &v6)];
    let config = config(pools);
    let both = super::config([on_request("test-dualstack", &[v4, v6].concat())]);
    let from = |cluster: &[&str], name: &str| {
        let it = named("s").cluster(cluster).policy("PreferDualStack");
        World::with([it.annotations(&[("metallb.io/address-pool", name)])])
    };
    assert_eq!(from(&["10.96.0.1"], "test-v4").settle(&config), ["1.2.3.4"]);
    assert_eq!(from(V6, "test-v6").settle(&config), ["1000::"]);
    assert_eq!(from(DUAL, "test-dualstack").settle(&both), ["1.2.3.4 1000::"]);
    let wrong = from(V6, "test-v4").pass(&config);
    assert_eq!(why(&wrong, "s"), r#"["<nil>"] is not allowed in config"#);
}

#[test]
fn only_pools_for_everybody_are_used_unasked() {
    let config = config([
        on_request("test1", &["1.2.3.4/31", "1000::4/127"]),
        pool("test2", &["1.2.3.10/31", "1000::10/127"]),
    ]);
    let mut world = World::with([
        named("a"),
        named("b"),
        named("c"),
        named("d").cluster(V6),
        named("e").cluster(V6),
        named("f").cluster(V6),
    ]);
    assert_eq!(world.settle(&config), ["1.2.3.10", "1.2.3.11", "", "1000::10", "1000::11", ""]);
    assert_eq!(why(&world.pass(&config), "c"), "no available IPs");
    let mut world = World::with([named("s").cluster(DUAL)]);
    assert_eq!(why(&world.pass(&config), "s"), "no available IPs in pool test2 for dual IPFamily");
}

/// Priorities, from the lowest: pinned by namespace or labels before pools for everybody.
#[test]
fn restricted_pools_by_priority() {
    let pools = |left: usize| {
        let all = [
            restricted("pool12", "25.26.27.0/31", Some("test-ns1"), Some("metallb"), 5),
            restricted("pool11", "22.23.24.0/31", Some("test-ns1"), Some("metallb"), 8),
            restricted("pool6", "7.8.9.0/31", Some("test-ns1"), None, 10),
            restricted("pool7", "10.11.12.0/31", Some("test-ns1"), None, 11),
            restricted("pool9", "16.17.18.0/31", Some("test-ns1"), None, 0),
            pool("pool1", &["1.2.3.0/31"]),
        ];
        config(all.into_iter().skip(left))
    };
    let first = ["25.26.27.0", "22.23.24.0", "7.8.9.0", "10.11.12.0", "16.17.18.0", "1.2.3.0"];
    for (left, expected) in first.into_iter().enumerate() {
        let it = service("test-ns1", "s").labels(&[("team", "metallb")]);
        assert_eq!(World::with([it]).settle(&pools(left)), [expected]);
    }
    // A pool that names no namespace and no label, only a rank, is for everybody and comes first.
    let ranked = config([pool("a", &["1.1.1.0/32"]), restricted("z", "2.2.2.0/32", None, None, 7)]);
    assert_eq!(World::with([named("s"), named("t")]).settle(&ranked), ["2.2.2.0", "1.1.1.0"]);
    // O38: of equal rank, the first by name.
    let equal = ["b", "a"].map(|name| restricted(name, "1.1.1.0/32", Some("ns"), None, 7));
    let [b, mut a] = equal;
    a.spec.addresses = vec!["2.2.2.0/32".to_owned()];
    assert_eq!(World::with([named("s"), named("t")]).settle(&config([b, a])), ["2.2.2.0", "1.1.1.0"]);
}

/// A pool for namespaces by label: before one by name of a higher number, and for nobody where no namespace has
/// the label (O14), whoever asks for it.
#[test]
fn namespaces_by_label() {
    let by_label = |name: &str, entry: &str, priority, label: &str| {
        let mut object = restricted(name, entry, None, None, priority);
        let allocation = object.spec.service_allocation.get_or_insert_default();
        allocation.namespace_selectors = vec![match_labels(&[("zone", label)])];
        object
    };
    let pools = [
        by_label("label", "1.1.1.0/32", 10, "a"),
        restricted("name", "2.2.2.0/32", Some("ns"), None, 20),
        restricted("last", "3.3.3.0/32", Some("ns"), None, 0),
        by_label("nobody", "4.4.4.0/32", 1, "none"),
        pool("open", &["5.5.5.0/32"]),
    ];
    let in_zone = |zone: &str| {
        let namespaces = [namespace("ns", &[("zone", zone)]), namespace("other", &[])];
        compile(&Resources::default().with_pools(pools.clone()).with_namespaces(namespaces)).config
    };
    let mut world = World::with(["a", "b", "c", "d", "e"].map(named));
    assert_eq!(world.settle(&in_zone("a")), ["1.1.1.0", "2.2.2.0", "3.3.3.0", "5.5.5.0", ""]);
    let mut asking = World::with([
        asking("s", "4.4.4.0"),
        named("t").annotations(&[("metallb.io/address-pool", "nobody")]),
    ]);
    let refused = asking.pass(&in_zone("a"));
    for name in ["s", "t"] {
        assert_eq!(why(&refused, name), "pool nobody not compatible for ip assignment");
    }
    // The namespace loses the label: the pool is for it no more.
    assert_eq!(world.settle(&in_zone("b")), ["", "2.2.2.0", "3.3.3.0", "5.5.5.0", ""]);
}

/// What is freed is given again when the change is seen, and a pool that is added moves nobody.
#[test]
fn pools_come_and_go_under_services() {
    let one = config([pool("p", &["1.2.3.0/32"])]);
    let mut world = World::with([named("svc1"), named("svc2")]);
    assert_eq!(world.settle(&one), ["1.2.3.0", ""]);
    world.change(0, |it| it.kind("ClusterIP"));
    assert_eq!(world.settle(&one), ["", "1.2.3.0"]);
    let (first, second) =
        (|| pool("default", &["1.2.3.0/24", "1000::1/127"]), || pool("second", &["4.5.6.0/24"]));
    let mut world = World::with([named("svc")]);
    assert_eq!(world.settle(&config([first()])), ["1.2.3.0"]);
    assert!(world.pass(&config([first(), second()])).outcomes.values().all(|it| it.write.is_none()));
    assert_eq!(world.settle(&config([second()])), ["4.5.6.0"]);
    // Cut otherwise, the same addresses: nobody moves.
    let before = config([pool("p", &["192.0.2.9-192.0.2.50"])]);
    let mut world = World::with([named("a"), named("b"), asking("c", "192.0.2.50")]);
    assert_eq!(world.settle(&before), ["192.0.2.9", "192.0.2.10", "192.0.2.50"]);
    let after = config([pool("p", &["192.0.2.49/32", "192.0.2.50/32", "192.0.2.9-192.0.2.39"])]);
    assert!(world.pass(&after).outcomes.values().all(|it| it.write.is_none()));
}

/// Y7, Y11, Y12, Y18: restricted pools are used up in their order, what they leave goes on to pools for everybody, and
/// a pool that comes moves nobody.
#[test]
fn one_pool_after_the_other() {
    let team = |name: &str| named(name).labels(&[("team", "metallb")]);
    let of_team = |name, entry, priority| restricted(name, entry, None, Some("metallb"), priority);
    let of_namespace = |name, entry, priority| restricted(name, entry, Some("ns"), None, priority);
    for pools in [
        [of_team("z", "1.1.1.0/32", 10), of_team("y", "2.2.2.0/32", 20), of_namespace("x", "3.3.3.0/32", 0)],
        [
            of_team("z", "1.1.1.0/32", 10),
            of_namespace("y", "2.2.2.0/32", 20),
            of_namespace("x", "3.3.3.0/32", 0),
        ],
    ] {
        let mut world = World::with([team("a"), team("b"), team("c")]);
        assert_eq!(world.settle(&config(pools)), ["1.1.1.0", "2.2.2.0", "3.3.3.0"]);
        let plain = config([pool("plain", &["9.9.9.0/30"])]);
        assert_eq!(world.settle(&plain), ["9.9.9.0", "9.9.9.1", "9.9.9.2"]);
    }
    let (v4, both) = (|| pool("v4", &["1.2.3.0/32"]), || pool("a", &["4.5.6.0/30", "1000::/126"]));
    for (service, then) in
        [(named("s"), "1.2.3.0"), (named("s").cluster(DUAL).policy("PreferDualStack"), "1.2.3.0 1000::")]
    {
        let mut world = World::with([service]);
        assert_eq!(world.settle(&config([v4()])), ["1.2.3.0"]);
        assert_eq!(world.settle(&config([v4(), both()])), [then]);
    }
}
