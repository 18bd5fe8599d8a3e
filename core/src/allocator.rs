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
use std::sync::Arc;

pub use self::counters::PoolCounters;
pub use self::event::Event;
use self::holder::{Rank, age};
pub use self::refusal::Refusal;
use self::settle::{Draft, Holding, Next, Pass};
use crate::config::{Config, RECORD_SEPARATOR};
use crate::service::{AddressAssigned, LoadBalancer, Ports, ServiceKey, SharingKey};

/// Services by key. There may be very many: whoever remembers one shares it.
pub type LoadBalancers = BTreeMap<Arc<ServiceKey>, Arc<LoadBalancer>>;

/// Services in that form.
pub fn by_key(services: impl IntoIterator<Item = LoadBalancer>) -> LoadBalancers {
    services.into_iter().map(|service| (Arc::new(service.key.clone()), Arc::new(service))).collect()
}

/// What a Service has been given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The addresses, in the order of the status.
    pub addresses: Arc<[IpAddr]>,
    /// The pool they are from; two, in the order of the addresses, where no pool had an address of each
    /// family.
    pub pools: Arc<[String]>,
}

impl Assignment {
    fn new<'a>(addresses: impl Into<Arc<[IpAddr]>>, pools: impl IntoIterator<Item = &'a str>) -> Self {
        let mut pools: Vec<String> = pools.into_iter().map(ToOwned::to_owned).collect();
        pools.dedup();
        Self { addresses: addresses.into(), pools: pools.into() }
    }

    /// The pools as they are recorded on the Service.
    pub fn record(&self) -> String {
        self.pools.join(&RECORD_SEPARATOR.to_string())
    }
}

/// The part of a Service that the controller writes: `status.loadBalancer.ingress`, the annotation that
/// records the pool, and the condition. `None` removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    /// Identity of the Service that is meant.
    pub uid: Arc<str>,
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
    written: BTreeMap<Arc<ServiceKey>, StatusWrite>,
    claims: BTreeMap<Arc<ServiceKey>, Claim>,
    rivals: BTreeMap<ServiceKey, Rival>,
    conflicts: BTreeSet<IpAddr>,
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
    uid: Arc<str>,
    addresses: Arc<[IpAddr]>,
    sharing: SharingKey,
    ports: Ports,
}

impl Claim {
    fn of(service: &LoadBalancer, addresses: &Arc<[IpAddr]>) -> Self {
        Self {
            uid: Arc::clone(&service.uid),
            addresses: Arc::clone(addresses),
            sharing: service.sharing.clone(),
            ports: service.ports.clone(),
        }
    }

    /// Whether the Service still has the same addresses for the same use.
    fn stands(&self, service: &LoadBalancer, addresses: &[IpAddr]) -> bool {
        self.uid == service.uid
            && *self.addresses == *addresses
            && self.sharing == service.sharing
            && self.ports == service.ports
    }
}

impl Held {
    /// A write went out (or may have): it counts as done until the Service is seen with it.
    pub fn record(&mut self, service: impl Into<Arc<ServiceKey>>, write: StatusWrite) {
        self.written.insert(service.into(), write);
    }

    /// The Service was seen in a state after the write, or the write is known to have failed.
    pub fn forget(&mut self, service: &ServiceKey) {
        self.written.remove(service);
    }

    /// Writes that count as done.
    pub fn recorded(&self) -> impl Iterator<Item = (&ServiceKey, &StatusWrite)> {
        self.written.iter().map(|(service, write)| (&**service, write))
    }

    /// Remembers what the assignments of a pass rested on, so that the next one can tell who changed.
    pub fn accept(&mut self, allocation: &Allocation) {
        self.claims.retain(|key, _| allocation.outcomes.contains_key(key));
        for (key, claim) in &allocation.changed_claims {
            match claim {
                Some(claim) => drop(self.claims.insert(Arc::clone(key), claim.clone())),
                None => drop(self.claims.remove(key)),
            }
        }
    }

    /// Who else writes the statuses of Services.
    pub fn set_rivals(&mut self, rivals: BTreeMap<ServiceKey, Rival>) {
        self.rivals = rivals;
    }

    /// Addresses that hosts have which are no speakers: who holds one keeps it, but it is given to nobody.
    pub fn set_conflicts(&mut self, conflicts: BTreeSet<IpAddr>) {
        self.conflicts = conflicts;
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
    pub outcomes: BTreeMap<Arc<ServiceKey>, Outcome>,
    /// For each pool in force.
    pub counters: BTreeMap<String, PoolCounters>,
    /// Claims that are others than before.
    changed_claims: Vec<(Arc<ServiceKey>, Option<Claim>)>,
}

/// Decides for all Services. They are those that this process handles
/// ([`LoadBalancer::is_handled_by`]), of whatever type.
pub fn allocate(config: &Config, services: &LoadBalancers, held: &Held) -> Allocation {
    // Services come in the order of their keys, and sorts are stable: that decides what is left open.
    let mut in_order: Vec<(bool, Rank, usize, &LoadBalancer)> = services
        .values()
        .enumerate()
        .map(|(index, service)| (!is_unchanged(held, service), Rank::of(service), index, &**service))
        .collect();
    in_order.sort_by_key(|(changed, rank, _, _)| (*changed, *rank));
    let mut pass = Pass::new(config, held);
    let mut drafts: Vec<Option<Draft<'_>>> = services.iter().map(|_| None).collect();
    for (_, _, index, service) in in_order {
        if let Some(draft) = drafts.get_mut(index) {
            *draft = Some(pass.settle(service));
        }
    }
    let mut open: Vec<&mut Draft<'_>> =
        drafts.iter_mut().flatten().filter(|draft| draft.next != Next::Nothing).collect();
    open.sort_by_key(|draft| age(draft.service));
    for draft in &mut open {
        match draft.next {
            Next::Nothing => {}
            Next::Complete => pass.complete(draft),
            Next::Allocate => pass.allocate(draft),
        }
    }
    for draft in open.into_iter().filter(|draft| draft.next == Next::Allocate) {
        pass.explain(draft);
    }
    let counters = counters::count(config, pass.index());
    drop(pass);
    let mut changed_claims = Vec::new();
    let mut outcomes = Vec::with_capacity(drafts.len());
    for (key, draft) in services.keys().zip(drafts) {
        let Some(draft) = draft else { continue };
        let service = draft.service;
        let outcome = draft.outcome(held);
        let addresses = outcome.assignment.as_ref().map(|it| &it.addresses);
        let before = held.claims.get(key);
        match addresses {
            Some(addresses) if before.is_some_and(|claim| claim.stands(service, addresses)) => {}
            None if before.is_none() => {}
            addresses => {
                let claim = addresses.map(|addresses| Claim::of(service, addresses));
                changed_claims.push((Arc::clone(key), claim));
            }
        }
        outcomes.push((Arc::clone(key), outcome));
    }
    Allocation { outcomes: outcomes.into_iter().collect(), counters, changed_claims }
}

/// Whether what was accepted of the Service before still stands.
fn is_unchanged(held: &Held, service: &LoadBalancer) -> bool {
    let Some(claim) = held.claims.get(&service.key) else { return false };
    claim.stands(service, &Holding::of(held, service).addresses())
}
