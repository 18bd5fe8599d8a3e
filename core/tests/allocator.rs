//! `allocate`, table by table: a world of pools and Services, passes, and the writes applied to the
//! Services as the API server would.

use ferrolb_api::v1beta1::{IPAddressPool, ServiceAllocation};
use ferrolb_core::allocator::{Allocation, Held, Outcome, PoolCounters, allocate};
use ferrolb_core::config::{Config, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::ServiceKey;
use ferrolb_core::testing::{ServiceBuilder, match_labels, pool, service};

fn config(pools: impl IntoIterator<Item = IPAddressPool>) -> Config {
    compile(&Resources::default().with_pools(pools)).config
}

fn restricted(
    name: &str,
    entry: &str,
    namespace: Option<&str>,
    team: Option<&str>,
    priority: i64,
) -> IPAddressPool {
    let mut object = pool(name, &[entry]);
    object.spec.service_allocation = Some(ServiceAllocation {
        priority: Some(priority),
        namespaces: namespace.map(ToOwned::to_owned).into_iter().collect(),
        service_selectors: team.map(|team| match_labels(&[("team", team)])).into_iter().collect(),
        ..Default::default()
    });
    object
}

fn on_request(name: &str, entries: &[&str]) -> IPAddressPool {
    let mut object = pool(name, entries);
    object.spec.auto_assign = false;
    object
}

fn buggy(name: &str, entries: &[&str]) -> IPAddressPool {
    let mut object = pool(name, entries);
    object.spec.avoid_buggy_ips = true;
    object
}

/// Services and what the controller remembers of them.
#[derive(Default)]
struct World {
    services: Vec<ServiceBuilder>,
    held: Held,
}

impl World {
    fn with(services: impl IntoIterator<Item = ServiceBuilder>) -> Self {
        Self { services: services.into_iter().collect(), held: Held::default() }
    }

    /// One pass; what it writes is seen by the next.
    fn pass(&mut self, config: &Config) -> Allocation {
        let services =
            self.services.iter().map(|it| it.clone().lb()).map(|it| (it.key.clone(), it)).collect();
        let allocation = allocate(config, &services, &self.held);
        self.held.accept(&allocation);
        for service in &mut self.services {
            if let Some(write) = &allocation.outcomes[&service.clone().lb().key].write {
                *service = service.clone().written(write);
            }
        }
        allocation
    }

    /// Passes until nothing is written any more; what each Service has then.
    fn settle(&mut self, config: &Config) -> Vec<String> {
        for _ in 0..3 {
            if self.pass(config).outcomes.values().all(|outcome| outcome.write.is_none()) {
                return self.services.iter().map(|it| it.clone().lb().ingress.texts().join(" ")).collect();
            }
        }
        panic!("the passes do not come to rest");
    }

    fn change(&mut self, index: usize, change: impl FnOnce(ServiceBuilder) -> ServiceBuilder) {
        let service = self.services.remove(index);
        self.services.insert(index, change(service));
    }
}

fn outcome_of(config: &Config, service: ServiceBuilder) -> Outcome {
    let mut world = World::with([service]);
    world.pass(config).outcomes.into_values().next().unwrap()
}

/// "Warning reason: text" for each Event.
fn events(outcome: &Outcome) -> Vec<String> {
    let kind = |warning| if warning { "Warning" } else { "Normal" };
    outcome.events.iter().map(|it| format!("{} {}: {it}", kind(it.is_warning()), it.reason())).collect()
}

fn cases_config() -> Config {
    config([
        pool("pool1", &["1.2.3.0/31"]),
        on_request("pool2", &["3.4.5.6/32"]),
        pool("pool3", &["1000::/127"]),
        on_request("pool4", &["2000::1/128"]),
        restricted("pool6", "7.8.9.0/31", Some("test-ns1"), None, 10),
        restricted("pool7", "10.11.12.0/31", Some("test-ns1"), None, 11),
        restricted("pool8", "13.14.15.0/31", None, Some("metallb"), 9),
        restricted("pool9", "16.17.18.0/31", Some("test-ns2"), None, 0),
        restricted("pool10", "19.20.21.0/31", None, Some("metallb"), 8),
    ])
}

fn dual_config() -> Config {
    config([pool("pool5", &["1.2.3.0/31", "1000::/127"])])
}

const V6: &[&str] = &["fd00:96::1"];
const DUAL: &[&str] = &["10.96.0.1", "fd00:96::1"];

/// What one Service gets, and whether it is warned about.
#[test]
fn one_service() {
    let svc = || service("ns", "s");
    let (plain, dual) = (cases_config(), dual_config());
    let ips = |it: ServiceBuilder, text| it.annotations(&[("metallb.io/loadBalancerIPs", text)]);
    let from = |it: ServiceBuilder, text| it.annotations(&[("metallb.io/address-pool", text)]);
    let (warned, fine) = (true, false);
    for (case, config, service, expected, warning) in [
        ("H3", &plain, svc(), "1.2.3.0", fine),
        ("H4", &plain, svc().load_balancer_ip("1.2.3.1"), "1.2.3.1", fine),
        ("H5", &plain, ips(svc(), "1.2.3.1"), "1.2.3.1", fine),
        ("H7", &plain, svc().load_balancer_ip("please"), "", warned),
        ("H8", &plain, from(ips(svc(), "1.2.3.1"), "pool2"), "", warned),
        ("H9", &plain, ips(svc(), "please"), "", warned),
        ("H11", &plain, svc().holding(&["1.2.3.1"]).load_balancer_ip("1.2.3.4"), "", warned),
        ("H12", &plain, from(svc(), "pool1"), "1.2.3.0", fine),
        ("H13", &plain, from(svc().holding(&["1.2.3.0"]), "pool2"), "3.4.5.6", fine),
        ("H15", &plain, svc().holding(&["2.3.4.5"]), "1.2.3.0", fine),
        ("H16", &plain, svc().holding(&["foo.bar.local", "10.10.10.10"]), "1.2.3.0", fine),
        ("H17", &plain, svc().kind("NodePort").holding(&["1.2.3.0"]), "", fine),
        ("H19", &plain, from(svc().local(true), "pool2"), "3.4.5.6", fine),
        ("H20", &plain, svc().cluster(&[]), "", fine),
        ("H21", &plain, ips(svc().cluster(V6), "1.2.3.0"), "", warned),
        ("H21b", &plain, svc().cluster(V6).load_balancer_ip("1.2.3.0"), "", warned),
        ("H23", &plain, svc().holding(&["1000::"]), "1.2.3.0", fine),
        ("H24", &plain, svc().cluster(V6).holding(&["1.2.3.0"]), "1000::", fine),
        ("H25", &dual, svc().cluster(DUAL).policy("RequireDualStack"), "1.2.3.0 1000::", fine),
        ("H27", &dual, svc().cluster(DUAL).policy("PreferDualStack"), "1.2.3.0 1000::", fine),
        ("H28", &plain, service("test-ns1", "s").policy("PreferDualStack"), "7.8.9.0", fine),
        ("H31", &plain, from(svc().cluster(V6).policy("PreferDualStack"), "pool3"), "1000::", fine),
        ("H32", &dual, from(svc().policy("PreferDualStack"), "pool5"), "1.2.3.0", fine),
        ("H33", &dual, svc().policy("RequireDualStack"), "", warned),
        ("H35", &dual, ips(svc().cluster(DUAL).policy("PreferDualStack"), "1.2.3.0"), "", warned),
        (
            "H36",
            &dual,
            ips(svc().cluster(DUAL).policy("RequireDualStack"), "1.2.3.0,1000::"),
            "1.2.3.0 1000::",
            fine,
        ),
        (
            "H37",
            &dual,
            svc()
                .cluster(&["fd00:96::1", "10.96.0.1"])
                .policy("RequireDualStack")
                .holding(&["foo.local", "1000::"]),
            "1.2.3.0 1000::",
            fine,
        ),
        ("H39", &plain, service("test-ns1", "s"), "7.8.9.0", fine),
        ("H40", &plain, service("test-ns2", "s"), "16.17.18.0", fine),
        ("H41", &plain, svc().labels(&[("team", "metallb")]), "19.20.21.0", fine),
        ("H43", &plain, svc().holding(&["1.2.3.0", "1.2.3.1", "1.2.3.2"]), "1.2.3.0", warned),
        ("O3", &plain, from(svc().cluster(V6), "pool1"), "", warned),
        ("dual without the wish", &dual, svc().cluster(DUAL), "", warned),
        ("headless", &plain, svc().cluster(&["None"]), "", warned),
        ("pool of nobody", &plain, from(svc(), "pool99"), "", warned),
        ("closed pool", &plain, from(svc(), "pool6"), "", warned),
        ("mapped", &plain, ips(svc(), "::ffff:1.2.3.1"), "1.2.3.1", fine),
    ] {
        let first = outcome_of(config, service.clone());
        assert_eq!(
            first.events.iter().any(|event| event.is_warning()),
            warning,
            "{case}: {:?}",
            events(&first)
        );
        assert_eq!(
            first.write.is_some(),
            !service.clone().lb().ingress.texts().join(" ").eq(expected),
            "{case}"
        );
        assert_eq!(World::with([service.clone()]).settle(config), [expected], "{case}");
        // From any prior state: the result does not depend on what went before. (Where the family of a
        // Service cannot be told, it keeps what it holds.)
        if case != "headless" && service.clone().lb().ingress.is_empty() {
            let mut world = World::with([service.clone().holding(&["99.99.99.99"])]);
            assert_eq!(world.settle(config), [expected], "{case} from a foreign address");
        }
    }
}

#[test]
fn events_have_the_known_texts() {
    let (plain, dual) = (cases_config(), dual_config());
    let svc = || service("ns", "s");
    let ips = |it: ServiceBuilder, text| it.annotations(&[("metallb.io/loadBalancerIPs", text)]);
    let failed =
        |text: &str| format!(r#"Warning AllocationFailed: Failed to allocate IP for "ns/s": {text}"#);
    for (config, service, expected) in [
        (&plain, svc(), vec![r#"Normal IPAllocated: Assigned IP ["1.2.3.0"]"#.to_owned()]),
        (
            &dual,
            svc().cluster(DUAL).policy("RequireDualStack"),
            vec![r#"Normal IPAllocated: Assigned IP ["1.2.3.0" "1000::"]"#.to_owned()],
        ),
        (
            &dual,
            svc().cluster(DUAL).policy("PreferDualStack").holding(&["1.2.3.1"]),
            vec![r#"Normal IPAllocated: Assigned additional IP "1000::""#.to_owned()],
        ),
        (
            &plain,
            svc().cluster(DUAL).policy("PreferDualStack").holding(&["1.2.3.0"]),
            vec![
                r#"Normal AdditionalAssignFailed: cannot assign additional IP in PreferDualStack: ["1.2.3.0" "<nil>"] is not allowed in config"#
                    .to_owned(),
            ],
        ),
        (
            &plain,
            svc().holding(&["9.9.9.9"]),
            vec![
                r#"Normal ClearAssignment: current IP for "ns/s" not allowed by config, will attempt for new IP assignment: ["9.9.9.9"] is not allowed in config"#
                    .to_owned(),
                r#"Normal IPAllocated: Assigned IP ["1.2.3.0"]"#.to_owned(),
            ],
        ),
        (&plain, ips(svc(), "9.9.9.9"), vec![failed(r#"["9.9.9.9"] is not allowed in config"#)]),
        (&plain, ips(svc(), "7.8.9.0"), vec![failed("pool pool6 not compatible for ip assignment")]),
        (
            &plain,
            ips(svc(), "1.2.3.1").annotations(&[("metallb.io/address-pool", "pool2")]),
            vec![failed(r#"requested loadBalancer IP(s) ["1.2.3.1"] is not compatible with requested address pool pool2"#)],
        ),
        (
            &plain,
            ips(svc().cluster(V6), "1.2.3.1"),
            vec![failed(r#"requested loadBalancer IP(s) ["1.2.3.1"] does not match the ipFamily of the service"#)],
        ),
        (
            &plain,
            svc().cluster(V6).annotations(&[("metallb.io/address-pool", "pool1")]),
            vec![failed(r#"["<nil>"] is not allowed in config"#)],
        ),
        (&plain, svc().annotations(&[("metallb.io/address-pool", "x")]), vec![failed(r#"unknown pool "x""#)]),
        (&config([on_request("p", &["1.2.3.0/32"])]), svc(), vec![failed("no available IPs")]),
        (
            &plain,
            svc().cluster(DUAL).policy("RequireDualStack").annotations(&[("metallb.io/address-pool", "pool1")]),
            vec![failed("no available IPs in pool pool1 for dual IPFamily")],
        ),
        (
            &plain,
            ips(svc().holding(&["1.2.3.0"]), "bogus"),
            vec![
                r#"Warning LoadBalancerFailed: invalid requested loadbalancer IPs: invalid metallb.io/loadBalancerIPs: "bogus""#
                    .to_owned(),
            ],
        ),
        (
            &plain,
            svc().policy("RequireDualStack"),
            vec![
                "Warning not enough clusterips: Service requires dual stack but not enough clusterips [10.96.0.1]"
                    .to_owned(),
            ],
        ),
        (
            &plain,
            svc().cluster(&["None"]).holding(&["1.2.3.0"]),
            vec![
                r#"Warning noclusterIPsIPFamily: Failed to retrieve ClusterIPs IPFamily for ["None"] None: IPFamilyForAddresses: Invalid address ["None"]"#
                    .to_owned(),
            ],
        ),
        (
            &plain,
            svc().annotations(&[("metallb.universe.tf/address-pool", "pool2")]),
            vec![
                r#"Normal IPAllocated: Assigned IP ["3.4.5.6"]"#.to_owned(),
                "Warning deprecatedAnnotation: Service uses deprecated annotation metallb.universe.tf/address-pool"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(events(&outcome_of(config, service)), expected);
    }
    // What is at rest is silent.
    let mut world = World::with([svc().annotations(&[("metallb.universe.tf/address-pool", "pool2")])]);
    world.pass(&plain);
    let outcome = world.pass(&plain).outcomes.into_values().next().unwrap();
    assert_eq!((outcome.events, outcome.write, outcome.refusal), (vec![], None, None));
}

fn named(name: &str) -> ServiceBuilder {
    service("ns", name)
}

fn asking(name: &str, address: &str) -> ServiceBuilder {
    named(name).annotations(&[("metallb.io/loadBalancerIPs", address)])
}

fn why(allocation: &Allocation, name: &str) -> String {
    let key = ServiceKey { namespace: "ns".to_owned(), name: name.to_owned() };
    allocation.outcomes[&key].refusal.as_ref().map(ToString::to_string).unwrap_or_default()
}

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
fn dual_stack_choice() {
    let prefer = |it: ServiceBuilder| it.cluster(DUAL).policy("PreferDualStack");
    let (v4, v6) = (|| pool("v4", &["1.2.3.0/32"]), || pool("v6", &["1000::/128"]));
    let both = || pool("z", &["9.9.9.0/32", "9000::/128"]);
    for (pools, service, expected) in [
        (vec![v4(), v6(), both()], prefer(named("s")), "9.9.9.0 9000::"),
        (vec![v4(), v6()], prefer(named("s")), "1.2.3.0"),
        (vec![v4(), v6()], prefer(named("s")).families(&["IPv6", "IPv4"]), "1000::"),
        (vec![v6()], prefer(named("s")), "1000::"),
        (vec![v4(), v6()], named("s").cluster(DUAL).policy("RequireDualStack"), ""),
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
    let dual = || pool("p", &["192.168.10.0/30", "fd00::/126"]);
    let both = named("s").cluster(DUAL).policy("RequireDualStack");
    let status = |services| {
        let it = counted(vec![dual()], services).status();
        (it.available_ipv4, it.available_ipv6, it.assigned_ipv4, it.assigned_ipv6)
    };
    assert_eq!(status(vec![]), (4, 4, 0, 0));
    assert_eq!(status(vec![both]), (3, 3, 1, 1));
    let shared = [80, 443, 23].map(|port| named(&format!("s{port}")).shared("k").ports(&[("TCP", port)]));
    assert_eq!(status(shared.to_vec()), (3, 4, 1, 0));
}
