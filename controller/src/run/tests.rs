//! The whole process against a scripted API server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clap::Parser;
use ferrolb_runtime::Readiness;
use kube::Client;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::testing::api::{Api, Gate};

mod changes;
mod handling;
mod many;
mod paused;

const NAMESPACE: &str = "metallb-system";
const SERVICES: &str = "services";

/// Short, so that a change of leaders does not make the tests long.
const FAST: Times = Times {
    lease: Timing {
        duration: Duration::from_millis(4000),
        renew_deadline: Duration::from_millis(3000),
        retry_period: Duration::from_millis(200),
    },
    limits: Limits { write: Duration::from_millis(1000), margin: Duration::from_millis(100) },
};

struct Running {
    shutdown: Shutdown,
    metrics: Registry,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    fn start(api: &Api, client: Client, pod: &str) -> Self {
        Self::start_with(api, client, pod, FAST, &[])
    }

    fn start_with(api: &Api, client: Client, pod: &str, times: Times, options: &[&str]) -> Self {
        api.put("pods", json!({"metadata": {"namespace": NAMESPACE, "name": pod}}));
        let shutdown = Shutdown::default();
        let metrics = Registry::new();
        let process = Process {
            client,
            namespace: NAMESPACE.to_owned(),
            readiness: Readiness::default(),
            metrics: metrics.clone(),
            pages: ferrolb_runtime::admin::Pages::default(),
            shutdown: shutdown.clone(),
        };
        let args = Args::parse_from([&["controller", "--pod-name", pod], options].concat());
        Self { shutdown, metrics, task: tokio::spawn(run_with(args, process, times)) }
    }

    async fn stop(self) {
        self.shutdown.begin();
        self.task.await.unwrap().unwrap();
    }

    fn metric(&self, line: &str) -> bool {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.metrics.gather()).unwrap();
        text.lines().any(|it| it == line)
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn pool(api: &Api, addresses: &str) {
    api.put(
        "ipaddresspools",
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
            "metadata": {"namespace": NAMESPACE, "name": "default"}, "spec": {"addresses": [addresses]},
        }),
    );
}

fn service(api: &Api, name: &str, created: &str) {
    api.put(
        SERVICES,
        json!({
            "metadata": {"namespace": "demo", "name": name, "creationTimestamp": created, "annotations": {}},
            "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
                     "ports": [{"port": 80, "protocol": "TCP"}]},
            "status": {"loadBalancer": {}},
        }),
    );
}

const LATER: &str = "2026-01-02T00:00:00Z";
const EARLIER: &str = "2026-01-01T00:00:00Z";

fn address(api: &Api, name: &str) -> String {
    let ingress = &api.get(SERVICES, "demo", name)["status"]["loadBalancer"]["ingress"];
    ingress[0]["ip"].as_str().unwrap_or_default().to_owned()
}

fn condition(api: &Api, name: &str) -> Value {
    api.get(SERVICES, "demo", name)["status"]["conditions"][0].clone()
}

/// The messages of the Events about a Service with this reason.
fn told(api: &Api, name: &str, reason: &str) -> Vec<String> {
    let events = api.list("events");
    let about = events.iter().filter(|it| it["involvedObject"]["name"] == name && it["reason"] == reason);
    about.map(|it| it["message"].as_str().unwrap().to_owned()).collect()
}

fn status_writes(writes: &[String]) -> usize {
    writes.iter().filter(|it| it.starts_with("PATCH /api/v1/") && it.ends_with("/status")).count()
}

