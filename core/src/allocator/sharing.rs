//! Who has which address in the course of a pass, and whether one more Service may have it too.
//!
//! Services share an address if they have the same sharing key (value and backends) and no port in
//! common. Addresses are only ever added during a pass. Every question is answered in logarithmic time:
//! what cannot be given again is kept in runs, which grow together as a pool fills from below.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rangemap::RangeInclusiveSet;

use super::Refusal;
use crate::config::ranges::{Family, IpRange, from_number, is_buggy, to_number};
use crate::config::{Config, Pool};
use crate::service::{LoadBalancer, Port, ServiceKey, SharingKey};

/// Addresses in use.
pub(super) struct Index<'a> {
    config: &'a Config,
    /// What strangers have.
    conflicts: &'a BTreeSet<IpAddr>,
    uses: BTreeMap<IpAddr, Use<'a>>,
    /// What cannot be given (again) to everybody, for each pool in force: addresses that are used, reserved or
    /// in conflict.
    taken: BTreeMap<(&'a str, Family), Runs>,
    /// What cannot be given of what is reserved, to whomever: used addresses or in conflict.
    bound: BTreeMap<Family, Runs>,
    /// What Services of namespaces with a quota have.
    of_namespace: BTreeMap<&'a str, BTreeSet<IpAddr>>,
    /// What Services share under a key.
    shared: BTreeMap<&'a SharingKey, Shared<'a>>,
}

type Runs = RangeInclusiveSet<u128>;

struct Use<'a> {
    /// Whose sharing key counts.
    first: &'a LoadBalancer,
    /// All that share it; mostly nobody does, and there may be very many addresses.
    sharers: Option<Box<Sharers<'a>>>,
}

#[derive(Default)]
struct Sharers<'a> {
    services: BTreeSet<&'a ServiceKey>,
    ports: BTreeMap<&'a Port, &'a ServiceKey>,
}

impl<'a> Use<'a> {
    fn services(&self) -> impl Iterator<Item = &'a ServiceKey> {
        let alone = self.sharers.is_none().then_some(&*self.first.key);
        alone.into_iter().chain(self.sharers.iter().flat_map(|it| it.services.iter().copied()))
    }

    fn occupier(&self, port: &Port) -> Option<&'a ServiceKey> {
        match &self.sharers {
            None => self.first.ports.binary_search(port).is_ok().then_some(&*self.first.key),
            Some(sharers) => sharers.ports.get(port).copied(),
        }
    }

    fn add(&mut self, service: &'a LoadBalancer) {
        if self.sharers.is_none() && service.key == self.first.key {
            return;
        }
        let sharers = self.sharers.get_or_insert_with(|| {
            let mut sharers = Sharers::default();
            sharers.add(self.first);
            Box::new(sharers)
        });
        sharers.add(service);
    }
}

impl<'a> Sharers<'a> {
    fn add(&mut self, service: &'a LoadBalancer) {
        self.services.insert(&service.key);
        for port in service.ports.iter() {
            self.ports.entry(port).or_insert(&service.key);
        }
    }
}

#[derive(Default)]
struct Shared<'a> {
    addresses: BTreeSet<IpAddr>,
    /// Those among them where a port is occupied.
    occupied: BTreeMap<(&'a Port, Family), Runs>,
}

impl<'a> Index<'a> {
    pub(super) fn new(config: &'a Config, conflicts: &'a BTreeSet<IpAddr>) -> Self {
        let (uses, taken, bound, of_namespace, shared) = Default::default();
        let mut index = Self { config, conflicts, uses, taken, bound, of_namespace, shared };
        for reserved in config.reservations().all() {
            let of_pool = index.taken.entry((&reserved.pool, reserved.range.family())).or_default();
            of_pool.insert(reserved.range.numbers());
        }
        for address in conflicts {
            index.take(*address);
        }
        index
    }

    /// Nobody is given the address from now on. Returns the run of addresses that is out of question for it.
    fn take(&mut self, address: IpAddr) -> Option<RangeInclusive<u128>> {
        let pool = self.config.pool_around(address)?;
        let number = to_number(address);
        let mut run = number..=number;
        if pool.avoid_buggy_ips && address.is_ipv4() {
            // An address that is never given counts as taken once its neighbour is, so that runs of
            // taken addresses join and the next free one is found at once.
            match number % 256 {
                1 => run = number - 1..=number,
                254 => run = number..=number + 1,
                _ => {}
            }
        }
        let family = Family::of(address);
        if self.config.reservations().around(address).is_some() {
            self.bound.entry(family).or_default().insert(number..=number);
        }
        self.taken.entry((&pool.name, family)).or_default().insert(run.clone());
        Some(run)
    }

    /// Whether one more Service may be given the address.
    pub(super) fn may_give(&self, address: IpAddr, service: &LoadBalancer) -> Result<(), Refusal> {
        if let Some(reserved) = self.config.reservations().against(address, &service.key) {
            let (holder, reservation) = (Arc::clone(&reserved.holder), reserved.reservation.clone());
            return Err(Refusal::Reserved { address, holder, reservation });
        }
        match self.conflicts.contains(&address) {
            true => Err(Refusal::AddressConflict(address)),
            false => self.check(address, service),
        }
    }

