//! When a new speaker counts as ready: as soon as everything that was announced before its predecessor went
//! is announced again. Until then the DaemonSet replaces no other speaker.
//!
//! Inputs: the speakers' pods, what speakers say that they announce, the time. Output: the pods whose
//! readiness gate opens, and what is missed. What was announced is remembered while nothing is being
//! replaced; an operator that just started has nothing to compare with and lets pods pass.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_api::v1beta1::{ServiceBGPStatus, ServiceL2Status};
use ferrolb_api::well_known::{component, pod_condition};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::render::is_pod_of;

/// How long a new speaker is waited for before somebody is told.
const LIMIT: Duration = Duration::from_secs(120);

/// Namespace and name of a Service.
pub(crate) type ServiceName = (String, String);

/// Something that clients or routers rely on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Announcement {
    /// Some node answers for the Service.
    Layer2 { service: ServiceName },
    /// This node announces the Service to this peer.
    Bgp { service: ServiceName, node: String, peer: String },
}

impl Announcement {
    pub(crate) fn service(&self) -> &ServiceName {
        match self {
            Self::Layer2 { service } | Self::Bgp { service, .. } => service,
        }
    }
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = self.service();
        match self {
            Self::Layer2 { .. } => write!(f, "Service {namespace}/{name} on layer 2"),
            Self::Bgp { node, peer, .. } => {
                write!(f, "Service {namespace}/{name} from {node} to peer {peer}")
            }
        }
    }
}

/// What speakers say that they announce.
pub(crate) fn announced(
    layer2: &[Arc<ServiceL2Status>],
    bgp: &[Arc<ServiceBGPStatus>],
) -> BTreeSet<Announcement> {
    let layer2 = layer2.iter().filter_map(|status| {
        let status = status.status.as_ref()?;
        status.node.as_ref()?;
        Some(Announcement::Layer2 { service: service(&status.service_namespace, &status.service_name)? })
    });
    let bgp = bgp.iter().filter_map(|status| status.status.as_ref()).flat_map(|status| {
        let service = service(&status.service_namespace, &status.service_name);
        let of = service.zip(status.node.clone());
        let to = move |peer: &String| {
            let (service, node) = of.clone()?;
            Some(Announcement::Bgp { service, node, peer: peer.clone() })
        };
        status.peers.iter().filter_map(to)
    });
    layer2.chain(bgp).collect()
}

fn service(namespace: &Option<String>, name: &Option<String>) -> Option<ServiceName> {
    namespace.clone().zip(name.clone())
}

/// What to do about the speakers' gates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Name and uid of the pods that count as ready from now on.
    pub(crate) open: Vec<(String, String)>,
    /// What was announced before and is not any more, while a pod waits for it.
    pub(crate) missing: Vec<Announcement>,
    /// It is not going to pass by itself.
    pub(crate) stalled: bool,
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    before: BTreeSet<Announcement>,
    since: Option<Instant>,
}

impl Gate {
    /// Compares. `settled` says that the DaemonSet has all its pods, ready and of the newest template.
    pub(crate) fn look(
        &mut self,
        pods: &[Arc<Pod>],
        settled: bool,
        announced: BTreeSet<Announcement>,
        now: Instant,
    ) -> Look {
        let speakers: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_pod_of(pod, component::SPEAKER)).collect();
        let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        if settled && speakers.iter().all(|pod| !is_going(pod) && holds(pod, "Ready")) {
            *self = Self { before: announced, since: None };
            return Look::default();
        }
        let waits = |pod: &&&Arc<Pod>| {
            has_gate(pod)
                && !is_going(pod)
                && holds(pod, "ContainersReady")
                && !holds(pod, pod_condition::ANNOUNCING)
        };
        let waiting: Vec<(String, String)> = speakers
            .iter()
            .filter(waits)
            .map(|pod| (pod.name_any(), pod.uid().unwrap_or_default()))
            .collect();
        let missing: Vec<Announcement> = self.before.difference(&announced).cloned().collect();
        if waiting.is_empty() || missing.is_empty() {
            self.since = None;
            return Look { open: waiting, ..Look::default() };
        }
        let since = *self.since.get_or_insert(now);
        Look { open: Vec::new(), missing, stalled: now.saturating_duration_since(since) >= LIMIT }
    }

    /// These are not to be announced any more.
    pub(crate) fn forget(&mut self, gone: impl Fn(&Announcement) -> bool) {
        self.before.retain(|announcement| !gone(announcement));
    }
}

