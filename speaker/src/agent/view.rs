//! One pass as a function: everything a plan depends on, and the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::well_known::label;
use ferrolb_core::config::{Compiled, Diagnostic, Peer};
use ferrolb_core::node::Node;
use ferrolb_core::planner::{
    Elections, LinkClaims, Member, PlanInput, Protocol, Routes, Seen, ServicePlan, Wire, Withheld, claims,
    doubled, elect, hold, plan_service, routes,
};
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_proto::conflict;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::bgp::{DesiredPeer, Peers};
use crate::links::Links;

/// Everything that a plan depends on. Equal worlds have equal plans.
#[derive(Clone, Debug)]
pub struct World {
    /// The configuration; the same one as long as nothing of it changes.
    pub compiled: Arc<Compiled>,
    /// The cluster's nodes.
    pub nodes: BTreeMap<String, Node>,
    /// Whether the members can be relied on.
    pub settled: bool,
    /// Nodes that a speaker was heard of.
    pub members: BTreeMap<String, Member>,
    /// The same for the links, with the MACs.
    pub speakers: Arc<conflict::Members>,
    /// Who owns what.
    pub wire: Wire,
    /// Addresses of Services that the kernel of this node answers for as well, and the interface they stand on.
    pub kernel: BTreeMap<IpAddr, String>,
    /// Whether the API server has just come back, so that nothing is taken away.
    pub hold: bool,
    /// Identities of the BGP peers, by name.
    pub peer_uids: BTreeMap<String, String>,
    /// Secrets that peers name and nobody has answered for yet.
    pub unread_secrets: BTreeSet<String>,
    /// Services to handle.
    pub services: BTreeMap<ServiceKey, LoadBalancer>,
    /// This node.
    pub this_node: String,
    /// Whether the exclude label is ignored.
    pub ignore_exclude_label: bool,
    /// Whether a cordon counts.
    pub withdraw_on_cordon: bool,
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.compiled, &other.compiled)
            && self.nodes == other.nodes
            && self.settled == other.settled
            && self.members == other.members
            && self.speakers == other.speakers
            && self.wire == other.wire
            && self.kernel == other.kernel
            && self.hold == other.hold
            && self.peer_uids == other.peer_uids
            && self.unread_secrets == other.unread_secrets
            && self.services == other.services
            && self.this_node == other.this_node
            && self.ignore_exclude_label == other.ignore_exclude_label
            && self.withdraw_on_cordon == other.withdraw_on_cordon
    }
}

/// What this node does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// For each Service.
    pub services: BTreeMap<ServiceKey, ServicePlan>,
    /// Who may own which address.
    pub elections: Elections,
    /// What the links are told.
    pub claims: LinkClaims,
    /// Who owns what, as the links saw it when this was planned.
    pub wire: Wire,
    /// Addresses that the kernel of this node answers for as well, and the interface they stand on.
    pub kernel: BTreeMap<IpAddr, String>,
    /// What BGP peers are to have.
    pub routes: Routes,
}

/// Reads the Services that may hold an address, with their endpoints.
pub fn load_balancers(
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    class: Option<&str>,
) -> BTreeMap<ServiceKey, LoadBalancer> {
    let mut of_service: BTreeMap<(&str, &str), Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in slices {
        let metadata = &slice.metadata;
        let name = metadata.labels.as_ref().and_then(|labels| labels.get(label::SERVICE_NAME_OF_SLICE));
        if let (Some(namespace), Some(name)) = (&metadata.namespace, name) {
            of_service.entry((namespace, name)).or_default().push(slice);
        }
    }
    let candidates = services.iter().filter(|service| may_hold_addresses(service));
    let read = candidates.map(|service| {
        let metadata = &service.metadata;
        let key = (metadata.namespace.as_deref().unwrap_or(""), metadata.name.as_deref().unwrap_or(""));
        LoadBalancer::new(service, of_service.remove(&key).unwrap_or_default())
    });
    read.filter(|service| service.is_handled_by(class))
        .map(|service| ((*service.key).clone(), service))
        .collect()
}

