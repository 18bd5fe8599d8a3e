//! The first thing to fix where a Service has an address and no node announces it.

use std::collections::BTreeMap;

use ferrolb_api::well_known::label;

use super::{Cluster, NodeVerdict, Step, any_of};
use crate::config::{Kind, ObjectRef};
use crate::planner::Withheld;
use crate::service::LoadBalancer;

/// Of the nodes that do not announce, the one that came farthest says what is to be done.
pub(super) fn step(
    cluster: &Cluster,
    service: &LoadBalancer,
    pools: &[&str],
    layer2: &BTreeMap<String, NodeVerdict<()>>,
    bgp: &BTreeMap<String, NodeVerdict<Vec<String>>>,
) -> Step {
    let Some(first) = pools.first() else { return of_status(cluster, service) };
    let config = &cluster.compiled.config;
    let on_layer2 = config.l2_advertisements().values().any(|it| any_of(pools, &it.pools));
    let by_bgp = config.bgp_advertisements().values().any(|it| any_of(pools, &it.pools));
    if !on_layer2 && !by_bgp {
        return no_advertisement(cluster, first);
    }
    let question = Question { cluster, service, pools };
    if on_layer2 { question.of_nodes(layer2) } else { question.of_nodes(bgp) }
}

/// The status holds something that no pool knows.
fn of_status(cluster: &Cluster, service: &LoadBalancer) -> Step {
    let field = "status.loadBalancer.ingress";
    if service.ingress.addresses().is_none() {
        let remedy = "find out who wrote it (kubectl get --show-managed-fields) and give the Service the class of \
                      one load balancer";
        return Step::of_service(service, field, Withheld::InvalidIp, remedy);
    }
    let remedy = if cluster.controller_ready {
        "add the address to an IPAddressPool, or wait until the controller gives another"
    } else {
        "add the address to an IPAddressPool, and look at kubectl describe deployment/controller"
    };
    Step::of_service(service, field, Withheld::NotAllowedByPools, remedy)
}

/// Nothing in force announces the pool. What is left out for an error, or selects no pool that is there, was
/// perhaps meant to.
fn no_advertisement(cluster: &Cluster, pool: &str) -> Step {
    let config = &cluster.compiled.config;
    let announces_something = |object: &ObjectRef| {
        let pools = match object.kind {
            Kind::L2Advertisement => config.l2_advertisements().get(&object.name).map(|it| &it.pools),
            _ => config.bgp_advertisements().get(&object.name).map(|it| &it.pools),
        };
        pools.is_some_and(|pools| !pools.is_empty())
    };
    let finding = cluster.compiled.diagnostics.iter().find(|it| {
        let is_advertisement = matches!(it.object.kind, Kind::L2Advertisement | Kind::BgpAdvertisement);
        is_advertisement && !announces_something(&it.object)
    });
    finding.map_or_else(
        || {
            let message = format!("no advertisement is for pool {pool}");
            let remedy =
                format!("create an L2Advertisement (or a BGPAdvertisement) with {pool} in this field");
            Step::new(Kind::L2Advertisement.to_string(), "spec.ipAddressPools", message, remedy)
        },
        Step::from,
    )
}

struct Question<'a> {
    cluster: &'a Cluster,
    service: &'a LoadBalancer,
    pools: &'a [&'a str],
}

/// How far a node came: the later a check fails, the nearer it is to announcing.
fn distance<T>(verdict: &NodeVerdict<T>) -> u8 {
    match verdict {
        NodeVerdict::NoSpeaker => 0,
        NodeVerdict::Withheld(withheld) => match withheld {
            Withheld::NoMatchingAdvertisement | Withheld::NodeNotSelected => 1,
            Withheld::NoMatchingBgpAdvertisement => 2,
            Withheld::NodeNetworkUnavailable | Withheld::NodeExcluded | Withheld::NodeCordoned => 3,
            Withheld::NoLocalEndpoints => 4,
            Withheld::NoInterface { .. } | Withheld::NoPeer | Withheld::ConflictingAdvertisements(_) => 5,
            Withheld::NotElected { .. } => 6,
            Withheld::Claiming => 7,
            Withheld::AddressConflict { .. } => 9,
            // The same for all nodes.
            Withheld::ServiceDeleted
            | Withheld::AddressesChanged
            | Withheld::NotLoadBalancer
            | Withheld::NoIp
            | Withheld::InvalidIp
            | Withheld::NotAllowedByPools
            | Withheld::GivenTwice { .. }
            | Withheld::NoServingEndpoints
            | Withheld::SharedIpWithServiceSelector => 10,
        },
        NodeVerdict::SpeakerNotReady => 8,
        NodeVerdict::Announces(_) => u8::MAX,
    }
}

