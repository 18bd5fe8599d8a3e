//! Why a pod does not start, in the words of whoever refuses it.
//!
//! Input: the pods. Output: one sentence that names pod, node and container. Only what does not pass by
//! itself counts: a container that crashed once is on its way, one that keeps crashing is not.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::ResourceExt;

use crate::render::is_pod_of;

/// Reasons of waiting containers that end only when somebody does something.
const STUCK: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ImageInspectError",
    "InvalidImageName",
    "RunContainerError",
];
/// A kubelet goes to and fro between these; the status must not.
const PULLING: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];
/// So many restarts are no accident.
const CRASHES: i32 = 3;

/// The first cause among the pods of a component, by name of the pod.
pub(super) fn first(pods: &[Arc<Pod>], component: &str) -> Option<String> {
    let of_component =
        |pod: &&Arc<Pod>| is_pod_of(pod, component) && pod.metadata.deletion_timestamp.is_none();
    let mut found: Vec<(String, String)> =
        pods.iter().filter(of_component).filter_map(|pod| Some((pod.name_any(), cause(pod)?))).collect();
    found.sort();
    let others = found.len().saturating_sub(1);
    let (_, first) = found.into_iter().next()?;
    Some(if others == 0 { first } else { format!("{first} (and {others} more)") })
}

/// Why pods of a workload are not even made, from the Events about it: the newest refusal, unless a pod
/// was made since.
pub(crate) fn refusal(events: &[Event], pods: &[Arc<Pod>], component: &str) -> Option<String> {
    let time = |event: &Event| {
        let last = event.last_timestamp.as_ref().or(event.first_timestamp.as_ref());
        last.map(|time| time.0)
    };
    let newest = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("FailedCreate"))
        .max_by_key(|event| time(event))?;
    let is_since = |pod: &&Arc<Pod>| {
        is_pod_of(pod, component)
            && pod.metadata.creation_timestamp.as_ref().map(|made| made.0) > time(newest)
    };
    if pods.iter().any(|pod| is_since(&pod)) {
        return None;
    }
    let message = newest.message.as_deref()?;
    Some(message.strip_prefix("Error creating: ").unwrap_or(message).to_owned())
}

fn cause(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.name_any();
    let unschedulable = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    if let Some(condition) = unschedulable {
        let message = condition.message.as_deref().unwrap_or("no node fits");
        return Some(format!("pod {name} is Unschedulable: {message}"));
    }
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
    let containers = [&status.init_container_statuses, &status.container_statuses];
    let stuck = containers.into_iter().flatten().flatten().find_map(container)?;
    Some(format!("pod {name} on {node}, {stuck}"))
}

fn container(status: &ContainerStatus) -> Option<String> {
    let name = &status.name;
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
    if PULLING.contains(&reason) {
        return Some(format!("container {name}: ImagePullBackOff: cannot pull {}", status.image));
    }
    if STUCK.contains(&reason) {
        let message = waiting.and_then(|waiting| waiting.message.as_deref()).unwrap_or_default();
        return Some(format!("container {name}: {reason}: {message}"));
    }
    // Between two crashes it runs for a while.
    let ended = status.last_state.as_ref()?.terminated.as_ref()?;
    let crashes = !status.ready && status.restart_count >= CRASHES;
    crashes.then(|| {
        let how = ended.reason.as_deref().unwrap_or("Error");
        format!(
            "container {name}: CrashLoopBackOff: it keeps ending, with {how}, exit code {}",
            ended.exit_code
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, status: Value) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "metallb", "component": "speaker"}},
            "spec": {"nodeName": "node-1", "containers": []},
            "status": status,
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn waiting(reason: &str, restarts: i32) -> Value {
        json!({"containerStatuses": [{
            "name": "speaker", "image": "image:1", "imageID": "", "ready": false, "restartCount": restarts,
            "state": {"waiting": {"reason": reason, "message": "it said"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
        }]})
    }

    fn running(restarts: i32) -> Value {
        let mut status = waiting("", restarts);
        status["containerStatuses"][0]["state"] = json!({"running": {}});
        status
    }

    const CRASH: &str =
        "pod a on node-1, container speaker: CrashLoopBackOff: it keeps ending, with Error, exit code 1";
    const PULL: &str = "pod a on node-1, container speaker: ImagePullBackOff: cannot pull image:1";

    #[test]
    fn what_does_not_pass_by_itself_is_a_cause() {
        let unschedulable = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"},
        ]});
        let table = [
            (json!({}), None),
            (waiting("ContainerCreating", 0), None),
            (waiting("PodInitializing", 0), None),
            (waiting("CrashLoopBackOff", 1), None),
            (waiting("CrashLoopBackOff", 3), Some(CRASH)),
            (running(3), Some(CRASH)),
            (running(2), None),
            (
                waiting("CreateContainerConfigError", 0),
                Some("pod a on node-1, container speaker: CreateContainerConfigError: it said"),
            ),
            (waiting("ImagePullBackOff", 0), Some(PULL)),
            (waiting("ErrImagePull", 0), Some(PULL)),
            (unschedulable, Some("pod a is Unschedulable: 0/3 nodes fit")),
        ];
        for (status, expected) in table {
            assert_eq!(first(&[pod("a", status.clone())], "speaker").as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn init_containers_count_and_the_first_pod_by_name_speaks() {
        let mut init = waiting("ErrImagePull", 0);
        init["initContainerStatuses"] = init["containerStatuses"].take();
        let pods = [pod("b", waiting("ImagePullBackOff", 0)), pod("a", init)];
        let text = first(&pods, "speaker").unwrap();
        assert!(text.starts_with("pod a on node-1") && text.ends_with("(and 1 more)"), "{text}");
        assert_eq!(first(&pods, "controller"), None);
    }

    #[test]
    fn the_newest_refusal_counts_until_a_pod_is_made() {
        let event = |reason: &str, message: &str, minute: u8| -> Event {
            serde_json::from_value(json!({
                "metadata": {}, "involvedObject": {}, "reason": reason, "message": message,
                "lastTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
            }))
            .unwrap()
        };
        let events = [
            event("SuccessfulCreate", "Created pod: speaker-1", 9),
            event("FailedCreate", "Error creating: pod rejected: RuntimeClass \"x\" not found", 5),
            event("FailedCreate", "Error creating: older", 4),
        ];
        let made = |minute: u8| {
            let mut pod = (*pod("a", json!({}))).clone();
            let time = format!("2026-01-01T00:{minute:02}:00Z").parse().unwrap();
            pod.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
            Arc::new(pod)
        };
        let why = "pod rejected: RuntimeClass \"x\" not found";
        assert_eq!(refusal(&events, &[made(3)], "speaker").as_deref(), Some(why));
        assert_eq!(refusal(&events, &[made(3), made(6)], "speaker"), None);
        assert_eq!(refusal(&events, &[made(6)], "controller").as_deref(), Some(why), "of another");
        assert_eq!(refusal(&events[..1], &[], "speaker"), None);
    }

    #[test]
    fn a_pod_that_goes_is_no_cause() {
        let mut going = (*pod("a", waiting("ImagePullBackOff", 0))).clone();
        going.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(first(&[Arc::new(going)], "speaker"), None);
    }
}
