//! The two halves of a pass, for one Service: does it keep what it holds, and what is it given.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::well_known::service_condition;

use super::candidates::{choose, not_in_pool, second};
use super::sharing::Index;
use super::{Assignment, Event, Held, Outcome, Refusal, StatusWrite};
use crate::config::ranges::Family;
use crate::config::{Config, Pool};
use crate::service::{AddressAssigned, Families, FamilyError, FamilyPolicy, Ingress, LoadBalancer};

/// A pass over all Services.
pub(super) struct Pass<'a> {
    config: &'a Config,
    held: &'a Held,
    index: Index<'a>,
}

/// What is decided of a Service so far.
pub(super) struct Draft<'a> {
    pub(super) service: &'a LoadBalancer,
    pub(super) next: Next,
    assignment: Option<Assignment>,
    refusal: Option<Refusal>,
    events: Vec<Event>,
    /// Whether its status is not to be touched.
    hands_off: bool,
}

/// What the second half is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Look for an address of the other family.
    Complete,
    /// Look for addresses.
    Allocate,
}

impl<'a> Draft<'a> {
    fn new(service: &'a LoadBalancer) -> Self {
        let (assignment, refusal, events) = (None, None, Vec::new());
        Self { service, next: Next::Nothing, assignment, refusal, events, hands_off: false }
    }

    fn refused(mut self, refusal: Refusal) -> Self {
        self.refusal = Some(refusal);
        self
    }

    pub(super) fn outcome(self, held: &Held) -> Outcome {
        let Self { service, assignment, refusal, mut events, hands_off, .. } = self;
        let written = held.written(service);
        let shown = written.map_or(service.condition.as_ref(), |it| it.condition.as_ref());
        let condition = condition(service, assignment.as_ref(), refusal.as_ref(), shown.is_some());
        let done = match written {
            Some(written) => written.assignment == assignment,
            None => {
                let pools = assignment.as_ref().map(Assignment::record);
                let addresses = assignment.as_ref().map_or(&[][..], |it| &it.addresses);
                service.ingress.is_exactly(addresses) && service.recorded_pool == pools
            }
        };
        let done = done && shown == condition.as_ref();
        let write = (!done && !hands_off).then(|| StatusWrite {
            uid: Arc::clone(&service.uid),
            assignment: assignment.clone(),
            condition,
        });
        if write.is_some() {
            events.extend(service.deprecated_annotations.iter().cloned().map(Event::DeprecatedAnnotation));
        }
        if service.is_load_balancer {
            events.extend(service.unknown_annotations.iter().cloned().map(Event::UnknownAnnotation));
        }
        events.shrink_to_fit();
        Outcome { assignment, refusal, write, events }
    }
}

/// What the condition of a Service is to say. It comes with the first refusal and stays; the status of
/// one that is simply given what it asks for has nothing but the addresses.
fn condition(
    service: &LoadBalancer,
    assignment: Option<&Assignment>,
    refusal: Option<&Refusal>,
    shown: bool,
) -> Option<AddressAssigned> {
    if !service.is_load_balancer {
        return None;
    }
    let status = assignment.is_some();
    match (assignment, refusal) {
        (_, Some(refusal)) => Some(AddressAssigned {
            status,
            reason: refusal.reason().to_owned(),
            message: refusal.to_string(),
        }),
        (Some(assignment), None) if shown => Some(AddressAssigned {
            status,
            reason: service_condition::ASSIGNED.to_owned(),
            message: Event::Assigned(assignment.addresses.clone()).to_string(),
        }),
        _ => None,
    }
}

/// What a Service holds: what its status says, or what was given to it before somebody else wrote the
/// status, or what was written and not seen back.
pub(super) struct Holding<'a> {
    what: What<'a>,
    recorded: Option<Cow<'a, str>>,
}

enum What<'a> {
    Given(&'a [IpAddr]),
    Shown(&'a Ingress),
}

impl<'a> Holding<'a> {
    pub(super) fn of(held: &'a Held, service: &'a LoadBalancer) -> Self {
        let recorded = service.recorded_pool.as_deref().map(Cow::Borrowed);
        match (held.written(service), &service.grant) {
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
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        match self.what {
            What::Given(addresses) => addresses.to_vec(),
            What::Shown(ingress) => ingress.readable(),
        }
    }

    /// The addresses as text, wrong ones too.
    fn texts(&self) -> Vec<String> {
        match self.what {
            What::Given(addresses) => addresses.iter().map(ToString::to_string).collect(),
            What::Shown(ingress) => ingress.texts(),
        }
    }

    fn is_empty(&self) -> bool {
        match self.what {
            What::Given(addresses) => addresses.is_empty(),
            What::Shown(ingress) => ingress.has_no_address(),
        }
    }

    fn families(&self) -> Result<Families, FamilyError> {
        match self.what {
            What::Given(addresses) => Families::of(addresses),
            What::Shown(ingress) => ingress.families(),
        }
    }
}

impl<'a> Pass<'a> {
    pub(super) fn new(config: &'a Config, held: &'a Held) -> Self {
        Self { config, held, index: Index::new(config, &held.conflicts) }
    }

    pub(super) fn index(&self) -> &Index<'a> {
        &self.index
    }

    /// The first half.
    pub(super) fn settle(&mut self, service: &'a LoadBalancer) -> Draft<'a> {
        let mut draft = Draft::new(service);
        let holding = Holding::of(self.held, service);
        if !service.is_load_balancer {
            return draft;
        }
        let rival = self.held.rivals.get(&service.key);
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
        let addresses = holding.addresses();
        if self.held.written(service).is_none() && service.is_overwritten() {
            let found = service.ingress.texts();
            let by = rival.map(|rival| rival.name.clone());
            draft.events.push(Event::Overwritten { given: addresses.clone(), found, by });
        }
        let pools = match self.keep(service, &addresses, holding.recorded.as_deref()) {
            Ok(pools) => pools,
            Err(refusal) => {
                if self.is_given_twice(service, &addresses) {
                    draft.events.push(Event::GivenTwice(refusal.clone()));
                }
                draft.events.push(Event::Cleared { service: service.key.clone(), refusal });
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
        draft.assignment = Some(Assignment::new(addresses, pools));
        draft
    }

    /// Leaves everything as it is, but counts it.
    fn freeze(&mut self, mut draft: Draft<'a>, holding: &Holding<'_>) -> Draft<'a> {
        let addresses = holding.addresses();
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
    fn is_given_twice(&self, service: &LoadBalancer, addresses: &[IpAddr]) -> bool {
        let Some(grant) = service.grant.as_ref().filter(|_| !service.is_overwritten()) else { return false };
        let known = self.held.claims.get(&service.key).is_some_and(|claim| {
            claim.uid == service.uid && addresses.iter().all(|address| claim.addresses.contains(address))
        });
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
        let service = draft.service.key.clone();
        draft.events.push(Event::AllocationFailed { service, refusal: refusal.clone() });
        draft.refusal = Some(refusal);
    }
}

fn same_set(a: &[IpAddr], b: &[IpAddr]) -> bool {
    a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}