impl Question<'_> {
    fn of_nodes<T>(&self, verdicts: &BTreeMap<String, NodeVerdict<T>>) -> Step {
        // Of equals the first.
        let nearest = verdicts.iter().rev().max_by_key(|(_, verdict)| distance(verdict));
        match nearest {
            Some((node, NodeVerdict::Withheld(withheld))) => self.of_node(node, withheld),
            Some((node, NodeVerdict::SpeakerNotReady | NodeVerdict::Announces(_))) => Step::new(
                format!("DaemonSet speaker, pod on node {node}"),
                "status.conditions[Ready]",
                "the speaker that may announce the address is not ready",
                format!(
                    "look at kubectl get pods -l component=speaker --field-selector spec.nodeName={node} and its log"
                ),
            ),
            Some((_, NodeVerdict::NoSpeaker)) | None => Step::new(
                "MetalLB metallb",
                "spec.nodeSelector",
                "no speaker runs on any node",
                "select nodes, tolerate their taints (spec.speakerTolerations), and look at kubectl describe \
                 daemonset/speaker",
            ),
        }
    }

    fn of_node(&self, node: &str, withheld: &Withheld) -> Step {
        let of_service = |field: &str, remedy: &str| Step::of_service(self.service, field, withheld, remedy);
        let of_node =
            |field: &str, remedy: String| Step::new(format!("Node {node}"), field, withheld, remedy);
        match withheld {
            Withheld::NoServingEndpoints => of_service(
                "spec.selector",
                "start pods with these labels, or correct it, and wait until one of them is ready (kubectl get \
                 endpointslices)",
            ),
            Withheld::SharedIpWithServiceSelector => of_service(
                "metadata.annotations[metallb.io/allow-shared-ip]",
                "remove it, or remove spec.serviceSelectors from the L2Advertisements of the pool",
            ),
            Withheld::NoMatchingAdvertisement => self.unmatched(Kind::L2Advertisement, withheld),
            Withheld::NodeNotSelected | Withheld::NoMatchingBgpAdvertisement => {
                self.unmatched(Kind::BgpAdvertisement, withheld)
            }
            Withheld::NodeNetworkUnavailable => of_node(
                "status.conditions[NetworkUnavailable]",
                "repair the pod network of the node: it resets the condition".to_owned(),
            ),
            Withheld::NodeExcluded => {
                let key = label::EXCLUDE_FROM_LOAD_BALANCERS;
                of_node(&format!("metadata.labels[{key}]"), format!("kubectl label node {node} {key}-"))
            }
            Withheld::NodeCordoned => of_node("spec.unschedulable", format!("kubectl uncordon {node}")),
            Withheld::NoLocalEndpoints => of_service(
                "spec.externalTrafficPolicy",
                "set it to Cluster, or run pods of the Service on a node that may announce it",
            ),
            Withheld::NoInterface { .. } => {
                let of_pool = self.cluster.compiled.config.l2_advertisements().values();
                let names = of_pool.filter(|it| any_of(self.pools, &it.pools) && it.nodes.contains(node));
                let names: Vec<&str> = names.map(|it| it.name.as_str()).collect();
                Step::new(
                    format!("{} {}", Kind::L2Advertisement, names.join(", ")),
                    "spec.interfaces",
                    format!("on node {node}: {withheld}"),
                    "name a connected interface of the node, or remove the field",
                )
            }
            Withheld::AddressConflict { mac } => of_service(
                "status.loadBalancer.ingress",
                &format!(
                    "remove the address from the host with MAC {mac}, or let the Service ask for another one"
                ),
            ),
            Withheld::ConflictingAdvertisements(conflict) => Step::new(
                format!("{} {}", Kind::BgpAdvertisement, conflict.second.0),
                "spec.localPref",
                withheld,
                format!("give it the localPref of {}, or other peers or nodes", conflict.first.0),
            ),
            Withheld::NoPeer => Step::new(
                Kind::BgpPeer.to_string(),
                "spec.nodeSelectors",
                format!("on node {node}: {withheld}"),
                "create a BGPPeer for this node, or name one of its peers in spec.peers of the BGPAdvertisement",
            ),
            Withheld::Claiming | Withheld::NotElected { .. } => Step::new(
                format!("DaemonSet speaker, pod on node {node}"),
                "status",
                "the node may announce the address and does not say that it does",
                "wait two seconds; then look at the log of this pod and at its page /debug/plan",
            ),
            Withheld::GivenTwice { .. } => of_service(
                "status.loadBalancer.ingress",
                "wait until the controller gives another address (kubectl describe deployment/controller)",
            ),
            Withheld::NotLoadBalancer
            | Withheld::NoIp
            | Withheld::InvalidIp
            | Withheld::NotAllowedByPools
            | Withheld::ServiceDeleted
            | Withheld::AddressesChanged => of_status(self.cluster, self.service),
        }
    }

    /// No advertisement of the pool is for the Service, or those that are, are for no node with a speaker.
    fn unmatched(&self, kind: Kind, withheld: &Withheld) -> Step {
        let config = &self.cluster.compiled.config;
        let labels = &self.service.labels;
        let layer2 = config.l2_advertisements().values().filter(|it| any_of(self.pools, &it.pools));
        let layer2 = layer2.map(|it| (it.name.as_str(), it.selects_service(labels)));
        let bgp = config.bgp_advertisements().values().filter(|it| any_of(self.pools, &it.pools));
        let bgp = bgp.map(|it| (it.name.as_str(), it.selects_service(labels)));
        let of_pool: Vec<(&str, bool)> = match kind {
            Kind::L2Advertisement => layer2.collect(),
            _ => bgp.collect(),
        };
        let names = |for_it: bool| {
            let names = of_pool.iter().filter(|(_, selects)| *selects == for_it);
            names.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        };
        if of_pool.iter().any(|(_, selects)| *selects) {
            let remedy = "select a node with a speaker, or label one so that it is selected";
            Step::new(format!("{kind} {}", names(true)), "spec.nodeSelectors", withheld, remedy)
        } else {
            let remedy = format!("select the labels of Service {}, or label the Service", self.service.key);
            Step::new(format!("{kind} {}", names(false)), "spec.serviceSelectors", withheld, remedy)
        }
    }
}
