//! What a session announces: the difference between what the peer was sent and what it should have, in
//! as few UPDATEs as RFC 4271 allows.
//!
//! Routes with equal attributes share messages; none is longer than 4096 octets; withdrawals come first,
//! so a table that is nearly full never overflows on the way.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::attribute::{self, AsPath, PathAttributes};
use super::message::{MAX_MESSAGE, UPDATE, UPDATE_OVERHEAD, frame};
use super::{Family, Prefix};

/// All routes that a peer has or is to have, each with its attributes.
pub type AdjRibOut = BTreeMap<Prefix, Arc<PathAttributes>>;

/// LOCAL_PREF where the configuration names none: what routers take for granted.
const DEFAULT_LOCAL_PREFERENCE: u32 = 100;
/// Flags, type and length of an attribute that holds routes.
const ATTRIBUTE_HEADER: usize = 4;
/// AFI, SAFI, next hop with its length, and a reserved octet.
const REACH_FIELDS: usize = 2 + 1 + 1 + 16 + 1;
const UNREACH_FIELDS: usize = 2 + 1;
/// A prefix of IPv6 with its length.
const LONGEST_ROUTE: usize = 17;

/// Addresses of the own node that lead traffic to it, as seen from the peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextHops {
    /// For IPv4.
    pub v4: Option<Ipv4Addr>,
    /// For IPv6.
    pub v6: Option<Ipv6Addr>,
}

/// Why a route that the peer should have is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unsent {
    /// The peer did not agree to take routes of this family.
    FamilyNotNegotiated(Family),
    /// The interface towards the peer has no address of this family that could be the next hop.
    NoNextHop(Family),
    /// Its attributes (communities) are longer than a message.
    AttributesTooLong,
}

impl std::fmt::Display for Unsent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FamilyNotNegotiated(family) => {
                write!(f, "the session does not carry {family}: both sides must enable it")
            }
            Self::NoNextHop(family) => write!(
                f,
                "the interface towards the peer has no global address for the next hop of {family} routes"
            ),
            Self::AttributesTooLong => {
                f.write_str("its communities do not fit a BGP message: take some out of its advertisements")
            }
        }
    }
}

/// How routes are put on the wire of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) path: AsPath,
    pub(super) ipv4: bool,
    pub(super) ipv6: bool,
    /// RFC 8950: IPv4 routes may have an IPv6 next hop.
    pub(super) extended_next_hop: bool,
    pub(super) next_hops: NextHops,
}

impl Export {
    pub(super) fn families(&self) -> impl Iterator<Item = Family> {
        let ipv4 = self.ipv4.then_some(Family::Ipv4Unicast);
        ipv4.into_iter().chain(self.ipv6.then_some(Family::Ipv6Unicast))
    }

    fn next_hop(&self, family: Family) -> Result<IpAddr, Unsent> {
        let (carried, next_hop) = match family {
            Family::Ipv4Unicast => {
                let extended = self.next_hops.v6.filter(|_| self.extended_next_hop).map(IpAddr::V6);
                (self.ipv4, self.next_hops.v4.map(IpAddr::V4).or(extended))
            }
            Family::Ipv6Unicast => (self.ipv6, self.next_hops.v6.map(IpAddr::V6)),
        };
        if carried {
            next_hop.ok_or(Unsent::NoNextHop(family))
        } else {
            Err(Unsent::FamilyNotNegotiated(family))
        }
    }

    /// Of the routes a peer should have, those it can be sent, as they look on its wire.
    pub(super) fn sendable(&self, wanted: &AdjRibOut) -> (AdjRibOut, BTreeMap<Prefix, Unsent>) {
        let mut sendable = AdjRibOut::new();
        let mut unsent = BTreeMap::new();
        // Most routes share their attributes; each set is looked at once.
        let mut known: BTreeMap<(Family, &PathAttributes), Result<Arc<PathAttributes>, Unsent>> =
            BTreeMap::new();
        for (prefix, attributes) in wanted {
            let on_wire = known.entry((prefix.family(), attributes)).or_insert_with(|| {
                let next_hop = self.next_hop(prefix.family())?;
                let on_wire = self.on_wire(attributes);
                let length = UPDATE_OVERHEAD
                    + on_wire.encode(self.path, Some(next_hop)).len()
                    + ATTRIBUTE_HEADER
                    + REACH_FIELDS
                    + LONGEST_ROUTE;
                if length <= MAX_MESSAGE { Ok(on_wire) } else { Err(Unsent::AttributesTooLong) }
            });
            match on_wire {
                Ok(on_wire) => drop(sendable.insert(*prefix, Arc::clone(on_wire))),
                Err(why) => drop(unsent.insert(*prefix, *why)),
            }
        }
        (sendable, unsent)
    }

