//! Which Service has which address.
//!
//! Inputs: the configuration in force, every Service that this product handles, and what it is known
//! to hold ([`Held`]). Output: for each Service an [`Outcome`], the write and the Events that follow.
//! Nothing is remembered in between but `Held`, so the result is the same after a restart.
//!
//! A pass has two halves. First every Service that holds addresses keeps them or loses them, those
//! first whose claim is unchanged since the last pass; only then are free addresses given out, to the
//! oldest Service first. So nobody is given what another one holds, and who changed bears the
//! consequence. The cost is O(n log n) in Services and does not depend on how full the pools are.
//!
//! Where this differs from MetalLB, on purpose:
//! - a Service keeps what it holds while its pool (or the one it asks for) is left out for an error;
//! - with no pool at all, addresses that we did not give (no pool recorded) are not touched;
//! - a dual-stack upgrade is only tried for a Service that is dual-stack itself;
//! - a status that somebody else wrote over is restored to what was given, and left to them if they insist;
//! - `ipMode` makes no difference, and the order of addresses in a status is left as it is.

mod candidates;
pub mod counters;
mod event;
pub mod holder;
mod refusal;
mod settle;
mod sharing;
pub mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub use self::counters::PoolCounters;
pub use self::event::Event;
use self::holder::{Age, Rank};
pub use self::refusal::Refusal;
use self::settle::{Draft, Holding, Next, Pass};
use crate::config::Config;
use crate::service::{AddressAssigned, LoadBalancer, Port, ServiceKey, SharingKey};

/// Services by key.
pub type LoadBalancers = BTreeMap<ServiceKey, LoadBalancer>;

/// What a Service has been given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The addresses, in the order of the status.
    pub addresses: Vec<IpAddr>,
    /// The pool they are from.
    pub pool: String,
}

/// The part of a Service that the controller writes: `status.loadBalancer.ingress`, the annotation that
/// records the pool, and the condition. `None` removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    /// Identity of the Service that is meant.
    pub uid: String,
    /// What it is to hold.
    pub assignment: Option<Assignment>,
    /// What its condition is to say.
    pub condition: Option<AddressAssigned>,
}

impl StatusWrite {
    /// Whether it gives the Service addresses other than those its status shows.
    pub fn gives(&self, service: &LoadBalancer) -> bool {
        self.assignment.as_ref().is_some_and(|it| !service.ingress.is_exactly(&it.addresses))
    }
}

/// What Services hold, beyond what their statuses say.
#[derive(Clone, Debug, Default)]
pub struct Held {
    written: BTreeMap<ServiceKey, StatusWrite>,
    claims: BTreeMap<ServiceKey, Claim>,
    rivals: BTreeMap<ServiceKey, Rival>,
}

/// Somebody else who writes the status of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Who, by the name of a field manager.
    pub name: String,
    /// Whether they did it so often that the Service is left to them.
    pub insists: bool,
}

/// What an accepted assignment rested on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    uid: String,
    addresses: BTreeSet<IpAddr>,
    sharing: SharingKey,
    ports: BTreeSet<Port>,
}

impl Held {
    /// A write went out (or may have): it counts as done until the Service is seen with it.
    pub fn record(&mut self, service: ServiceKey, write: StatusWrite) {
        self.written.insert(service, write);
    }

    /// The Service was seen in a state after the write, or the write is known to have failed.
    pub fn forget(&mut self, service: &ServiceKey) {
        self.written.remove(service);
    }

    /// Writes that count as done.
    pub fn recorded(&self) -> impl Iterator<Item = (&ServiceKey, &StatusWrite)> {
        self.written.iter()
    }

    /// Remembers what the assignments of a pass rested on, so that the next one can tell who changed.
    pub fn accept(&mut self, allocation: &Allocation) {
        self.claims.clone_from(&allocation.claims);
    }

    /// Who else writes the statuses of Services.
    pub fn set_rivals(&mut self, rivals: BTreeMap<ServiceKey, Rival>) {
        self.rivals = rivals;
    }

    fn written(&self, service: &LoadBalancer) -> Option<&StatusWrite> {
        // A Service that was deleted and created again starts afresh.
        self.written.get(&service.key).filter(|write| write.uid == service.uid)
    }
}

/// What a pass decided for one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What it holds from now on.
    pub assignment: Option<Assignment>,
    /// Why it does not have (all of) what it asks for.
    pub refusal: Option<Refusal>,
    /// What must be written for that, if anything.
    pub write: Option<StatusWrite>,
    /// What to tell its owner. The same on every pass while nothing changes.
    pub events: Vec<Event>,
}

/// Result of a pass.
#[derive(Clone, Debug, Default)]
pub struct Allocation {
    /// For each Service.
    pub outcomes: BTreeMap<ServiceKey, Outcome>,
    /// For each pool in force.
    pub counters: BTreeMap<String, PoolCounters>,
    claims: BTreeMap<ServiceKey, Claim>,
}

/// Decides for all Services. They are those that this process handles
/// ([`LoadBalancer::is_handled_by`]), of whatever type.
pub fn allocate(config: &Config, services: &LoadBalancers, held: &Held) -> Allocation {
    let mut in_order: Vec<(bool, Rank<'_>, &LoadBalancer)> =
        services.values().map(|service| (!is_unchanged(held, service), Rank::of(service), service)).collect();
    in_order.sort_by_key(|(changed, rank, _)| (*changed, *rank));
    let mut pass = Pass::new(config, held);
    let mut drafts: Vec<Draft<'_>> =
        in_order.into_iter().map(|(_, _, service)| pass.settle(service)).collect();
    drafts.sort_by_key(|draft| Age::of(draft.service));
    for draft in &mut drafts {
        match draft.next {
            Next::Nothing => {}
            Next::Complete => pass.complete(draft),
            Next::Allocate => pass.allocate(draft),
        }
    }
    for draft in drafts.iter_mut().filter(|draft| draft.next == Next::Allocate) {
        pass.explain(draft);
    }
    let mut allocation = Allocation { counters: counters::count(config, pass.index()), ..Default::default() };
    for draft in drafts {
        let service = draft.service;
        let outcome = draft.outcome(held);
        if let Some(assignment) = &outcome.assignment {
            allocation.claims.insert(service.key.clone(), claim(service, &assignment.addresses));
        }
        allocation.outcomes.insert(service.key.clone(), outcome);
    }
    allocation
}

fn claim(service: &LoadBalancer, addresses: &[IpAddr]) -> Claim {
    Claim {
        uid: service.uid.clone(),
        addresses: addresses.iter().copied().collect(),
        sharing: service.sharing.clone(),
        ports: service.ports.clone(),
    }
}

/// Whether what was accepted of the Service before still stands.
fn is_unchanged(held: &Held, service: &LoadBalancer) -> bool {
    let addresses = || Holding::of(held, service).addresses();
    held.claims.get(&service.key).is_some_and(|before| *before == claim(service, &addresses()))
}
