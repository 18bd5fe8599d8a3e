//! What goes into a session and what comes out of it.

use std::sync::Arc;

use super::{Ended, Negotiated};
use crate::bgp::notification::Notification;
use crate::bgp::update::Malformed;
use crate::bgp::{AdjRibOut, NextHops};

/// Who opened a connection. There is one of each at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// This side.
    Dialled,
    /// The peer.
    Accepted,
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// The connection that was dialled is open. The addresses are those of the own node that the peer
    /// can send traffic to.
    Connected(NextHops),
    /// It could not be opened; why, in words.
    DialFailed(String),
    /// The peer has connected; the addresses are as above. The answer is `Accept` or `Refuse`.
    Accepted(NextHops),
    /// Bytes arrived.
    Received(Origin, &'a [u8]),
    /// A connection is gone; how, in words.
    Closed(Origin, String),
    /// Everything that was to be written to it is out.
    Flushed(Origin),
    /// The routes that the peer is to have, all of them.
    Desired(&'a Arc<AdjRibOut>),
    /// BFD: packets do not go both ways any more; why, in words.
    PathDown(String),
    /// BFD: they do now.
    PathUp,
    /// The session is to end for good.
    Stop(Farewell),
}

/// How a session ends for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Farewell {
    /// Without a word: a graceful restart is meant, and the peer is to keep the routes (RFC 4724 §4).
    Silent,
    /// With this said.
    Said(Notification),
    /// With this said, after the peer was asked to lead the traffic elsewhere (RFC 8326) and had time to
    /// do it.
    Eased(Notification),
}

impl Farewell {
    /// What a peer is told of which nothing else is asked.
    pub(super) fn said(&self) -> Option<&Notification> {
        match self {
            Self::Silent => None,
            Self::Said(notification) | Self::Eased(notification) => Some(notification),
        }
    }
}

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Open a connection to the peer.
    Dial,
    /// Take up the connection that the peer opened; of an older one it was told to close before.
    Accept,
    /// Close the connection that the peer opened, without a word.
    Refuse,
    /// Write this to the connection.
    Write(Origin, Vec<u8>),
    /// Close the connection after what was written, or give up dialling.
    Close(Origin),
    /// Something to tell.
    Event(Event),
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The session is established.
    Up(Negotiated),
    /// It was and is not any more.
    Down(Ended),
    /// It did not come so far.
    Failed(Ended),
    /// The peer sent routes that RFC 7606 says to ignore.
    Ignored(Malformed),
}
