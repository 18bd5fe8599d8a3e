//! The states of a session; each owns its data.

use std::fmt;
use std::time::Instant;

use super::Origin;
use super::established::Established;
use crate::bgp::NextHops;
use crate::bgp::message::Inbox;

/// The states of RFC 4271 §8.2.2 that a session can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of the RFC")]
pub enum State {
    Idle,
    Connect,
    OpenSent,
    OpenConfirm,
    Established,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A state with its data.
#[derive(Debug)]
pub(super) enum Phase {
    /// Waits for the next try; for ever if it was stopped.
    Idle {
        until: Option<Instant>,
    },
    Connect {
        deadline: Instant,
    },
    OpenSent {
        connection: Connection,
        deadline: Instant,
    },
    OpenConfirm(Box<Established>),
    Established(Box<Established>),
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) origin: Origin,
    pub(super) inbox: Inbox,
    pub(super) next_hops: NextHops,
    /// Since when something that was to be written is not out.
    pub(super) unflushed: Option<Instant>,
}

impl Phase {
    pub(super) fn state(&self) -> State {
        match self {
            Self::Idle { .. } => State::Idle,
            Self::Connect { .. } => State::Connect,
            Self::OpenSent { .. } => State::OpenSent,
            Self::OpenConfirm(_) => State::OpenConfirm,
            Self::Established(_) => State::Established,
        }
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Idle { .. } | Self::Connect { .. } => None,
            Self::OpenSent { connection, .. } => Some(connection),
            Self::OpenConfirm(session) | Self::Established(session) => Some(&mut session.connection),
        }
    }

    /// Who opened its connection; of one that is being dialled, this side.
    pub(super) fn origin(&self) -> Option<Origin> {
        match self {
            Self::Idle { .. } => None,
            Self::Connect { .. } => Some(Origin::Dialled),
            Self::OpenSent { connection, .. } => Some(connection.origin),
            Self::OpenConfirm(session) | Self::Established(session) => Some(session.connection.origin),
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Idle { until } => *until,
            Self::Connect { deadline } | Self::OpenSent { deadline, .. } => Some(*deadline),
            Self::OpenConfirm(session) | Self::Established(session) => session.next_timeout(),
        }
    }

    /// Whether AS numbers in received UPDATEs have four octets.
    pub(super) fn four_octets(&self) -> bool {
        match self {
            Self::Idle { .. } | Self::Connect { .. } | Self::OpenSent { .. } => true,
            Self::OpenConfirm(session) | Self::Established(session) => session.negotiated.four_octets,
        }
    }
}
