//! The writer against a scripted API server.

use ferrolb_api::v1alpha1::BGPSessionStatus;
use ferrolb_api::v1beta1::{ServiceL2InterfaceStatus, ServiceL2StatusStatus};
use ferrolb_core::planner::Protocol;
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::pool;
use ferrolb_runtime::Readiness;
use prometheus::Registry;
use serde_json::Value;

use super::*;
use crate::testing::api::Api as Server;
use crate::testing::until;

const SYSTEM: &str = "metallb-system";

struct Bench {
    server: Server,
    report: watch::Sender<Option<Arc<Report>>>,
    sessions: watch::Sender<Option<Sessions>>,
    shutdown: Shutdown,
}

fn key() -> ServiceKey {
    ServiceKey { namespace: "default".to_owned(), name: "hello".to_owned() }
}

fn announcing(interface: &str) -> Report {
    let status = ServiceL2StatusStatus {
        node: Some("node-1".to_owned()),
        service_name: Some("hello".to_owned()),
        service_namespace: Some("default".to_owned()),
        interfaces: vec![ServiceL2InterfaceStatus { name: Some(interface.to_owned()) }],
    };
    let event = Event::NodeAssigned { node: "node-1".to_owned(), protocol: Protocol::Layer2 };
    let service = ServiceReport {
        uid: "service-uid".to_owned(),
        layer2: Some(status),
        bgp: None,
        events: BTreeSet::from([event]),
    };
    Report {
        diagnostics: Vec::new(),
        services: Some(BTreeMap::from([(key(), Arc::new(service))])),
        conflicts: BTreeSet::new(),
        living: BTreeSet::from(["node-1".to_owned()]),
    }
}

fn silent() -> Report {
    Report { services: Some(BTreeMap::new()), ..announcing("") }
}

fn telling(event: Event) -> Report {
    let events = BTreeSet::from([event]);
    let service = ServiceReport { uid: "service-uid".to_owned(), layer2: None, bgp: None, events };
    Report { services: Some(BTreeMap::from([(key(), Arc::new(service))])), ..silent() }
}

impl Bench {
    async fn new() -> Self {
        let (server, client) = Server::serve().await;
        server.put("pods", json!({"metadata": {"name": "speaker-x", "namespace": SYSTEM, "uid": "pod-uid"}}));
        let (report, reported) = watch::channel(None);
        let (sessions, standing) = watch::channel(None);
        let shutdown = Shutdown::default();
        let writer = Writer {
            client,
            namespace: SYSTEM.to_owned(),
            node: "node-1".to_owned(),
            pod: "speaker-x".to_owned(),
            report: reported,
            sessions: standing,
            metrics: Arc::new(Metrics::register(&Registry::new()).unwrap()),
        };
        let watches = Watches::new(Readiness::default(), shutdown.clone());
        tokio::spawn(writer.run(watches, shutdown.clone()));
        Self { server, report, sessions, shutdown }
    }

    fn say(&self, report: Report) {
        self.report.send_replace(Some(Arc::new(report)));
    }

    fn statuses(&self) -> Vec<Value> {
        self.server.list("servicel2statuses")
    }

    async fn told(&self, interface: &str) {
        until("status", || {
            let statuses = self.statuses();
            statuses.len() == 1 && statuses[0]["status"]["interfaces"] == json!([{"name": interface}])
        })
        .await;
    }

