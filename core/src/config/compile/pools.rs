//! Pools: which of them are in force, and what of the cluster they overlap with.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ferrolb_api::v1beta1::IPAddressPool;
use ipnet::IpNet;

use super::Compiling;
use crate::config::diagnostic::{Kind, Message, ObjectRef, PoolProblem};
use crate::config::pools::{self, LeftOutPool, Pool};
use crate::config::ranges::{Family, IpRange, to_number};
use crate::config::selectors::Finding;
use crate::resources::Resources;

impl Compiling<'_> {
    pub(super) fn address_pools(&mut self) {
        let cluster = Cluster::new(self.resources);
        let pools = self.by_age(Kind::IpAddressPool, &self.resources.pools, |it| &it.metadata);
        for (name, object) in pools {
            let (pool, mut findings) = pools::parse(object, &self.resources.namespaces);
            let unreadable = findings.iter().any(|(_, it)| matches!(it, PoolProblem::InvalidEntry(_)));
            let claimed = claim(&pool, object, &self.compiled.config.by_address, &mut findings);
            cluster.check(object, &mut findings);
            let reference = ObjectRef::new(Kind::IpAddressPool, name);
            let message = |problem| Message::Pool { pool: name.clone(), problem };
            if self.report(&reference, &None, findings, message) {
                let trace =
                    LeftOutPool { name: pool.name, ranges: pool.ranges, has_unreadable_entries: unreadable };
                self.compiled.config.left_out.insert(name.clone(), trace);
            } else {
                self.compiled.config.by_address.extend(claimed);
                self.compiled.config.pools.insert(name.clone(), pool);
            }
        }
    }
}

type ByAddress = BTreeMap<(Family, u128), (IpRange, String)>;

/// The ranges of a pool, keyed by where they start. What overlaps, with the pools in force or within
/// the pool itself, is reported, once for each entry.
fn claim(
    pool: &Pool,
    object: &IPAddressPool,
    in_force: &ByAddress,
    findings: &mut Vec<Finding<PoolProblem>>,
) -> ByAddress {
    let mut own = ByAddress::new();
    for (index, range) in readable(object) {
        let earlier = overlapping(in_force, &range).or_else(|| overlapping(&own, &range));
        if let Some((earlier_range, earlier_pool)) = earlier {
            let (cidr, earlier) = first_common(&range, earlier_range);
            let problem = PoolProblem::Overlap { cidr, earlier, earlier_pool: earlier_pool.clone() };
            findings.push((format!("spec.addresses[{index}]"), problem));
        } else {
            own.insert((range.family(), to_number(range.first())), (range, pool.name.clone()));
        }
    }
    own
}

/// The entries that can be read, with their places.
fn readable(object: &IPAddressPool) -> impl Iterator<Item = (usize, IpRange)> {
    object.spec.addresses.iter().enumerate().filter_map(|(index, entry)| Some((index, entry.parse().ok()?)))
}

/// The lowest range of `claimed` (whose ranges are disjoint) that shares an address with `range`.
fn overlapping<'a>(claimed: &'a ByAddress, range: &IpRange) -> Option<&'a (IpRange, String)> {
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

/// Addresses that the cluster itself uses, by where they start. Blocks of one kind are disjoint.
struct Cluster<'a> {
    nodes: BTreeMap<(Family, u128), (IpAddr, &'a str)>,
    pods: BTreeMap<(Family, u128), (IpNet, &'a str)>,
    services: BTreeMap<(Family, u128), IpNet>,
}

impl<'a> Cluster<'a> {
    fn new(resources: &'a Resources) -> Self {
        let key = |address: IpAddr| (Family::of(address), to_number(address));
        let mut cluster = Self { nodes: BTreeMap::new(), pods: BTreeMap::new(), services: BTreeMap::new() };
        for (name, node) in &resources.nodes {
            cluster.nodes.extend(node.addresses.iter().map(|it| (key(*it), (*it, name.as_str()))));
            cluster.pods.extend(node.pod_cidrs.iter().map(|it| (key(it.network()), (*it, name.as_str()))));
        }
        cluster.services.extend(resources.service_cidrs.iter().map(|it| (key(it.network()), *it)));
        cluster
    }

    /// Reports what the pool overlaps with, the first of each kind.
    fn check(&self, object: &IPAddressPool, findings: &mut Vec<Finding<PoolProblem>>) {
        let first = |find: &dyn Fn(&IpRange) -> Option<PoolProblem>| {
            readable(object)
                .find_map(|(index, range)| Some((format!("spec.addresses[{index}]"), find(&range)?)))
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

type Key = (Family, u128);

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
