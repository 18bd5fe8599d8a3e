//! Why a Service is reached, or is not: the chain from it to its addresses, their pool, the advertisements
//! and each node with its verdict, and the first thing to fix.
//!
//! ```text
//! what the API server shows ─▶ Cluster ─▶ Explainer ─ allocate, elect, plan_service ─▶ Chain { verdict, … }
//!                                                     (for each node as its speaker would)
//! ```
//!
//! What only the wire knows is taken from what speakers write: the owner from `ServiceL2Status`, strangers
//! and missing interfaces from the latest Event. So the chain is as true as the API server is current.

mod addresses;
mod announcement;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::well_known::service_condition;
use ferrolb_proto::ethernet::MacAddr;

pub use self::step::Step;
use crate::allocator::{self, Allocation, Held, LoadBalancers, Refusal, allocate};
use crate::config::{Compiled, Diagnostic, Kind, ObjectRef};
use crate::node::Node;
use crate::planner::{
    self, Doubled, Elections, Member, PlanInput, Protocol, Seen, ServicePlan, Wire, Withheld, doubled, elect,
};
use crate::service::{LoadBalancer, ServiceKey};

/// What the API server shows.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The configuration, and what is wrong with it.
    pub compiled: Compiled,
    /// The nodes.
    pub nodes: BTreeMap<String, Node>,
    /// Nodes with a speaker, and whether it is ready.
    pub speakers: BTreeMap<String, bool>,
    /// Whether a controller is ready.
    pub controller_ready: bool,
    /// Services that this product handles.
    pub services: LoadBalancers,
    /// Nodes that say they answer for a Service on layer 2.
    pub layer2: BTreeMap<ServiceKey, BTreeSet<String>>,
    /// Nodes that say they announce a Service by BGP, with the peers.
    pub bgp: BTreeMap<ServiceKey, BTreeMap<String, Vec<String>>>,
    /// Addresses that hosts use which are no speakers, as speakers tell.
    pub conflicts: BTreeSet<IpAddr>,
    /// Load balancer class that the product handles.
    pub class: Option<String>,
    /// Whether speakers ignore the exclude label.
    pub ignore_exclude_label: bool,
    /// Whether a cordoned node gives its addresses away.
    pub withdraw_on_cordon: bool,
}

/// An Event of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Whether it is a warning.
    pub warning: bool,
}

/// Where a Service stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is announced by these nodes.
    Announced {
        /// On layer 2.
        layer2: BTreeSet<String>,
        /// By BGP.
        bgp: BTreeSet<String>,
    },
    /// It is not, and this is to be done first.
    Blocked(Step),
}

/// What a node does for a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerdict<T> {
    /// It announces it.
    Announces(T),
    /// It does not.
    Withheld(Withheld),
    /// No speaker runs on it.
    NoSpeaker,
    /// It may announce it, but its speaker is not ready.
    SpeakerNotReady,
}

/// The whole chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The Service.
    pub service: ServiceKey,
    /// Where it stands.
    pub verdict: Verdict,
    /// Addresses that it holds.
    pub addresses: Vec<IpAddr>,
    /// Why it does not have (all of) what it asks for: reason and message.
    pub refusal: Option<(String, String)>,
    /// The pools that the addresses are from.
    pub pools: Vec<String>,
    /// Advertisements of these pools, for this Service or not.
    pub advertisements: Vec<ObjectRef>,
    /// What each node does on layer 2, where there is an address.
    pub layer2: BTreeMap<String, NodeVerdict<()>>,
    /// To which peers each node announces, where there is an address.
    pub bgp: BTreeMap<String, NodeVerdict<Vec<String>>>,
    /// What else is to be known: findings on pool and advertisements, refusals beside an address.
    pub remarks: Vec<Step>,
    /// Warnings that were told of it, latest last.
    pub warnings: Vec<Told>,
}

/// Explains Services of one cluster.
#[derive(Debug)]
pub struct Explainer<'a> {
    cluster: &'a Cluster,
    members: BTreeMap<String, Member>,
    elections: BTreeMap<&'a str, Elections>,
    doubled: Doubled,
    allocation: Allocation,
}

impl<'a> Explainer<'a> {
    /// Makes what all Services have in common.
    pub fn new(cluster: &'a Cluster) -> Self {
        let member =
            |(node, ready): (&String, &bool)| (node.clone(), Member { alive: *ready, interfaces: None });
        let members: BTreeMap<String, Member> = cluster.speakers.iter().map(member).collect();
        let mut held = Held::default();
        held.set_conflicts(cluster.conflicts.clone());
        let mut explainer = Self {
            cluster,
            members,
            elections: BTreeMap::new(),
            doubled: doubled(cluster.services.values().map(Arc::as_ref)),
            allocation: allocate(&cluster.compiled.config, &cluster.services, &held),
        };
        explainer.elections = cluster
            .speakers
            .keys()
            .map(|node| {
                let input = explainer.input(node, &explainer.members);
                (node.as_str(), elect(&input, cluster.services.values().map(Arc::as_ref)))
            })
            .collect();
        explainer
    }

