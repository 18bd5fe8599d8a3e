//! Pools, Services, classes and controllers that change, by the whole controller.

use super::*;

fn pool_named(api: &Api, name: &str, addresses: &[&str]) {
    api.put(
        "ipaddresspools",
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
            "metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"addresses": addresses},
        }),
    );
}

fn pool_status(api: &Api, name: &str) -> Value {
    api.get("ipaddresspools", NAMESPACE, name)["status"].clone()
}

/// Sets something in the spec of a Service.
fn change_spec(api: &Api, name: &str, spec: &Value) {
    api.change(SERVICES, "demo", name, &json!({"spec": spec}));
}

fn state(api: &Api) -> Value {
    api.get("configurationstates", NAMESPACE, "controller")["status"].clone()
}

/// Q1, Q2, Q6, B7.4, O15: a Service before there is a pool, beside a second one, and after each of them is gone.
#[tokio::test]
async fn pools_come_and_go_under_a_service() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    service(&api, "s", EARLIER);
    service(&api, "foreign", EARLIER);
    let foreign = json!({"status": {"loadBalancer": {"ingress": [{"ip": "8.8.8.8"}]}}});
    api.change(SERVICES, "demo", "foreign", &foreign);
    let running = Running::start(&api, client, "controller-1");
    until("the condition", || condition(&api, "s")["reason"] == "NoPools").await;
    assert!(api.list("events").is_empty(), "{:?}", api.list("events"));
    assert_eq!(address(&api, "foreign"), "8.8.8.8");
    api.remove(SERVICES, "demo", "foreign");
    // Made anew, so that its condition says that what was removed before it is seen.
    api.remove(SERVICES, "demo", "s");
    service(&api, "s", EARLIER);
    until("the condition again", || condition(&api, "s")["reason"] == "NoPools").await;

    pool_named(&api, "default", &["1.2.3.0/24", "1000::1/127"]);
    until("the first address", || address(&api, "s") == "1.2.3.0").await;
    until("the counters", || pool_status(&api, "default")["assignedIPv4"] == 1).await;
    api.writes();
    pool_named(&api, "second", &["4.5.6.0/24"]);
    until("the second pool is counted", || pool_status(&api, "second")["availableIPv4"] == 256).await;
    assert_eq!(status_writes(&api.writes()), 0);
    api.remove("ipaddresspools", NAMESPACE, "default");
    until("an address of the second pool", || address(&api, "s") == "4.5.6.0").await;
    let cleared = r#"current IP for "demo/s" not allowed by config, will attempt for new IP assignment: ["1.2.3.0"] is not allowed in config"#;
    until("the Event", || told(&api, "s", "ClearAssignment") == [cleared]).await;
    assert!(!running.metric(r#"metallb_allocator_addresses_total{pool="default"} 256"#));
    api.remove("ipaddresspools", NAMESPACE, "second");
    until("no address", || address(&api, "s").is_empty()).await;
    assert_eq!(condition(&api, "s")["reason"], "NoPools");
    running.stop().await;
}

/// B7.7, Y20: the status of a pool follows what is used, the pool's own growth, and edits by hand.
#[tokio::test]
async fn the_status_of_a_pool_follows() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "192.168.10.0/30");
    let running = Running::start(&api, client, "controller-1");
    let status = |v4: i64, assigned: i64| json!({"availableIPv4": v4, "availableIPv6": 0, "assignedIPv4": assigned, "assignedIPv6": 0});
    let follows = |v4: i64, assigned: i64| {
        let (api, expected) = (&api, status(v4, assigned));
        async move { until("the counters", || pool_status(api, "default") == expected).await }
    };
    follows(4, 0).await;
    service(&api, "s", EARLIER);
    follows(3, 1).await;
    pool(&api, "192.168.10.0/29");
    follows(7, 1).await;
    api.change("ipaddresspools", NAMESPACE, "default", &json!({"status": {"availableIPv4": 99}}));
    follows(7, 1).await;
    api.remove(SERVICES, "demo", "s");
    follows(8, 0).await;
    running.stop().await;
}

