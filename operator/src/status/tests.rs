use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetStatus, Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::render::{ObjectKey, Refusal};

fn status(
    metallb: &MetalLB,
    workloads: Workloads<'_>,
    problem: Option<&Problem>,
    now: Timestamp,
) -> Option<MetalLBStatus> {
    super::status(metallb, &rollouts(workloads, &[]), problem, &BTreeSet::new(), now)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn metallb() -> MetalLB {
    MetalLB { metadata: ObjectMeta { generation: Some(1), ..Default::default() }, ..Default::default() }
}

/// `pods`: all, of the new template, available.
fn deployment(generation: i64, observed: i64, desired: i32, pods: (i32, i32, i32)) -> Deployment {
    Deployment {
        metadata: ObjectMeta { generation: Some(generation), ..Default::default() },
        spec: DeploymentSpec { replicas: Some(desired), ..Default::default() },
        status: Some(DeploymentStatus {
            observed_generation: Some(observed),
            replicas: Some(pods.0),
            updated_replicas: Some(pods.1),
            available_replicas: Some(pods.2),
            ..Default::default()
        }),
    }
}

fn daemon_set(generation: i64, observed: i64, desired: i32, updated: i32, available: i32) -> DaemonSet {
    DaemonSet {
        metadata: ObjectMeta { generation: Some(generation), ..Default::default() },
        status: Some(DaemonSetStatus {
            observed_generation: Some(observed),
            desired_number_scheduled: desired,
            updated_number_scheduled: Some(updated),
            number_available: Some(available),
            ..Default::default()
        }),
        ..Default::default()
    }
}

struct Cluster {
    controller: Deployment,
    webhook: Deployment,
    speaker: DaemonSet,
}

impl Cluster {
    fn ready() -> Self {
        Self {
            controller: deployment(1, 1, 1, (1, 1, 1)),
            webhook: deployment(1, 1, 2, (2, 2, 2)),
            speaker: daemon_set(1, 1, 3, 3, 3),
        }
    }

    fn workloads(&self) -> Workloads<'_> {
        Workloads {
            controller: Some(&self.controller),
            webhook: Some(&self.webhook),
            speaker: Some(&self.speaker),
        }
    }
}

/// The four conditions as `TFTF`, in order.
fn letters(status: &MetalLBStatus) -> String {
    status.conditions.iter().map(|condition| condition.status.chars().next().unwrap()).collect()
}

fn message<'a>(status: &'a MetalLBStatus, type_: &str) -> &'a str {
    &status.conditions.iter().find(|condition| condition.type_ == type_).unwrap().message
}

fn reason_of<'a>(status: &'a MetalLBStatus, type_: &str) -> &'a str {
    &status.conditions.iter().find(|condition| condition.type_ == type_).unwrap().reason
}

#[test]
fn conditions_follow_the_workloads() {
    type Change = fn(&mut Cluster);
    let table: [(&str, Change, &str, &str); 9] = [
        ("ready", |_| {}, "TTFF", ""),
        (
            "controller not ready",
            |c| c.controller = deployment(1, 1, 1, (1, 1, 0)),
            "FFTF",
            "Deployment controller: 0 of 1 pods ready",
        ),
        (
            "one webhook not ready",
            |c| c.webhook = deployment(1, 1, 2, (2, 2, 1)),
            "FFTF",
            "Deployment metallb-operator-webhook-server: 1 of 2 pods ready",
        ),
        (
            "new template not seen yet",
            |c| c.controller = deployment(2, 1, 1, (1, 1, 1)),
            "FFTF",
            "Deployment controller: change not taken up yet",
        ),
        (
            "an old pod still serves beside a new one that does not",
            |c| c.controller = deployment(2, 2, 1, (2, 1, 1)),
            "FFTF",
            "Deployment controller: 0 of 1 pods ready",
        ),
        (
            "a speaker is missing",
            |c| c.speaker = daemon_set(1, 1, 3, 3, 2),
            "FFTF",
            "DaemonSet speaker: 2 of 3 pods ready",
        ),
        (
            "a speaker has the old template",
            |c| c.speaker = daemon_set(2, 2, 3, 2, 3),
            "FFTF",
            "DaemonSet speaker: 2 of 3 pods ready",
        ),
        (
            "speakers were not counted yet",
            |c| c.speaker = daemon_set(1, 0, 0, 0, 0),
            "FFTF",
            "DaemonSet speaker: change not taken up yet",
        ),
        ("no node wants a speaker", |c| c.speaker = daemon_set(1, 1, 0, 0, 0), "TTFF", ""),
    ];
    for (name, change, expected, progress) in table {
        let mut cluster = Cluster::ready();
        change(&mut cluster);
        let status = status(&metallb(), cluster.workloads(), None, at(0)).unwrap();
        assert_eq!(letters(&status), expected, "{name}");
        assert_eq!(message(&status, "Progressing"), progress, "{name}");
        let types: Vec<_> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, condition::ALL, "{name}");
    }
}

#[test]
fn nothing_installed_is_progress_that_names_everything() {
    let status = status(&metallb(), Workloads::default(), None, at(0)).unwrap();
    assert_eq!(letters(&status), "FFTF");
    assert_eq!(
        message(&status, "Progressing"),
        "Deployment controller: not created yet; \
         Deployment metallb-operator-webhook-server: not created yet; DaemonSet speaker: not created yet"
    );
}

