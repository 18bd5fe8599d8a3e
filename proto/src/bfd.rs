//! BFD (RFC 5880): whether packets still go both ways between this node and a router, known in a
//! fraction of a second. Over one hop (RFC 5881) and over several (RFC 5883).
//!
//! | module | what it decides |
//! |---|---|
//! | [`packet`] | which received bytes are a control packet |
//! | [`demux`] | which session a packet is for, if any |
//! | [`session`] | the state machine: what is sent when, and when the router counts as gone |
//!
//! Asynchronous mode, with the echo function where it is wanted. Demand mode is honoured when the other
//! side uses it and never asked for. Authentication is not spoken.

pub mod demux;
pub mod packet;
pub mod session;

pub use packet::{ControlPacket, Diagnostic, Discriminator, State};

/// UDP port of control packets over one hop (RFC 5881 §4).
pub const SINGLE_HOP_PORT: u16 = 3784;
/// UDP port of control packets over several hops (RFC 5883 §5).
pub const MULTIHOP_PORT: u16 = 4784;
/// UDP port of echo packets (RFC 5881 §4).
pub const ECHO_PORT: u16 = 3785;
/// TTL, or hop limit, of all that is sent (RFC 5881 §5).
pub const TTL: u8 = 255;
