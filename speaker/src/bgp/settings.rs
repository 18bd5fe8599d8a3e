//! What a session is made of, from a peer of the configuration.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ferrolb_core::config::{Neighbor, Password, Peer, RemoteAs};
use ferrolb_proto::bgp::Family;
use ferrolb_proto::bgp::session::{PeerAsn, Settings};

/// Hold time to offer where none is configured.
const HOLD_TIME: u16 = 90;
/// Longest pause between two tries where none is configured.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// How long a peer that keeps routes over a restart of the speaker keeps them, in seconds.
const RESTART_TIME: u16 = 120;

/// Everything that a session is made of. Another blueprint needs another session; whatever else changes
/// does not disturb it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blueprint {
    pub(super) settings: Settings,
    pub(super) dial: Dial,
}

/// How the connection is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dial {
    pub(super) target: Target,
    pub(super) source: Option<IpAddr>,
    pub(super) password: Option<Password>,
    /// A Secret that is to hold the password and does not (yet): without it nothing is dialled.
    pub(super) missing_secret: Option<String>,
    /// Interface (a VRF) that the connection is bound to.
    pub(super) device: Option<String>,
}

/// Whom to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Address(SocketAddr),
    /// The router at the other end of a link, which is found first.
    Interface {
        interface: String,
        port: u16,
    },
}

impl Blueprint {
    pub(super) fn new(peer: &Peer, node: &str) -> Self {
        let families = match &peer.neighbor {
            Neighbor::Address(address) if !peer.dual_stack => [Family::of(*address)].into(),
            Neighbor::Address(_) | Neighbor::Interface(_) => Family::ALL.into(),
        };
        let missing_secret = peer.password_secret.clone().filter(|_| peer.password.is_none());
        Self {
            settings: Settings {
                local_asn: peer.local_asn.unwrap_or(peer.my_asn),
                peer_asn: match peer.remote_as {
                    RemoteAs::Asn(asn) => PeerAsn::Exactly(asn),
                    RemoteAs::Internal => PeerAsn::Internal,
                    RemoteAs::External => PeerAsn::External,
                },
                identifier: peer.router_id,
                fallback_identifier: identifier_of(node),
                hold_time: peer.timers.map_or(HOLD_TIME, |timers| timers.hold_seconds()),
                keepalive: peer.timers.map(|timers| timers.keepalive()),
                families,
                graceful_restart: peer.graceful_restart.then_some(RESTART_TIME),
            },
            dial: Dial {
                target: match &peer.neighbor {
                    Neighbor::Address(address) => Target::Address((*address, peer.port.get()).into()),
                    Neighbor::Interface(interface) => {
                        Target::Interface { interface: interface.clone(), port: peer.port.get() }
                    }
                },
                source: peer.source_address,
                password: peer.password.clone(),
                missing_secret,
                device: peer.vrf.clone(),
            },
        }
    }

    /// Whether the peer is asked to keep routes while this speaker restarts.
    pub(super) fn keeps_routes(&self) -> bool {
        self.settings.graceful_restart.is_some()
    }

    /// Value of the label `peer` of metrics.
    pub(super) fn label(&self) -> String {
        match &self.dial.target {
            Target::Address(address) => address.to_string(),
            Target::Interface { interface, .. } => interface.clone(),
        }
    }
}

/// As logs name the peer.
impl fmt::Display for Blueprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dial.target {
            Target::Address(address) => address.ip().fmt(f),
            Target::Interface { interface, .. } => f.write_str(interface),
        }
    }
}

/// Longest pause between two tries.
pub(super) fn longest_retry(peer: &Peer) -> Duration {
    peer.connect_time.unwrap_or(LONGEST_RETRY)
}

/// A BGP identifier from the name of the node: its CRC-32 (IEEE), low octet first, as MetalLB makes it.
fn identifier_of(node: &str) -> Ipv4Addr {
    let crc = node.bytes().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    });
    (!crc).to_le_bytes().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bgp::tests::peer;

    #[test]
    fn a_node_without_ipv4_has_the_identifier_that_metallb_gave_it() {
        assert_eq!(identifier_of("node1"), Ipv4Addr::new(64, 37, 239, 133));
    }

    #[test]
    fn only_what_the_session_is_made_of_begins_it_anew() {
        let base = || peer("192.168.10.1:179".parse().unwrap());
        let blueprint = |peer: &Peer| Blueprint::new(peer, "node1");
        let same = |change: &dyn Fn(&mut Peer)| {
            let mut changed = base();
            change(&mut changed);
            blueprint(&changed) == blueprint(&base())
        };
        assert!(same(&|peer| peer.nodes = Arc::new(["other".to_owned()].into())));
        assert!(same(&|peer| peer.connect_time = Some(Duration::from_secs(7))));
        assert!(!same(&|peer| peer.my_asn = ferrolb_proto::bgp::Asn(7)));
        assert!(!same(&|peer| peer.password = Some(Password::new("x"))));
        assert!(!same(&|peer| peer.source_address = "10.0.0.1".parse().ok()));
        assert!(!same(&|peer| peer.dual_stack = true));
    }
}
