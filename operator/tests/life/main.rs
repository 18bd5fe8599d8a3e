//! The operator's life against a scripted API server: install, report, repair, remove.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected ends there")]

mod api;
mod killed;

use std::collections::BTreeSet;
use std::time::Duration;

use api::Api;
use clap::Parser;
use ferrolb_operator::Args;
use ferrolb_runtime::admin::Pages;
use ferrolb_runtime::{Process, Readiness, Shutdown};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const METALLB: &str = "/apis/metallb.io/v1beta1/namespaces/metallb-system/metallbs/metallb";
const SPEAKER: &str = "/apis/apps/v1/namespaces/metallb-system/daemonsets/speaker";
const CONTROLLER: &str = "/apis/apps/v1/namespaces/metallb-system/deployments/controller";
const WEBHOOK: &str = "/apis/apps/v1/namespaces/metallb-system/deployments/metallb-operator-webhook-server";
const REGISTRATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/metallb-webhook-configuration";
const SECRET: &str = "/api/v1/namespaces/metallb-system/secrets/metallb-memberlist";
const EXCLUDE: &str = "/api/v1/namespaces/metallb-system/configmaps/metallb-excludel2";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/metallbs.metallb.io";
const PEER_CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bgppeers.metallb.io";
const SPEAKER_ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/metallb-system/roles/speaker";
const PEER: &str = "/apis/metallb.io/v1beta2/namespaces/metallb-system/bgppeers/router";
const NAMESPACE: &str = "/api/v1/namespaces/metallb-system";
const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/metallb-system/rolebindings/speaker";
const PODS: &str = "/api/v1/namespaces/metallb-system/pods";
const CLUSTER_ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/metallb-system:speaker";

struct Running {
    api: Api,
    shutdown: Shutdown,
    task: JoinHandle<anyhow::Result<()>>,
}

fn start(api: &Api) -> Running {
    let args =
        Args::parse_from(["manager", "--image", "ferrolb.io/ferrolb:v0.1.0", "--pod-name", "operator-1"]);
    start_with(api, args)
}

