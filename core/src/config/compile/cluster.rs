//! Addresses that the cluster itself uses, which no pool should have.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::diagnostic::PoolProblem;
use crate::config::ranges::{Family, IpRange, to_number};
use crate::config::selectors::Finding;
use crate::config::table::{Key, key};
use crate::resources::Resources;

/// Addresses that the cluster itself uses, by where they start. Blocks of one kind are disjoint.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cluster {
    nodes: BTreeMap<Key, (IpAddr, String)>,
    pods: BTreeMap<Key, (IpNet, String)>,
    services: BTreeMap<Key, IpNet>,
}

impl Cluster {
    pub(super) fn new(resources: &Resources) -> Self {
        let mut cluster = Self::default();
        for (name, node) in &resources.nodes {
            cluster.nodes.extend(node.addresses.iter().map(|it| (key(*it), (*it, name.clone()))));
            cluster.pods.extend(node.pod_cidrs.iter().map(|it| (key(it.network()), (*it, name.clone()))));
        }
        cluster.services.extend(resources.service_cidrs.iter().map(|it| (key(it.network()), *it)));
        cluster
    }

    /// Reports what the pool overlaps with, the first of each kind.
    pub(super) fn check<R: Iterator<Item = (usize, IpRange)>>(
        &self,
        ranges: impl Fn() -> R,
        findings: &mut Vec<Finding<PoolProblem>>,
    ) {
        let first = |find: &dyn Fn(&IpRange) -> Option<PoolProblem>| {
            ranges().find_map(|(place, range)| Some((format!("spec.addresses[{place}]"), find(&range)?)))
        };
        findings.extend(first(&|range| {
            let (_, (address, node)) = self.nodes.range(bounds(range)).next()?;
            Some(PoolProblem::NodeAddress { address: *address, node: node.clone() })
        }));
        findings.extend(first(&|range| {
            let (_, (cidr, node)) = self.pods.range(up_to_end(range)).next_back()?;
            let overlaps = shares(range, cidr);
            overlaps.then(|| PoolProblem::PodCidr { cidr: *cidr, node: node.clone() })
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