#[tokio::test]
async fn one_write_and_one_event_for_each_service_and_none_at_rest() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0/26");
    for number in 0..40 {
        service(&api, &format!("s{number}"), EARLIER);
    }
    let running = Running::start(&api, client, "controller-1");
    until("an address for everybody", || (0..40).all(|it| !address(&api, &format!("s{it}")).is_empty()))
        .await;
    until("an Event for everybody", || {
        (0..40).all(|it| told(&api, &format!("s{it}"), "IPAllocated").len() == 1)
    })
    .await;
    until("the counters", || {
        let status = api.get("ipaddresspools", NAMESPACE, "default")["status"].clone();
        status["assignedIPv4"] == 40 && status["availableIPv4"] == 24
    })
    .await;
    assert_eq!(status_writes(&api.writes()), 40);
    let s0 = api.get(SERVICES, "demo", "s0");
    assert_eq!(s0["metadata"]["annotations"]["metallb.io/ip-allocated-from-pool"], "default");
    assert_eq!(
        s0["status"]["loadBalancer"]["ingress"],
        json!([{"ip": address(&api, "s0"), "ipMode": "VIP"}])
    );
    assert_eq!(s0["status"]["conditions"], Value::Null);

    // A change that concerns nobody: passes are made, nothing is written.
    api.change(SERVICES, "demo", "s0", &json!({"metadata": {"labels": {"a": "b"}}}));
    service(&api, "last", LATER);
    until("an address for the last one", || !address(&api, "last").is_empty()).await;
    assert_eq!(status_writes(&api.writes()), 1);
    until("the metrics", || running.metric(r#"metallb_allocator_addresses_in_use_total{pool="default"} 41"#))
        .await;
    until("all latencies", || running.metric("ferrolb_controller_assignment_duration_seconds_count 41"))
        .await;
    running.stop().await;
}

#[tokio::test]
async fn a_pending_service_says_why_and_is_served_when_it_can_be() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0/32");
    service(&api, "first", EARLIER);
    service(&api, "second", LATER);
    let running = Running::start(&api, client, "controller-1");
    until("the condition", || condition(&api, "second")["status"] == "False").await;
    let text = r#"Failed to allocate IP for "demo/second": no available IPs"#;
    until("the Event", || told(&api, "second", "AllocationFailed") == [text]).await;
    assert_eq!(condition(&api, "second")["reason"], "Exhausted");
    assert!(running.metric(r#"ferrolb_controller_refused_services{reason="Exhausted"} 1"#));
    api.remove(SERVICES, "demo", "first");
    until("the address", || address(&api, "second") == "10.0.0.0").await;
    assert_eq!(condition(&api, "second")["status"], "True");
    running.stop().await;
}

#[tokio::test]
async fn a_late_write_of_a_paused_leader_is_mended() {
    let api = Api::default();
    pool(&api, "10.0.0.0/32");
    service(&api, "first", EARLIER);
    service(&api, "waiting", LATER);
    let (client, old_gate) = api.attach().await;
    let old = Running::start(&api, client, "controller-1");
    until("the start", || {
        let counted = &api.get("ipaddresspools", NAMESPACE, "default")["status"]["assignedIPv4"];
        address(&api, "first") == "10.0.0.0"
            && condition(&api, "waiting")["status"] == "False"
            && *counted == 1
    })
    .await;

    // The old leader decides that the waiting Service gets the address, and stops after it sent that.
    let version = api.get(SERVICES, "demo", "waiting")["metadata"]["resourceVersion"].clone();
    old_gate.send_replace(Gate::HoldsPatches);
    api.remove(SERVICES, "demo", "first");
    until("the request at the gate", || api.at_gate() == 1).await;
    old_gate.send_replace(Gate::Closed);

    // The next one knows nothing of that, and there is an older Service.
    let (client, _gate) = api.attach().await;
    let new = Running::start(&api, client, "controller-2");
    service(&api, "older", "2025-01-01T00:00:00Z");
    until("the next leader", || address(&api, "older") == "10.0.0.0").await;
    assert_eq!(api.get(SERVICES, "demo", "waiting")["metadata"]["resourceVersion"], version);

    old_gate.send_replace(Gate::Open);
    until("the repair", || told(&api, "waiting", "AddressGivenTwice").len() == 1).await;
    until("one address, one Service", || {
        address(&api, "waiting").is_empty() && address(&api, "older") == "10.0.0.0"
    })
    .await;
    assert_eq!(condition(&api, "waiting")["reason"], "Exhausted");
    new.stop().await;
    old.stop().await;
}

/// The API server does not answer for a while, and may or may not have done what it was asked for.
#[tokio::test]
async fn writes_without_an_answer_are_believed_and_repeated() {
    let api = Api::default();
    let (client, gate) = api.attach().await;
    pool(&api, "10.0.0.0/29");
    let running = Running::start(&api, client, "controller-1");
    until("the first pass", || running.metric(r#"metallb_allocator_addresses_total{pool="default"} 8"#))
        .await;
    gate.send_replace(Gate::HoldsPatches);
    service(&api, "a", LATER);
    service(&api, "b", LATER);
    until("the requests at the gate", || api.at_gate() >= 2).await;
    // Given up by the client, asked again; and one that comes first by age.
    until("the requests once more", || api.at_gate() >= 4).await;
    service(&api, "older", EARLIER);
    gate.send_replace(Gate::Open);
    until("everybody served", || ["a", "b", "older"].iter().all(|name| !address(&api, name).is_empty()))
        .await;
    until("rest", || {
        let addresses: BTreeSet<String> =
            ["a", "b", "older"].iter().map(|name| address(&api, name)).collect();
        addresses == ["10.0.0.0", "10.0.0.1", "10.0.0.2"].map(ToOwned::to_owned).into()
    })
    .await;
    assert_eq!((address(&api, "a"), address(&api, "b")), ("10.0.0.0".to_owned(), "10.0.0.1".to_owned()));
    // Though nobody was told by an answer.
    for (name, ip) in [("a", "10.0.0.0"), ("b", "10.0.0.1")] {
        let text = format!("Assigned IP [\"{ip}\"]");
        until("the Event", || told(&api, name, "IPAllocated") == [text.as_str()]).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_leader_that_ends_hands_over_at_once() {
    let api = Api::default();
    pool(&api, "10.0.0.0/24");
    let (client, _first_gate) = api.attach().await;
    let first = Running::start(&api, client, "controller-1");
    service(&api, "a", EARLIER);
    until("the first address", || address(&api, "a") == "10.0.0.0").await;
    let (client, _second_gate) = api.attach().await;
    let second = Running::start(&api, client, "controller-2");
    until("the other to follow", || second.metric("metallb_k8s_client_config_loaded_bool 1")).await;
    assert!(!second.metric(r#"metallb_allocator_addresses_in_use_total{pool="default"} 1"#));
    first.stop().await;
    service(&api, "b", LATER);
    until("the second address", || address(&api, "b") == "10.0.0.1").await;
    assert_eq!(address(&api, "a"), "10.0.0.0");
    let grant = |name: &str| {
        api.get(SERVICES, "demo", name)["metadata"]["annotations"]["ferrolb.io/allocation"].clone()
    };
    assert_eq!((grant("a"), grant("b")), (json!("0/uid-a/10.0.0.0"), json!("1/uid-b/10.0.0.1")));
    second.stop().await;
}

#[tokio::test]
async fn a_rival_is_named_and_not_fought() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0/24");
    service(&api, "s", EARLIER);
    let running = Running::start(&api, client, "controller-1");
    let theirs = |address: &str| {
        json!({
            "metadata": {"managedFields": [{"manager": "cloud", "operation": "Update", "subresource": "status",
                                            "time": "2026-01-01T00:00:00Z"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
        })
    };
    for time in 1..=2 {
        until("our address", || address(&api, "s") == "10.0.0.0").await;
        api.change(SERVICES, "demo", "s", &theirs(&format!("172.16.0.{time}")));
    }
    until("our address", || address(&api, "s") == "10.0.0.0").await;
    until("the first Event", || {
        told(&api, "s", "StatusOverwritten").first().map(String::as_str)
            == Some(r#"status was overwritten with ["172.16.0.1"] by "cloud", restoring ["10.0.0.0"]"#)
    })
    .await;
    api.writes();
    api.change(SERVICES, "demo", "s", &theirs("172.16.0.3"));
    until("the last word", || told(&api, "s", "StatusContested").len() == 1).await;
    // Others are served meanwhile, and this one is left alone.
    service(&api, "other", LATER);
    until("another Service", || address(&api, "other") == "10.0.0.1").await;
    assert_eq!(address(&api, "s"), "172.16.0.3");
    assert_eq!(status_writes(&api.writes()), 1);
    running.stop().await;
}

/// Reservations and conflicts are followed while the controller runs.
#[tokio::test]
async fn what_is_reserved_or_in_conflict_goes_to_nobody_else() {
    let api = Api::default();
    let (client, _gate) = api.attach().await;
    pool(&api, "10.0.0.0-10.0.0.4");
    let reserve = |addresses: Value, quota: usize| {
        json!({
            "apiVersion": "ferrolb.io/v1alpha1", "kind": "AddressReservation",
            "metadata": {"namespace": NAMESPACE, "name": "r"},
            "spec": {"addresses": addresses, "service": {"namespace": "demo", "name": "mine"},
                     "quotas": [{"namespace": "demo", "maxAddresses": quota}]},
        })
    };
    api.put("addressreservations", reserve(json!(["10.0.0.0"]), 3));
    api.put(
        "configurationstates",
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "ConfigurationState",
            "metadata": {"namespace": NAMESPACE, "name": "speaker-a",
                         "annotations": {"ferrolb.io/address-conflicts": "10.0.0.1"}},
        }),
    );
    let running = Running::start(&api, client, "controller-1");
    service(&api, "a", EARLIER);
    until("what is neither reserved nor in conflict", || address(&api, "a") == "10.0.0.2").await;
    service(&api, "mine", LATER);
    until("what is reserved", || address(&api, "mine") == "10.0.0.0").await;
    service(&api, "b", LATER);
    until("the third address", || address(&api, "b") == "10.0.0.3").await;
    service(&api, "c", LATER);
    until("the quota", || condition(&api, "c")["reason"] == "QuotaExceeded").await;
    api.put("addressreservations", reserve(json!(["10.0.0.0"]), 5));
    until("the fourth address", || address(&api, "c") == "10.0.0.4").await;
    service(&api, "d", LATER);
    until("no free address", || condition(&api, "d")["reason"] == "Exhausted").await;
    api.change(
        "configurationstates",
        NAMESPACE,
        "speaker-a",
        &json!({"metadata": {"annotations": {"ferrolb.io/address-conflicts": null}}}),
    );
    until("the conflict is over", || address(&api, "d") == "10.0.0.1").await;
    until("the count", || running.metric(r#"metallb_allocator_addresses_in_use_total{pool="default"} 5"#))
        .await;
    running.stop().await;
}