    /// Whether the namespace of a Service may have these addresses too.
    pub(super) fn check_quota(&self, addresses: &[IpAddr], service: &LoadBalancer) -> Result<(), Refusal> {
        let namespace = &service.key.namespace;
        let Some(quota) = self.config.reservations().quota(namespace) else { return Ok(()) };
        let limit = quota.addresses;
        let has = self.of_namespace.get(namespace.as_str());
        let more = addresses.iter().filter(|it| !has.is_some_and(|has| has.contains(it))).count();
        match has.map_or(0, BTreeSet::len) + more <= limit || more == 0 {
            true => Ok(()),
            false => Err(Refusal::QuotaExceeded { namespace: namespace.clone(), limit }),
        }
    }

    /// The lowest address of a pool that is reserved for the Service or its namespace and can be given to it.
    pub(super) fn first_reserved(
        &self,
        pool: &Pool,
        family: Family,
        service: &LoadBalancer,
    ) -> Option<IpAddr> {
        let open = self.config.reservations().open_to(&service.key);
        let mut open = open.filter(|it| it.pool == pool.name && it.range.family() == family);
        open.find_map(|reserved| {
            let give = |mut gap: RangeInclusive<u128>| {
                gap.by_ref().take(3).map(|it| from_number(family, it)).find(|it| pool.offers(*it))
            };
            let free = match self.bound.get(&family) {
                None => give(reserved.range.numbers()),
                Some(bound) => bound.gaps(&reserved.range.numbers()).find_map(give),
            };
            let shared = self.first_shareable(&reserved.range, service).filter(|it| pool.offers(*it));
            free.into_iter().chain(shared).min()
        })
    }

    /// All addresses in use.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.uses.keys().copied()
    }

    /// Whether the Service may have the address, as far as its other users are concerned.
    pub(super) fn check(&self, address: IpAddr, service: &LoadBalancer) -> Result<(), Refusal> {
        let Some(used) = self.uses.get(&address) else { return Ok(()) };
        let mut others = used.services().filter(|it| *it != &*service.key).peekable();
        if others.peek().is_some() && !used.first.sharing.allows(&service.sharing) {
            let service = Arc::clone(&service.key);
            return Err(Refusal::SharingMismatch { service, others: others.cloned().collect() });
        }
        let occupied = |port: &Port| used.occupier(port).is_some_and(|it| it != &*service.key);
        match service.ports.iter().find(|port| occupied(port)) {
            Some(port) => Err(Refusal::PortConflict { port: port.clone(), address }),
            None => Ok(()),
        }
    }

    /// In which term the address was given to the first of its users.
    pub(super) fn term(&self, address: IpAddr) -> Option<i32> {
        self.uses.get(&address)?.first.grant.as_ref().map(|grant| grant.term)
    }

    /// The Service has the address from now on.
    pub(super) fn claim(&mut self, address: IpAddr, service: &'a LoadBalancer) {
        let used = self.uses.entry(address).or_insert(Use { first: service, sharers: None });
        used.add(service);
        let first = used.first;
        if self.config.reservations().quota(&service.key.namespace).is_some() {
            self.of_namespace.entry(&service.key.namespace).or_default().insert(address);
        }
        let Some(run) = self.take(address) else { return };
        if !first.sharing.key.is_empty() && !self.conflicts.contains(&address) {
            let shared = self.shared.entry(&first.sharing).or_default();
            shared.addresses.insert(address);
            for port in service.ports.iter() {
                shared.occupied.entry((port, Family::of(address))).or_default().insert(run.clone());
            }
        }
    }

    /// The lowest address of a range of a pool that nobody has.
    pub(super) fn first_free(&self, pool: &str, range: &IpRange, avoid_buggy: bool) -> Option<IpAddr> {
        let family = range.family();
        let give = |number| Some(from_number(family, number)).filter(|it| !(avoid_buggy && is_buggy(*it)));
        // At most two addresses in a row are buggy.
        let first_of = |mut gap: RangeInclusive<u128>| gap.by_ref().take(3).find_map(give);
        match self.taken.get(&(pool, family)) {
            None => first_of(range.numbers()),
            Some(taken) => taken.gaps(&range.numbers()).find_map(first_of),
        }
    }

    /// The lowest address of a range that the Service can share.
    pub(super) fn first_shareable(&self, range: &IpRange, service: &LoadBalancer) -> Option<IpAddr> {
        let shared = self.shared.get(&service.sharing)?;
        let family = range.family();
        let occupied = |port| shared.occupied.get(&(port, family));
        let occupied: Vec<&Runs> = service.ports.iter().filter_map(occupied).collect();
        let mut from = range.first();
        loop {
            let candidate = *shared.addresses.range(from..=range.last()).next()?;
            let number = to_number(candidate);
            let end_of_run = occupied.iter().filter_map(|runs| Some(*runs.get(&number)?.end())).max();
            let reserved = self.config.reservations().against(candidate, &service.key);
            match end_of_run.max(reserved.map(|it| to_number(it.range.last()))) {
                None => return Some(candidate),
                Some(end) if end >= to_number(range.last()) => return None,
                Some(end) => from = from_number(family, end + 1),
            }
        }
    }
}
