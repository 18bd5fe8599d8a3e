//! BGP-4 (RFC 4271) for a speaker that announces and never installs: values, messages and the session
//! with a peer.
//!
//! | module | what it decides |
//! |---|---|
//! | [`session`] | when to dial, what to say, when to give up: the state machine of one peer |
//! | [`outbound`] | which UPDATEs bring a peer from what it was sent to what it should have |
//! | [`update`] | which faults of a received UPDATE end the session, and which do not (RFC 7606) |
//! | [`notification`] | why a session ends, in codes and in words |
//! | [`error`] | what is wrong with a message, and where |
//! | [`timers`] | hold and keepalive times, pauses, jitter |
//!
//! The codec is our own: we encode little, and of what is received everything is checked and nothing is
//! kept, with faults told apart by consequence.

mod attribute;
mod capability;
pub mod error;
mod message;
pub mod notification;
mod open;
pub mod outbound;
mod refresh;
pub mod session;
#[cfg(test)]
mod testing;
pub mod timers;
pub mod update;
mod value;

pub use attribute::PathAttributes;
pub use outbound::{AdjRibOut, NextHops, Unsent};
pub use value::{Asn, Community, Family, LargeCommunity, Prefix};
