//! One pass as a function: everything a plan depends on, and the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_core::config::{Compiled, Diagnostic, Peer};
use ferrolb_core::node::Node;
use ferrolb_core::planner::{
    Doubled, Elections, LinkClaims, Member, PlanInput, Protocol, Routes, Seen, ServicePlan, Wire, Withheld,
    claims, doubled, elect, hold, plan_service, routes,
};
use ferrolb_core::service::ServiceKey;
use ferrolb_proto::conflict;

use super::readings::LoadBalancers;
use super::scope::{Scope, differing};
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
    pub services: LoadBalancers,
    /// This node.
    pub this_node: String,
    /// Whether the exclude label is ignored.
    pub ignore_exclude_label: bool,
    /// Whether a cordon counts.
    pub withdraw_on_cordon: bool,
}

impl World {
    /// Whether what Services do not have to themselves is the same, so that a plan for the one world is a plan
    /// for the other wherever Services and wire agree.
    pub(super) fn decides_as(&self, other: &Self) -> bool {
        let plain = |it: &Self| it.settled && !it.hold;
        plain(self) && plain(other) && self.has_frame_of(other)
    }

    /// Whether all that the decisions about Services have in common is the same.
    fn has_frame_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.compiled, &other.compiled)
            && self.nodes == other.nodes
            && self.members == other.members
            && self.this_node == other.this_node
            && self.ignore_exclude_label == other.ignore_exclude_label
            && self.withdraw_on_cordon == other.withdraw_on_cordon
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.has_frame_of(other)
            && self.settled == other.settled
            && self.speakers == other.speakers
            && self.wire == other.wire
            && self.kernel == other.kernel
            && self.hold == other.hold
            && self.peer_uids == other.peer_uids
            && self.unread_secrets == other.unread_secrets
            && self.services == other.services
    }
}

/// What this node does for Services. A plan that is the same one as before was not made anew.
pub type ServicePlans = BTreeMap<ServiceKey, Arc<ServicePlan>>;

/// What this node does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// For each Service.
    pub services: ServicePlans,
    /// Addresses that not every Service which holds them may have.
    pub doubled: Doubled,
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

/// Addresses of Services that the kernel of this node answers for, and the interface they stand on.
pub fn kernel(services: &LoadBalancers, links: &Links) -> BTreeMap<IpAddr, String> {
    let addresses = services.values().flat_map(|service| service.ingress.readable());
    addresses.filter_map(|address| Some((address, links.kernel_answers(address)?.to_owned()))).collect()
}

/// Plans every Service; nothing as long as the members cannot be relied on. What was planned for the world
/// before and still holds is taken over ([`Scope`]); while the API server's word is in doubt, what was allowed
/// then goes on.
pub fn plan(world: &World, last: Option<&World>, before: &Plan) -> Plan {
    if !world.settled {
        return Plan::default();
    }
    let scope = last.map_or(Scope::All, |last| Scope::between(last, world));
    let concerned = scope.concerned(&world.services);
    let doubled = scope.renew(&before.doubled, doubled(concerned.iter().copied()));
    let input = PlanInput {
        doubled: &doubled,
        config: &world.compiled.config,
        nodes: &world.nodes,
        members: &world.members,
        this_node: &world.this_node,
        ignore_exclude_label: world.ignore_exclude_label,
        withdraw_on_cordon: world.withdraw_on_cordon,
    };
    let elections = scope.renew(&before.elections, elect(&input, concerned.iter().copied()));
    let mut claims = claims(&input, &elections, &world.wire);
    let mut services = scope.kept(&before.services);
    for service in concerned {
        let plan = plan_service(&input, &elections, &world.wire, service);
        services.insert((*service.key).clone(), Arc::new(plan));
    }
    if world.hold {
        claims = hold(claims, &before.claims);
        for (key, before) in &before.services {
            keep_announced(&world.wire, services.get(key).map(Arc::as_ref), before)
                .map(|kept| services.insert(key.clone(), Arc::new(kept)));
        }
    }
    let routes = routes(services.values().map(Arc::as_ref));
    let kernel = world.kernel.iter().filter(|(address, _)| elections.contains_key(address));
    let kernel = kernel.map(|(address, interface)| (*address, interface.clone())).collect();
    Plan { services, doubled, elections, claims, wire: world.wire.clone(), kernel, routes }
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
    for key in differing(&before.services, &now.services, Arc::ptr_eq) {
        let (before, Some(plan)) = (before.services.get(key), now.services.get(key)) else { continue };
        if let Some(why) = plan.withheld()
            && before.and_then(|it| it.withheld()) != Some(why)
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
