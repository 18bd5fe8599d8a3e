//! Path attributes (RFC 4271 §5): what goes with our routes, on the wire.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use super::{Asn, Community, Family, LargeCommunity};

pub(super) const ORIGIN: u8 = 1;
pub(super) const AS_PATH: u8 = 2;
pub(super) const NEXT_HOP: u8 = 3;
pub(super) const MULTI_EXIT_DISC: u8 = 4;
pub(super) const LOCAL_PREF: u8 = 5;
pub(super) const ATOMIC_AGGREGATE: u8 = 6;
pub(super) const AGGREGATOR: u8 = 7;
pub(super) const COMMUNITIES: u8 = 8;
pub(super) const MP_REACH_NLRI: u8 = 14;
pub(super) const MP_UNREACH_NLRI: u8 = 15;
pub(super) const AS4_PATH: u8 = 17;
pub(super) const LARGE_COMMUNITIES: u8 = 32;

const WELL_KNOWN: u8 = 0x40;
const OPTIONAL: u8 = 0x80;
const OPTIONAL_TRANSITIVE: u8 = 0xc0;
const EXTENDED_LENGTH: u8 = 0x10;

const ORIGIN_IGP: u8 = 0;
const AS_SEQUENCE: u8 = 2;

/// What is said about a route besides where it leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathAttributes {
    /// How much it is preferred inside the AS. Only internal peers are told.
    pub local_preference: Option<u32>,
    /// RFC 1997.
    pub communities: BTreeSet<Community>,
    /// RFC 8092.
    pub large_communities: BTreeSet<LargeCommunity>,
}

/// The AS path that a session puts on its routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AsPath {
    /// To the own AS: empty (RFC 4271 §5.1.2).
    Internal,
    /// To another: the own number, in the octets that the peer reads.
    External { asn: Asn, four_octets: bool },
}

impl PathAttributes {
    /// All attributes but those that hold routes and next hops, in order of their types.
    pub(super) fn encode(&self, path: AsPath, next_hop: Option<IpAddr>) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, WELL_KNOWN, ORIGIN, &[ORIGIN_IGP]);
        put(&mut out, WELL_KNOWN, AS_PATH, &path.segments());
        if let Some(IpAddr::V4(next_hop)) = next_hop {
            put(&mut out, WELL_KNOWN, NEXT_HOP, &next_hop.octets());
        }
        if let Some(preference) = self.local_preference {
            put(&mut out, WELL_KNOWN, LOCAL_PREF, &preference.to_be_bytes());
        }
        if !self.communities.is_empty() {
            let value: Vec<u8> = self.communities.iter().flat_map(|it| it.0.to_be_bytes()).collect();
            put(&mut out, OPTIONAL_TRANSITIVE, COMMUNITIES, &value);
        }
        if let AsPath::External { asn, four_octets: false } = path
            && u32::from(asn.two_octets()) != asn.0
        {
            // RFC 6793 §4.2.2: routers behind the peer can read the true number.
            let segment = [&[AS_SEQUENCE, 1], &asn.0.to_be_bytes()[..]].concat();
            put(&mut out, OPTIONAL_TRANSITIVE, AS4_PATH, &segment);
        }
        if !self.large_communities.is_empty() {
            let parts = self.large_communities.iter().flat_map(|it| [it.global, it.first, it.second]);
            let value: Vec<u8> = parts.flat_map(u32::to_be_bytes).collect();
            put(&mut out, OPTIONAL_TRANSITIVE, LARGE_COMMUNITIES, &value);
        }
        out
    }
}

impl AsPath {
    fn segments(self) -> Vec<u8> {
        match self {
            Self::Internal => Vec::new(),
            Self::External { asn, four_octets: true } => {
                [&[AS_SEQUENCE, 1], &asn.0.to_be_bytes()[..]].concat()
            }
            Self::External { asn, four_octets: false } => {
                [&[AS_SEQUENCE, 1], &asn.two_octets().to_be_bytes()[..]].concat()
            }
        }
    }
}

/// MP_REACH_NLRI (RFC 4760 §3; of IPv4 with an IPv6 next hop: RFC 8950).
pub(super) fn reach(family: Family, next_hop: Ipv6Addr, routes: &[u8]) -> Vec<u8> {
    let mut value = family.afi().to_be_bytes().to_vec();
    value.extend([Family::UNICAST, 16]);
    value.extend(next_hop.octets());
    value.push(0);
    value.extend(routes);
    let mut out = Vec::new();
    put(&mut out, OPTIONAL, MP_REACH_NLRI, &value);
    out
}

/// MP_UNREACH_NLRI (RFC 4760 §4).
pub(super) fn unreach(family: Family, routes: &[u8]) -> Vec<u8> {
    let mut value = family.afi().to_be_bytes().to_vec();
    value.push(Family::UNICAST);
    value.extend(routes);
    let mut out = Vec::new();
    put(&mut out, OPTIONAL, MP_UNREACH_NLRI, &value);
    out
}

fn put(out: &mut Vec<u8>, flags: u8, kind: u8, value: &[u8]) {
    match u8::try_from(value.len()) {
        Ok(length) => out.extend([flags, kind, length]),
        Err(_) => {
            out.extend([flags | EXTENDED_LENGTH, kind]);
            // Longer ones do not fit a message, which the caller sees by the length of the whole.
            out.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    out.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unhex;

    fn attributes(local_preference: Option<u32>) -> PathAttributes {
        PathAttributes {
            local_preference,
            communities: [Community::new(65535, 65281), Community::new(1, 2)].into(),
            large_communities: BTreeSet::new(),
        }
    }

    #[test]
    fn attributes_have_the_bytes_of_the_rfcs() {
        let next_hop = Some("192.168.10.20".parse().unwrap());
        let external = |asn, four_octets| AsPath::External { asn: Asn(asn), four_octets };
        let communities = "c00808 00010002 ffffff01";
        for (name, bytes, expected) in [
            (
                "external",
                attributes(None).encode(external(64512, true), next_hop),
                format!("40010100 400206 02010000fc00 400304c0a80a14 {communities}"),
            ),
            (
                "external, two octets",
                attributes(None).encode(external(64512, false), next_hop),
                format!("40010100 400204 0201fc00 400304c0a80a14 {communities}"),
            ),
            (
                "external, a number that two octets do not hold",
                attributes(None).encode(external(65536, false), None),
                format!("40010100 400204 02015ba0 {communities} c01106 020100010000"),
            ),
            (
                "internal",
                attributes(Some(200)).encode(AsPath::Internal, next_hop),
                format!("40010100 400200 400304c0a80a14 400504000000c8 {communities}"),
            ),
        ] {
            assert_eq!(bytes, unhex(&expected.replace(' ', "")), "{name}");
        }
        let large = [LargeCommunity { global: 1, first: 2, second: 3 }].into();
        let large = PathAttributes { large_communities: large, ..PathAttributes::default() };
        let bytes = large.encode(AsPath::Internal, None);
        assert_eq!(bytes, unhex("40010100400200c0200c000000010000000200000003"));
    }

    #[test]
    fn long_attributes_have_long_lengths() {
        let communities = (0..100).map(Community).collect();
        let bytes =
            PathAttributes { communities, ..PathAttributes::default() }.encode(AsPath::Internal, None);
        assert_eq!(bytes[7..11], [0xd0, 8, 1, 144]);
        assert_eq!(bytes.len(), 7 + 4 + 400);
        let reach = reach(Family::Ipv6Unicast, "fd00::1".parse().unwrap(), &[0]);
        assert_eq!(reach[..8], [0x80, 14, 22, 0, 2, 1, 16, 0xfd]);
    }
}
