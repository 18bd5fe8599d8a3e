//! Which session a packet is for (RFC 5880 §6.3, RFC 5881 §3, RFC 5883 §4).
//!
//! A packet that names our end goes to the session with that discriminator, one that does not to the
//! session with its sender. Either way it must have come from the session's router, to our address, over
//! the right port and from near enough: a discriminator alone is nothing that a stranger could not try.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::TTL;
use super::packet::{ControlPacket, Discriminator};

/// What packets of a session have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The router.
    pub remote: IpAddr,
    /// Our address, where only one is to be used.
    pub local: Option<IpAddr>,
    /// The interface that the session is bound to: a VRF, or the link of a link-local address.
    pub device: Option<String>,
    /// Whether other routers may lie between.
    pub multihop: bool,
}

/// How a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// From this address.
    pub source: IpAddr,
    /// To this one.
    pub destination: IpAddr,
    /// With this TTL or hop limit.
    pub ttl: u8,
    /// To a socket that is bound to this interface (a VRF), or from a link-local address on it.
    pub device: Option<&'a str>,
    /// To the port for several hops.
    pub multihop: bool,
}

/// Why a packet is for no session. It is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unmatched {
    /// There is no such session, or not on this path.
    #[error("no session on this path")]
    NoSession,
    /// RFC 5881 §5, RFC 5883 §4: it comes from too far away.
    #[error("TTL {got} is below {least}")]
    Ttl {
        /// What it is.
        got: u8,
        /// What it must be.
        least: u8,
    },
}

/// The sessions of a node, by what packets say of them.
#[derive(Debug, Default)]
pub struct Demux {
    sessions: BTreeMap<Discriminator, Known>,
}

#[derive(Debug)]
struct Known {
    path: Path,
    minimum_ttl: u8,
}

impl Demux {
    /// There is a session, or its packets over several hops must have another TTL from now on.
    pub fn insert(&mut self, discriminator: Discriminator, path: Path, minimum_ttl: u8) {
        self.sessions.insert(discriminator, Known { path, minimum_ttl });
    }

    /// There is no such session any more.
    pub fn remove(&mut self, discriminator: Discriminator) {
        self.sessions.remove(&discriminator);
    }

    /// Whether a session has this discriminator.
    pub fn contains(&self, discriminator: Discriminator) -> bool {
        self.sessions.contains_key(&discriminator)
    }

    /// The session that a packet is for.
    pub fn find(&self, packet: &ControlPacket, arrival: Arrival<'_>) -> Result<Discriminator, Unmatched> {
        let (discriminator, known) = match packet.your_discriminator {
            Some(ours) => self.sessions.get_key_value(&ours).filter(|(_, it)| it.path.leads(arrival)),
            None => {
                let candidates = self.sessions.iter().filter(|(_, it)| it.path.leads(arrival));
                // A session for exactly this address of ours comes before one for any.
                candidates.max_by_key(|(_, it)| it.path.local.is_some())
            }
        }
        .ok_or(Unmatched::NoSession)?;
        let least = if known.path.multihop { known.minimum_ttl } else { TTL };
        if arrival.ttl < least {
            return Err(Unmatched::Ttl { got: arrival.ttl, least });
        }
        Ok(*discriminator)
    }
}

impl Path {
    fn leads(&self, arrival: Arrival<'_>) -> bool {
        self.remote == arrival.source
            && self.local.is_none_or(|local| local == arrival.destination)
            && self.device.as_deref() == arrival.device
            && self.multihop == arrival.multihop
    }
}

#[cfg(test)]
mod tests;
