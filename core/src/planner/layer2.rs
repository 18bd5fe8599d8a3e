//! Layer 2: which addresses of a Service this node answers for, and on which interfaces.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::ownership::{Bid, Owner, bid, owner};
use super::{PlanInput, Withheld, locate};
use crate::config::Interfaces;
use crate::service::{LoadBalancer, TrafficPolicy};

/// What this node does for a Service by ARP and NDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer2Plan {
    /// For each address.
    pub addresses: BTreeMap<IpAddr, AddressPlan>,
}

/// What this node does for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPlan {
    /// Who owns the address: the same on every node.
    pub owner: Option<Owner>,
    /// Where this node answers, or why it does not.
    pub decision: Result<Interfaces, Withheld>,
}

pub(super) fn plan(
    input: &PlanInput<'_>,
    service: &LoadBalancer,
    addresses: &[IpAddr],
    pool: &str,
) -> Result<Layer2Plan, Withheld> {
    let own = bid(input, service, pool)?;
    let mut plan = Layer2Plan::default();
    for address in addresses {
        let owner = owner(*address, &bids(input, service, &own, *address));
        let decision = decide(input, service, &own, owner.as_ref());
        plan.addresses.insert(*address, AddressPlan { owner, decision });
    }
    Ok(plan)
}

/// The bids of all Services that hold the address.
fn bids<'a>(input: &PlanInput<'a>, service: &LoadBalancer, own: &Bid<'a>, address: IpAddr) -> Vec<Bid<'a>> {
    let others = input.holders.of(address).iter().filter(|other| other.key != service.key);
    let other_bids = others.filter_map(|other| {
        let (_, pool) = locate(input.config, other).ok()?;
        bid(input, other, pool).ok()
    });
    other_bids.chain([own.clone()]).collect()
}

fn decide(
    input: &PlanInput<'_>,
    service: &LoadBalancer,
    own: &Bid<'_>,
    owner: Option<&Owner>,
) -> Result<Interfaces, Withheld> {
    let here = input.this_node;
    let mut advertisements = own.advertisements.iter().filter(|it| it.nodes.contains(here)).peekable();
    if advertisements.peek().is_none() {
        return Err(Withheld::NoMatchingAdvertisement);
    }
    if let Some(node) = input.nodes.get(here) {
        if node.network_unavailable {
            return Err(Withheld::NodeNetworkUnavailable);
        }
        if node.is_excluded() && !input.ignore_exclude_label {
            return Err(Withheld::NodeExcluded);
        }
    }
    if service.traffic_policy == TrafficPolicy::Local && !service.endpoints.nodes.contains(here) {
        return Err(Withheld::NoLocalEndpoints);
    }
    if owner.is_none_or(|owner| owner.node != here) {
        return Err(Withheld::NotElected { winner: owner.map(|owner| owner.node.clone()) });
    }
    let interfaces = advertisements.fold(Interfaces::none(), |all, it| all.union(&it.interfaces));
    match interfaces {
        Interfaces::Named(wanted) if wanted.is_disjoint(input.interfaces) => {
            Err(Withheld::NoInterface { wanted })
        }
        interfaces => Ok(interfaces),
    }
}
