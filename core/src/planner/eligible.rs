//! Whether a node may take the traffic of a Service at all, whatever the protocol: its own state, and with
//! `externalTrafficPolicy: Local` the endpoints on it.

use super::{PlanInput, Withheld};
use crate::service::{LoadBalancer, TrafficPolicy};

pub(super) fn check(input: &PlanInput<'_>, service: &LoadBalancer, node: &str) -> Result<(), Withheld> {
    if let Some(node) = input.nodes.get(node) {
        if node.network_unavailable {
            return Err(Withheld::NodeNetworkUnavailable);
        }
        if node.is_excluded() && !input.ignore_exclude_label {
            return Err(Withheld::NodeExcluded);
        }
        if node.cordoned && input.withdraw_on_cordon {
            return Err(Withheld::NodeCordoned);
        }
    }
    if service.traffic_policy == TrafficPolicy::Local && !service.endpoints.nodes.contains(node) {
        return Err(Withheld::NoLocalEndpoints);
    }
    Ok(())
}
