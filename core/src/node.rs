//! What decisions need to know of a Node. Readiness and taints are no part of it: an API outage marks
//! every node unready, and addresses must not move for that. A cordon counts only where that is asked for.

use std::net::IpAddr;

use ferrolb_api::well_known::label;
use ipnet::IpNet;
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
    /// Its own addresses.
    pub addresses: Vec<IpAddr>,
    /// Addresses of its Pods.
    pub pod_cidrs: Vec<IpNet>,
}

impl Node {
    /// Whether the administrator took it out of load balancing.
    pub fn is_excluded(&self) -> bool {
        self.labels.contains_key(label::EXCLUDE_FROM_LOAD_BALANCERS)
    }
}

impl From<&corev1::Node> for Node {
    fn from(node: &corev1::Node) -> Self {
        let spec = node.spec.as_ref();
        let pod_cidrs = spec.and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default();
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            network_unavailable: conditions
                .into_iter()
                .any(|condition| condition.type_ == "NetworkUnavailable" && condition.status == "True"),
            cordoned: spec.is_some_and(|spec| spec.unschedulable == Some(true)),
            // Host names are listed among the addresses.
            addresses: addresses.filter_map(|it| it.address.parse().ok()).collect(),
            pod_cidrs: pod_cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect(),
        }
    }
}

/// Takes out of a Node what [`Node`] does not read, which is most of it.
pub fn prune(node: &mut corev1::Node) {
    if let Some(spec) = node.spec.take() {
        let (pod_cidrs, unschedulable) = (spec.pod_cidrs, spec.unschedulable);
        node.spec = Some(corev1::NodeSpec { pod_cidrs, unschedulable, ..Default::default() });
    }
    if let Some(status) = node.status.take() {
        let mut conditions = status.conditions;
        if let Some(conditions) = &mut conditions {
            conditions.retain(|condition| condition.type_ == "NetworkUnavailable");
        }
        let addresses = status.addresses;
        node.status = Some(corev1::NodeStatus { conditions, addresses, ..Default::default() });
    }
}