    /// Nothing more is written once everything is said.
    async fn is_at_rest(&self) {
        until("rest", || {
            let before = self.server.writes();
            std::thread::sleep(Duration::from_millis(1));
            before.is_empty()
        })
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(self.server.writes(), Vec::<String>::new());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

#[tokio::test]
async fn sessions_have_an_object_each_written_on_change_and_gone_with_the_peer() {
    let bench = Bench::new().await;
    bench.say(silent());
    let session = |sent| BGPSessionStatus {
        node: "node-1".to_owned(),
        peer: "router".to_owned(),
        address: "192.168.10.1:179".to_owned(),
        prefixes_sent: sent,
        ..BGPSessionStatus::default()
    };
    let say = |sent| bench.sessions.send_replace(Some([("router".to_owned(), session(sent))].into()));
    let objects = || bench.server.list("bgpsessions");
    let sent = || objects().first().map(|it| it["status"]["prefixesSent"].clone());
    say(1);
    until("an object", || sent() == Some(json!(1))).await;
    let metadata = objects()[0]["metadata"].clone();
    assert!(metadata["name"].as_str().unwrap().starts_with("node-1-router-"));
    assert_eq!(
        (&metadata["labels"]["metallb.io/node"], &metadata["ownerReferences"][0]["uid"]),
        (&json!("node-1"), &json!("pod-uid"))
    );
    bench.server.writes();
    // Many changes in a moment are one write.
    for count in 2..50 {
        say(count);
    }
    until("the last one", || sent() == Some(json!(49))).await;
    assert!(bench.server.writes().len() <= 2, "a burst is no stream of writes");
    bench.is_at_rest().await;
    bench.server.remove("bgpsessions", SYSTEM, metadata["name"].as_str().unwrap());
    until("the object again", || sent() == Some(json!(49))).await;
    bench.sessions.send_replace(Some(Sessions::new()));
    until("no object", || objects().is_empty()).await;
}

#[tokio::test]
async fn what_is_announced_is_said_once_and_taken_back() {
    let bench = Bench::new().await;
    bench.say(announcing("ens18"));
    bench.told("ens18").await;
    let status = &bench.statuses()[0];
    let metadata = &status["metadata"];
    assert!(metadata["name"].as_str().unwrap().starts_with("l2-"));
    assert_eq!(
        metadata["labels"],
        json!({
            "metallb.io/node": "node-1",
            "metallb.io/service-name": "hello",
            "metallb.io/service-namespace": "default",
        })
    );
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "speaker-x", "uid": "pod-uid"}]);
    assert_eq!(metadata["ownerReferences"], owner);
    assert_eq!(status["status"]["node"], "node-1");

    until("event", || !bench.server.list("events").is_empty()).await;
    let event = &bench.server.list("events")[0];
    assert_eq!(event["reason"], "nodeAssigned");
    assert_eq!(event["message"], "announcing from node \"node-1\" with protocol \"layer2\"");
    assert_eq!(event["source"]["component"], "metallb-speaker");
    assert_eq!(event["involvedObject"]["uid"], "service-uid");

    until("state", || {
        bench.server.list("configurationstates").iter().any(|it| it["status"]["result"] == "Valid")
    })
    .await;
    let state = &bench.server.list("configurationstates")[0];
    assert_eq!(state["metadata"]["name"], "speaker-node-1");
    assert_eq!(
        state["metadata"]["labels"],
        json!({"metallb.io/component-type": "speaker", "metallb.io/node-name": "node-1"})
    );
    assert_eq!(state["status"]["conditions"][0]["type"], "configReconcilerValid");
    bench.is_at_rest().await;

    // The same again is nothing new; other interfaces are a patch.
    bench.say(announcing("ens18"));
    bench.is_at_rest().await;
    let name = bench.statuses()[0]["metadata"]["name"].clone();
    bench.say(announcing("ens19"));
    bench.told("ens19").await;
    assert_eq!(bench.statuses()[0]["metadata"]["name"], name);
    bench.say(silent());
    until("withdrawal", || bench.statuses().is_empty()).await;
    bench.is_at_rest().await;
    assert_eq!(bench.server.list("events").len(), 1);
}

#[tokio::test]
async fn what_others_change_comes_back() {
    let bench = Bench::new().await;
    bench.say(announcing("ens18"));
    bench.told("ens18").await;
    let mut edited = bench.statuses()[0].clone();
    edited["status"]["interfaces"] = json!([{"name": "eth7"}]);
    bench.server.put("servicel2statuses", edited);
    bench.told("ens18").await;
    let name = bench.statuses()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    bench.server.remove("servicel2statuses", SYSTEM, &name);
    bench.told("ens18").await;

    until("state", || !bench.server.list("configurationstates").is_empty()).await;
    bench.server.remove("configurationstates", SYSTEM, "speaker-node-1");
    let valid =
        || bench.server.list("configurationstates").iter().any(|it| it["status"]["result"] == "Valid");
    until("state again", valid).await;
    bench.is_at_rest().await;
}

