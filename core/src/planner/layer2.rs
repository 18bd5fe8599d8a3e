//! Layer 2: which addresses of a Service this node answers for, and what each link is told to do.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_proto::conflict::{self, Candidate, Claim, Claims};
use ferrolb_proto::ethernet::MacAddr;

use super::ownership::{Elections, advertisements, place, verdict};
use super::{Located, PlanInput, Withheld, given_twice};
use crate::config::Interfaces;
use crate::service::LoadBalancer;

/// Who owns an address, as seen on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// This node.
    Here,
    /// Another one; its name, where that is known.
    Elsewhere(Option<String>),
    /// A host that is no speaker.
    Conflict(MacAddr),
}

/// What the wire says of all addresses.
pub type Wire = BTreeMap<IpAddr, Seen>;

/// What this node does for a Service by ARP and NDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer2Plan {
    /// For each address.
    pub addresses: BTreeMap<IpAddr, AddressPlan>,
}

/// What this node does for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPlan {
    /// Where this node answers, or why it does not.
    pub decision: Result<Interfaces, Withheld>,
}

pub(super) fn plan(
    input: &PlanInput<'_>,
    elections: &Elections,
    wire: &Wire,
    service: &LoadBalancer,
    located: &[Located<'_>],
) -> Result<Layer2Plan, Withheld> {
    let verdicts: BTreeMap<&str, Result<Result<Interfaces, Withheld>, Withheld>> = located
        .iter()
        .map(|(_, pool)| {
            let verdict = advertisements(input, service, pool)
                .map(|advertisements| verdict(input, service, &advertisements, input.this_node));
            (*pool, verdict)
        })
        .collect();
    // What no pool of the Service allows concerns the Service, not its addresses.
    if verdicts.values().all(Result::is_err)
        && let Some(Err(withheld)) = verdicts.values().next()
    {
        return Err(withheld.clone());
    }
    let plan = located.iter().map(|(address, pool)| {
        if let Some(withheld) = given_twice(input, service, *address) {
            return (*address, AddressPlan { decision: Err(withheld) });
        }
        let verdict = match verdicts.get(pool) {
            Some(Ok(verdict)) => verdict.clone(),
            Some(Err(withheld)) => Err(withheld.clone()),
            None => Err(Withheld::NoMatchingAdvertisement),
        };
        let decision = match (wire.get(address), &verdict) {
            // What is answered for is announced, also while it is handed over.
            (Some(Seen::Here), Ok(interfaces)) => Ok(interfaces.clone()),
            (Some(Seen::Here), Err(_)) => Ok(Interfaces::All),
            (_, Err(withheld)) => Err(withheld.clone()),
            (Some(Seen::Conflict(mac)), Ok(_)) => Err(Withheld::AddressConflict { mac: *mac }),
            (Some(Seen::Elsewhere(winner)), Ok(_)) => Err(Withheld::NotElected { winner: winner.clone() }),
            (None, Ok(_)) => {
                let candidate = |it: &(String, u64)| it.0 == input.this_node;
                let is_candidate =
                    elections.get(address).is_some_and(|it| it.candidates.iter().any(candidate));
                Err(if is_candidate { Withheld::Claiming } else { Withheld::NotElected { winner: None } })
            }
        };
        (*address, AddressPlan { decision })
    });
    Ok(Layer2Plan { addresses: plan.collect() })
}

/// What this node's links are told about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkClaim {
    /// Who may own it, and when this node's turn is.
    pub claim: Arc<Claim>,
    /// On which links.
    pub interfaces: Interfaces,
}

/// What this node's links are told about all addresses that anybody may own, and about those that a stranger
/// has.
pub type LinkClaims = BTreeMap<IpAddr, LinkClaim>;

/// Makes of the elections what the links are told.
pub fn claims(input: &PlanInput<'_>, elections: &Elections, wire: &Wire) -> LinkClaims {
    let owners = wire.iter().filter_map(|(address, seen)| {
        let owner = match seen {
            Seen::Here => Some(input.this_node.to_owned()),
            Seen::Elsewhere(node) => node.clone(),
            Seen::Conflict(_) => None,
        };
        Some((*address, owner?))
    });
    let alive = |node: &str| node == input.this_node || input.members.get(node).is_some_and(|it| it.alive);
    let order = place(elections, &owners.collect(), alive);
    let electable = elections.iter().filter(|(_, election)| !election.candidates.is_empty());
    let claims = electable.map(|(address, election)| {
        let candidates = election.candidates.iter();
        let candidates =
            candidates.map(|(node, score)| Candidate { node: node.as_str().into(), preference: *score });
        let is_candidate = election.candidates.iter().any(|(node, _)| node == input.this_node);
        // An owner has no turn in the order: it is the first who may go on.
        let turns = order.get(address);
        let turn = turns.and_then(|turns| turns.iter().position(|node| *node == input.this_node));
        let turn = is_candidate.then(|| u32::try_from(turn.unwrap_or_default()).unwrap_or(u32::MAX));
        let claim = Claim { candidates: candidates.collect(), turn, preempt: election.preempt };
        (*address, LinkClaim { claim: Arc::new(claim), interfaces: election.interfaces.clone() })
    });
    // An address that a stranger had when the last Service lost it is asked for until it is clear.
    let stranger = |seen: &Seen| matches!(seen, Seen::Conflict(_));
    let left = wire.iter().filter(|(address, seen)| stranger(seen) && !elections.contains_key(address));
    let asked =
        left.filter(|(address, _)| input.config.pool_around(**address).is_some()).map(|(address, _)| {
            let claim = Claim { candidates: [].into(), turn: Some(0), preempt: false };
            (*address, LinkClaim { claim: Arc::new(claim), interfaces: Interfaces::All })
        });
    claims.chain(asked).collect()
}

/// What the links are told right after the API server came back: nothing that `before` allowed is taken
/// away, since what seems to be gone may only not be seen yet.
pub fn hold(now: LinkClaims, before: &LinkClaims) -> LinkClaims {
    let inner = |claims: &LinkClaims| -> Claims {
        claims.iter().map(|(address, it)| (*address, Arc::clone(&it.claim))).collect()
    };
    let held = conflict::hold(&inner(&now), &inner(before));
    let claims = held.into_iter().filter_map(|(address, claim)| {
        let (now, before) = (now.get(&address), before.get(&address));
        let may_now = now.filter(|it| it.claim.turn.is_some());
        let interfaces = may_now.or(before).or(now)?.interfaces.clone();
        Some((address, LinkClaim { claim, interfaces }))
    });
    claims.collect()
}
