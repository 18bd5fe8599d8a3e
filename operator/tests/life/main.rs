//! The operator's life against a scripted API server: install, report, repair, remove.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected ends there")]

mod api;

use std::collections::BTreeSet;
use std::time::Duration;

use api::Api;
use clap::Parser;
use ferrolb_operator::Args;
use ferrolb_runtime::{Process, Readiness, Shutdown};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const METALLB: &str = "/apis/metallb.io/v1beta1/namespaces/metallb-system/metallbs/metallb";
const SPEAKER: &str = "/apis/apps/v1/namespaces/metallb-system/daemonsets/speaker";
const CONTROLLER: &str = "/apis/apps/v1/namespaces/metallb-system/deployments/controller";
const WEBHOOK: &str = "/apis/apps/v1/namespaces/metallb-system/deployments/metallb-operator-webhook-server";
const SECRET: &str = "/api/v1/namespaces/metallb-system/secrets/metallb-memberlist";
const EXCLUDE: &str = "/api/v1/namespaces/metallb-system/configmaps/metallb-excludel2";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/metallbs.metallb.io";
const SPEAKER_ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/metallb-system/roles/speaker";
const PEER: &str = "/apis/metallb.io/v1beta2/namespaces/metallb-system/bgppeers/router";
const CLUSTER_ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/metallb-system:speaker";

struct Running {
    api: Api,
    shutdown: Shutdown,
    task: JoinHandle<anyhow::Result<()>>,
}

fn start(api: &Api) -> Running {
    api.put(CRD, json!({"metadata": {}, "spec": {
        "group": "metallb.io", "scope": "Namespaced", "names": {"kind": "MetalLB", "plural": "metallbs"}, "versions": [],
    }}));
    let shutdown = Shutdown::default();
    let process = Process {
        client: api.client(),
        namespace: "metallb-system".into(),
        readiness: Readiness::default(),
        metrics: Registry::new(),
        shutdown: shutdown.clone(),
    };
    let args =
        Args::parse_from(["manager", "--image", "ferrolb.io/ferrolb:v0.1.0", "--pod-name", "operator-1"]);
    let task = tokio::spawn(ferrolb_operator::run(args, process));
    Running { api: api.clone(), shutdown, task }
}

/// Waits for a condition on the API server's objects.
async fn until(what: &str, api: &Api, holds: impl Fn(&Api) -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !holds(api) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "gave up waiting: {what}\n{:#?}", api.get(METALLB));
}

fn condition(api: &Api, type_: &str) -> Option<(String, String)> {
    let object = api.get(METALLB)?;
    let conditions = object["status"]["conditions"].as_array()?.clone();
    let found = conditions.iter().find(|condition| condition["type"] == type_)?;
    Some((found["status"].as_str()?.into(), found["reason"].as_str()?.into()))
}

fn is_true(type_: &'static str) -> impl Fn(&Api) -> bool {
    move |api| condition(api, type_).is_some_and(|(status, _)| status == "True")
}

/// The kubelets and controllers of a cluster do their work at once.
fn roll_out(api: &Api) {
    for (path, pods) in [(CONTROLLER, 1), (WEBHOOK, 2), (SPEAKER, 3)] {
        let mut workload = api.get(path).unwrap();
        workload["status"] = json!({
            "observedGeneration": workload["metadata"]["generation"],
            "replicas": pods, "updatedReplicas": pods, "availableReplicas": pods,
            "desiredNumberScheduled": pods, "currentNumberScheduled": pods, "numberMisscheduled": 0,
            "numberReady": pods, "numberAvailable": pods, "updatedNumberScheduled": pods,
        });
        api.put(path, workload);
    }
}