/// A Service whose endpoints all seem to be gone keeps those that it had.
pub fn keep_endpoints(
    services: &mut BTreeMap<ServiceKey, LoadBalancer>,
    before: &BTreeMap<ServiceKey, LoadBalancer>,
) {
    for (key, service) in services.iter_mut().filter(|(_, service)| !service.endpoints.any_serving) {
        if let Some(before) = before.get(key).filter(|before| before.uid == service.uid) {
            service.endpoints.clone_from(&before.endpoints);
        }
    }
}

/// Addresses of Services that the kernel of this node answers for, and the interface they stand on.
pub fn kernel(services: &BTreeMap<ServiceKey, LoadBalancer>, links: &Links) -> BTreeMap<IpAddr, String> {
    let addresses = services.values().flat_map(|service| service.ingress.readable());
    addresses.filter_map(|address| Some((address, links.kernel_answers(address)?.to_owned()))).collect()
}

fn may_hold_addresses(service: &Service) -> bool {
    let is_load_balancer =
        service.spec.as_ref().is_some_and(|it| it.type_.as_deref() == Some("LoadBalancer"));
    let balancer = service.status.as_ref().and_then(|it| it.load_balancer.as_ref());
    is_load_balancer || balancer.is_some_and(|it| it.ingress.as_ref().is_some_and(|it| !it.is_empty()))
}

/// Plans every Service; nothing as long as the members cannot be relied on. While the API server's word is
/// in doubt, what `before` allowed goes on.
pub fn plan(world: &World, before: &Plan) -> Plan {
    if !world.settled {
        return Plan::default();
    }
    let doubled = doubled(world.services.values());
    let input = PlanInput {
        doubled: &doubled,
        config: &world.compiled.config,
        nodes: &world.nodes,
        members: &world.members,
        this_node: &world.this_node,
        ignore_exclude_label: world.ignore_exclude_label,
        withdraw_on_cordon: world.withdraw_on_cordon,
    };
    let elections = elect(&input, world.services.values());
    let mut claims = claims(&input, &elections, &world.wire);
    let mut services: BTreeMap<ServiceKey, ServicePlan> = world
        .services
        .iter()
        .map(|(key, service)| (key.clone(), plan_service(&input, &elections, &world.wire, service)))
        .collect();
    if world.hold {
        claims = hold(claims, &before.claims);
        for (key, before) in &before.services {
            keep_announced(&world.wire, services.get(key), before)
                .map(|kept| services.insert(key.clone(), kept));
        }
    }
    let routes = routes(services.values());
    let kernel = world.kernel.iter().filter(|(address, _)| elections.contains_key(address));
    let kernel = kernel.map(|(address, interface)| (*address, interface.clone())).collect();
    Plan { services, elections, claims, wire: world.wire.clone(), kernel, routes }
}

/// The plan of a Service that goes on with what was announced `before` and is not planned `now`, if anything.
fn keep_announced(wire: &Wire, now: Option<&ServicePlan>, before: &ServicePlan) -> Option<ServicePlan> {
    let owned = |(address, _)| wire.get(&address) == Some(&Seen::Here);
    let layer2 = now.is_none_or(|now| now.announced().next().is_none()) && before.announced().any(owned);
    let bgp = now.is_none_or(|now| now.bgp.is_err()) && before.bgp.is_ok();
    (layer2 || bgp).then(|| {
        let mut kept = now.unwrap_or(before).clone();
        if layer2 {
            (kept.layer2, kept.pool) = (before.layer2.clone(), before.pool.clone());
        }
        if bgp {
            (kept.bgp, kept.pool) = (before.bgp.clone(), before.pool.clone());
        }
        kept
    })
}

/// What each BGP peer of this node is to have. One whose password is still being read waits.
pub fn peers(world: &World, routes: &Routes) -> Peers {
    let is_read =
        |secret: &Option<String>| secret.as_ref().is_none_or(|it| !world.unread_secrets.contains(it));
    let of_node = |peer: &&Peer| peer.nodes.contains(&world.this_node) && is_read(&peer.password_secret);
    let peers = world.compiled.config.peers().values().map(Arc::as_ref).filter(of_node);
    let desired = peers.map(|peer| {
        let routes = routes.get(&peer.name).cloned().unwrap_or_default();
        let uid = world.peer_uids.get(&peer.name).cloned().unwrap_or_default();
        (peer.name.clone(), DesiredPeer { peer: peer.clone(), uid, routes })
    });
    desired.collect()
}

