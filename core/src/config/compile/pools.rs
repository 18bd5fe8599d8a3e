//! Pools: which of them are in force, and what of the cluster they overlap with.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::Compiling;
use crate::config::ByAddress;
use crate::config::diagnostic::{Kind, Message, ObjectRef, PoolProblem};
use crate::config::pools::{self, LeftOutPool, Parsed};
use crate::config::ranges::{Family, IpRange, to_number};
use crate::config::selectors::Finding;
use crate::resources::Resources;

impl Compiling<'_> {
    pub(super) fn address_pools(&mut self) {
        let cluster = Cluster::new(self.resources);
        let in_order = self.by_age(Kind::IpAddressPool, &self.resources.pools, |it| &it.metadata);
        let parsed: Vec<Parsed> = in_order
            .into_iter()
            .map(|(_, object)| pools::parse(object, &self.resources.namespaces))
            .collect();
        let disjoint = are_disjoint(&parsed);
        let mut in_force = Vec::with_capacity(parsed.len());
        let mut by_address = Vec::with_capacity(parsed.len());
        for Parsed { pool, places, mut findings } in parsed {
            let unreadable = findings.iter().any(|(_, it)| matches!(it, PoolProblem::InvalidEntry(_)));
            let name: Arc<str> = pool.name.as_str().into();
            let ranges = || places.iter().copied().zip(pool.ranges.iter().copied());
            let mut claimed = ByAddress::new();
            if !disjoint {
                claimed = claim(&name, ranges(), &self.compiled.config.by_address, &mut findings);
            }
            cluster.check(ranges, &mut findings);
            let message = |problem| Message::Pool { pool: (*name).to_owned(), problem };
            let left_out = !findings.is_empty() && {
                let reference = ObjectRef::new(Kind::IpAddressPool, &*name);
                self.report(&reference, &None, findings, message)
            };
            if left_out {
                let trace =
                    LeftOutPool { name: pool.name, ranges: pool.ranges, has_unreadable_entries: unreadable };
                self.compiled.config.left_out.insert(trace.name.clone(), trace);
                continue;
            }
            if disjoint {
                let ranges = pool.ranges.iter();
                by_address.extend(ranges.map(|range| (key(range.first()), (*range, Arc::clone(&name)))));
            } else {
                self.compiled.config.by_address.extend(claimed);
            }
            in_force.push((pool.name.clone(), pool));
        }
        // All at once: a sorted map is made faster from a list than one by one.
        if disjoint {
            self.compiled.config.by_address = by_address.into_iter().collect();
        }
        self.compiled.config.pools = in_force.into_iter().collect();
    }
}

pub(super) fn key(address: IpAddr) -> Key {
    (Family::of(address), to_number(address))
}

/// Whether no two ranges of any pools share an address, which is the rule.
fn are_disjoint(pools: &[Parsed]) -> bool {
    let ranges = pools.iter().flat_map(|it| &it.pool.ranges);
    let mut bounds: Vec<(Key, Key)> = ranges.map(|it| (key(it.first()), key(it.last()))).collect();
    bounds.sort_unstable();
    bounds.is_sorted_by(|(_, last), (next, _)| last < next)
}

/// The ranges of a pool, keyed by where they start. What overlaps, with the pools in force or within
/// the pool itself, is reported, once for each entry.
fn claim(
    pool: &Arc<str>,
    ranges: impl Iterator<Item = (usize, IpRange)>,
    in_force: &ByAddress,
    findings: &mut Vec<Finding<PoolProblem>>,
) -> ByAddress {
    let mut own = ByAddress::new();
    for (place, range) in ranges {
        let earlier = overlapping(in_force, &range).or_else(|| overlapping(&own, &range));
        if let Some((earlier_range, earlier_pool)) = earlier {
            let (cidr, earlier) = first_common(&range, earlier_range);
            let problem = PoolProblem::Overlap { cidr, earlier, earlier_pool: (**earlier_pool).to_owned() };
            findings.push((format!("spec.addresses[{place}]"), problem));
        } else {
            own.insert(key(range.first()), (range, Arc::clone(pool)));
        }
    }
    own
}