async fn installed() -> Running {
    let api = Api::new();
    let running = start(&api);
    api.put(METALLB, json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
    until("progress", &api, is_true("Progressing")).await;
    roll_out(&api);
    until("available", &api, is_true("Available")).await;
    running
}

#[tokio::test]
async fn one_object_installs_everything_and_the_status_follows() {
    let running = installed().await;
    let paths = running.api.paths();
    // The object, its CRD, the lease and 23 operands.
    assert_eq!(paths.len(), 26, "{paths:#?}");
    for type_ in ["Progressing", "Degraded"] {
        assert_eq!(condition(&running.api, type_), Some(("False".into(), "AsExpected".into())));
    }
    let owner = |path: &str| running.api.get(path).unwrap()["metadata"]["ownerReferences"][0].clone();
    let uid = |path: &str| running.api.get(path).unwrap()["metadata"]["uid"].clone();
    assert_eq!(owner(SPEAKER)["uid"], uid(METALLB));
    assert_eq!(owner(CLUSTER_ROLE)["uid"], uid(CRD));

    running.shutdown.begin();
    running.task.await.unwrap().unwrap();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/metallb-system/leases/metallb.io.metallboperator";
    assert_eq!(running.api.get(lease).unwrap()["spec"]["holderIdentity"], "", "given back");
}

#[tokio::test]
async fn drift_is_repaired_and_nothing_else_is_written() {
    let Running { api, .. } = installed().await;
    let key = |api: &Api| api.get(SECRET).map(|secret| secret["data"]["secretkey"].clone());
    let before = key(&api);
    let written = api.writes().len();

    // Status alone is no drift; the repairs after it show that it was passed over.
    let mut speaker = api.get(SPEAKER).unwrap();
    speaker["status"]["numberMisscheduled"] = json!(1);
    api.put(SPEAKER, speaker);

    api.remove(SECRET);
    until("the Secret is back", &api, |api| key(api).is_some()).await;
    assert_eq!(key(&api), before, "with the key of the running speakers");

    let mut exclude = api.get(EXCLUDE).unwrap();
    exclude["data"]["excludel2.yaml"] = json!("nothing");
    api.put(EXCLUDE, exclude);
    until("the ConfigMap is restored", &api, |api| {
        api.get(EXCLUDE).unwrap()["data"]["excludel2.yaml"].as_str().unwrap().contains("^veth.*")
    })
    .await;

    api.remove(CLUSTER_ROLE);
    until("the ClusterRole is back", &api, |api| api.get(CLUSTER_ROLE).is_some()).await;

    let repaired: BTreeSet<String> = api.writes().drain(written..).collect();
    let expected = [SECRET, EXCLUDE, CLUSTER_ROLE].map(|path| format!("PATCH {path}"));
    assert_eq!(repaired, BTreeSet::from(expected));
}

#[tokio::test]
async fn a_refused_object_leaves_what_runs_and_says_why() {
    let Running { api, .. } = installed().await;
    let mut metallb = api.get(METALLB).unwrap();
    metallb["spec"] = json!({"bgpBackend": "frr-k8s-external", "logLevel": "debug"});
    api.put(METALLB, metallb);
    until("degraded", &api, is_true("Degraded")).await;
    assert_eq!(condition(&api, "Degraded").unwrap().1, "UnsupportedBackend");
    assert_eq!(condition(&api, "Available").unwrap().0, "True");
    let args =
        |api: &Api| api.get(SPEAKER).unwrap()["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    assert!(args(&api).as_array().unwrap().contains(&json!("--log-level=info")));

    let mut metallb = api.get(METALLB).unwrap();
    metallb["spec"]["bgpBackend"] = Value::Null;
    api.put(METALLB, metallb);
    until("the change is applied", &api, |api| {
        args(api).as_array().unwrap().contains(&json!("--log-level=debug"))
    })
    .await;
    until("not degraded", &api, |api| condition(api, "Degraded").unwrap().0 == "False").await;
    assert_eq!(condition(&api, "Progressing").unwrap().0, "True", "new pods are on their way");
}

#[tokio::test]
async fn without_the_object_cluster_scoped_operands_go() {
    let Running { api, .. } = installed().await;
    api.remove(METALLB);
    let cluster_scoped =
        |api: &Api| api.paths().iter().filter(|path| !path.contains("/namespaces/") && *path != CRD).count();
    until("cluster-scoped operands are gone", &api, |api| cluster_scoped(api) == 0).await;
    // Namespaced ones are the garbage collector's, which this API server does not have.
    assert!(api.get(SPEAKER).is_some());
}

#[tokio::test]
async fn speakers_may_read_the_secrets_that_peers_name_as_long_as_they_do() {
    let running = installed().await;
    let api = &running.api;
    let named = |api: &Api| {
        let rules = api.get(SPEAKER_ROLE).unwrap()["rules"].as_array().cloned().unwrap_or_default();
        let secrets = rules.into_iter().find(|rule| rule["resources"] == json!(["secrets"]));
        secrets.map(|rule| rule["resourceNames"].clone())
    };
    assert_eq!(named(api), None);
    let peer = |secret: &str| {
        json!({
            "apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer",
            "metadata": {"name": "router", "namespace": "metallb-system"},
            "spec": {"myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.1", "passwordSecret": {"name": secret}},
        })
    };
    api.put(PEER, peer("first"));
    until("the right", api, |api| named(api) == Some(json!(["first"]))).await;
    api.put(PEER, peer("second"));
    until("the other right", api, |api| named(api) == Some(json!(["second"]))).await;
    api.remove(PEER);
    until("no right", api, |api| named(api).is_none()).await;
    running.shutdown.begin();
    running.task.await.unwrap().unwrap();
}