fn start_with(api: &Api, args: Args) -> Running {
    api.put(CRD, json!({"metadata": {}, "spec": {
        "group": "metallb.io", "scope": "Namespaced", "names": {"kind": "MetalLB", "plural": "metallbs"}, "versions": [],
    }}));
    api.put(NAMESPACE, json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}));
    let shutdown = Shutdown::default();
    let process = Process {
        client: api.client(),
        namespace: "metallb-system".into(),
        readiness: Readiness::default(),
        metrics: Registry::new(),
        pages: Pages::default(),
        shutdown: shutdown.clone(),
    };
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
    // The object, its CRD, its namespace, the lease and 25 operands.
    assert_eq!(paths.len(), 29, "{paths:#?}");
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
async fn available_means_that_the_api_server_has_the_webhooks_word() {
    let api = Api::new();
    let Running { .. } = start(&api);
    api.unreach(Some("failed calling webhook: x509: certificate signed by unknown authority"));
    api.put(METALLB, json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
    until("progress", &api, is_true("Progressing")).await;
    roll_out(&api);
    until("three attempts", &api, |api| api.dry_runs() >= 3).await;
    let available = api.get(METALLB).unwrap()["status"]["conditions"][0].clone();
    assert_eq!((&available["type"], &available["status"]), (&json!("Available"), &json!("False")));
    let message = available["message"].as_str().unwrap();
    assert!(
        message.contains("2 of 2 pods ready, the API server does not get its word: failed calling"),
        "{message}"
    );

    api.unreach(None);
    until("available", &api, is_true("Available")).await;
    let proven = api.dry_runs();
    // Another registration is another matter; other changes are none.
    let mut registration = api.get(REGISTRATION).unwrap();
    registration["metadata"]["annotations"] = json!({"looked-at": "1"});
    api.put(REGISTRATION, registration);
    until("it is proven anew", &api, |api| api.dry_runs() > proven).await;
    assert_eq!(condition(&api, "Available").unwrap().0, "True");
    let proven = api.dry_runs();
    api.remove(EXCLUDE);
    until("the repair", &api, |api| api.get(EXCLUDE).is_some()).await;
    assert_eq!(api.dry_runs(), proven);
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
    metallb["spec"] = json!({"bgpBackend": "frr-k8s-external", "loadBalancerClass": "lb"});
    api.put(METALLB, metallb);
    until("degraded", &api, is_true("Degraded")).await;
    assert_eq!(condition(&api, "Degraded").unwrap().1, "UnsupportedBackend");
    assert_eq!(condition(&api, "Available").unwrap().0, "True");
    let args =
        |api: &Api| api.get(SPEAKER).unwrap()["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    assert!(!args(&api).as_array().unwrap().contains(&json!("--lb-class=lb")));

    let mut metallb = api.get(METALLB).unwrap();
    metallb["spec"]["bgpBackend"] = Value::Null;
    api.put(METALLB, metallb);
    until("the change is applied", &api, |api| {
        args(api).as_array().unwrap().contains(&json!("--lb-class=lb"))
    })
    .await;
    until("not degraded", &api, |api| condition(api, "Degraded").unwrap().0 == "False").await;
    assert_eq!(condition(&api, "Progressing").unwrap().0, "True", "new pods are on their way");
}

#[tokio::test]
async fn without_the_object_its_operands_go_and_rights_go_last() {
    let Running { api, .. } = installed().await;
    let before = api.writes().len();
    api.remove(METALLB);
    until("operands are gone, without a garbage collector too", &api, |api| {
        api.get(SPEAKER).is_none() && api.get(WEBHOOK).is_none() && api.get(CLUSTER_ROLE).is_none()
    })
    .await;
    let writes = api.writes().split_off(before);
    let at = |path: &str| writes.iter().position(|it| *it == format!("DELETE {path}")).unwrap();
    assert!(at(SPEAKER) < at(CLUSTER_ROLE), "{writes:?}");
}

#[tokio::test]
async fn a_webhook_that_is_gone_is_asked_for_no_conversion() {
    let Running { api, .. } = installed().await;
    let converted_by = |service: &str| {
        json!({"metadata": {}, "spec": {
            "group": "metallb.io", "scope": "Namespaced", "names": {"kind": "BGPPeer", "plural": "bgppeers"}, "versions": [],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
                "service": {"namespace": "metallb-system", "name": service}}}},
        }})
    };
    let releases = |api: &Api| api.writes().iter().filter(|it| **it == format!("PATCH {PEER_CRD}")).count();
    api.put(PEER_CRD, converted_by("metallb-webhook-service"));
    let labels = api.get(SPEAKER).unwrap()["metadata"]["labels"].clone();
    api.remove(METALLB);
    until("the webhook is taken out", &api, |api| releases(api) > 0).await;
    let writes = api.writes();
    let at = |write: String| writes.iter().position(|it| *it == write).unwrap();
    assert!(at(format!("DELETE {WEBHOOK}")) < at(format!("PATCH {PEER_CRD}")), "while the webhook was there");
    // Somebody else's is not ours to take out.
    let before = releases(&api);
    api.put(PEER_CRD, converted_by("another"));
    let passed = "/apis/rbac.authorization.k8s.io/v1/clusterroles/metallb-system:passed";
    // The second pass begins when the first is at its end.
    for _ in 0..2 {
        let ours = json!([{"manager": "metallb-operator", "operation": "Apply"}]);
        api.put(passed, json!({"metadata": {"labels": labels, "managedFields": ours}}));
        until("one more pass", &api, |api| api.get(passed).is_none()).await;
    }
    assert_eq!(releases(&api), before);
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

