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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{labels, node};
    use serde_json::{Value, json};

    /// X17, X18, X19: of what changes on a Node all the time, nothing is read; and what is read is also read of what is
    /// kept.
    #[test]
    fn a_node_that_only_gives_signs_of_life_is_the_same() {
        let with = |status: Value, unschedulable: bool, zone: &str| {
            let mut node = node("n", &[]);
            node.metadata.labels = Some(labels(&[("zone", zone)]));
            node.metadata.resource_version = Some(status.to_string());
            node.spec = serde_json::from_value(
                json!({"podCIDRs": ["10.244.0.0/24"], "unschedulable": unschedulable}),
            )
            .unwrap();
            node.status = serde_json::from_value(status).unwrap();
            let read = Node::from(&node);
            prune(&mut node);
            assert_eq!(Node::from(&node), read);
            read
        };
        let status = |ready: &str, time: &str, network: &str| {
            json!({
                "addresses": [{"type": "InternalIP", "address": "192.168.10.20"}, {"type": "Hostname", "address": "n"}],
                "conditions": [
                    {"type": "Ready", "status": ready, "lastHeartbeatTime": time, "lastTransitionTime": time},
                    {"type": "NetworkUnavailable", "status": network, "lastHeartbeatTime": time, "lastTransitionTime": time},
                ],
                "images": [{"names": ["a"], "sizeBytes": 1}],
            })
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z");
        let before = with(status("True", early, "False"), false, "a");
        assert_eq!(before.addresses, ["192.168.10.20".parse::<IpAddr>().unwrap()]);
        assert_eq!(with(status("True", late, "False"), false, "a"), before, "a heartbeat");
        assert_eq!(with(status("Unknown", late, "False"), false, "a"), before, "not ready");
        assert_ne!(with(status("True", early, "True"), false, "a"), before, "no network");
        assert_ne!(with(status("True", early, "False"), false, "b"), before, "other labels");
        // Where announcements are to leave cordoned nodes, this counts.
        assert_ne!(with(status("True", early, "False"), true, "a"), before, "cordoned");
    }
}