fn has_gate(pod: &Pod) -> bool {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    gates.into_iter().any(|gate| gate.condition_type == pod_condition::ANNOUNCING)
}

fn holds(pod: &Pod, type_: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, conditions: &[&str]) -> Arc<Pod> {
        let conditions: Vec<Value> =
            conditions.iter().map(|it| json!({"type": it, "status": "True"})).collect();
        let pod = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"component": "speaker"}},
            "spec": {"containers": [], "readinessGates": [{"conditionType": "ferrolb.io/Announcing"}]},
            "status": {"conditions": conditions},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn ready(name: &str) -> Arc<Pod> {
        pod(name, &["Ready", "ContainersReady", "ferrolb.io/Announcing"])
    }

    fn layer2(name: &str) -> Announcement {
        Announcement::Layer2 { service: ("demo".into(), name.into()) }
    }

    fn bgp(node: &str) -> Announcement {
        Announcement::Bgp { service: ("demo".into(), "web".into()), node: node.into(), peer: "router".into() }
    }

    #[test]
    fn a_new_pod_waits_for_what_was_announced_before_and_no_longer() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        let all: BTreeSet<_> = [layer2("web"), bgp("n1"), bgp("n2")].into();
        assert_eq!(gate.look(&[ready("a"), ready("b")], true, all.clone(), now), Look::default());

        // Its predecessor is gone, and with it what it announced.
        let replaced = [ready("a"), pod("c", &["ContainersReady"])];
        let less: BTreeSet<_> = [layer2("web"), bgp("n1")].into();
        let look = gate.look(&replaced, false, less.clone(), now);
        assert_eq!((look.open, look.missing, look.stalled), (vec![], vec![bgp("n2")], false));
        let look = gate.look(&replaced, false, less, now + LIMIT);
        assert!(look.stalled);
        assert_eq!(look.missing[0].to_string(), "Service demo/web from n2 to peer router");

        // Back, with something new beside it.
        let more: BTreeSet<_> = all.into_iter().chain([layer2("new")]).collect();
        let look = gate.look(&replaced, false, more, now + LIMIT);
        assert_eq!(look, Look { open: vec![("c".into(), "uid-c".into())], ..Look::default() });
    }

    #[test]
    fn the_moment_between_two_pods_is_not_taken_for_the_way_it_was() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.look(&[ready("a"), ready("b")], true, [bgp("n1"), bgp("n2")].into(), now);
        // The DaemonSet does not know yet that a pod is going; or the next is not there yet.
        let mut going = (*ready("b")).clone();
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        gate.look(&[ready("a"), Arc::new(going)], true, [bgp("n1")].into(), now);
        gate.look(&[ready("a")], false, [bgp("n1")].into(), now);
        let look = gate.look(&[ready("a"), pod("c", &["ContainersReady"])], false, [bgp("n1")].into(), now);
        assert_eq!(look.missing, [bgp("n2")]);
    }

    #[test]
    fn without_anything_to_compare_with_pods_pass_once_their_containers_are_ready() {
        let mut gate = Gate::default();
        let pods = [pod("a", &["ContainersReady"]), pod("b", &[]), ready("c")];
        let look = gate.look(&pods, false, BTreeSet::new(), Instant::now());
        assert_eq!(look.open, [("a".to_owned(), "uid-a".to_owned())]);
    }

    #[test]
    fn what_is_not_to_be_announced_any_more_is_not_waited_for() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.look(&[ready("a")], true, [layer2("web"), layer2("gone")].into(), now);
        gate.forget(|announcement| announcement.service().1 == "gone");
        let look = gate.look(&[pod("c", &["ContainersReady"])], false, [layer2("web")].into(), now);
        assert_eq!((look.open.len(), look.missing.len()), (1, 0));
    }

    #[test]
    fn statuses_of_both_protocols_are_read() {
        let layer2 = json!({"apiVersion": "metallb.io/v1beta1", "kind": "ServiceL2Status", "metadata": {},
            "status": {"node": "n1", "serviceName": "web", "serviceNamespace": "demo"}});
        let bgp_status = json!({"apiVersion": "metallb.io/v1beta1", "kind": "ServiceBGPStatus", "metadata": {},
            "status": {"node": "n2", "serviceName": "web", "serviceNamespace": "demo", "peers": ["router"]}});
        let found = announced(
            &[Arc::new(serde_json::from_value(layer2).unwrap())],
            &[Arc::new(serde_json::from_value(bgp_status).unwrap())],
        );
        assert_eq!(found, [self::layer2("web"), bgp("n2")].into());
    }
}
