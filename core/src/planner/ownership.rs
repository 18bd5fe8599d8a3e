//! Who may own an address, and whose turn it is to ask the wire for it.
//!
//! ```text
//! nodes, members, advertisements ─▶ verdict (for a node and a Service) ─▶ Bid (of a Service)
//! all bids for an address ─▶ Election { candidates, best first } ─place(owners seen on the wire)─▶ Claim { turn }
//! ```
//!
//! The owner itself is found on the wire ([`ferrolb_proto::conflict`]): a living owner stays, whoever ranks
//! better. What is decided here need not be the same on every node at every moment; it orders who asks first
//! and tells which of two owners is to give way.
//!
//! Candidates for a Service are the members that an advertisement allows, that have a network, one of the
//! interfaces and no exclude label and, for `externalTrafficPolicy: Local`, an endpoint that can serve. Among
//! candidates the highest preference score wins, then the lowest SHA-256 of `<node>#<address>`.
//!
//! An address that several Services share is decided once: candidates are the nodes that all of them
//! accept. Where there is none, any node that one of them accepts, and the election is marked as
//! contested. A Service that accepts no node at all has no say.
//!
//! Addresses without a living owner are spread: each goes to the least loaded of its most preferred
//! candidates, the better rank among equals. So of equally eligible nodes none has two addresses more than
//! another, as far as that needs no move of an address that works.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{PlanInput, Withheld, eligible, given_twice, locate};
use crate::config::{Interfaces, L2Advertisement};
use crate::service::LoadBalancer;

/// What one Service says about its addresses.
#[derive(Clone, Debug)]
pub(super) struct Bid<'a> {
    /// What each member may do for it.
    verdicts: BTreeMap<&'a str, Result<Interfaces, Withheld>>,
    /// Advertisements for the Service, whatever their nodes.
    advertisements: Vec<&'a L2Advertisement>,
}

impl<'a> Bid<'a> {
    /// About its addresses of one pool; none where nobody announces them.
    fn new(input: &PlanInput<'a>, service: &LoadBalancer, pool: &str) -> Option<Self> {
        let advertisements = advertisements(input, service, pool).ok()?;
        let members = input.members.keys();
        let verdicts =
            members.map(|node| (node.as_str(), verdict(input, service, &advertisements, node))).collect();
        Some(Self { verdicts, advertisements })
    }

    fn candidates(&self) -> BTreeSet<&str> {
        self.verdicts.iter().filter(|(_, verdict)| verdict.is_ok()).map(|(node, _)| *node).collect()
    }
}

/// Advertisements for a Service, whatever their nodes, or why nobody announces it.
pub(super) fn advertisements<'a>(
    input: &PlanInput<'a>,
    service: &LoadBalancer,
    pool: &str,
) -> Result<Vec<&'a L2Advertisement>, Withheld> {
    if !service.endpoints.any_serving {
        return Err(Withheld::NoServingEndpoints);
    }
    let of_pool =
        input.config.l2_advertisements().values().map(Arc::as_ref).filter(|it| it.pools.contains(pool));
    let advertisements: Vec<_> = of_pool.filter(|it| it.selects_service(&service.labels)).collect();
    if service.has_sharing_annotation && advertisements.iter().any(|it| !it.services.is_empty()) {
        return Err(Withheld::SharedIpWithServiceSelector);
    }
    Ok(advertisements)
}

/// Where a node may announce a Service, or why it may not.
pub(super) fn verdict(
    input: &PlanInput<'_>,
    service: &LoadBalancer,
    advertisements: &[&L2Advertisement],
    node: &str,
) -> Result<Interfaces, Withheld> {
    let mut here = advertisements.iter().filter(|it| it.nodes.contains(node)).peekable();
    if here.peek().is_none() {
        return Err(Withheld::NoMatchingAdvertisement);
    }
    eligible::check(input, service, node)?;
    let interfaces = here.fold(Interfaces::none(), |all, it| all.union(&it.interfaces));
    let present = input.members.get(node).and_then(|member| member.interfaces.as_ref());
    match (interfaces, present) {
        (Interfaces::Named(wanted), Some(present)) if wanted.is_disjoint(present) => {
            Err(Withheld::NoInterface { wanted })
        }
        (Interfaces::All, Some(present)) if present.is_empty() => {
            Err(Withheld::NoInterface { wanted: BTreeSet::new() })
        }
        (interfaces, _) => Ok(interfaces),
    }
}

