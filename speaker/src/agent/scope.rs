//! What of the last plan still holds, so that a pass costs what changed.
//!
//! What is decided about an address depends on the Services that hold it, on what the wire says of it, and
//! on what all have in common ([`World::decides_as`]); what is decided about a Service, on itself and on its
//! addresses. So of another world with the same common part, only the addresses count that something about
//! them changed, and the Services that hold one of these.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_core::service::{LoadBalancer, ServiceKey};

use super::readings::LoadBalancers;
use super::view::{ServicePlans, World};

/// What is to be decided anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All.
    All,
    /// These, and the Services that hold one of the addresses.
    Touched {
        /// Addresses.
        addresses: BTreeSet<IpAddr>,
        /// Services.
        services: BTreeSet<ServiceKey>,
    },
}

impl Scope {
    /// What differs between two worlds.
    pub(super) fn between(before: &World, now: &World) -> Self {
        if !before.decides_as(now) {
            return Self::All;
        }
        let changed = differing(&before.services, &now.services, Arc::ptr_eq);
        let versions = changed.iter().flat_map(|key| [before.services.get(*key), now.services.get(*key)]);
        let held = versions.flatten().flat_map(|service| service.ingress.readable());
        let seen = differing(&before.wire, &now.wire, PartialEq::eq).into_iter().copied();
        let addresses = held.chain(seen).collect();
        Self::Touched { addresses, services: changed.into_iter().cloned().collect() }
    }

    /// Those of the Services about which something is to be decided anew.
    pub(super) fn concerned<'a>(&self, services: &'a LoadBalancers) -> Vec<&'a LoadBalancer> {
        let concerns = |service: &&LoadBalancer| match self {
            Self::All => true,
            Self::Touched { addresses, services } => {
                service.ingress.readable().any(|address| addresses.contains(&address))
                    || services.contains(&*service.key)
            }
        };
        services.values().map(Arc::as_ref).filter(concerns).collect()
    }

    /// Decisions about addresses: those of `before` that still hold, and `anew` for the others.
    pub(super) fn renew<T: Clone>(
        &self,
        before: &BTreeMap<IpAddr, T>,
        mut anew: BTreeMap<IpAddr, T>,
    ) -> BTreeMap<IpAddr, T> {
        let Self::Touched { addresses, .. } = self else { return anew };
        // Not all Services that hold another address have been asked about it.
        anew.retain(|address, _| addresses.contains(address));
        let kept = before.iter().filter(|(address, _)| !addresses.contains(address));
        let mut all: BTreeMap<IpAddr, T> = kept.map(|(address, it)| (*address, it.clone())).collect();
        all.append(&mut anew);
        all
    }

    /// What of the plans of `before` may still hold: a Service that is gone has none.
    pub(super) fn kept(&self, before: &ServicePlans) -> ServicePlans {
        let Self::Touched { services, .. } = self else { return ServicePlans::new() };
        let mut kept = before.clone();
        for service in services {
            kept.remove(service);
        }
        kept
    }
}

/// Keys whose values differ, or that only one of the maps has.
pub(super) fn differing<'a, K: Ord, V>(
    a: &'a BTreeMap<K, V>,
    b: &'a BTreeMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) -> Vec<&'a K> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut differing = Vec::new();
    loop {
        match (a.peek(), b.peek()) {
            (Some((left, x)), Some((right, y))) if left == right => {
                if !same(x, y) {
                    differing.push(*left);
                }
                a.next();
                b.next();
            }
            (Some((left, _)), right) if right.is_none_or(|(right, _)| left < right) => {
                differing.push(*left);
                a.next();
            }
            (_, Some((right, _))) => {
                differing.push(*right);
                b.next();
            }
            (_, None) => return differing,
        }
    }
}

#[cfg(test)]
mod tests;
