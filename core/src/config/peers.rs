//! BGP peers in force: with whom which nodes talk, and how.

mod parse;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use ferrolb_proto::bgp::Asn;

pub(super) use self::parse::{Reading, parse};
use super::bfd::BfdProfile;

/// A BGP peer in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// The autonomous system that we are; never 0.
    pub my_asn: Asn,
    /// The one that this peer sees instead; never 0.
    pub local_asn: Option<Asn>,
    /// The one that the peer is.
    pub remote_as: RemoteAs,
    /// Whom we talk to.
    pub neighbor: Neighbor,
    /// Its TCP port.
    pub port: NonZeroU16,
    /// Our end of the session; of the family of the neighbour's address, where that is known.
    pub source_address: Option<IpAddr>,
    /// Our BGP identifier, never 0.0.0.0; none: one that the node chooses.
    pub router_id: Option<Ipv4Addr>,
    /// Hold and keepalive time; none: those of the engine.
    pub timers: Option<Timers>,
    /// Pause between attempts to connect; none: that of the engine.
    pub connect_time: Option<Duration>,
    /// Nodes that open the session.
    pub nodes: Arc<BTreeSet<String>>,
    /// TCP MD5 password.
    pub password: Option<Password>,
    /// The Secret that the password is, or is still to be, read from.
    pub password_secret: Option<String>,
    /// How its absence is noticed.
    pub bfd: Option<BfdProfile>,
    /// Whether it is asked to keep our routes while we restart.
    pub graceful_restart: bool,
    /// Whether it may be several hops away.
    pub ebgp_multi_hop: bool,
    /// VRF of the node that the session runs in.
    pub vrf: Option<String>,
    /// Whether routes of both families go over the session.
    pub dual_stack: bool,
}

/// What tells routers apart on a node.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Router<'a> {
    pub(super) neighbor: &'a Neighbor,
    pub(super) vrf: Option<&'a str>,
    pub(super) port: NonZeroU16,
}

impl Peer {
    /// The router that it is.
    pub(super) fn router(&self) -> Router<'_> {
        Router { neighbor: &self.neighbor, vrf: self.vrf.as_deref(), port: self.port }
    }
}

/// The autonomous system of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAs {
    /// This one; never 0.
    Asn(Asn),
    /// Ours, whatever it says.
    Internal,
    /// Any but ours.
    External,
}

/// Whom a session is with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbor {
    /// The router with this address.
    Address(IpAddr),
    /// The router at the other end of this interface (unnumbered).
    Interface(String),
}

impl fmt::Display for Neighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(interface) => f.write_str(interface),
        }
    }
}

/// Hold time of whole seconds: 0 (none), or 3 to 65535. The keepalive time is not longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    pub(super) hold: u16,
    pub(super) keepalive: Duration,
}

impl Timers {
    /// Hold time in seconds, as an OPEN message carries it.
    pub fn hold_seconds(self) -> u16 {
        self.hold
    }

    /// Hold time.
    pub fn hold(self) -> Duration {
        Duration::from_secs(self.hold.into())
    }

    /// Interval between KEEPALIVE messages.
    pub fn keepalive(self) -> Duration {
        self.keepalive
    }
}

/// A password. Debug output never shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// From its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the socket.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<retracted>")
    }
}