#[tokio::test]
async fn a_wrong_configuration_is_named_and_cleared() {
    let bench = Bench::new().await;
    let wrong = Resources::default().with_pools([pool("bad", &["192.168.10.220-192.168.10.200"])]);
    let diagnostics = ferrolb_core::config::compile(&wrong).diagnostics;
    bench.say(Report { diagnostics, ..silent() });
    let state =
        || bench.server.list("configurationstates").into_iter().next().unwrap_or_default()["status"].clone();
    until("invalid", || state()["result"] == "Invalid").await;
    assert!(state()["errorSummary"].as_str().unwrap().contains("\"bad\""), "{}", state());
    assert_eq!(state()["conditions"][0]["reason"], "ConfigurationError");
    bench.is_at_rest().await;
    bench.say(silent());
    until("valid", || state()["result"] == "Valid").await;
    assert_eq!(state()["errorSummary"], "");
}

#[tokio::test]
async fn an_address_without_its_interface_is_a_warning() {
    let bench = Bench::new().await;
    let failed =
        Event::AnnounceFailed { node: "node-1".to_owned(), address: "192.168.10.200".parse().unwrap() };
    bench.say(telling(failed));
    until("event", || !bench.server.list("events").is_empty()).await;
    let event = &bench.server.list("events")[0];
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("announceFailed")));
    let message = "the interfaces specified by LB IP \"192.168.10.200\" doesn't exist in assigned node \"node-1\" \
                   with protocol \"layer2\"";
    assert_eq!(event["message"], message);
    bench.is_at_rest().await;
    assert!(bench.statuses().is_empty());
}

#[tokio::test]
async fn a_conflict_is_told_once_with_the_mac_and_again_when_it_is_another() {
    let bench = Bench::new().await;
    let conflict = |last: u8| {
        let mac = [2, 0, 0, 0, 0, last].into();
        telling(Event::AddressConflict { address: "192.168.10.200".parse().unwrap(), mac })
    };
    for (last, count) in [(9, 1), (9, 1), (8, 2)] {
        bench.say(conflict(last));
        until("event", || bench.server.list("events").len() == count).await;
        bench.is_at_rest().await;
    }
    let events = bench.server.list("events");
    assert!(events.iter().all(|it| it["reason"] == "AddressConflict" && it["type"] == "Warning"));
    let told = |mac: &str| events.iter().any(|it| it["message"].as_str().unwrap().contains(mac));
    assert!(told("02:00:00:00:00:09") && told("02:00:00:00:00:08"), "{events:?}");
}

#[tokio::test]
async fn failures_are_tried_again_and_nothing_is_deleted_before_the_first_plan() {
    let bench = Bench::new().await;
    bench.server.put(
        "servicel2statuses",
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "ServiceL2Status",
            "metadata": {"name": "l2-old", "namespace": SYSTEM, "labels": {
                "metallb.io/node": "node-1", "metallb.io/service-name": "gone", "metallb.io/service-namespace": "default",
            }},
        }),
    );
    bench.say(Report { services: None, ..silent() });
    until("state", || !bench.server.list("configurationstates").is_empty()).await;
    bench.is_at_rest().await;
    assert_eq!(bench.statuses().len(), 1);

    bench.server.set_broken(true);
    bench.say(announcing("ens18"));
    until("attempts", || bench.server.writes().len() > 1).await;
    bench.server.set_broken(false);
    bench.told("ens18").await;
    until("event", || !bench.server.list("events").is_empty()).await;
}

/// The controller gives such an address to nobody as long as a speaker says so.
#[tokio::test]
async fn addresses_of_strangers_are_named_until_they_are_clear() {
    let bench = Bench::new().await;
    let named = |addresses: &[&str]| Report {
        conflicts: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        ..silent()
    };
    let annotation = || {
        let states = bench.server.list("configurationstates");
        states.first().map(|it| it["metadata"]["annotations"]["ferrolb.io/address-conflicts"].clone())
    };
    for (addresses, expected) in [
        (&["192.168.10.201", "192.168.10.200"][..], json!("192.168.10.200,192.168.10.201")),
        (&["fd00::1"], json!("fd00::1")),
        (&[], json!("")),
    ] {
        bench.say(named(addresses));
        until("the list", || annotation() == Some(expected.clone())).await;
        bench.is_at_rest().await;
    }
}
