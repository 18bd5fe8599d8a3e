//! BGP: as which routes this node announces a Service, and to which peers.
//!
//! Every node that may announce does; routers spread traffic over them (ECMP). An address is announced
//! as the prefix around it that an advertisement asks for, so several Services, and several
//! advertisements of one, can come to the same route. Communities of all are then put together; local
//! preferences cannot be:
//!
//! - advertisements that prefer the same route of one Service differently contradict each other, and the
//!   route is not announced to the peers that both are for;
//! - Services whose advertisements prefer a common route differently are each other's business: the
//!   highest preference counts.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_proto::bgp::{AdjRibOut, PathAttributes, Prefix};

use super::{Located, PlanInput, ServicePlan, Withheld, eligible, given_twice};
use crate::config::BgpAdvertisement;
use crate::config::ranges::Family;
use crate::service::LoadBalancer;

/// What this node does for a Service by BGP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BgpPlan {
    /// Addresses of the Service that at least one peer gets a route to.
    pub addresses: BTreeSet<IpAddr>,
    /// Peers of this node that get routes of the Service, each with these routes.
    pub routes: BTreeMap<String, AdjRibOut>,
    /// Routes that are not announced because advertisements contradict each other.
    pub conflicts: BTreeSet<Conflict>,
    /// Why other addresses of the Service are announced to nobody.
    pub withheld: BTreeMap<IpAddr, Withheld>,
}

/// Two advertisements that contradict each other about a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The peer that both are for.
    pub peer: String,
    /// The route.
    pub prefix: Prefix,
    /// One of them, and what it prefers the route by.
    pub first: (String, u32),
    /// The other.
    pub second: (String, u32),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { peer, prefix, .. }, (first, a), (second, b)) = (self, &self.first, &self.second);
        write!(
            f,
            "BGPAdvertisements {first} (localPref {a}) and {second} (localPref {b}) contradict each other \
             about {prefix} for peer {peer}: give both the same localPref, other peers or other nodes"
        )
    }
}