/// The outcome for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Who may own it, with preference scores, best first. Members that are dead are among them: the wire
    /// may know better.
    pub candidates: Vec<(String, u64)>,
    /// Whether Services share the address that have no candidate in common, so that traffic of some
    /// of them arrives where they do not want it.
    pub contested: bool,
    /// Whether the better takes the address from a living owner.
    pub preempt: bool,
    /// Where this node announces it; all interfaces where it may not, to hear who does.
    pub interfaces: Interfaces,
    /// Where nobody may own it: why, for each member.
    pub withheld: BTreeMap<String, Withheld>,
}

/// Elections of all addresses.
pub type Elections = BTreeMap<IpAddr, Arc<Election>>;

/// Holds the elections of all addresses that Services have.
pub fn elect<'a>(input: &PlanInput<'_>, services: impl IntoIterator<Item = &'a LoadBalancer>) -> Elections {
    let mut bids: BTreeMap<IpAddr, Vec<Bid<'_>>> = BTreeMap::new();
    for service in services {
        let Ok(located) = locate(input.config, service) else { continue };
        let mut of_pool: BTreeMap<&str, Option<Bid<'_>>> = BTreeMap::new();
        for (address, pool) in located {
            if given_twice(input, service, address).is_some() {
                continue;
            }
            let bid = of_pool.entry(pool).or_insert_with(|| Bid::new(input, service, pool));
            if let Some(bid) = bid {
                bids.entry(address).or_default().push(bid.clone());
            }
        }
    }
    bids.into_iter().map(|(address, bids)| (address, Arc::new(decide(input, address, &bids)))).collect()
}

fn decide(input: &PlanInput<'_>, address: IpAddr, bids: &[Bid<'_>]) -> Election {
    let sets: Vec<BTreeSet<&str>> =
        bids.iter().map(Bid::candidates).filter(|candidates| !candidates.is_empty()).collect();
    let common = sets.split_first().map_or_else(BTreeSet::new, |(first, rest)| {
        rest.iter().fold(first.clone(), |common, set| common.intersection(set).copied().collect())
    });
    let contested = common.is_empty() && !sets.is_empty();
    let candidates = if contested { sets.iter().flatten().copied().collect() } else { common };
    let advertisements: BTreeMap<&str, &L2Advertisement> =
        bids.iter().flat_map(|bid| &bid.advertisements).map(|it| (it.name.as_str(), *it)).collect();
    let scored = candidates.iter().map(|node| {
        let score = advertisements.values().filter_map(|it| it.scores.get(*node)).sum();
        (*node, score)
    });
    let here = bids.iter().filter_map(|bid| bid.verdicts.get(input.this_node)?.as_ref().ok());
    let interfaces = if candidates.contains(input.this_node) {
        here.fold(Interfaces::none(), |all, it| all.union(it))
    } else {
        Interfaces::All
    };
    let withheld = bids.iter().flat_map(|bid| &bid.verdicts).filter(|_| candidates.is_empty());
    let withheld = withheld.filter_map(|(node, verdict)| Some(((*node).to_owned(), verdict.clone().err()?)));
    Election {
        candidates: rank(address, scored).into_iter().map(|(node, score)| (node.to_owned(), score)).collect(),
        contested,
        preempt: advertisements.values().any(|it| it.preempt),
        interfaces,
        withheld: withheld.collect(),
    }
}

/// Candidates for an address with their preference scores, best first.
pub fn rank<'a>(
    address: IpAddr,
    candidates: impl IntoIterator<Item = (&'a str, u64)>,
) -> Vec<(&'a str, u64)> {
    let mut ranked: Vec<_> =
        candidates.into_iter().map(|(node, score)| (Reverse(score), digest(node, address), node)).collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(Reverse(score), _, node)| (node, score)).collect()
}

fn digest(node: &str, address: IpAddr) -> [u8; 32] {
    Sha256::digest(format!("{node}#{address}")).into()
}