#[tokio::test]
async fn a_pod_that_cannot_start_degrades_by_name_and_is_told_as_an_event() {
    let Running { api, .. } = installed().await;
    until("told that it is available", &api, |api| api.events("Available").len() == 1).await;
    api.put(
        &format!("{PODS}/speaker-x"),
        json!({"metadata": {"namespace": "metallb-system", "labels": {"app": "metallb", "component": "speaker"}},
            "spec": {"nodeName": "node-1", "containers": []},
            "status": {"containerStatuses": [{"name": "speaker", "image": "gone:1", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
    );
    let mut speaker = api.get(SPEAKER).unwrap();
    speaker["status"]["numberAvailable"] = json!(2);
    api.put(SPEAKER, speaker);
    until("degraded", &api, is_true("Degraded")).await;
    let status = api.get(METALLB).unwrap()["status"].clone();
    let text = status["conditions"].to_string();
    assert!(
        text.contains("pod speaker-x on node-1, container speaker: ImagePullBackOff: cannot pull gone:1"),
        "{text}"
    );
    let speaker =
        json!({"name": "speaker", "kind": "DaemonSet", "desired": 3, "ready": 2, "version": "v0.1.0"});
    assert!(status["components"].as_array().unwrap().contains(&speaker), "{status}");
    until("told", &api, |api| api.events("Degraded").iter().any(|text| text.contains("gone:1"))).await;

    api.remove(&format!("{PODS}/speaker-x"));
    roll_out(&api);
    until("told that it is over", &api, |api| api.events("Recovered").len() == 1).await;
}

#[tokio::test]
async fn a_namespace_that_refuses_the_speakers_is_named() {
    let api = Api::new();
    let _running = start(&api);
    api.put(NAMESPACE, json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}));
    api.put(METALLB, json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
    until("degraded", &api, is_true("Degraded")).await;
    assert_eq!(condition(&api, "Degraded").unwrap().1, "PodSecurityForbids");
    let text = api.get(METALLB).unwrap()["status"].to_string();
    assert!(text.contains("kubectl label --overwrite namespace metallb-system"), "{text}");
    assert!(api.get(CONTROLLER).is_some());
    assert!(api.get(SPEAKER).is_none(), "it was looked at before");

    api.put(NAMESPACE, json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}));
    until("speakers", &api, |api| api.get(SPEAKER).is_some()).await;
    until("recovered", &api, |api| condition(api, "Degraded").unwrap().0 == "False").await;
}

/// Three nodes want a speaker, none is made.
fn lack_speakers(api: &Api) {
    let mut speaker = api.get(SPEAKER).unwrap();
    speaker["status"] = json!({
        "observedGeneration": speaker["metadata"]["generation"], "desiredNumberScheduled": 3,
        "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
    });
    api.put(SPEAKER, speaker);
}

#[tokio::test]
async fn speakers_whose_pods_are_refused_stall_with_the_refusal() {
    let Running { api, .. } = installed().await;
    api.put(
        "/api/v1/namespaces/metallb-system/events/speaker.1",
        json!({"metadata": {"namespace": "metallb-system"}, "involvedObject": {"kind": "DaemonSet", "name": "speaker"},
            "reason": "FailedCreate", "message": "Error creating: exceeded quota", "lastTimestamp": "2026-01-01T00:00:00Z"}),
    );
    lack_speakers(&api);
    until("degraded", &api, is_true("Degraded")).await;
    assert_eq!(condition(&api, "Degraded").unwrap().1, "RolloutStalled");
    let text = api.get(METALLB).unwrap()["status"].to_string();
    assert!(text.contains("DaemonSet speaker: its pods are refused: exceeded quota"), "{text}");
    roll_out(&api);
    until("recovered", &api, |api| condition(api, "Degraded").unwrap().0 == "False").await;
}

#[tokio::test]
async fn while_paused_nothing_is_written_but_the_status() {
    let Running { api, .. } = installed().await;
    let mut metallb = api.get(METALLB).unwrap();
    metallb["spec"] = json!({"paused": true, "logLevel": "debug"});
    api.put(METALLB, metallb);
    until("paused", &api, |api| condition(api, "Progressing").unwrap().1 == "Paused").await;
    let written = api.writes().len();
    api.remove(EXCLUDE);
    // What comes after it in the watch is looked at as well.
    let mut speaker = api.get(SPEAKER).unwrap();
    speaker["status"]["numberAvailable"] = json!(2);
    api.put(SPEAKER, speaker);
    until("looked at", &api, |api| condition(api, "Available").unwrap().0 == "False").await;
    assert!(api.writes()[written..].iter().all(|write| write == &format!("PATCH {METALLB}/status")));

    let mut metallb = api.get(METALLB).unwrap();
    metallb["spec"] = json!({});
    api.put(METALLB, metallb);
    until("repaired", &api, |api| api.get(EXCLUDE).is_some()).await;
}

#[tokio::test]
async fn what_others_made_under_our_names_is_taken_over() {
    let api = Api::new();
    let entry = |manager: &str| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:template": {}}}})
    };
    api.put(SPEAKER, json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "metallb-system", "managedFields": [entry("kubectl-client-side-apply"), entry("kube-controller-manager")]},
        "spec": {"selector": {}, "template": {}}}));
    let _running = start(&api);
    api.put(METALLB, json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
    until("told", &api, |api| api.events("OperandTakenOver").len() == 1).await;
    let told = api.events("OperandTakenOver");
    assert!(
        told[0].contains("DaemonSet speaker") && told[0].contains("kubectl-client-side-apply"),
        "{told:?}"
    );
    let managers: Vec<String> = api.get(SPEAKER).unwrap()["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            format!("{} {}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())
        })
        .collect();
    assert_eq!(managers, ["kube-controller-manager Update", "metallb-operator Apply"]);
}