    /// RFC 4271 §5.1.5: LOCAL_PREF goes to internal peers, to all of them, and to no other.
    fn on_wire(&self, attributes: &Arc<PathAttributes>) -> Arc<PathAttributes> {
        let local_preference = match self.path {
            AsPath::Internal => Some(attributes.local_preference.unwrap_or(DEFAULT_LOCAL_PREFERENCE)),
            AsPath::External { .. } => None,
        };
        if local_preference == attributes.local_preference {
            return Arc::clone(attributes);
        }
        Arc::new(PathAttributes { local_preference, ..PathAttributes::clone(attributes) })
    }

    /// The UPDATEs that bring a peer from `sent` to `wanted`, which must be [`sendable`](Self::sendable).
    pub(super) fn updates(&self, sent: &AdjRibOut, wanted: &AdjRibOut) -> Vec<Vec<u8>> {
        let mut updates = Vec::new();
        for family in Family::ALL {
            let gone = sent.keys().filter(|prefix| !wanted.contains_key(prefix));
            let gone: Vec<Prefix> = gone.filter(|prefix| prefix.family() == family).copied().collect();
            updates.extend(withdrawals(family, &gone));
        }
        let mut groups: BTreeMap<(Family, &PathAttributes), Vec<Prefix>> = BTreeMap::new();
        for (prefix, attributes) in wanted {
            if sent.get(prefix) != Some(attributes) {
                groups.entry((prefix.family(), attributes)).or_default().push(*prefix);
            }
        }
        for ((family, attributes), prefixes) in groups {
            if let Ok(next_hop) = self.next_hop(family) {
                updates.extend(self.announcements(family, attributes, next_hop, &prefixes));
            }
        }
        updates
    }

    fn announcements(
        &self,
        family: Family,
        attributes: &PathAttributes,
        next_hop: IpAddr,
        prefixes: &[Prefix],
    ) -> Vec<Vec<u8>> {
        let encoded = attributes.encode(self.path, Some(next_hop));
        let fixed = UPDATE_OVERHEAD + encoded.len();
        match next_hop {
            IpAddr::V4(_) => {
                let routes = pack(prefixes, MAX_MESSAGE.saturating_sub(fixed));
                routes.iter().map(|routes| update(&[], &encoded, routes)).collect()
            }
            IpAddr::V6(next_hop) => {
                let fixed = fixed + ATTRIBUTE_HEADER + REACH_FIELDS;
                let routes = pack(prefixes, MAX_MESSAGE.saturating_sub(fixed));
                // RFC 7606 §5.1: the attribute with the routes comes first.
                let reach = |routes: &Vec<u8>| attribute::reach(family, next_hop, routes);
                routes
                    .iter()
                    .map(|routes| update(&[], &[reach(routes), encoded.clone()].concat(), &[]))
                    .collect()
            }
        }
    }

    /// End-of-RIB for each family (RFC 4724 §2): all that the peer should have was sent.
    pub(super) fn end_of_rib(&self) -> Vec<Vec<u8>> {
        self.families().map(|family| withdrawal(family, &[])).collect()
    }
}

fn withdrawals(family: Family, prefixes: &[Prefix]) -> Vec<Vec<u8>> {
    let room = MAX_MESSAGE - UPDATE_OVERHEAD - ATTRIBUTE_HEADER - UNREACH_FIELDS;
    pack(prefixes, room).iter().map(|routes| withdrawal(family, routes)).collect()
}

fn withdrawal(family: Family, routes: &[u8]) -> Vec<u8> {
    match family {
        Family::Ipv4Unicast => update(routes, &[], &[]),
        Family::Ipv6Unicast => update(&[], &attribute::unreach(family, routes), &[]),
    }
}

fn update(withdrawn: &[u8], attributes: &[u8], routes: &[u8]) -> Vec<u8> {
    // Both are below the length of a message.
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    frame(UPDATE, &[&length(withdrawn), withdrawn, &length(attributes), attributes, routes].concat())
}

/// Routes as bytes (RFC 4271 §4.3: length, then as many octets as it needs), in parts of at most `room`.
fn pack(prefixes: &[Prefix], room: usize) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for prefix in prefixes {
        let octets = usize::from(prefix.length().div_ceil(8));
        let mut route = vec![prefix.length()];
        match prefix.address() {
            IpAddr::V4(address) => route.extend(address.octets().iter().take(octets)),
            IpAddr::V6(address) => route.extend(address.octets().iter().take(octets)),
        }
        match parts.last_mut() {
            Some(part) if part.len() + route.len() <= room => part.extend(route),
            Some(_) | None => parts.push(route),
        }
    }
    parts
}

#[cfg(test)]
mod tests;
