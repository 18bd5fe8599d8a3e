//! Capabilities (RFC 5492): what a speaker can do besides plain BGP-4.

use std::fmt;

use super::{Asn, Family};
use crate::reader::Reader;

const MULTIPROTOCOL: u8 = 1;
const ROUTE_REFRESH: u8 = 2;
const EXTENDED_NEXT_HOP: u8 = 5;
const GRACEFUL_RESTART: u8 = 64;
const FOUR_OCTET_AS: u8 = 65;

/// The restart state bit of RFC 4724 §3.
const RESTARTED: u16 = 0x8000;
/// Seconds have 12 bits there.
const RESTART_TIME: u16 = 0x0fff;
/// The forwarding state bit of a family.
const FORWARDING: u8 = 0x80;

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Capability {
    /// RFC 4760: routes of this family. None: a family that we do not know.
    Multiprotocol(Option<Family>),
    /// RFC 2918.
    RouteRefresh,
    /// RFC 8950: IPv4 routes with IPv6 next hops, or not that.
    ExtendedNextHop { ipv4_over_ipv6: bool },
    /// RFC 4724.
    GracefulRestart(GracefulRestart),
    /// RFC 6793.
    FourOctetAs(Asn),
    /// Anything else, by its code.
    Other(u8),
}

/// What RFC 4724 lets a speaker say about its restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GracefulRestart {
    /// It has just restarted.
    pub(super) restarted: bool,
    /// Seconds that it takes to be back.
    pub(super) seconds: u16,
    /// Families whose traffic it forwards meanwhile.
    pub(super) forwarding: Vec<Family>,
}

/// As people know it.
impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Multiprotocol(Some(family)) => write!(f, "{family}"),
            Self::Multiprotocol(None) => f.write_str("another family"),
            Self::RouteRefresh => f.write_str("route refresh"),
            Self::ExtendedNextHop { .. } => f.write_str("extended next hop"),
            Self::GracefulRestart(restart) => write!(f, "graceful restart ({} s)", restart.seconds),
            Self::FourOctetAs(_) => f.write_str("4-octet AS"),
            Self::Other(code) => match code {
                6 => f.write_str("extended message"),
                9 => f.write_str("role"),
                69 => f.write_str("additional paths"),
                70 => f.write_str("enhanced route refresh"),
                71 => f.write_str("long-lived graceful restart"),
                73 => f.write_str("host name"),
                128 => f.write_str("route refresh before RFC 2918"),
                code => write!(f, "capability {code}"),
            },
        }
    }
}