/// Whether nothing is left out.
pub fn is_valid(diagnostics: &[Diagnostic]) -> bool {
    !diagnostics.iter().any(Diagnostic::leaves_out)
}

/// Logs what is wrong with the configuration, when that changed.
pub(super) fn tell_diagnostics(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics.iter().filter(|it| it.leaves_out()) {
        tracing::error!(
            controller = "ConfigReconciler",
            object = %diagnostic.object,
            field = diagnostic.field,
            error = %diagnostic,
            "failed to parse the configuration"
        );
    }
    if is_valid(diagnostics) {
        tracing::info!(
            controller = "ConfigReconciler",
            event = "config reloaded",
            "configuration is in force"
        );
    }
}

/// Logs for which addresses the kernel answers as well, when that changed.
pub(super) fn tell_kernel(before: &Plan, now: &Plan) {
    for (address, interface) in now.kernel.iter().filter(|(address, _)| !before.kernel.contains_key(address))
    {
        tracing::warn!(
            event = "kernelAnswers",
            ip = %address,
            interface,
            "the kernel of this node answers for the address too, which stands on one of its interfaces"
        );
    }
    for address in before.kernel.keys().filter(|address| !now.kernel.contains_key(address)) {
        tracing::info!(event = "kernelAnswersNoMore", ip = %address, "the kernel does not answer for the address any more");
    }
}

/// Logs, for who debugs, why addresses are not announced from here, when that changed.
pub(super) fn tell_withheld(before: &Plan, now: &Plan) {
    for (key, plan) in &now.services {
        let before = before.services.get(key);
        if let Some(why) = plan.withheld()
            && before.and_then(ServicePlan::withheld) != Some(why)
        {
            tracing::debug!(
                event = "skipping should announce l2",
                service = %key,
                reason = why.reason(Protocol::Layer2),
                "not announced from this node: {why}"
            );
        }
        let bgp_before = before.map(|plan| &plan.bgp);
        if bgp_before == Some(&plan.bgp) {
            continue;
        }
        match &plan.bgp {
            Err(why @ Withheld::ConflictingAdvertisements(_)) => {
                tracing::error!(
                    event = "skipping should announce bgp",
                    service = %key,
                    reason = why.reason(Protocol::Bgp),
                    "not announced from this node: {why}"
                );
            }
            Err(why) => tracing::debug!(
                event = "skipping should announce bgp",
                service = %key,
                reason = why.reason(Protocol::Bgp),
                "not announced from this node: {why}"
            ),
            Ok(plan) => {
                for conflict in &plan.conflicts {
                    tracing::error!(event = "conflictingAdvertisements", service = %key, "{conflict}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_core::testing::{endpoint, service, slice};

    use super::*;

    #[test]
    fn endpoints_that_all_seem_to_be_gone_are_kept_and_others_are_believed() {
        let read = |uid: &str, ready: &[(&str, bool)]| {
            let slice = slice(ready.iter().map(|(node, ready)| endpoint(node, Some(*ready), None)));
            let mut read = LoadBalancer::new(&service("demo", "hello").build(), [&slice]);
            read.uid = uid.into();
            BTreeMap::from([((*read.key).clone(), read)])
        };
        let before = read("1", &[("a", true), ("b", true)]);
        let kept = |mut now: BTreeMap<ServiceKey, LoadBalancer>| {
            keep_endpoints(&mut now, &before);
            now.into_values().next().unwrap().endpoints.nodes.into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept(read("1", &[("a", false), ("b", false)])), "a b");
        assert_eq!(kept(read("1", &[])), "a b");
        assert_eq!(kept(read("1", &[("a", true), ("b", false)])), "a", "what is left is true");
        assert_eq!(kept(read("2", &[])), "", "another Service of that name");
    }
}
