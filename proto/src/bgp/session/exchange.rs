//! What goes into a session and what comes out of it.

use std::sync::Arc;

use super::{Ended, Negotiated};
use crate::bgp::notification::Notification;
use crate::bgp::update::Malformed;
use crate::bgp::{AdjRibOut, NextHops};

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// The connection that was dialled is open. The addresses are those of the own node that the peer
    /// can send traffic to.
    Connected(NextHops),
    /// It could not be opened; why, in words.
    DialFailed(String),
    /// Bytes arrived.
    Received(&'a [u8]),
    /// The connection is gone; how, in words.
    Closed(String),
    /// Everything that was to be written is out.
    Flushed,
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

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Open a connection to the peer.
    Dial,
    /// Write this to the connection.
    Write(Vec<u8>),
    /// Close the connection after what was written, or give up dialling.
    Close,
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