impl Capability {
    /// Reads one; none if it does not fit its length.
    pub(super) fn decode(code: u8, value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value, 0);
        let capability = match code {
            MULTIPROTOCOL => {
                let (afi, _, safi) = (reader.u16().ok()?, reader.u8().ok()?, reader.u8().ok()?);
                Self::Multiprotocol(Family::from_wire(afi, safi))
            }
            ROUTE_REFRESH => Self::RouteRefresh,
            EXTENDED_NEXT_HOP => {
                let mut ipv4_over_ipv6 = false;
                while !reader.is_empty() {
                    let wanted = [1, u16::from(Family::UNICAST), 2];
                    let (afi, safi, next_hop) = (reader.u16().ok()?, reader.u16().ok()?, reader.u16().ok()?);
                    ipv4_over_ipv6 |= [afi, safi, next_hop] == wanted;
                }
                Self::ExtendedNextHop { ipv4_over_ipv6 }
            }
            GRACEFUL_RESTART => {
                let flags_and_time = reader.u16().ok()?;
                let mut forwarding = Vec::new();
                while !reader.is_empty() {
                    let (afi, safi, flags) = (reader.u16().ok()?, reader.u8().ok()?, reader.u8().ok()?);
                    forwarding.extend(Family::from_wire(afi, safi).filter(|_| flags & FORWARDING != 0));
                }
                Self::GracefulRestart(GracefulRestart {
                    restarted: flags_and_time & RESTARTED != 0,
                    seconds: flags_and_time & RESTART_TIME,
                    forwarding,
                })
            }
            FOUR_OCTET_AS => Self::FourOctetAs(Asn(u32::from_be_bytes(reader.array().ok()?))),
            other => return Some(Self::Other(other)),
        };
        reader.is_empty().then_some(capability)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (code, value) = match self {
            Self::Multiprotocol(family) => {
                let value = family.map(|family| {
                    let [high, low] = family.afi().to_be_bytes();
                    vec![high, low, 0, Family::UNICAST]
                });
                (MULTIPROTOCOL, value.unwrap_or_default())
            }
            Self::RouteRefresh => (ROUTE_REFRESH, vec![]),
            Self::ExtendedNextHop { ipv4_over_ipv6 } => {
                let value = if *ipv4_over_ipv6 { vec![0, 1, 0, Family::UNICAST, 0, 2] } else { vec![] };
                (EXTENDED_NEXT_HOP, value)
            }
            Self::GracefulRestart(restart) => {
                let flags = if restart.restarted { RESTARTED } else { 0 };
                let mut value = (flags | restart.seconds.min(RESTART_TIME)).to_be_bytes().to_vec();
                for family in &restart.forwarding {
                    value.extend(family.afi().to_be_bytes());
                    value.extend([Family::UNICAST, FORWARDING]);
                }
                (GRACEFUL_RESTART, value)
            }
            Self::FourOctetAs(Asn(asn)) => (FOUR_OCTET_AS, asn.to_be_bytes().to_vec()),
            Self::Other(code) => (*code, vec![]),
        };
        // All of ours are short.
        let length = u8::try_from(value.len()).unwrap_or_default();
        [&[code, length], value.as_slice()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_read_back_as_they_were_written() {
        for capability in [
            Capability::Multiprotocol(Some(Family::Ipv4Unicast)),
            Capability::Multiprotocol(Some(Family::Ipv6Unicast)),
            Capability::RouteRefresh,
            Capability::ExtendedNextHop { ipv4_over_ipv6: true },
            Capability::FourOctetAs(Asn(4_200_000_001)),
            Capability::GracefulRestart(GracefulRestart {
                restarted: true,
                seconds: 120,
                forwarding: vec![Family::Ipv6Unicast],
            }),
        ] {
            let bytes = capability.encode();
            let (header, value) = bytes.split_at(2);
            assert_eq!(usize::from(header[1]), value.len());
            assert_eq!(Capability::decode(header[0], value), Some(capability));
        }
    }

    #[test]
    fn capabilities_have_names() {
        let restart = GracefulRestart { restarted: false, seconds: 120, forwarding: vec![] };
        let all = [
            Capability::Multiprotocol(Some(Family::Ipv4Unicast)),
            Capability::Multiprotocol(None),
            Capability::GracefulRestart(restart),
            Capability::Other(73),
            Capability::Other(200),
        ];
        let names = all.map(|it| it.to_string());
        assert_eq!(
            names,
            ["ipv4 unicast", "another family", "graceful restart (120 s)", "host name", "capability 200"]
        );
    }

    #[test]
    fn what_does_not_fit_its_length_is_malformed_and_what_nobody_knows_is_not() {
        for (code, value) in [
            (1u8, &[0u8, 1, 0][..]),
            (65, &[0, 0, 1]),
            (65, &[0, 0, 0, 0, 1]),
            (64, &[0]),
            (2, &[0]),
            (5, &[0, 1]),
        ] {
            assert_eq!(Capability::decode(code, value), None, "{code} {value:?}");
        }
        assert_eq!(Capability::decode(73, b"\x05frr01\x00"), Some(Capability::Other(73)));
        assert_eq!(Capability::decode(1, &[0, 25, 0, 70]), Some(Capability::Multiprotocol(None)));
    }
}