/// The lowest range of `claimed` (whose ranges are disjoint) that shares an address with `range`.
pub(super) fn overlapping<'a>(claimed: &'a ByAddress, range: &IpRange) -> Option<&'a (IpRange, Arc<str>)> {
    let family = range.family();
    let (first, last) = (to_number(range.first()), to_number(range.last()));
    let before = claimed.range(..=(family, first)).next_back().map(|(_, it)| it);
    before
        .filter(|(earlier, _)| earlier.contains(range.first()))
        .or_else(|| claimed.range((family, first)..=(family, last)).next().map(|(_, it)| it))
}

/// The first prefixes of two overlapping ranges that overlap.
fn first_common(a: &IpRange, b: &IpRange) -> (IpNet, IpNet) {
    let common = a.first().max(b.first());
    let around = |range: &IpRange| {
        // The common address lies in both ranges, so in one of the prefixes of each.
        range.cidrs().find(|cidr| cidr.contains(&common)).unwrap_or_else(|| IpNet::from(common))
    };
    (around(a), around(b))
}

pub(super) type Key = (Family, u128);

/// Addresses that the cluster itself uses, by where they start. Blocks of one kind are disjoint.
struct Cluster<'a> {
    nodes: BTreeMap<(Family, u128), (IpAddr, &'a str)>,
    pods: BTreeMap<(Family, u128), (IpNet, &'a str)>,
    services: BTreeMap<(Family, u128), IpNet>,
}

impl<'a> Cluster<'a> {
    fn new(resources: &'a Resources) -> Self {
        let mut cluster = Self { nodes: BTreeMap::new(), pods: BTreeMap::new(), services: BTreeMap::new() };
        for (name, node) in &resources.nodes {
            cluster.nodes.extend(node.addresses.iter().map(|it| (key(*it), (*it, name.as_str()))));
            cluster.pods.extend(node.pod_cidrs.iter().map(|it| (key(it.network()), (*it, name.as_str()))));
        }
        cluster.services.extend(resources.service_cidrs.iter().map(|it| (key(it.network()), *it)));
        cluster
    }

    /// Reports what the pool overlaps with, the first of each kind.
    fn check<R: Iterator<Item = (usize, IpRange)>>(
        &self,
        ranges: impl Fn() -> R,
        findings: &mut Vec<Finding<PoolProblem>>,
    ) {
        let first = |find: &dyn Fn(&IpRange) -> Option<PoolProblem>| {
            ranges().find_map(|(place, range)| Some((format!("spec.addresses[{place}]"), find(&range)?)))
        };
        findings.extend(first(&|range| {
            let (_, (address, node)) = self.nodes.range(bounds(range)).next()?;
            Some(PoolProblem::NodeAddress { address: *address, node: (*node).to_owned() })
        }));
        findings.extend(first(&|range| {
            let (_, (cidr, node)) = self.pods.range(up_to_end(range)).next_back()?;
            let overlaps = shares(range, cidr);
            overlaps.then(|| PoolProblem::PodCidr { cidr: *cidr, node: (*node).to_owned() })
        }));
        findings.extend(first(&|range| {
            let (_, cidr) = self.services.range(up_to_end(range)).next_back()?;
            shares(range, cidr).then_some(PoolProblem::ServiceCidr { cidr: *cidr })
        }));
    }
}

fn bounds(range: &IpRange) -> std::ops::RangeInclusive<Key> {
    let family = range.family();
    (family, to_number(range.first()))..=(family, to_number(range.last()))
}

fn up_to_end(range: &IpRange) -> std::ops::RangeToInclusive<Key> {
    ..=(range.family(), to_number(range.last()))
}

fn shares(range: &IpRange, cidr: &IpNet) -> bool {
    Family::of(cidr.network()) == range.family()
        && cidr.network() <= range.last()
        && range.first() <= cidr.broadcast()
}
