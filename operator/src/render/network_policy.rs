//! Who may talk to controller and webhook, and to whom they may: the API server alone, the kubelet's
//! probes, whoever reads metrics. The speakers are in the node's network, where policies do not reach.

use ferrolb_api::well_known::{component, object, port};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Context, Object, pod_selector};

pub(super) fn policies(context: &Context<'_>) -> Vec<Object> {
    let asked = context.metallb.spec.network_policies.as_ref().and_then(|policies| policies.enabled);
    if asked != Some(true) {
        return Vec::new();
    }
    vec![
        policy(context, object::CONTROLLER, component::CONTROLLER, &[]),
        policy(context, object::WEBHOOK, component::WEBHOOK, &[port::WEBHOOK]),
    ]
}

fn policy(context: &Context<'_>, name: &str, component: &str, serves: &[u16]) -> Object {
    let metrics = context.has_metrics().then_some(port::METRICS);
    let served = serves.iter().copied().chain(metrics).chain([port::PROBES]);
    let served = served.map(|number| tcp(number.into())).collect();
    NetworkPolicy {
        metadata: context.namespaced(name, component),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pod_selector(component)),
            policy_types: Some(vec!["Egress".into(), "Ingress".into()]),
            ingress: Some(vec![NetworkPolicyIngressRule { ports: Some(served), ..Default::default() }]),
            egress: Some(vec![NetworkPolicyEgressRule {
                ports: Some(api_ports(context)),
                ..Default::default()
            }]),
        }),
    }
    .into()
}

/// Policies see the port behind the Service. Where nobody knows it, every TCP port is better than none:
/// without the API server nothing works.
fn api_ports(context: &Context<'_>) -> Vec<NetworkPolicyPort> {
    let given = context.metallb.spec.network_policies.as_ref().and_then(|policies| policies.api_port);
    match given {
        Some(port) => vec![tcp(port)],
        None if context.observed.api_ports.is_empty() => {
            vec![NetworkPolicyPort { protocol: Some("TCP".into()), ..Default::default() }]
        }
        None => context.observed.api_ports.iter().copied().map(tcp).collect(),
    }
}

fn tcp(number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(number)),
        protocol: Some("TCP".into()),
        ..Default::default()
    }
}
