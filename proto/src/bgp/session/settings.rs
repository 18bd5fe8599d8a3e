//! How a session is configured, and what comes of the two OPENs.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::Ended;
use crate::bgp::attribute::AsPath;
use crate::bgp::capability::{Capability, GracefulRestart};
use crate::bgp::open::Open;
use crate::bgp::outbound::Export;
use crate::bgp::timers::Agreed;
use crate::bgp::{Asn, Family, NextHops};

/// Who the peer is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAsn {
    /// This AS.
    Exactly(Asn),
    /// The own AS.
    Internal,
    /// Any other AS.
    External,
}

impl fmt::Display for PeerAsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(asn) => asn.fmt(f),
            Self::Internal => f.write_str("the own one (dynamicASN: internal)"),
            Self::External => f.write_str("another than the own one (dynamicASN: external)"),
        }
    }
}

/// How a session is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The AS that the peer sees.
    pub local_asn: Asn,
    /// The AS that the peer is to have.
    pub peer_asn: PeerAsn,
    /// BGP identifier; without one the IPv4 address that the session has.
    pub identifier: Option<Ipv4Addr>,
    /// BGP identifier of last resort.
    pub fallback_identifier: Ipv4Addr,
    /// Hold time to offer, in seconds.
    pub hold_time: u16,
    /// Longest time between KEEPALIVEs.
    pub keepalive: Option<Duration>,
    /// Families to offer.
    pub families: BTreeSet<Family>,
    /// For how many seconds the peer is to keep routes while this speaker restarts (RFC 4724).
    pub graceful_restart: Option<u16>,
}

/// What two speakers agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// The AS of the peer.
    pub peer_asn: Asn,
    /// Its BGP identifier.
    pub peer_identifier: Ipv4Addr,
    /// The own BGP identifier.
    pub local_identifier: Ipv4Addr,
    /// Timers.
    pub times: Agreed,
    pub(in crate::bgp) capabilities: Vec<Capability>,
    pub(in crate::bgp) four_octets: bool,
    pub(in crate::bgp) export: Export,
}

impl Negotiated {
    /// Families whose routes are sent.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        self.export.families()
    }

    /// Whether the peer said that it may restart and keeps its routes meanwhile (RFC 4724).
    pub(super) fn peer_restarts(&self) -> bool {
        self.capabilities.iter().any(|it| matches!(it, Capability::GracefulRestart(_)))
    }

    /// What the peer says it can do, in words.
    pub fn capabilities(&self) -> BTreeSet<String> {
        self.capabilities.iter().map(ToString::to_string).collect()
    }
}

impl Settings {
    fn identifier(&self, next_hops: NextHops) -> Ipv4Addr {
        self.identifier.or(next_hops.v4).unwrap_or(self.fallback_identifier)
    }

    /// Whether IPv4 routes may have to have an IPv6 next hop.
    fn offers_extended_next_hop(&self, next_hops: NextHops) -> bool {
        self.families.contains(&Family::Ipv4Unicast) && next_hops.v4.is_none() && next_hops.v6.is_some()
    }

    /// The OPEN to send. `restarted`: no session was up since the speaker started.
    pub(super) fn open(&self, next_hops: NextHops, restarted: bool) -> Open {
        let mut capabilities: Vec<Capability> =
            self.families.iter().map(|family| Capability::Multiprotocol(Some(*family))).collect();
        capabilities.push(Capability::RouteRefresh);
        if self.offers_extended_next_hop(next_hops) {
            capabilities.push(Capability::ExtendedNextHop { ipv4_over_ipv6: true });
        }
        capabilities.extend(self.graceful_restart.map(|seconds| {
            // kube-proxy goes on forwarding while the speaker is away.
            let forwarding = self.families.iter().copied().collect();
            Capability::GracefulRestart(GracefulRestart { restarted, seconds, forwarding })
        }));
        capabilities.push(Capability::FourOctetAs(self.local_asn));
        Open {
            asn: self.local_asn,
            hold_time: self.hold_time,
            identifier: self.identifier(next_hops),
            capabilities,
        }
    }

    /// What comes of the peer's OPEN, or why it is refused.
    pub(super) fn negotiate(&self, open: &Open, next_hops: NextHops) -> Result<Negotiated, Ended> {
        let internal = open.asn == self.local_asn;
        let expected = match self.peer_asn {
            PeerAsn::Exactly(asn) => open.asn == asn,
            PeerAsn::Internal => internal,
            // RFC 7607: nobody is AS 0.
            PeerAsn::External => !internal && open.asn != Asn(0),
        };
        if !expected {
            return Err(Ended::WrongAsn { got: open.asn, want: self.peer_asn });
        }
        if internal && open.identifier == self.identifier(next_hops) {
            return Err(Ended::SameIdentifier);
        }
        let has = |wanted: &Capability| open.capabilities.contains(wanted);
        let four_octets = open.capabilities.iter().any(|it| matches!(it, Capability::FourOctetAs(_)));
        let multiprotocol = open.capabilities.iter().any(|it| matches!(it, Capability::Multiprotocol(_)));
        let carries = |family: Family| {
            // Plain BGP-4 carries IPv4.
            let theirs = has(&Capability::Multiprotocol(Some(family)))
                || (!multiprotocol && family == Family::Ipv4Unicast);
            theirs && self.families.contains(&family)
        };
        let path =
            if internal { AsPath::Internal } else { AsPath::External { asn: self.local_asn, four_octets } };
        Ok(Negotiated {
            peer_asn: open.asn,
            peer_identifier: open.identifier,
            local_identifier: self.identifier(next_hops),
            capabilities: open.capabilities.clone(),
            times: Agreed::new(self.hold_time, open.hold_time, self.keepalive),
            four_octets,
            export: Export {
                path,
                ipv4: carries(Family::Ipv4Unicast),
                ipv6: carries(Family::Ipv6Unicast),
                extended_next_hop: self.offers_extended_next_hop(next_hops)
                    && has(&Capability::ExtendedNextHop { ipv4_over_ipv6: true }),
                next_hops,
            },
        })
    }
}
