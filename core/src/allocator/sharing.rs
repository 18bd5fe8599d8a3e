//! Who has which address in the course of a pass, and whether one more Service may have it too.
//!
//! Services share an address if they have the same sharing key (value and backends) and no port in
//! common. Addresses are only ever added during a pass. Every question is answered in logarithmic time:
//! what cannot be given again is kept in runs, which grow together as a pool fills from below.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rangemap::RangeInclusiveSet;

use super::Refusal;
use crate::config::Config;
use crate::config::ranges::{Family, IpRange, from_number, is_buggy, to_number};
use crate::service::{LoadBalancer, Port, ServiceKey, SharingKey};

/// Addresses in use.
pub(super) struct Index<'a> {
    config: &'a Config,
    uses: BTreeMap<IpAddr, Use<'a>>,
    /// What cannot be given again, for each pool in force: its used addresses.
    taken: BTreeMap<(&'a str, Family), Runs>,
    /// What Services share under a key.
    shared: BTreeMap<&'a SharingKey, Shared<'a>>,
}

type Runs = RangeInclusiveSet<u128>;

struct Use<'a> {
    sharing: &'a SharingKey,
    term: Option<i32>,
    services: BTreeSet<&'a ServiceKey>,
    ports: BTreeMap<&'a Port, &'a ServiceKey>,
}

#[derive(Default)]
struct Shared<'a> {
    addresses: BTreeSet<IpAddr>,
    /// Those among them where a port is occupied.
    occupied: BTreeMap<(&'a Port, Family), Runs>,
}

impl<'a> Index<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        Self { config, uses: BTreeMap::new(), taken: BTreeMap::new(), shared: BTreeMap::new() }
    }

    /// All addresses in use.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.uses.keys().copied()
    }

    /// Whether the Service may have the address, as far as its other users are concerned.
    pub(super) fn check(&self, address: IpAddr, service: &LoadBalancer) -> Result<(), Refusal> {
        let Some(used) = self.uses.get(&address) else { return Ok(()) };
        let mut others = used.services.iter().filter(|it| **it != &service.key).peekable();
        if others.peek().is_some() && !used.sharing.allows(&service.sharing) {
            let others = others.map(|it| (*it).clone()).collect();
            return Err(Refusal::SharingMismatch { service: service.key.clone(), others });
        }
        let taken =
            service.ports.iter().find(|port| used.ports.get(port).is_some_and(|it| *it != &service.key));
        match taken {
            Some(port) => Err(Refusal::PortConflict { port: port.clone(), address }),
            None => Ok(()),
        }
    }

    /// In which term the address was given to the first of its users.
    pub(super) fn term(&self, address: IpAddr) -> Option<i32> {
        self.uses.get(&address)?.term
    }

    /// The Service has the address from now on.
    pub(super) fn claim(&mut self, address: IpAddr, service: &'a LoadBalancer) {
        let used = self.uses.entry(address).or_insert_with(|| Use {
            sharing: &service.sharing,
            term: service.grant.as_ref().map(|grant| grant.term),
            services: BTreeSet::new(),
            ports: BTreeMap::new(),
        });
        used.services.insert(&service.key);
        for port in &service.ports {
            used.ports.entry(port).or_insert(&service.key);
        }
        let Some(pool) = self.config.pool_around(address) else { return };
        let family = Family::of(address);
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
        if !used.sharing.key.is_empty() {
            let shared = self.shared.entry(used.sharing).or_default();
            shared.addresses.insert(address);
            for port in &service.ports {
                shared.occupied.entry((port, family)).or_default().insert(run.clone());
            }
        }
        self.taken.entry((&pool.name, family)).or_default().insert(run);
    }

    /// The lowest address of a range of a pool that nobody has.
    pub(super) fn first_free(&self, pool: &str, range: &IpRange, avoid_buggy: bool) -> Option<IpAddr> {
        let family = range.family();
        let give = |number| Some(from_number(family, number)).filter(|it| !(avoid_buggy && is_buggy(*it)));
        // At most two addresses in a row are buggy.
        let first_of = |mut gap: std::ops::RangeInclusive<u128>| gap.by_ref().take(3).find_map(give);
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
            match end_of_run {
                None => return Some(candidate),
                Some(end) if end >= to_number(range.last()) => return None,
                Some(end) => from = from_number(family, end + 1),
            }
        }
    }
}
