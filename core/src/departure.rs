//! Whether a speaker that was told to end will be back: decided from what the API server says of its pod,
//! DaemonSet, Node and namespace at that moment.
//!
//! A speaker that restarts (a rolling update, a crash, a killed container) is back within seconds, and its
//! node goes on forwarding meanwhile. One that leaves takes its node out of the traffic for good, so the
//! routers are to use other nodes before it is gone. What cannot be known counts as a restart.

use std::fmt;

use ferrolb_api::well_known::label;
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Taints by which those who take nodes away mark them first.
const TAINTS: [&str; 3] =
    ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "node.kubernetes.io/out-of-service"];
/// What the kubelet says in condition `Ready` while its host shuts down.
const SHUTTING_DOWN: &str = "node is shutting down";

/// What the API server says of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<K> {
    /// It is there.
    There(Box<K>),
    /// It is not there.
    Gone,
    /// This speaker may not ask (any more).
    Refused,
    /// There was no answer.
    Unknown,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The speaker's pod.
    pub pod: Answer<Pod>,
    /// The DaemonSet that made it.
    pub daemon_set: Answer<DaemonSet>,
    /// Its Node.
    pub node: Answer<Node>,
    /// Its namespace.
    pub namespace: Answer<Namespace>,
}

/// What becomes of a speaker that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It does not come back.
    Leaving(Leaving),
    /// It will be back.
    Restarting,
}

/// Why a speaker does not come back, in words that a router's operator reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The product is being removed.
    Removed,
    /// The DaemonSet is not for this node any more.
    NotSelected,
    /// The node carries the exclude label.
    Excluded,
    /// The node is deleted or about to be.
    NodeGoes,
    /// The node's host shuts down.
    NodeShutsDown,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving(why) => why.fmt(f),
            Self::Restarting => f.write_str("it will be back"),
        }
    }
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "the load balancer is being removed",
            Self::NotSelected => "the speaker is taken off this node",
            Self::Excluded => "the node is excluded from load balancers",
            Self::NodeGoes => "the node is being removed",
            Self::NodeShutsDown => "the node is shutting down",
        })
    }
}

impl<K: Metadata<Ty = ObjectMeta>> Answer<K> {
    fn object(&self) -> Option<&K> {
        match self {
            Self::There(object) => Some(object),
            Self::Gone | Self::Refused | Self::Unknown => None,
        }
    }

    fn goes(&self) -> bool {
        matches!(self, Self::Gone)
            || self.object().is_some_and(|it| it.metadata().deletion_timestamp.is_some())
    }

    fn is_refused(&self) -> bool {
        matches!(self, Self::Refused)
    }
}

/// Name of the DaemonSet that made a pod.
pub fn daemon_set_of(pod: &Answer<Pod>) -> Option<String> {
    let owners = pod.object()?.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|it| it.kind == "DaemonSet" && it.controller == Some(true)).map(|it| it.name.clone())
}

impl Facts {
    /// What they mean. A speaker that may not even read its Node or its pod any more lost its rights,
    /// which go with the product.
    pub fn departure(&self) -> Departure {
        let reasons = [
            (self.pod.is_refused() || self.node.is_refused(), Leaving::Removed),
            (self.daemon_set.goes() || self.namespace.goes(), Leaving::Removed),
            (self.node.goes() || self.has_taint(), Leaving::NodeGoes),
            (self.shuts_down(), Leaving::NodeShutsDown),
            (!self.is_selected(), Leaving::NotSelected),
            (self.is_excluded(), Leaving::Excluded),
        ];
        let first = reasons.into_iter().find(|(applies, _)| *applies);
        first.map_or(Departure::Restarting, |(_, why)| Departure::Leaving(why))
    }

    fn has_taint(&self) -> bool {
        let spec = self.node.object().and_then(|node| node.spec.as_ref());
        spec.iter().flat_map(|it| it.taints.iter().flatten()).any(|it| TAINTS.contains(&it.key.as_str()))
    }

    fn shuts_down(&self) -> bool {
        let status = self.node.object().and_then(|node| node.status.as_ref());
        status.iter().flat_map(|it| it.conditions.iter().flatten()).any(|it| {
            let says = |text: &String| text.contains(SHUTTING_DOWN);
            it.type_ == "Ready" && it.status == "False" && it.message.as_ref().is_some_and(says)
        })
    }

    fn is_selected(&self) -> bool {
        let (Some(set), Some(node)) = (self.daemon_set.object(), self.node.object()) else { return true };
        let template = set.spec.template.spec.as_ref();
        let selector = template.iter().flat_map(|pod| pod.node_selector.iter().flatten());
        let labels = node.metadata.labels.as_ref();
        selector.into_iter().all(|(key, value)| labels.and_then(|it| it.get(key)) == Some(value))
    }

