//! Pools: which addresses there are, and which Services may have them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::v1beta1::{IPAddressPool, IPAddressPoolSpec, ServiceAllocation};

use super::diagnostic::{PoolProblem, SelectorField};
use super::lookup::Labelled;
use super::ranges::{Family, IpRange, host_bits, is_buggy};
use super::reserved::reserved;
use super::selectors::{Finding, parse_list};
use crate::selector::{FixedLabels, LabelSet, Labels, Selector, any_matches};

/// A pool in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its ranges in the order of the object, which is the order they are given in.
    pub ranges: Vec<IpRange>,
    /// Whether Services that ask for nothing in particular may have its addresses.
    pub auto_assign: bool,
    /// Whether IPv4 addresses ending in .0 and .255 are kept back.
    pub avoid_buggy_ips: bool,
    /// Who may have its addresses; none: everybody.
    pub restriction: Option<Restriction>,
}

impl Pool {
    /// Whether the pool has this address and may give it.
    pub fn offers(&self, address: IpAddr) -> bool {
        !(self.avoid_buggy_ips && is_buggy(address))
            && self.ranges.iter().any(|range| range.contains(address))
    }

    /// The ranges of one family, in order.
    pub fn ranges_of(&self, family: Family) -> impl Iterator<Item = &IpRange> {
        self.ranges.iter().filter(move |range| range.family() == family)
    }

    /// Whether a Service may have addresses of it at all.
    pub fn admits(&self, namespace: &str, labels: &impl LabelSet) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.admits(namespace, labels))
    }
}

/// Who may have addresses of a pool, and how it ranks among the pools of such a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// As in the object; 0 when unset.
    pub priority: i64,
    /// Namespaces that may; `None`: all. A restriction to namespaces of which none exists yet admits
    /// nobody (MetalLB takes it for no restriction at all, which hands addresses to strangers).
    pub namespaces: Option<BTreeSet<String>>,
    /// Services that may, by label; alternatives. Empty: all.
    pub services: Vec<Selector>,
}

impl Restriction {
    fn admits(&self, namespace: &str, labels: &impl LabelSet) -> bool {
        self.namespaces.as_ref().is_none_or(|namespaces| namespaces.contains(namespace))
            && (self.services.is_empty() || any_matches(&self.services, labels))
    }

    /// Sort key: lower priorities first, 0 (unset) after all others.
    pub fn rank(&self) -> i64 {
        if self.priority == 0 { i64::MAX } else { self.priority }
    }
}

/// What remains of a pool that is left out: enough to recognise the addresses that Services hold from
/// it. Nothing is given from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutPool {
    /// Its name.
    pub name: String,
    /// The entries that can be read.
    pub ranges: Vec<IpRange>,
    /// Whether there are others.
    pub has_unreadable_entries: bool,
}

impl LeftOutPool {
    /// Whether a readable entry contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }
}

/// A pool as far as it can be read without any other object of the configuration.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) pool: Arc<Pool>,
    /// For selectors of pools.
    pub(super) labelled: Labelled,
    /// Where in the object its ranges stand.
    pub(super) places: Vec<usize>,
    /// Whether an entry cannot be read.
    pub(super) unreadable: bool,
    /// For each family the longest of what [`IpRange::shortest_prefix`] says of its ranges.
    blocks: [Option<u8>; 2],
    /// Everything that is wrong with it in itself and with what of the cluster it overlaps.
    pub(super) findings: Vec<Finding<PoolProblem>>,
}