/// X15 and Services whose class or type is no more the one they were served for.
#[tokio::test]
async fn each_class_is_left_to_its_controller() {
    for (option, ours) in [(None, "none"), (Some("--lb-class=foo"), "foo")] {
        let api = Api::default();
        let (client, _gate) = api.attach().await;
        pool(&api, "10.0.0.0/24");
        for class in ["none", "foo", "bar"] {
            service(&api, class, EARLIER);
            let set = (class != "none").then_some(class);
            change_spec(&api, class, &json!({"loadBalancerClass": set}));
        }
        let options: Vec<&str> = option.into_iter().collect();
        let running = Running::start_with(&api, client, "controller-1", FAST, &options);
        until("the address", || address(&api, ours) == "10.0.0.0").await;
        for other in ["none", "foo", "bar"].into_iter().filter(|it| *it != ours) {
            assert_eq!(api.get(SERVICES, "demo", other)["status"], json!({"loadBalancer": {}}), "{other}");
        }
        // The API server drops the class with the type.
        change_spec(&api, ours, &json!({"type": "ClusterIP", "loadBalancerClass": null}));
        until("the address is taken back", || address(&api, ours).is_empty()).await;
        let annotations = &api.get(SERVICES, "demo", ours)["metadata"]["annotations"];
        assert_eq!(*annotations, json!({}));
        running.stop().await;
    }
}

/// B7.1, B7.3: what one Service gives up the other gets, and who stops sharing goes, until both agree again.
#[tokio::test]
async fn services_make_room_and_share() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0/32");
    service(&api, "first", EARLIER);
    service(&api, "second", LATER);
    let running = Running::start(&api, client, "controller-1");
    until("the first is served", || {
        address(&api, "first") == "10.0.0.0" && condition(&api, "second")["reason"] == "Exhausted"
    })
    .await;
    change_spec(&api, "first", &json!({"type": "ClusterIP"}));
    until("the second is served", || {
        address(&api, "second") == "10.0.0.0" && address(&api, "first").is_empty()
    })
    .await;

    let share = json!({"metadata": {"annotations": {"metallb.io/allow-shared-ip": "k"}}});
    for (name, port) in [("first", 80), ("second", 443)] {
        api.change(SERVICES, "demo", name, &share);
        let spec = json!({"type": "LoadBalancer", "selector": {"app": "x"}, "ports": [{"port": port}]});
        change_spec(&api, name, &spec);
    }
    let both = || address(&api, "first") == "10.0.0.0" && address(&api, "second") == "10.0.0.0";
    until("both share", both).await;
    let local = |app: &str| json!({"externalTrafficPolicy": "Local", "selector": {"app": app}});
    for (name, spec) in [("first", local("x")), ("second", local("y"))] {
        change_spec(&api, name, &spec);
        until("who changed goes", || address(&api, "first").is_empty()).await;
        assert_eq!(address(&api, "second"), "10.0.0.0");
    }
    change_spec(&api, "second", &local("x"));
    until("both share", both).await;
    running.stop().await;
}