    fn is_excluded(&self) -> bool {
        let labels = self.node.object().and_then(|node| node.metadata.labels.as_ref());
        labels.is_some_and(|it| it.contains_key(label::EXCLUDE_FROM_LOAD_BALANCERS))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn there<K: serde::de::DeserializeOwned>(object: Value) -> Answer<K> {
        Answer::There(Box::new(serde_json::from_value(object).unwrap()))
    }

    fn pod() -> Value {
        json!({"metadata": {"name": "speaker-x", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "speaker", "uid": "1", "controller": true}
        ]}})
    }

    fn set(metadata: Value) -> Answer<DaemonSet> {
        let template = json!({"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": []}});
        there(json!({"metadata": metadata, "spec": {"selector": {}, "template": template}}))
    }

    fn node(metadata: Value, more: Value) -> Answer<Node> {
        let mut node = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}}});
        for (key, value) in metadata.as_object().unwrap() {
            node["metadata"][key] = value.clone();
        }
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        there(node)
    }

    #[test]
    fn leaving_and_restarting_are_told_apart() {
        let deleted = || json!({"name": "it", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let plain = || node(json!({}), json!({}));
        let usual = || Facts {
            pod: there(pod()),
            daemon_set: set(json!({"name": "speaker"})),
            node: plain(),
            namespace: there(json!({"metadata": {"name": "metallb-system"}})),
        };
        let ready = |status: &str, message: &str| {
            let conditions = json!([{"type": "Ready", "status": status, "message": message}]);
            node(json!({}), json!({"status": {"conditions": conditions}}))
        };
        let tainted =
            |key: &str| node(json!({}), json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}));
        let labelled = |labels: Value| node(json!({"labels": labels}), json!({}));
        let exclude = json!({"kubernetes.io/os": "linux", label::EXCLUDE_FROM_LOAD_BALANCERS: ""});
        let restarting = Departure::Restarting;
        let leaving = Departure::Leaving;
        for (name, facts, expected) in [
            ("a rolling update", usual(), restarting),
            (
                "no answer",
                Facts { node: Answer::Unknown, daemon_set: Answer::Unknown, ..usual() },
                restarting,
            ),
            ("no right to ask for the set", Facts { daemon_set: Answer::Refused, ..usual() }, restarting),
            (
                "a cordoned node",
                Facts { node: tainted("node.kubernetes.io/unschedulable"), ..usual() },
                restarting,
            ),
            ("an unready node", Facts { node: ready("False", "PLEG is not healthy"), ..usual() }, restarting),
            (
                "a DaemonSet that goes",
                Facts { daemon_set: set(deleted()), ..usual() },
                leaving(Leaving::Removed),
            ),
            ("a DaemonSet gone", Facts { daemon_set: Answer::Gone, ..usual() }, leaving(Leaving::Removed)),
            ("rights gone", Facts { pod: Answer::Refused, ..usual() }, leaving(Leaving::Removed)),
            (
                "a namespace that goes",
                Facts { namespace: there(json!({"metadata": deleted()})), ..usual() },
                leaving(Leaving::Removed),
            ),
            ("a node gone", Facts { node: Answer::Gone, ..usual() }, leaving(Leaving::NodeGoes)),
            (
                "a node that goes",
                Facts { node: node(deleted(), json!({})), ..usual() },
                leaving(Leaving::NodeGoes),
            ),
            (
                "a node that is taken away",
                Facts { node: tainted("ToBeDeletedByClusterAutoscaler"), ..usual() },
                leaving(Leaving::NodeGoes),
            ),
            (
                "a host that shuts down",
                Facts { node: ready("False", "node is shutting down"), ..usual() },
                leaving(Leaving::NodeShutsDown),
            ),
            (
                "a node that is not selected",
                Facts { node: labelled(json!({"kubernetes.io/os": "windows"})), ..usual() },
                leaving(Leaving::NotSelected),
            ),
            ("an excluded node", Facts { node: labelled(exclude), ..usual() }, leaving(Leaving::Excluded)),
        ] {
            assert_eq!(facts.departure(), expected, "{name}");
        }
    }

    #[test]
    fn the_daemon_set_is_the_one_that_controls_the_pod() {
        assert_eq!(daemon_set_of(&there(pod())).as_deref(), Some("speaker"));
        let mut other = pod();
        other["metadata"]["ownerReferences"][0]["controller"] = json!(false);
        assert_eq!(daemon_set_of(&there(other)), None);
        assert_eq!(daemon_set_of(&Answer::Unknown), None);
    }
}
