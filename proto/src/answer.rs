//! The outcome of one received frame, the same for ARP and NDP: a reply, or why there is none.

use std::net::IpAddr;

use crate::error::DecodeError;
use crate::ethernet::{EtherType, Frame, MacAddr};

/// Who asked for which address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The address asked for.
    pub ip: IpAddr,
    /// The address of the asking host; unspecified when it only probes whether `ip` is taken.
    pub requester_ip: IpAddr,
    /// Where an answer goes.
    pub requester_mac: MacAddr,
}

/// An answer, ready to be sent on the link where the question arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The exact bytes.
    pub frame: Frame,
    /// What it answers.
    pub question: Question,
}

/// Why a frame gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// The bytes break a rule of their protocol.
    #[error("malformed frame")]
    Malformed(#[from] DecodeError),
    /// Neither ARP nor IPv6.
    #[error("EtherType {:#06x} is not answered", .0.0)]
    OtherProtocol(EtherType),
    /// An ARP reply, a neighbor advertisement, or other traffic that asks nothing.
    #[error("not a request")]
    NotARequest,
    /// Sent with this link's own MAC: our announcement, come back through a loop or a bridge.
    #[error("sent from this link's own MAC address")]
    OwnFrame,
    /// Sent to one other host.
    #[error("sent to {0}")]
    NotForUs(MacAddr),
    /// The answer would have to go to a group or to nobody.
    #[error("sender {0} is not one host")]
    SenderNotUnicast(MacAddr),
    /// A proper question for an address that this link does not own.
    #[error("{} is not owned on this link", .0.ip)]
    NotOwned(Question),
    /// IPv6 on a link that has no link-local address: the kernel would not take the traffic that
    /// an answer attracts.
    #[error("this link has no IPv6 link-local address")]
    NoLinkLocal,
}
