//! One pass as a function: everything a plan depends on, and the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::well_known::label;
use ferrolb_core::config::{Compiled, Diagnostic, Severity};
use ferrolb_core::node::Node;
use ferrolb_core::planner::{
    Elections, LinkClaims, Member, PlanInput, Seen, ServicePlan, Wire, claims, elect, hold, plan_service,
};
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_proto::conflict;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

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
    /// Whether the API server has just come back, so that nothing is taken away.
    pub hold: bool,
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
            && self.hold == other.hold
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
        .map(|service| (service.key.clone(), service))
        .collect()
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
    let input = PlanInput {
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
        let announced = before.services.iter().filter(|(_, plan)| plan.announced().next().is_some());
        for (key, plan) in announced {
            let still = services.get(key).is_some_and(|plan| plan.announced().next().is_some());
            let owned = |(address, _)| world.wire.get(&address) == Some(&Seen::Here);
            if !still && plan.announced().any(owned) {
                services.insert(key.clone(), plan.clone());
            }
        }
    }
    Plan { services, elections, claims, wire: world.wire.clone() }
}

/// Whether nothing is left out.
pub fn is_valid(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().all(|it| it.severity() != Severity::Invalid)
}

/// Logs what is wrong with the configuration, when that changed.
pub(super) fn tell_diagnostics(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics.iter().filter(|it| it.severity() == Severity::Invalid) {
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

/// Logs, for who debugs, why addresses are not announced from here, when that changed.
pub(super) fn tell_withheld(before: &Plan, now: &Plan) {
    for (key, plan) in &now.services {
        let withheld = plan.withheld();
        if let Some(why) = withheld
            && before.services.get(key).and_then(ServicePlan::withheld) != withheld
        {
            tracing::debug!(
                event = "skipping should announce l2",
                service = %key,
                reason = why.reason(),
                "not announced from this node: {why}"
            );
        }
    }
}
