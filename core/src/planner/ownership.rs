//! Who owns an address: exactly one node, or none, and the same one in the eyes of every node.
//!
//! Inputs: the Services that hold the address, the advertisements for them, the live members and
//! what is known of their nodes. Candidates for a Service are the live members that an advertisement
//! allows, that have a network and no exclude label and, for `externalTrafficPolicy: Local`, an
//! endpoint that can serve. Among candidates the highest preference score wins, then the lowest
//! SHA-256 of `<node>#<address>`.
//!
//! An address that several Services share is decided once: candidates are the nodes that all of them
//! accept. Where there is none, any node that one of them accepts, and the owner is marked as
//! contested. A Service that accepts no node at all has no say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::{PlanInput, Withheld};
use crate::config::L2Advertisement;
use crate::service::{LoadBalancer, TrafficPolicy};

/// The owner of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its node.
    pub node: String,
    /// Whether Services share the address that have no candidate in common, so that traffic of some
    /// of them arrives where they do not want it.
    pub contested: bool,
}

/// What one Service says about its addresses.
#[derive(Clone, Debug)]
pub(super) struct Bid<'a> {
    /// Nodes that may own them.
    pub(super) candidates: BTreeSet<&'a str>,
    /// Advertisements for the Service, whatever their nodes.
    pub(super) advertisements: Vec<&'a L2Advertisement>,
}

/// The bid of a Service, or why nobody announces it.
pub(super) fn bid<'a>(
    input: &PlanInput<'a>,
    service: &LoadBalancer,
    pool: &str,
) -> Result<Bid<'a>, Withheld> {
    if !service.endpoints.any_serving {
        return Err(Withheld::NoServingEndpoints);
    }
    let of_pool = input.config.l2_advertisements().values().filter(|it| it.pools.contains(pool));
    let advertisements: Vec<_> = of_pool.filter(|it| it.selects_service(&service.labels)).collect();
    if service.has_sharing_annotation && advertisements.iter().any(|it| !it.services.is_empty()) {
        return Err(Withheld::SharedIpWithServiceSelector);
    }
    let candidates = input.members.iter().map(String::as_str).filter(|name| {
        input.nodes.get(*name).is_some_and(|node| {
            !node.network_unavailable && (input.ignore_exclude_label || !node.is_excluded())
        }) && advertisements.iter().any(|it| it.nodes.contains(*name))
            && (service.traffic_policy == TrafficPolicy::Cluster || service.endpoints.nodes.contains(*name))
    });
    Ok(Bid { candidates: candidates.collect(), advertisements })
}

/// Who owns the address, given the bids of all Services that hold it.
pub(super) fn owner(address: IpAddr, bids: &[Bid<'_>]) -> Option<Owner> {
    let mut having_say = bids.iter().filter(|bid| !bid.candidates.is_empty());
    let first = having_say.next()?;
    let common = having_say.clone().fold(first.candidates.clone(), |common, bid| {
        common.intersection(&bid.candidates).copied().collect()
    });
    let contested = common.is_empty();
    let candidates = if contested {
        having_say.fold(first.candidates.clone(), |all, bid| all.union(&bid.candidates).copied().collect())
    } else {
        common
    };
    let advertisements: BTreeMap<&str, &L2Advertisement> =
        bids.iter().flat_map(|bid| &bid.advertisements).map(|it| (it.name.as_str(), *it)).collect();
    let scored = candidates.into_iter().map(|node| {
        let score = advertisements.values().filter_map(|it| it.scores.get(node)).sum();
        (node, score)
    });
    let node = rank(address, scored).first().map(|node| (*node).to_owned())?;
    Some(Owner { node, contested })
}

/// Candidates for an address with their preference scores, best first.
pub fn rank<'a>(address: IpAddr, candidates: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<&'a str> {
    let mut ranked: Vec<_> = candidates
        .into_iter()
        .map(|(node, score)| (std::cmp::Reverse(score), digest(node, address), node))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, node)| node).collect()
}

fn digest(node: &str, address: IpAddr) -> [u8; 32] {
    Sha256::digest(format!("{node}#{address}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order that MetalLB's speakers agree on: a cluster may run both for the time of a migration.
    #[test]
    fn ranks_as_metallb_does() {
        for (address, nodes, expected) in [
            ("10.0.0.1", "node-a node-b node-c", "node-b node-a node-c"),
            ("10.0.0.2", "node-a node-b node-c", "node-b node-c node-a"),
            ("10.20.30.1", "iris1 iris2", "iris2 iris1"),
            ("10.20.30.2", "iris1 iris2", "iris1 iris2"),
            ("10.20.30.3", "iris1 iris2", "iris1 iris2"),
            ("10.20.30.4", "iris1 iris2", "iris2 iris1"),
            ("10.20.30.8", "iris1 iris2", "iris2 iris1"),
            ("10.20.30.1", "edge-a edge-b worker-a worker-b", "edge-b worker-a edge-a worker-b"),
            ("10.20.30.1", "node-a node-b", "node-b node-a"),
            ("192.168.1.240", "worker1 worker2 worker3", "worker2 worker1 worker3"),
            ("fc00:f853:ccd:e799::1", "worker1 worker2 worker3", "worker1 worker3 worker2"),
            ("2001:db8::10", "worker1 worker2 worker3", "worker3 worker1 worker2"),
            ("10.0.0.1", "", ""),
            ("10.0.0.1", "alone", "alone"),
        ] {
            let candidates = nodes.split_whitespace().map(|node| (node, 0));
            assert_eq!(rank(address.parse().unwrap(), candidates).join(" "), expected, "{address}");
        }
    }

    #[test]
    fn preference_comes_first() {
        for (scores, expected) in [
            (
                &[("edge-a", 100), ("edge-b", 0), ("worker-a", 0), ("worker-b", 0)][..],
                "edge-a edge-b worker-a worker-b",
            ),
            (&[("node-a", 100), ("node-b", 100)], "node-b node-a"),
            (&[("node-a", 101), ("node-b", 100)], "node-a node-b"),
        ] {
            assert_eq!(rank("10.20.30.1".parse().unwrap(), scores.iter().copied()).join(" "), expected);
        }
    }
}
