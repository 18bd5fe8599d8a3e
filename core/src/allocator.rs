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
mod draft;
mod event;
mod held;
pub mod holder;
mod outcomes;
mod refusal;
mod settle;
mod sharing;
pub mod usage;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub use self::counters::PoolCounters;
use self::draft::{Draft, Next};
pub use self::event::Event;
use self::held::{Claim, Known};
pub use self::held::{Held, Rival};
use self::holder::{Rank, age};
pub use self::outcomes::{Outcome, Outcomes};
pub use self::refusal::Refusal;
use self::settle::Pass;
use crate::config::{Config, RECORD_SEPARATOR};
use crate::service::{AddressAssigned, LoadBalancer, ServiceKey};

/// Services by key. There may be very many: whoever remembers one shares it.
pub type LoadBalancers = BTreeMap<Arc<ServiceKey>, Arc<LoadBalancer>>;

/// Services in that form.
pub fn by_key(services: impl IntoIterator<Item = LoadBalancer>) -> LoadBalancers {
    services.into_iter().map(|service| (Arc::clone(&service.key), Arc::new(service))).collect()
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

    /// Whether that is what is recorded.
    fn is_recorded(&self, record: &str) -> bool {
        record.split(RECORD_SEPARATOR).eq(self.pools.iter().map(String::as_str))
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

/// Result of a pass.
#[derive(Clone, Debug, Default)]
pub struct Allocation {
    /// For each Service.
    pub outcomes: Outcomes,
    /// For each pool in force.
    pub counters: BTreeMap<String, PoolCounters>,
    /// Claims that are others than before.
    changed_claims: Vec<(Arc<ServiceKey>, Option<Claim>)>,
}

/// Decides for all Services. They are those that this process handles
/// ([`LoadBalancer::is_handled_by`]), of whatever type.
pub fn allocate(config: &Config, services: &LoadBalancers, held: &Held) -> Allocation {
    // Services come in the order of their keys, and sorts are stable: that decides what is left open.
    let mut in_order: Vec<(bool, Rank, usize, &LoadBalancer, Known<'_>)> = services
        .values()
        .zip(held.of_each(services))
        .enumerate()
        .map(|(index, (service, known))| {
            (!known.is_unchanged(service), Rank::of(service), index, &**service, known)
        })
        .collect();
    in_order.sort_by_key(|(changed, rank, ..)| (*changed, *rank));
    let mut pass = Pass::new(config, held);
    let mut drafts: Vec<Option<Draft<'_>>> = services.iter().map(|_| None).collect();
    for (_, _, index, service, known) in in_order {
        if let Some(draft) = drafts.get_mut(index) {
            *draft = Some(pass.settle(service, known));
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
        let (service, before) = (draft.service, draft.known.claim);
        let outcome = draft.outcome();
        let addresses = outcome.assignment.as_ref().map(|it| &it.addresses);
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
    Allocation { outcomes: Outcomes::in_order(outcomes), counters, changed_claims }
}