#[tokio::test]
async fn a_field_that_cannot_change_has_the_object_made_anew_or_is_named() {
    let api = Api::new();
    for path in [BINDING, SPEAKER] {
        api.put(path, json!({"metadata": {"namespace": "metallb-system", "name": "speaker"}, "spec": {}}));
        api.freeze(path);
    }
    let uid = |path: &str| api.get(path).map(|object| object["metadata"]["uid"].clone());
    let (binding, speaker) = (uid(BINDING), uid(SPEAKER));
    let _running = start(&api);
    api.put(METALLB, json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
    until("degraded", &api, is_true("Degraded")).await;
    assert_eq!(condition(&api, "Degraded").unwrap().1, "ImmutableField");
    let text = api.get(METALLB).unwrap()["status"].to_string();
    assert!(text.contains("kubectl -n metallb-system delete daemonset speaker"), "{text}");
    assert_ne!(uid(BINDING), binding, "made anew");
    assert_eq!(uid(SPEAKER), speaker, "its addresses would pause");
    assert!(api.get(WEBHOOK).is_some(), "the others are there");
}

#[tokio::test]
async fn a_copy_with_our_labels_is_left_alone() {
    let Running { api, .. } = installed().await;
    let copy = "/api/v1/namespaces/metallb-system/configmaps/copy";
    let mut object = api.get(EXCLUDE).unwrap();
    object["metadata"]["managedFields"] = json!([]);
    api.put(copy, object.clone());
    let ours = "/api/v1/namespaces/metallb-system/configmaps/old";
    object["metadata"]["managedFields"] = json!([{"manager": "metallb-operator", "operation": "Apply"}]);
    api.put(ours, object);
    until("what the operator applied once is pruned", &api, |api| api.get(ours).is_none()).await;
    assert!(api.get(copy).is_some());
}

#[tokio::test]
async fn who_edits_again_and_again_is_named_and_waited_for() {
    let Running { api, .. } = installed().await;
    let rival = json!({"manager": "argocd", "operation": "Apply", "time": "2026-01-01T00:00:00Z"});
    let is_ours =
        |api: &Api| api.get(EXCLUDE).unwrap()["data"]["excludel2.yaml"].as_str().unwrap().contains("^veth.*");
    let mut edits = 0;
    while condition(&api, "Degraded").unwrap().0 == "False" && edits < 100 {
        edits += 1;
        let mut exclude = api.get(EXCLUDE).unwrap();
        exclude["data"]["excludel2.yaml"] = json!(format!("edit {edits}"));
        let entries = exclude["metadata"]["managedFields"].as_array_mut().unwrap();
        if !entries.contains(&rival) {
            entries.push(rival.clone());
        }
        api.put(EXCLUDE, exclude);
        until("repaired or given up for now", &api, |api| is_ours(api) || is_true("Degraded")(api)).await;
    }
    assert_eq!(condition(&api, "Degraded").unwrap().1, "EditConflict");
    let text = api.get(METALLB).unwrap()["status"].to_string();
    assert!(text.contains("ConfigMap metallb-excludel2: argocd keeps changing"), "{text}");
    assert!(edits > 3, "a person may try something: {edits}");
    assert!(api.events("OperandRepaired").iter().all(|text| text.contains("edited by argocd")));
}

#[tokio::test]
async fn on_openshift_speakers_name_their_constraint_and_servers_follow_the_profile() {
    let api = Api::new();
    api.has_group("security.openshift.io");
    api.put(
        "/apis/config.openshift.io/v1/apiservers/cluster",
        json!({"metadata": {}, "spec": {"tlsSecurityProfile": {"type": "Intermediate"}}}),
    );
    let _running = start(&api);
    api.put(METALLB, json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"}}));
    until("speakers", &api, |api| api.get(SPEAKER).is_some()).await;
    let template = api.get(SPEAKER).unwrap()["spec"]["template"].clone();
    assert_eq!(template["metadata"]["annotations"]["openshift.io/required-scc"], "privileged");
    let args = template["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--tls-min-version=VersionTLS12")), "{args:?}");
}