/// O35: somebody changes a Service between the decision and the write; it is decided on what it is now.
#[tokio::test]
async fn a_conflict_is_decided_anew() {
    let api = Api::default();
    let (client, gate) = api.attach().await;
    pool(&api, "10.0.0.0/30");
    let running = Running::start(&api, client, "controller-1");
    until("the first pass", || running.metric(r#"metallb_allocator_addresses_total{pool="default"} 4"#))
        .await;
    gate.send_replace(Gate::HoldsPatches);
    service(&api, "s", EARLIER);
    until("the request at the gate", || api.at_gate() >= 1).await;
    let asks = json!({"metadata": {"annotations": {"metallb.io/loadBalancerIPs": "10.0.0.3"}}});
    api.change(SERVICES, "demo", "s", &asks);
    gate.send_replace(Gate::Open);
    until("the address that it asks for now", || address(&api, "s") == "10.0.0.3").await;
    until("the Event", || told(&api, "s", "IPAllocated") == [r#"Assigned IP ["10.0.0.3"]"#]).await;
    running.stop().await;
}

/// Y2: controllers come and go; nobody is moved, and nothing is written.
#[tokio::test]
async fn restarts_write_nothing() {
    let api = Api::default();
    pool(&api, "10.0.0.0/31");
    for name in ["a", "b", "c", "d"] {
        service(&api, name, EARLIER);
    }
    for restart in 0..4 {
        let (client, _gate) = api.attach().await;
        let pod = format!("controller-{restart}");
        let running = Running::start(&api, client, &pod);
        until("the metrics", || {
            running.metric(r#"metallb_allocator_addresses_in_use_total{pool="default"} 2"#)
                && running.metric(r#"ferrolb_controller_refused_services{reason="Exhausted"} 2"#)
        })
        .await;
        until("everybody is told", || condition(&api, "d")["reason"] == "Exhausted").await;
        running.stop().await;
        let writes = status_writes(&api.writes());
        assert_eq!(writes, if restart == 0 { 4 } else { 0 });
        assert_eq!((address(&api, "a"), address(&api, "b")), ("10.0.0.0".to_owned(), "10.0.0.1".to_owned()));
    }
}

/// X1, X5, Z9, O30: the state says what is wrong, as long as it is; who has an address has it, and the state comes
/// back when somebody deletes it.
#[tokio::test]
async fn a_wrong_pool_is_told_and_takes_nothing() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0/24");
    service(&api, "s", EARLIER);
    let running = Running::start(&api, client, "controller-1");
    let condition = || state(&api)["conditions"][0].clone();
    until("the address", || address(&api, "s") == "10.0.0.0").await;
    until("a valid state", || state(&api)["result"] == "Valid").await;
    let told = |it: &Value| (it["status"].clone(), it["reason"].clone(), it["message"].clone());
    assert_eq!(told(&condition()), (json!("True"), json!("Reconciled"), json!("")));
    pool_named(&api, "default", &[]);
    let text = "configuration error: parsing address pool default: pool has no prefixes defined";
    until("an invalid state", || state(&api)["result"] == "Invalid").await;
    assert_eq!(told(&condition()), (json!("False"), json!("ConfigurationError"), json!(text)));
    assert_eq!(state(&api)["errorSummary"], text);
    assert!(running.metric("metallb_k8s_client_config_stale_bool 1"));
    api.remove("configurationstates", NAMESPACE, "controller");
    until("the state again", || state(&api)["errorSummary"] == text).await;
    let labels = api.get("configurationstates", NAMESPACE, "controller")["metadata"]["labels"].clone();
    assert_eq!(labels["metallb.io/component-type"], "controller");
    assert_eq!(address(&api, "s"), "10.0.0.0");
    // Back as it was: all is well again.
    pool(&api, "10.0.0.0/24");
    until("a valid state", || state(&api)["result"] == "Valid").await;
    until("the metric", || running.metric("metallb_k8s_client_config_stale_bool 0")).await;
    assert_eq!(address(&api, "s"), "10.0.0.0");
    running.stop().await;
}

/// More Services than the API server lists at a time: all are known before anything is given.
#[tokio::test]
async fn more_services_than_a_page() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0/21");
    for number in 0..1200 {
        service(&api, &format!("s{number:04}"), EARLIER);
    }
    for number in 600..700 {
        let ip = format!("10.0.0.{}", number - 600);
        let holds = json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}});
        api.change(SERVICES, "demo", &format!("s{number:04}"), &holds);
    }
    let running = Running::start(&api, client, "controller-1");
    until("all addresses", || (0..1200).all(|it| !address(&api, &format!("s{it:04}")).is_empty())).await;
    let distinct: BTreeSet<String> = (0..1200).map(|it| address(&api, &format!("s{it:04}"))).collect();
    assert_eq!(distinct.len(), 1200);
    for number in 600..700 {
        assert_eq!(address(&api, &format!("s{number:04}")), format!("10.0.0.{}", number - 600));
    }
    running.stop().await;
}

/// More writes than are made in a pass are refused, of Services that come first: the others are served all the same,
/// and these as soon as they may be.
#[tokio::test]
async fn refused_writes_keep_nobody_waiting() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0/20");
    api.forbid(Some("closed"));
    for number in 0..600 {
        let name = format!("s{number}");
        service(&api, &name, EARLIER);
        let mut object = api.get(SERVICES, "demo", &name);
        object["metadata"]["namespace"] = json!("closed");
        api.put(SERVICES, object);
        api.remove(SERVICES, "demo", &name);
    }
    let running = Running::start(&api, client, "controller-1");
    service(&api, "last", LATER);
    until("the one that may be written", || !address(&api, "last").is_empty()).await;
    api.forbid(None);
    until("all of them", || {
        let shown = |it: &Value| it["status"]["loadBalancer"]["ingress"].is_array();
        api.list(SERVICES).iter().filter(|it| shown(it)).count() == 601
    })
    .await;
    running.stop().await;
}
