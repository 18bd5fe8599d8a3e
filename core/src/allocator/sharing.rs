//! Who has which address in the course of a pass, and whether one more Service may have it too.
//!
//! Services share an address if they have the same sharing key (value and backends) and no port in
//! common. Addresses are only ever added during a pass.

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
    /// What cannot be given again, for each pool in force: its used addresses, in runs.
    taken: BTreeMap<(&'a str, Family), RangeInclusiveSet<u128>>,
    /// Addresses whose users share them under a key.
    shareable: BTreeMap<&'a SharingKey, BTreeSet<IpAddr>>,
}

struct Use<'a> {
    sharing: &'a SharingKey,
    services: BTreeSet<&'a ServiceKey>,
    ports: BTreeMap<&'a Port, &'a ServiceKey>,
}

impl<'a> Index<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        Self { config, uses: BTreeMap::new(), taken: BTreeMap::new(), shareable: BTreeMap::new() }
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

    /// The Service has the address from now on.
    pub(super) fn claim(&mut self, address: IpAddr, service: &'a LoadBalancer) {
        let used = self.uses.entry(address).or_insert_with(|| Use {
            sharing: &service.sharing,
            services: BTreeSet::new(),
            ports: BTreeMap::new(),
        });
        used.services.insert(&service.key);
        for port in &service.ports {
            used.ports.entry(port).or_insert(&service.key);
        }
        if !used.sharing.key.is_empty() {
            self.shareable.entry(used.sharing).or_default().insert(address);
        }
        if let Some(pool) = self.config.pool_around(address) {
            let number = to_number(address);
            let mut run = number..=number;
            if pool.avoid_buggy_ips && address.is_ipv4() {
                // An address that is never given counts as taken once its neighbour is, so that runs
                // of taken addresses join and the next free one is found at once.
                match number % 256 {
                    1 => run = number - 1..=number,
                    254 => run = number..=number + 1,
                    _ => {}
                }
            }
            self.taken.entry((&pool.name, Family::of(address))).or_default().insert(run);
        }
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
        let addresses = self.shareable.get(&service.sharing)?;
        addresses.range(range.first()..=range.last()).copied().find(|it| self.check(*it, service).is_ok())
    }
}
