//! The two halves of a pass, for one Service: does it keep what it holds, and what is it given.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::candidates::{choose, not_in_pool, second};
use super::draft::{Draft, Next};
use super::held::{Holding, Known};
use super::sharing::Index;
use super::{Assignment, Event, Held, Refusal};
use crate::config::ranges::Family;
use crate::config::{Config, Pool};
use crate::service::{Families, FamilyPolicy, LoadBalancer};

/// A pass over all Services.
pub(super) struct Pass<'a> {
    config: &'a Config,
    held: &'a Held,
    index: Index<'a>,
    /// Pools of assignments: very many Services have the same ones, and share what says so.
    pools: BTreeSet<Arc<[String]>>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(config: &'a Config, held: &'a Held) -> Self {
        Self { config, held, index: Index::new(config, held.conflicts()), pools: BTreeSet::new() }
    }

    pub(super) fn index(&self) -> &Index<'a> {
        &self.index
    }

    /// The first half.
    pub(super) fn settle(&mut self, service: &'a LoadBalancer, known: Known<'a>) -> Draft<'a> {
        let mut draft = Draft::new(service, known);
        let holding = Holding::of(known, service);
        if !service.is_load_balancer {
            return draft;
        }
        let rival = self.held.rival(&service.key);
        if let Some(rival) = rival.filter(|rival| rival.insists) {
            return self.stay_away(draft, &rival.name);
        }
        if self.config.has_no_pools() {
            draft.hands_off = holding.recorded.is_none() && !service.ingress.is_empty();
            return draft.refused(Refusal::NoPools);
        }
        if service.cluster_ips.is_empty() {
            return draft.refused(Refusal::NoClusterIp);
        }
        if service.family_policy == FamilyPolicy::RequireDualStack && service.cluster_ips.len() < 2 {
            draft.events.push(Event::NotEnoughClusterIps(service.cluster_ips.clone()));
            return draft.refused(Refusal::NotEnoughClusterIps);
        }
        draft.next = Next::Allocate;
        if holding.is_empty() {
            return draft;
        }
        let held_families = holding.families();
        if let Err(error) = &held_families {
            draft.events.push(Event::StatusFamilies(holding.texts(), error.clone()));
        }
        let families = match &service.families {
            Ok(families) => *families,
            Err(error) => {
                draft.events.push(Event::ClusterFamilies(service.cluster_ips.clone(), error.clone()));
                return self.freeze(draft, &holding).refused(Refusal::ClusterFamilies(error.clone()));
            }
        };
        let upgradable = families == Families::Dual && service.family_policy == FamilyPolicy::PreferDualStack;
        match held_families {
            Ok(held) if held == families || upgradable => {}
            // One family too many or the wrong one: a new start.
            _ => return draft,
        }
        let addresses: Vec<IpAddr> = holding.addresses().collect();
        if known.written.is_none() && service.is_overwritten() {
            let found = service.ingress.texts();
            let by = rival.map(|rival| rival.name.clone());
            draft.events.push(Event::Overwritten { given: addresses.clone(), found, by });
        }
        let pools = match self.keep(service, &addresses, holding.recorded.as_deref()) {
            Ok(pools) => pools,
            Err(refusal) => {
                if self.is_given_twice(service, known, &addresses) {
                    draft.events.push(Event::GivenTwice(refusal.clone()));
                }
                draft.events.push(Event::Cleared { service: Arc::clone(&service.key), refusal });
                return draft;
            }
        };
        match &service.requested_pool {
            // To ask for a pool that is left out is no reason to lose an address either.
            Some(wanted) if pools != [wanted] && self.config.left_out_pools().contains_key(wanted) => {
                draft.refusal = Some(Refusal::UnknownPool(wanted.clone()));
            }
            Some(wanted) if pools != [wanted] => return draft,
            _ => {}
        }
        match &service.requested {
            Err(error) => {
                draft.events.push(Event::RequestInvalid(error.clone()));
                draft.refusal = Some(Refusal::Request(error.clone()));
                draft.next = Next::Nothing;
            }
            Ok(requested) if !requested.is_empty() && !same_set(requested, &addresses) => return draft,
            Ok(_) if upgradable && addresses.len() == 1 => draft.next = Next::Complete,
            Ok(_) => draft.next = Next::Nothing,
        }
        for address in &addresses {
            self.index.claim(*address, service);
        }
        let before = known.claim.filter(|claim| *claim.addresses == *addresses);
        let addresses = before.map_or_else(|| addresses.into(), |claim| Arc::clone(&claim.addresses));
        draft.assignment = Some(self.shared(Assignment::new(addresses, pools)));
        draft
    }

    /// The same, with pools that others have too.
    fn shared(&mut self, mut assignment: Assignment) -> Assignment {
        match self.pools.get(&assignment.pools) {
            Some(pools) => assignment.pools = Arc::clone(pools),
            None => drop(self.pools.insert(Arc::clone(&assignment.pools))),
        }
        assignment
    }

    /// Leaves everything as it is, but counts it.
    fn freeze(&mut self, mut draft: Draft<'a>, holding: &Holding<'_>) -> Draft<'a> {
        let addresses: Vec<IpAddr> = holding.addresses().collect();
        for address in &addresses {
            self.index.claim(*address, draft.service);
        }
        draft.next = Next::Nothing;
        draft.hands_off = true;
        let pools = self.config.pools_holding(&addresses, holding.recorded.as_deref());
        draft.assignment = pools.map(|pools| Assignment::new(addresses, pools));
        draft
    }

    /// Leaves a Service to somebody else who insists on writing its status. What was given to it stays
    /// reserved, and what they wrote is given to nobody.
    fn stay_away(&mut self, mut draft: Draft<'a>, writer: &str) -> Draft<'a> {
        let service = draft.service;
        let given = service.grant.iter().flat_map(|grant| grant.addresses.iter().copied());
        for address in given.chain(service.ingress.readable()) {
            if self.index.check(address, service).is_ok() {
                self.index.claim(address, service);
            }
        }
        draft.hands_off = true;
        draft.events.push(Event::Contested(writer.to_owned()));
        draft.refused(Refusal::Contested(writer.to_owned()))
    }

    /// Whether one of the addresses is held by an assignment of another term, and that is news: a leader
    /// gave it away that had been succeeded already.
    fn is_given_twice(&self, service: &LoadBalancer, known: Known<'_>, addresses: &[IpAddr]) -> bool {
        let Some(grant) = service.grant.as_ref().filter(|_| !service.is_overwritten()) else { return false };
        let known = known.claim.is_some_and(|claim| claim.covers(service, addresses));
        let other_term = |address: &IpAddr| self.index.term(*address).is_some_and(|term| term != grant.term);
        !known && addresses.iter().any(other_term)
    }

    /// Whether a Service may keep addresses, and which pools they count as being from.
    fn keep(
        &self,
        service: &LoadBalancer,
        addresses: &[IpAddr],
        recorded: Option<&str>,
    ) -> Result<Vec<&'a str>, Refusal> {
        let pools = match (self.pool_to_keep(service, addresses, recorded), addresses) {
            (Ok(pool), _) => vec![pool],
            (Err(refusal), [a, b]) => {
                let of = |address: IpAddr| self.pool_to_keep(service, &[address], recorded);
                match (of(*a), of(*b)) {
                    (Ok(a), Ok(b)) => vec![a, b],
                    _ => return Err(refusal),
                }
            }
            (Err(refusal), _) => return Err(refusal),
        };
        for address in addresses {
            self.index.check(*address, service)?;
        }
        Ok(pools)
    }

    /// The one pool that a Service may keep these addresses from.
    fn pool_to_keep(
        &self,
        service: &LoadBalancer,
        addresses: &[IpAddr],
        recorded: Option<&str>,
    ) -> Result<&'a str, Refusal> {
        let config = self.config;
        let left_out = || config.left_out_pool_with(addresses, recorded).map(|pool| pool.name.as_str());
        match config.pool_with(addresses) {
            Some(pool) if pool.admits(&service.key.namespace, &service.labels) => Ok(&pool.name),
            Some(pool) => left_out().ok_or_else(|| Refusal::NotAdmitted(pool.name.clone())),
            None => left_out().ok_or_else(|| not_in_pool(addresses)),
        }
    }

    /// The second half for a Service that holds an address of one family and prefers two.
    pub(super) fn complete(&mut self, draft: &mut Draft<'a>) {
        let Some(Assignment { addresses, pools }) = &draft.assignment else { return };
        let ([first], [pool]) = (&addresses[..], &pools[..]) else { return };
        let first = *first;
        // A pool that is left out gives nothing.
        let Some(pool) = self.config.pools().get(pool) else { return };
        match self.seek(draft.service, first, pool) {
            Ok((second, from)) => {
                self.index.claim(second, draft.service);
                draft.assignment = Some(Assignment::new(vec![first, second], [pool.name.as_str(), from]));
                draft.events.push(Event::AssignedAdditional(second));
            }
            Err(refusal) => {
                draft.events.push(Event::AdditionalFailed(refusal.clone()));
                draft.refusal = Some(refusal);
            }
        }
    }

    /// The address of the other family for a Service that has `first` of this pool.
    fn seek(
        &self,
        service: &LoadBalancer,
        first: IpAddr,
        pool: &'a Pool,
    ) -> Result<(IpAddr, &'a str), Refusal> {
        let found = second(self.config, &self.index, service, pool, Family::of(first).other());
        let (second, from) = found.ok_or(Refusal::OneFamily(first))?;
        self.index.check_quota(&[second], service)?;
        Ok((second, from))
    }

    /// The second half for a Service that holds nothing.
    pub(super) fn allocate(&mut self, draft: &mut Draft<'a>) {
        let Ok(assignment) = choose(self.config, &self.index, draft.service) else { return };
        let assignment = self.shared(assignment);
        for address in assignment.addresses.iter() {
            self.index.claim(*address, draft.service);
        }
        draft.events.push(Event::Assigned(assignment.addresses.clone()));
        draft.refusal = match (&assignment.addresses[..], &assignment.pools[..]) {
            // The same as the next pass says.
            ([first], [pool]) if draft.service.families == Ok(Families::Dual) => {
                let pool = self.config.pools().get(pool);
                pool.and_then(|pool| self.seek(draft.service, *first, pool).err())
            }
            _ => None,
        };
        draft.assignment = Some(assignment);
        draft.next = Next::Nothing;
    }

    /// Says why a Service still holds nothing, now that everybody else has what they get: so the reason
    /// is the same on every pass.
    pub(super) fn explain(&self, draft: &mut Draft<'a>) {
        let Err(refusal) = choose(self.config, &self.index, draft.service) else { return };
        let service = Arc::clone(&draft.service.key);
        draft.events.push(Event::AllocationFailed { service, refusal: refusal.clone() });
        draft.refusal = Some(refusal);
    }
}

fn same_set(a: &[IpAddr], b: &[IpAddr]) -> bool {
    a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}