/// Reads a pool.
pub(super) fn parse(pool: &IPAddressPool, namespaces: &BTreeMap<String, Labels>) -> Parsed {
    let IPAddressPoolSpec { addresses, auto_assign, avoid_buggy_ips, service_allocation } = &pool.spec;
    let mut findings = Vec::new();
    let name = pool.metadata.name.clone().unwrap_or_default();
    if name.is_empty() {
        findings.push(("metadata.name".to_owned(), PoolProblem::MissingName));
    }
    if addresses.is_empty() {
        findings.push(("spec.addresses".to_owned(), PoolProblem::NoPrefixes));
    }
    let mut ranges = Vec::with_capacity(addresses.len());
    let mut places = Vec::with_capacity(addresses.len());
    for (index, entry) in addresses.iter().enumerate() {
        let path = || format!("spec.addresses[{index}]");
        match entry.parse::<IpRange>() {
            Ok(range) => {
                ranges.push(range);
                places.push(index);
                findings.extend(remarks(entry, &range).map(|problem| (path(), problem)));
            }
            Err(error) => findings.push((path(), PoolProblem::InvalidEntry(error))),
        }
    }
    if *avoid_buggy_ips && !ranges.is_empty() && ranges.iter().all(|range| range.buggy() == range.len()) {
        findings.push(("spec.avoidBuggyIPs".to_owned(), PoolProblem::AllBuggy));
    }
    let unreadable = ranges.len() < addresses.len();
    let restriction = service_allocation.as_ref().map(|it| restrict(it, namespaces, &mut findings));
    let labels = pool.metadata.labels.as_ref().map(FixedLabels::from).unwrap_or_default();
    let labelled = (name.as_str().into(), Arc::new(labels));
    let pool =
        Pool { name, ranges, auto_assign: *auto_assign, avoid_buggy_ips: *avoid_buggy_ips, restriction };
    let blocks = [Family::V4, Family::V6].map(|family| {
        let of_family = pool.ranges.iter().filter(|range| range.family() == family);
        of_family.map(IpRange::shortest_prefix).max()
    });
    Parsed { pool: Arc::new(pool), labelled, places, unreadable, blocks, findings }
}

impl Parsed {
    /// No shorter prefix is an aggregate of addresses of the pool alone; none: it has none of this family.
    pub(super) fn block(&self, family: Family) -> Option<u8> {
        let [v4, v6] = self.blocks;
        if family == Family::V4 { v4 } else { v6 }
    }

    /// The ranges, each with its place in the object.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (usize, IpRange)> {
        self.places.iter().copied().zip(self.pool.ranges.iter().copied())
    }
}

/// What is strange about an entry that can be read.
fn remarks(entry: &str, range: &IpRange) -> impl Iterator<Item = PoolProblem> {
    let host_bits = host_bits(entry).map(|cidr| PoolProblem::HostBits { entry: entry.to_owned(), cidr });
    let reserved = reserved(range).map(|(reserved, usable)| match usable {
        false => PoolProblem::NotUsable { entry: entry.to_owned(), reserved },
        true => PoolProblem::PartlyReserved { entry: entry.to_owned(), reserved },
    });
    host_bits.into_iter().chain(reserved)
}

fn restrict(
    allocation: &ServiceAllocation,
    all_namespaces: &BTreeMap<String, Labels>,
    findings: &mut Vec<Finding<PoolProblem>>,
) -> Restriction {
    let mut namespaces: BTreeSet<String> = allocation.namespaces.iter().cloned().collect();
    if namespaces.len() < allocation.namespaces.len() {
        findings.push(("spec.serviceAllocation.namespaces".to_owned(), PoolProblem::RepeatedNamespace));
    }
    let parent = "spec.serviceAllocation";
    let selectors = parse_list(&allocation.namespace_selectors, parent, SelectorField::Namespaces, findings);
    // Who knows no Namespace cannot say that one is missing.
    if !all_namespaces.is_empty() {
        let unknown = namespaces.iter().filter(|name| !all_namespaces.contains_key(*name));
        findings.extend(unknown.map(|name| {
            let problem = PoolProblem::UnknownNamespace(name.clone());
            (format!("{parent}.namespaces"), problem)
        }));
    }
    let matching = all_namespaces.iter().filter(|(_, labels)| any_matches(&selectors, labels));
    namespaces.extend(matching.map(|(name, _)| name.clone()));
    let readable = selectors.len() == allocation.namespace_selectors.len();
    if namespaces.is_empty() && readable && !selectors.is_empty() && !all_namespaces.is_empty() {
        findings.push((format!("{parent}.namespaceSelectors"), PoolProblem::NoNamespace));
    }
    let services = parse_list(&allocation.service_selectors, parent, SelectorField::Services, findings);
    let everywhere = allocation.namespaces.is_empty() && allocation.namespace_selectors.is_empty();
    Restriction {
        priority: allocation.priority.unwrap_or_default(),
        namespaces: (!everywhere).then_some(namespaces),
        services,
    }
}