#[test]
fn a_workload_that_gave_up_degrades() {
    let mut cluster = Cluster::ready();
    cluster.controller = deployment(1, 1, 1, (1, 1, 0));
    cluster.controller.status.as_mut().unwrap().conditions = Some(vec![DeploymentCondition {
        type_: Some("Progressing".into()),
        status: Some("False".into()),
        reason: Some("ProgressDeadlineExceeded".into()),
        message: Some("ReplicaSet \"controller-1\" has timed out progressing.".into()),
        ..Default::default()
    }]);
    let status = status(&metallb(), cluster.workloads(), None, at(0)).unwrap();
    assert_eq!(letters(&status), "FFFT");
    assert_eq!(reason_of(&status, "Degraded"), reason::ROLLOUT_STALLED);
    assert!(message(&status, "Degraded").contains("timed out progressing"));
}

#[test]
fn problems_degrade_but_do_not_hide_what_still_runs() {
    let cluster = Cluster::ready();
    let key = ObjectKey { kind: Kind::DaemonSet, name: "speaker".into() };
    let table = [
        (
            Problem::Refused(Refusal::ExternalBackend),
            reason::UNSUPPORTED_BACKEND,
            "bgpBackend frr-k8s-external is not supported",
        ),
        (
            Problem::Refused(Refusal::TolerationSeconds("SpeakerToleration")),
            reason::INVALID_SPEC,
            "SpeakerToleration effect must be NoExecute",
        ),
        (
            Problem::Apply { object: key.clone(), error: "no quota".into() },
            reason::APPLY_FAILED,
            "DaemonSet speaker could not be applied: no quota",
        ),
        (
            Problem::Delete { object: key, error: "forbidden".into() },
            reason::DELETE_FAILED,
            "DaemonSet speaker could not be deleted: forbidden",
        ),
        (
            Problem::Read { what: "the CRD", error: "gone".into() },
            reason::READ_FAILED,
            "the CRD could not be read: gone",
        ),
    ];
    for (problem, expected, text) in table {
        let status = status(&metallb(), cluster.workloads(), Some(&problem), at(0)).unwrap();
        assert_eq!(letters(&status), "TFFT", "{problem}");
        assert_eq!(reason_of(&status, "Degraded"), expected);
        assert!(message(&status, "Degraded").starts_with(text), "{problem}");
    }
    let refused = Problem::Refused(Refusal::ExternalBackend);
    let nothing = status(&metallb(), Workloads::default(), Some(&refused), at(0)).unwrap();
    assert_eq!(letters(&nothing), "FFFT", "a refused object makes no progress");
}

#[test]
fn nothing_is_written_without_a_change_and_times_mark_transitions_only() {
    let mut object = metallb();
    let mut cluster = Cluster::ready();
    object.status = status(&object, cluster.workloads(), None, at(0));
    assert!(object.status.is_some());
    assert_eq!(status(&object, cluster.workloads(), None, at(10)), None, "nothing changed");

    cluster.speaker = daemon_set(1, 1, 3, 3, 2);
    object.status = status(&object, cluster.workloads(), None, at(20));
    let times = |object: &MetalLB| -> Vec<Timestamp> {
        object.status.as_ref().unwrap().conditions.iter().map(|c| c.last_transition_time.0).collect()
    };
    assert_eq!(times(&object), [at(20), at(20), at(20), at(0)], "Degraded stayed False");

    cluster.speaker = daemon_set(1, 1, 3, 3, 1);
    object.status = status(&object, cluster.workloads(), None, at(30));
    assert_eq!(times(&object), [at(20), at(20), at(20), at(0)], "only the message changed");

    object.metadata.generation = Some(2);
    let next = status(&object, cluster.workloads(), None, at(40)).unwrap();
    assert!(next.conditions.iter().all(|condition| condition.observed_generation == Some(2)));
}

#[test]
fn a_status_read_back_from_the_api_server_is_the_same() {
    let mut object = metallb();
    let cluster = Cluster::ready();
    let now = Timestamp::from_millisecond(1_800_000_000_123).unwrap();
    object.status = status(&object, cluster.workloads(), None, now);
    let stored: MetalLB = serde_json::from_value(serde_json::to_value(&object).unwrap()).unwrap();
    assert_eq!(status(&stored, cluster.workloads(), None, at(100)), None);
}

#[test]
fn reasons_and_messages_fit_the_crds_schema() {
    let long = Problem::Read { what: "it", error: "x".repeat(40_000) };
    let status = status(&metallb(), Workloads::default(), Some(&long), at(0)).unwrap();
    for condition in &status.conditions {
        let mut letters = condition.reason.chars();
        assert!(letters.next().is_some_and(|first| first.is_ascii_alphabetic()), "{}", condition.reason);
        assert!(letters.all(|letter| letter.is_ascii_alphanumeric()), "{}", condition.reason);
        assert!(condition.message.len() <= 32_768);
    }
}

#[test]
fn other_backends_are_named_where_the_product_is_available() {
    let mut object = metallb();
    object.spec.bgp_backend = Some("frr-k8s".into());
    let status = status(&object, Cluster::ready().workloads(), None, at(0)).unwrap();
    assert!(message(&status, "Available").contains("bgpBackend frr-k8s"));
}
