//! One Service: what it gets, and what it is told.

use ferrolb_core::testing::{OneService, case_pools, one_service_cases};

use super::*;

fn outcome_of(config: &Config, service: ServiceBuilder) -> Outcome {
    let mut world = World::with([service]);
    world.pass(config).outcomes.values().next().unwrap().clone()
}

/// What one Service gets, and whether it is warned about.
#[test]
fn one_service() {
    for OneService { name: case, pools, service, expected, warned } in one_service_cases() {
        let config = &config(pools);
        let first = outcome_of(config, service.clone());
        assert_eq!(
            first.events.iter().any(|event| event.is_warning()),
            warned,
            "{case}: {:?}",
            events(&first)
        );
        let before = service.clone().lb();
        let after = first.write.as_ref().and_then(|it| it.assignment.as_ref());
        let moves =
            first.write.is_some() && !before.ingress.is_exactly(after.map_or(&[][..], |it| &it.addresses));
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
    let (plain, dual) = (config(case_pools()), dual_config());
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
    let outcome = world.pass(&plain).outcomes.values().next().unwrap().clone();
    assert_eq!((outcome.events, outcome.write, outcome.refusal), (vec![], None, None));
}

/// O32, O7: a record without an address goes; what the API server fills in makes no write.
#[test]
fn what_is_left_over_goes_and_defaults_stay() {
    let config = config(case_pools());
    let left = outcome_of(&config, service("ns", "s").kind("ExternalName").cluster(&[]).from_pool("pool1"));
    assert!(left.write.is_some_and(|write| write.assignment.is_none()) && left.events.is_empty());
    // `holding` says `ipMode: VIP`.
    let rests = outcome_of(&config, service("ns", "s").holding(&["1.2.3.0"]).from_pool("pool1"));
    assert_eq!((rests.write, rests.events), (None, vec![]));
}