pub(super) fn plan(
    input: &PlanInput<'_>,
    service: &LoadBalancer,
    located: &[Located<'_>],
) -> Result<BgpPlan, Withheld> {
    let mut of_pool: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
    let mut withheld = BTreeMap::new();
    for (address, pool) in located {
        match given_twice(input, service, *address) {
            Some(why) => drop(withheld.insert(*address, why)),
            None => of_pool.entry(pool).or_default().push(*address),
        }
    }
    let mut all = BgpPlan::default();
    for (pool, addresses) in of_pool {
        match plan_of_pool(input, service, &addresses, pool) {
            Ok(plan) => all.join(plan),
            Err(why) => withheld.extend(addresses.into_iter().map(|address| (address, why.clone()))),
        }
    }
    // Of an address that nobody gets, the Service has to say why.
    match (all.routes.is_empty(), located.iter().find_map(|(address, _)| withheld.get(address))) {
        (true, Some(why)) => Err(why.clone()),
        _ => Ok(BgpPlan { withheld, ..all }),
    }
}

impl BgpPlan {
    /// Takes over what is done for other addresses of the Service.
    fn join(&mut self, other: Self) {
        self.addresses.extend(other.addresses);
        self.conflicts.extend(other.conflicts);
        for (peer, routes) in other.routes {
            let known = self.routes.entry(peer).or_default();
            known.extend(routes);
        }
    }
}

/// What is done for the addresses of one pool.
fn plan_of_pool(
    input: &PlanInput<'_>,
    service: &LoadBalancer,
    addresses: &[IpAddr],
    pool: &str,
) -> Result<BgpPlan, Withheld> {
    let here = input.this_node;
    let of_pool =
        input.config.bgp_advertisements().values().map(Arc::as_ref).filter(|it| it.pools.contains(pool));
    let mut of_node = of_pool.filter(|it| it.nodes.contains(here)).peekable();
    if of_node.peek().is_none() {
        return Err(Withheld::NodeNotSelected);
    }
    let advertisements: Vec<&BgpAdvertisement> =
        of_node.filter(|it| it.selects_service(&service.labels)).collect();
    if advertisements.is_empty() {
        return Err(Withheld::NoMatchingBgpAdvertisement);
    }
    eligible::check(input, service, here)?;
    if !service.endpoints.any_serving {
        return Err(Withheld::NoServingEndpoints);
    }
    let mut plan = BgpPlan::default();
    let peers = input.config.peers().values().filter(|peer| peer.nodes.contains(here));
    for peer in peers {
        let for_peer = advertisements.iter().copied().filter(|it| it.selects_peer(&peer.name));
        let routes = routes(&peer.name, for_peer, addresses, &mut plan.conflicts);
        if !routes.is_empty() {
            let covered = |address: &&IpAddr| {
                routes.keys().any(|route| Prefix::around(**address, route.length()) == Some(*route))
            };
            plan.addresses.extend(addresses.iter().filter(covered));
            plan.routes.insert(peer.name.clone(), routes);
        }
    }
    match (plan.routes.is_empty(), plan.conflicts.first()) {
        (false, _) => Ok(plan),
        (true, Some(conflict)) => Err(Withheld::ConflictingAdvertisements(Box::new(conflict.clone()))),
        (true, None) => Err(Withheld::NoPeer),
    }
}

/// The routes of a Service for one peer.
fn routes<'a>(
    peer: &str,
    advertisements: impl Iterator<Item = &'a BgpAdvertisement>,
    addresses: &[IpAddr],
    conflicts: &mut BTreeSet<Conflict>,
) -> AdjRibOut {
    let mut routes: BTreeMap<Prefix, (PathAttributes, &BgpAdvertisement)> = BTreeMap::new();
    let mut contradictory = BTreeSet::new();
    for advertisement in advertisements {
        for address in addresses {
            let length = advertisement.aggregation_length_of(Family::of(*address));
            let Some(prefix) = Prefix::around(*address, length) else { continue };
            match routes.entry(prefix) {
                Entry::Vacant(entry) => drop(entry.insert((attributes(advertisement), advertisement))),
                Entry::Occupied(mut entry) => {
                    let (known, first) = entry.get_mut();
                    if first.local_preference != advertisement.local_preference {
                        contradictory.insert(prefix);
                        conflicts.insert(Conflict {
                            peer: peer.to_owned(),
                            prefix,
                            first: (first.name.clone(), first.local_preference),
                            second: (advertisement.name.clone(), advertisement.local_preference),
                        });
                    }
                    unite(known, &attributes(advertisement));
                }
            }
        }
    }
    let agreed = routes.into_iter().filter(|(prefix, _)| !contradictory.contains(prefix));
    agreed.map(|(prefix, (attributes, _))| (prefix, Arc::new(attributes))).collect()
}

fn attributes(advertisement: &BgpAdvertisement) -> PathAttributes {
    PathAttributes {
        local_preference: Some(advertisement.local_preference).filter(|preference| *preference != 0),
        communities: advertisement.communities.clone(),
        large_communities: advertisement.large_communities.clone(),
    }
}

fn unite(known: &mut PathAttributes, more: &PathAttributes) {
    known.local_preference = known.local_preference.max(more.local_preference);
    known.communities.extend(&more.communities);
    known.large_communities.extend(&more.large_communities);
}

/// The routes of all Services together: for each peer what it is to be sent.
pub(super) fn merge<'a>(
    plans: impl IntoIterator<Item = &'a ServicePlan>,
) -> BTreeMap<String, Arc<AdjRibOut>> {
    let mut united: BTreeMap<&str, AdjRibOut> = BTreeMap::new();
    let of_peers = plans.into_iter().flat_map(|plan| plan.bgp.iter().flat_map(|plan| &plan.routes));
    for (peer, routes) in of_peers {
        let of_peer = united.entry(peer).or_default();
        for (prefix, attributes) in routes {
            match of_peer.entry(*prefix) {
                Entry::Vacant(entry) => drop(entry.insert(Arc::clone(attributes))),
                Entry::Occupied(mut entry) => unite(Arc::make_mut(entry.get_mut()), attributes),
            }
        }
    }
    let share = |mut routes: AdjRibOut| {
        // Most routes of a peer have the same attributes.
        let mut known: BTreeSet<Arc<PathAttributes>> = BTreeSet::new();
        for attributes in routes.values_mut() {
            match known.get(attributes) {
                Some(known) => attributes.clone_from(known),
                None => drop(known.insert(Arc::clone(attributes))),
            }
        }
        Arc::new(routes)
    };
    united.into_iter().map(|(peer, routes)| (peer.to_owned(), share(routes))).collect()
}
