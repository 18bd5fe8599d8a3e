//! What decisions need to know of a Node. Readiness and taints are no part of it: an API outage marks
//! every node unready, and addresses must not move for that. A cordon counts only where that is asked for.

use ferrolb_api::well_known::label;
use k8s_openapi::api::core::v1 as corev1;

use crate::selector::Labels;

/// A node of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its labels.
    pub labels: Labels,
    /// Whether condition `NetworkUnavailable` is `True` (missing or unknown: usable).
    pub network_unavailable: bool,
    /// Whether it is cordoned.
    pub cordoned: bool,
}

impl Node {
    /// Whether the administrator took it out of load balancing.
    pub fn is_excluded(&self) -> bool {
        self.labels.contains_key(label::EXCLUDE_FROM_LOAD_BALANCERS)
    }
}

impl From<&corev1::Node> for Node {
    fn from(node: &corev1::Node) -> Self {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            network_unavailable: conditions
                .into_iter()
                .any(|condition| condition.type_ == "NetworkUnavailable" && condition.status == "True"),
            cordoned: node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)),
        }
    }
}