    fn input<'b>(&'b self, node: &'b str, members: &'b BTreeMap<String, Member>) -> PlanInput<'b> {
        PlanInput {
            config: &self.cluster.compiled.config,
            nodes: &self.cluster.nodes,
            members,
            doubled: &self.doubled,
            this_node: node,
            ignore_exclude_label: self.cluster.ignore_exclude_label,
            withdraw_on_cordon: self.cluster.withdraw_on_cordon,
        }
    }

    /// The chain of a Service. `events` are its Events, the latest last.
    pub fn chain(&self, service: &LoadBalancer, events: &[Told]) -> Chain {
        let outcome = self.allocation.outcomes.get(&service.key);
        let refusal = outcome.and_then(|it| it.refusal.as_ref());
        let plans = self.plans(service, events);
        let addresses = service.ingress.addresses().filter(|_| service.is_load_balancer);
        let pools = addresses.and_then(|addresses| {
            self.cluster.compiled.config.pools_holding(&addresses, service.recorded_pool.as_deref())
        });
        // A pair from one pool names it twice.
        let mut pools = pools.unwrap_or_default();
        pools.dedup();
        let (mut layer2, mut bgp) = (BTreeMap::new(), BTreeMap::new());
        if !pools.is_empty() {
            (layer2, bgp) = (self.layer2(&plans), self.bgp(service, &plans));
        }
        let announced = |node: &String, yes: bool| yes.then(|| node.clone());
        let on_layer2: BTreeSet<String> = layer2
            .iter()
            .filter_map(|(node, it)| announced(node, matches!(it, NodeVerdict::Announces(()))))
            .collect();
        let by_bgp: BTreeSet<String> = bgp
            .iter()
            .filter_map(|(node, it)| announced(node, matches!(it, NodeVerdict::Announces(_))))
            .collect();
        let mut remarks = self.findings(&pools);
        let blocked = self.without_address(service, refusal, events);
        let verdict = match blocked {
            Some(step) => Verdict::Blocked(step),
            None if !on_layer2.is_empty() || !by_bgp.is_empty() => {
                remarks.extend(refusal.map(|it| addresses::step(self.cluster, service, it)));
                Verdict::Announced { layer2: on_layer2, bgp: by_bgp }
            }
            None => Verdict::Blocked(announcement::step(self.cluster, service, &pools, &layer2, &bgp)),
        };
        // What the controller wrote is its last word, even where a pass over the present state has another.
        let told = service.condition.as_ref().filter(|it| it.reason != service_condition::ASSIGNED);
        let refusal = match told {
            Some(told) => Some((told.reason.clone(), told.message.clone())),
            None => refusal.map(|it| (it.reason().to_owned(), it.to_string())),
        };
        Chain {
            service: (*service.key).clone(),
            verdict,
            addresses: service.ingress.readable().collect(),
            refusal,
            advertisements: self.advertisements(&pools),
            pools: pools.into_iter().map(ToOwned::to_owned).collect(),
            layer2,
            bgp,
            remarks,
            warnings: events.iter().filter(|it| it.warning).cloned().collect(),
        }
    }

    /// Why there is nothing to announce, if so.
    fn without_address(
        &self,
        service: &LoadBalancer,
        refusal: Option<&Refusal>,
        events: &[Told],
    ) -> Option<Step> {
        if let Some(step) = addresses::not_handled(self.cluster, service) {
            return Some(step);
        }
        let latest = |reasons: &[&str]| events.iter().rev().find(|it| reasons.contains(&it.reason.as_str()));
        if let Some(told) = latest(&[allocator::Event::CONTESTED, allocator::Event::ASSIGNED])
            && told.reason == allocator::Event::CONTESTED
            && !service.grant.as_ref().is_some_and(|it| service.ingress.shows(&it.addresses))
        {
            return Some(addresses::contested(service, &told.message));
        }
        if !service.ingress.is_empty() {
            return None;
        }
        Some(match refusal {
            Some(refusal) => addresses::step(self.cluster, service, refusal),
            None => addresses::not_given_yet(self.cluster, service),
        })
    }

    /// What each speaker would make of the Service.
    fn plans(&self, service: &LoadBalancer, events: &[Told]) -> BTreeMap<&'a str, ServicePlan> {
        let none = BTreeSet::new();
        let owners = self.cluster.layer2.get(&*service.key).unwrap_or(&none);
        let latest = events.iter().rev().find(|it| planner::Event::LAYER2.contains(&it.reason.as_str()));
        let latest = latest.filter(|_| owners.is_empty());
        let stranger = latest
            .filter(|it| it.reason == planner::Event::ADDRESS_CONFLICT)
            .and_then(|it| planner::Event::stranger(&it.message));
        let without = |(node, it): (&String, &Member)| {
            (node.clone(), Member { interfaces: Some(BTreeSet::new()), ..it.clone() })
        };
        let lacks_interfaces = latest.filter(|it| it.reason == planner::Event::ANNOUNCE_FAILED);
        let without = lacks_interfaces.map(|_| self.members.iter().map(without).collect());
        let members = without.as_ref().unwrap_or(&self.members);
        let plan = |(node, elections): (&&'a str, &Elections)| {
            let wire = wire(service, owners, stranger, node);
            (*node, planner::plan_service(&self.input(node, members), elections, &wire, service))
        };
        self.elections.iter().map(plan).collect()
    }

    fn layer2(&self, plans: &BTreeMap<&str, ServicePlan>) -> BTreeMap<String, NodeVerdict<()>> {
        self.verdicts(plans, |_, plan| {
            if !plan.announced_by(Protocol::Layer2).is_empty() {
                return Ok(());
            }
            plan.withheld().cloned().map_or(Ok(()), Err)
        })
    }

    fn bgp(
        &self,
        service: &LoadBalancer,
        plans: &BTreeMap<&str, ServicePlan>,
    ) -> BTreeMap<String, NodeVerdict<Vec<String>>> {
        let told = self.cluster.bgp.get(&*service.key);
        self.verdicts(plans, |node, plan| match (&plan.bgp, told.and_then(|told| told.get(node))) {
            (Err(withheld), _) => Err(withheld.clone()),
            (Ok(_), Some(peers)) => Ok(peers.clone()),
            (Ok(_), None) => Ok(plan.bgp_peers().map(ToOwned::to_owned).collect()),
        })
    }

    fn verdicts<T>(
        &self,
        plans: &BTreeMap<&str, ServicePlan>,
        of: impl Fn(&str, &ServicePlan) -> Result<T, Withheld>,
    ) -> BTreeMap<String, NodeVerdict<T>> {
        let verdict = |node: &String| {
            let verdict = match (plans.get(node.as_str()), self.cluster.speakers.get(node)) {
                (None, _) | (_, None) => NodeVerdict::NoSpeaker,
                (Some(plan), Some(ready)) => match of(node, plan) {
                    Ok(_) | Err(Withheld::Claiming) if !ready => NodeVerdict::SpeakerNotReady,
                    Ok(what) => NodeVerdict::Announces(what),
                    Err(withheld) => NodeVerdict::Withheld(withheld),
                },
            };
            (node.clone(), verdict)
        };
        self.cluster.nodes.keys().map(verdict).collect()
    }

    fn advertisements(&self, pools: &[&str]) -> Vec<ObjectRef> {
        let config = &self.cluster.compiled.config;
        let layer2 = config.l2_advertisements().values().filter(|it| any_of(pools, &it.pools));
        let bgp = config.bgp_advertisements().values().filter(|it| any_of(pools, &it.pools));
        let layer2 = layer2.map(|it| ObjectRef::new(Kind::L2Advertisement, &it.name));
        layer2.chain(bgp.map(|it| ObjectRef::new(Kind::BgpAdvertisement, &it.name))).collect()
    }

    /// What is wrong with the pools and the advertisements of them, or with those that are left out.
    fn findings(&self, pools: &[&str]) -> Vec<Step> {
        let config = &self.cluster.compiled.config;
        let in_force = self.advertisements(pools);
        let is_left_out = |object: &ObjectRef| match object.kind {
            Kind::L2Advertisement => !config.l2_advertisements().contains_key(&object.name),
            Kind::BgpAdvertisement => !config.bgp_advertisements().contains_key(&object.name),
            _ => false,
        };
        let concerns = |it: &&Diagnostic| {
            let object = &it.object;
            in_force.contains(object)
                || is_left_out(object)
                || (object.kind == Kind::IpAddressPool && pools.contains(&object.name.as_str()))
        };
        self.cluster.compiled.diagnostics.iter().filter(concerns).map(Step::from).collect()
    }
}

fn any_of(pools: &[&str], selected: &BTreeSet<String>) -> bool {
    pools.iter().any(|pool| selected.contains(*pool))
}

/// What a node's links see, as far as the API server shows it.
fn wire(service: &LoadBalancer, owners: &BTreeSet<String>, stranger: Option<MacAddr>, node: &str) -> Wire {
    let seen = match owners.first() {
        _ if owners.contains(node) => Some(Seen::Here),
        Some(owner) => Some(Seen::Elsewhere(Some(owner.clone()))),
        None => stranger.map(Seen::Conflict),
    };
    let addresses = service.ingress.readable();
    addresses.filter_map(|address| Some((address, seen.clone()?))).collect()
}