#[tokio::test]
async fn an_object_in_another_namespace_is_told_and_installs_nothing() {
    const ELSEWHERE: &str = "/apis/metallb.io/v1beta1/namespaces/demo/metallbs/metallb";
    let Running { api, .. } = installed().await;
    let written = api.writes().len();
    let object =
        json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "demo"}});
    api.put(ELSEWHERE, object);
    let reason = |api: &Api| api.get(ELSEWHERE).unwrap()["status"]["conditions"][3]["reason"].clone();
    until("it is told", &api, |api| reason(api) == "IncorrectNamespace").await;
    // The next pass is done when this repair is.
    api.remove(EXCLUDE);
    until("the repair", &api, |api| api.get(EXCLUDE).is_some()).await;
    assert_eq!(condition(&api, "Available").unwrap().0, "True");
    let expected = [format!("PATCH {ELSEWHERE}/status"), format!("PATCH {EXCLUDE}")];
    assert_eq!(api.writes().split_off(written), expected);
}

#[tokio::test]
async fn monitors_come_and_go_with_the_wish_for_them() {
    const MONITORING: &str = "/apis/monitoring.coreos.com/v1/namespaces/metallb-system";
    let Running { api, .. } = installed().await;
    let before = api.paths();
    let ask = |metrics: Value| {
        let mut metallb = api.get(METALLB).unwrap();
        metallb["spec"] = json!({"metrics": metrics});
        api.put(METALLB, metallb);
    };
    ask(json!({"serviceMonitors": true, "prometheusRule": true}));
    let rule = format!("{MONITORING}/prometheusrules/ferrolb");
    until("the alerts", &api, |api| api.get(&rule).is_some()).await;
    let monitors =
        api.paths().into_iter().filter(|path| path.starts_with(&format!("{MONITORING}/servicemonitors/")));
    assert_eq!(monitors.count(), 4);
    assert_eq!(api.paths().len(), before.len() + 9, "with their Services");
    api.remove(&rule);
    until("the alerts again", &api, |api| api.get(&rule).is_some()).await;
    ask(json!({}));
    until("as before", &api, |api| api.paths() == before).await;
}

#[tokio::test]
async fn without_a_prometheus_operator_the_status_says_what_is_not_there() {
    let api = Api::new();
    api.lacks_group("monitoring.coreos.com");
    let Running { .. } = start(&api);
    api.put(METALLB, json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"namespace": "metallb-system"},
        "spec": {"metrics": {"serviceMonitors": true}}}));
    until("progress", &api, is_true("Progressing")).await;
    roll_out(&api);
    until("available", &api, is_true("Available")).await;
    let message = api.get(METALLB).unwrap()["status"]["conditions"][0]["message"].clone();
    let message = message.as_str().unwrap();
    assert!(
        message.ends_with("; no ServiceMonitor as long as no Prometheus operator brings that kind"),
        "{message}"
    );
    assert_eq!(condition(&api, "Degraded").unwrap().0, "False");
    assert!(api.paths().iter().all(|path| !path.contains("monitor")), "nor their Services");
}

#[tokio::test]
async fn as_long_as_rights_are_refused_running_processes_stay_as_they_are() {
    let Running { api, .. } = installed().await;
    let template = |api: &Api| api.get(SPEAKER).unwrap()["spec"]["template"].clone();
    let before = template(&api);
    api.forbid(CLUSTER_ROLE, true);
    let mut role = api.get(CLUSTER_ROLE).unwrap();
    role["rules"] = json!([]);
    api.put(CLUSTER_ROLE, role);
    until("degraded", &api, is_true("Degraded")).await;
    let mut metallb = api.get(METALLB).unwrap();
    metallb["spec"] = json!({"logLevel": "debug", "speakerConfig": {"annotations": {"new": "1"}}});
    api.put(METALLB, metallb);
    // What grants nothing and runs nowhere is done.
    let level = "/api/v1/namespaces/metallb-system/configmaps/metallb-log-level";
    until("the log level", &api, |api| api.get(level).unwrap()["data"]["logLevel"] == "debug").await;
    until("a status of the new object", &api, |api| {
        let metallb = api.get(METALLB).unwrap();
        metallb["status"]["conditions"][3]["observedGeneration"] == metallb["metadata"]["generation"]
    })
    .await;
    assert_eq!(template(&api), before);
    let degraded = api.get(METALLB).unwrap()["status"]["conditions"][3].clone();
    assert_eq!(degraded["reason"], "ApplyFailed");
    assert!(degraded["message"].as_str().unwrap().contains("extra privileges"), "{degraded}");

    api.forbid(CLUSTER_ROLE, false);
    until("the new template", &api, |api| template(api) != before).await;
}
