//! What Services hold: what their statuses say, what was written and not seen back, and what the last pass
//! accepted.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Allocation, LoadBalancers, StatusWrite};
use crate::service::{Families, FamilyError, Ingress, LoadBalancer, Ports, ServiceKey, SharingKey};

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
pub(super) struct Claim {
    uid: Arc<str>,
    pub(super) addresses: Arc<[IpAddr]>,
    sharing: SharingKey,
    ports: Ports,
}

impl Claim {
    pub(super) fn of(service: &LoadBalancer, addresses: &Arc<[IpAddr]>) -> Self {
        Self {
            uid: Arc::clone(&service.uid),
            addresses: Arc::clone(addresses),
            sharing: service.sharing.clone(),
            ports: service.ports.clone(),
        }
    }

    /// Whether the Service still has the same addresses for the same use, and was not read again since: what was read
    /// before would be kept for the claim alone.
    pub(super) fn stands(&self, service: &LoadBalancer, addresses: &[IpAddr]) -> bool {
        *self.addresses == *addresses && Arc::ptr_eq(&self.uid, &service.uid) && self.is_of(service)
    }

    /// Whether it is the claim of a Service that still has the same use for it.
    fn is_of(&self, service: &LoadBalancer) -> bool {
        self.uid == service.uid && self.sharing == service.sharing && self.ports == service.ports
    }

    /// Whether the Service was accepted with all these addresses.
    pub(super) fn covers(&self, service: &LoadBalancer, addresses: &[IpAddr]) -> bool {
        self.uid == service.uid && addresses.iter().all(|address| self.addresses.contains(address))
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
        let mut outcomes = Beside::new(allocation.outcomes.iter());
        self.claims.retain(|key, _| outcomes.at(key).is_some());
        for (key, claim) in &allocation.changed_claims {
            match claim {
                Some(claim) => {
                    // The key that Services have now takes the place of the one that they had.
                    self.claims.remove(key);
                    self.claims.insert(Arc::clone(key), claim.clone());
                }
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

    pub(super) fn rival(&self, service: &ServiceKey) -> Option<&Rival> {
        self.rivals.get(service)
    }

    pub(super) fn conflicts(&self) -> &BTreeSet<IpAddr> {
        &self.conflicts
    }

    /// What is known of each of the Services, in their order.
    pub(super) fn of_each<'h>(&'h self, services: &'h LoadBalancers) -> impl Iterator<Item = Known<'h>> {
        let (mut claims, mut written) = (Beside::new(self.claims.iter()), Beside::new(self.written.iter()));
        services.iter().map(move |(key, service)| Known {
            claim: claims.at(key),
            // A Service that was deleted and created again starts afresh.
            written: written.at(key).filter(|write| write.uid == service.uid),
        })
    }
}

/// What is known of a Service beside its own object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// What the last pass accepted.
    pub(super) claim: Option<&'a Claim>,
    /// What was written and not seen back.
    pub(super) written: Option<&'a StatusWrite>,
}

impl Known<'_> {
    /// Whether what was accepted of the Service before still stands.
    pub(super) fn is_unchanged(&self, service: &LoadBalancer) -> bool {
        self.claim.is_some_and(|claim| {
            claim.is_of(service)
                && Holding::of(*self, service).addresses().eq(claim.addresses.iter().copied())
        })
    }
}

/// A sorted list that is asked for many keys, in their order: to go through it beside them takes much less time than
/// to look up each.
struct Beside<I: Iterator>(Peekable<I>);

impl<'m, V: 'm, I: Iterator<Item = (&'m Arc<ServiceKey>, &'m V)>> Beside<I> {
    fn new(sorted: I) -> Self {
        Self(sorted.peekable())
    }

    /// The value of a key that does not come before the last one asked for.
    fn at(&mut self, key: &Arc<ServiceKey>) -> Option<&'m V> {
        loop {
            let (next, value) = *self.0.peek()?;
            // Mostly they are not only equal but the same.
            match if Arc::ptr_eq(next, key) { Ordering::Equal } else { next.cmp(key) } {
                Ordering::Less => drop(self.0.next()),
                Ordering::Equal => return Some(value),
                Ordering::Greater => return None,
            }
        }
    }
}

/// What a Service holds: what its status says, or what was given to it before somebody else wrote the
/// status, or what was written and not seen back.
pub(super) struct Holding<'a> {
    what: What<'a>,
    pub(super) recorded: Option<Cow<'a, str>>,
}

enum What<'a> {
    Given(&'a [IpAddr]),
    Shown(&'a Ingress),
}

impl<'a> Holding<'a> {
    pub(super) fn of(known: Known<'a>, service: &'a LoadBalancer) -> Self {
        let recorded = service.recorded_pool.as_deref().map(Cow::Borrowed);
        match (known.written, &service.grant) {
            (Some(write), _) => match &write.assignment {
                Some(it) => Self { what: What::Given(&it.addresses), recorded: Some(it.record().into()) },
                None => Self { what: What::Given(&[]), recorded: None },
            },
            (None, Some(grant)) if service.is_overwritten() => {
                Self { what: What::Given(&grant.addresses), recorded }
            }
            _ => Self { what: What::Shown(&service.ingress), recorded },
        }
    }

    /// The addresses, as far as they are any.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let (given, shown) = match self.what {
            What::Given(addresses) => (addresses, None),
            What::Shown(ingress) => (&[][..], Some(ingress)),
        };
        given.iter().copied().chain(shown.into_iter().flat_map(Ingress::readable))
    }

    /// The addresses as text, wrong ones too.
    pub(super) fn texts(&self) -> Vec<String> {
        match self.what {
            What::Given(addresses) => addresses.iter().map(ToString::to_string).collect(),
            What::Shown(ingress) => ingress.texts(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self.what {
            What::Given(addresses) => addresses.is_empty(),
            What::Shown(ingress) => ingress.has_no_address(),
        }
    }

    pub(super) fn families(&self) -> Result<Families, FamilyError> {
        match self.what {
            What::Given(addresses) => Families::of(addresses),
            What::Shown(ingress) => ingress.families(),
        }
    }
}