/// For each address the order in which its living candidates are to ask for it, the present owner not
/// among them. `owners` is what the wire says; an owner that is not alive or no candidate does not count.
pub fn place<'a>(
    elections: &'a Elections,
    owners: &BTreeMap<IpAddr, String>,
    alive: impl Fn(&str) -> bool,
) -> BTreeMap<IpAddr, Vec<&'a str>> {
    let mut load: BTreeMap<&str, u32> = BTreeMap::new();
    let mut order: BTreeMap<IpAddr, Vec<&str>> = BTreeMap::new();
    let mut free = Vec::new();
    for (address, election) in elections {
        let living: Vec<(&str, u64)> = election
            .candidates
            .iter()
            .map(|(node, score)| (node.as_str(), *score))
            .filter(|(node, _)| alive(node))
            .collect();
        let owner = owners.get(address).and_then(|owner| living.iter().find(|(node, _)| node == owner));
        match owner {
            Some((owner, _)) => {
                *load.entry(owner).or_default() += 1;
                let heirs = living.iter().map(|(node, _)| *node).filter(|node| node != owner);
                order.insert(*address, heirs.collect());
            }
            None => free.push((*address, living)),
        }
    }
    for (address, living) in free {
        let best_score = living.first().map(|(_, score)| *score);
        let equals = living.iter().take_while(|(_, score)| Some(*score) == best_score);
        let least = equals.enumerate().min_by_key(|(rank, (node, _))| (load.get(node).copied(), *rank));
        let mut turns: Vec<&str> = living.iter().map(|(node, _)| *node).collect();
        if let Some((index, (node, _))) = least {
            *load.entry(node).or_default() += 1;
            turns.remove(index);
            turns.insert(0, node);
        }
        order.insert(address, turns);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names<'a>(ranked: &[(&'a str, u64)]) -> String {
        ranked.iter().map(|(node, _)| *node).collect::<Vec<&'a str>>().join(" ")
    }

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
            assert_eq!(names(&rank(address.parse().unwrap(), candidates)), expected, "{address}");
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
            assert_eq!(names(&rank("10.20.30.1".parse().unwrap(), scores.iter().copied())), expected);
        }
    }

    fn elections(addresses: u8, nodes: &[&str]) -> Elections {
        let election = |last: u8| {
            let address = IpAddr::from([10, 20, 30, last]);
            let ranked = rank(address, nodes.iter().map(|node| (*node, 0)));
            let candidates = ranked.into_iter().map(|(node, score)| (node.to_owned(), score)).collect();
            let interfaces = Interfaces::All;
            let (contested, preempt, withheld) = (false, false, BTreeMap::new());
            (address, Arc::new(Election { candidates, contested, preempt, interfaces, withheld }))
        };
        (1..=addresses).map(election).collect()
    }

    fn loads(owners: &BTreeMap<IpAddr, String>, nodes: &[&str]) -> Vec<usize> {
        nodes.iter().map(|node| owners.values().filter(|owner| owner == node).count()).collect()
    }

    proptest! {
        /// Addresses are spread evenly; a node that is lost moves only what it owned, evenly again; one that
        /// returns moves nothing and takes what is new.
        #[test]
        fn the_load_is_bounded_and_nothing_moves_without_need(addresses in 1..40u8, count in 2..6usize, lost in 0..6usize) {
            let nodes = &["n1", "n2", "n3", "n4", "n5"][..count];
            let all = elections(addresses, nodes);
            let take = |owners: &BTreeMap<IpAddr, String>, alive: &dyn Fn(&str) -> bool| {
                let order = place(&all, owners, alive);
                let kept = |address: &IpAddr| owners.get(address).filter(|owner| alive(owner)).cloned();
                order.iter().map(|(address, turns)| (*address, kept(address).unwrap_or_else(|| turns[0].to_owned()))).collect()
            };
            let even = |loads: &[usize]| loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1;
            let before: BTreeMap<IpAddr, String> = take(&BTreeMap::new(), &|_| true);
            prop_assert!(even(&loads(&before, nodes)), "{before:?}");
            let lost = nodes[lost % count];
            let after = take(&before, &|node| node != lost);
            let rest: Vec<&str> = nodes.iter().copied().filter(|node| *node != lost).collect();
            prop_assert!(even(&loads(&after, &rest)), "{after:?}");
            for (address, owner) in &before {
                prop_assert!(owner == lost || after[address] == *owner);
            }
            prop_assert_eq!(&take(&after, &|_| true), &after, "a return moves nothing");
        }
    }

    #[test]
    fn a_preferred_node_takes_all_and_heirs_follow_the_owner() {
        let mut all = elections(3, &["n1", "n2"]);
        for election in all.values_mut() {
            Arc::make_mut(election).candidates = vec![("n2".to_owned(), 5), ("n1".to_owned(), 0)];
        }
        let order = place(&all, &BTreeMap::new(), |_| true);
        assert!(order.values().all(|turns| *turns == ["n2", "n1"]));
        let first = *all.keys().next().unwrap();
        let owners = BTreeMap::from([(first, "n2".to_owned())]);
        assert_eq!(place(&all, &owners, |_| true)[&first], ["n1"]);
        assert_eq!(place(&all, &owners, |node| node == "n1")[&first], ["n1"]);
        let stranger = BTreeMap::from([(first, "n9".to_owned())]);
        assert_eq!(place(&all, &stranger, |_| true)[&first], ["n2", "n1"]);
    }
}
