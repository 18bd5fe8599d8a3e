//! What a session is told to be, what goes into it and what comes out of it.

use std::fmt;
use std::num::NonZeroU8;
use std::time::Duration;

use crate::bfd::packet::{ControlPacket, Diagnostic};

/// How a session is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Send no more often than this.
    pub transmit_interval: Duration,
    /// Receive no more often than this.
    pub receive_interval: Duration,
    /// After how many missed packets the other side is gone.
    pub detect_mult: NonZeroU8,
    /// Wait for the other side's first packet.
    pub passive: bool,
    /// Send echo packets no more often than this, and return as many.
    pub echo_interval: Option<Duration>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// A packet for this session arrived.
    Received(&'a ControlPacket),
    /// The payload of an echo packet came back.
    Echoed(&'a [u8]),
    /// The session is to be another way from now on.
    Settings(Settings),
    /// The session is to end, and the other side is not to take that for a failure.
    AdminDown,
}

/// What to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Send this to the other side.
    Send(ControlPacket),
    /// Send an echo packet with this payload, so that the other side's forwarding returns it.
    SendEcho(EchoPayload),
    /// Something to tell.
    Event(Event),
}

/// What an echo packet carries.
pub type EchoPayload = [u8; 16];

/// Something to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The session is up.
    Up,
    /// It was and is not any more.
    Down(Down),
}

/// Why a session went down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// Nothing was heard for this long.
    Expired(Duration),
    /// Echo packets did not come back for this long.
    EchoFailed(Duration),
    /// The other side says that it is down, and why.
    Signaled(Diagnostic),
    /// The other side was taken down by its administrator. RFC 5882 §3.2: no failure of the path.
    RemoteAdminDown,
    /// This side was.
    AdminDown,
}

impl Down {
    /// Whether packets do not go both ways any more.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Expired(_) | Self::EchoFailed(_) | Self::Signaled(_) => true,
            Self::RemoteAdminDown | Self::AdminDown => false,
        }
    }
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired(time) => write!(f, "nothing was heard for {} ms", time.as_millis()),
            Self::EchoFailed(time) => write!(f, "no echo packet came back for {} ms", time.as_millis()),
            Self::Signaled(diagnostic) => write!(f, "the peer says that it is down ({diagnostic})"),
            Self::RemoteAdminDown => f.write_str("the peer was taken down by its administrator"),
            Self::AdminDown => f.write_str("not wanted any more"),
        }
    }
}
