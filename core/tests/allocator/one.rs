//! One Service: what it gets, and what it is told.

use super::*;

fn outcome_of(config: &Config, service: ServiceBuilder) -> Outcome {
    let mut world = World::with([service]);
    world.pass(config).outcomes.into_values().next().unwrap()
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
        let before = service.clone().lb();
        let after = first.write.as_ref().and_then(|it| it.assignment.as_ref());
        let moves =
            first.write.is_some() && !before.ingress.is_exactly(after.map_or(&[], |it| &it.addresses));
        assert_eq!(moves, before.ingress.texts().join(" ") != expected, "{case}");
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
            &config([pool("pool1", &["1.2.3.0/31"]), on_request("pool2", &["1000::/127"])]),
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
