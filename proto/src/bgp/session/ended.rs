//! Why sessions end, in words for people and in codes for the peer.

use std::time::Duration;

use super::{PeerAsn, State};
use crate::bgp::Asn;
use crate::bgp::error::MessageError;
use crate::bgp::notification::{Code, Notification};
use crate::bgp::timers;

/// Why a session, or a try, ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// No connection.
    #[error("{0}")]
    DialFailed(String),
    /// No connection in time.
    #[error(
        "no answer within {} s: the peer is unreachable, or one side expects another TCP MD5 password than \
         the other",
        timers::DIAL.as_secs()
    )]
    DialTimedOut,
    /// The connection is gone.
    #[error("connection closed: {0}")]
    Closed(String),
    /// The peer ended it.
    #[error("the peer sent NOTIFICATION {notification}{}", remedy(.notification))]
    Notified {
        /// What it said.
        notification: Notification,
    },
    /// The peer broke a rule.
    #[error("the peer broke a rule of BGP: {0}")]
    BrokenRule(MessageError),
    /// The peer sent a message out of turn.
    #[error("the peer sent a message that {0} does not expect")]
    OutOfTurn(State),
    /// The peer is not who it should be.
    #[error("unexpected peer ASN {got}, want {want}: correct peerASN, or the router's own AS number")]
    WrongAsn {
        /// Who it is.
        got: Asn,
        /// Who it should be.
        want: PeerAsn,
    },
    /// RFC 6286 §2.2: a peer of the own AS with the own identifier.
    #[error("the peer has the BGP identifier of this node: set routerID on one side")]
    SameIdentifier,
    /// The peer was silent.
    #[error("hold timer expired: nothing was heard from the peer for {} s", .0.as_secs())]
    HoldTimerExpired(Duration),
    /// RFC 9687: the peer reads nothing.
    #[error("send hold timer expired: the peer reads nothing of what is sent")]
    SendHoldTimerExpired,
    /// RFC 5882 §4: BFD says that the peer cannot be reached.
    #[error("BFD session down: {0}")]
    PathDown(String),
    /// RFC 4724 §5: the peer restarted and is back before its silence was noticed.
    #[error("the peer restarted: it opened another connection")]
    Replaced,
    /// It was to end.
    #[error("stopped")]
    Stopped,
}

fn remedy(notification: &Notification) -> &'static str {
    match notification.code {
        Code(2, 2) => ": it expects another AS number of this node than myASN (or localASN)",
        Code(6, 5) => ": it does not accept this node as a neighbor, or has another session with it",
        _ => "",
    }
}

impl Ended {
    /// Whether there was no connection at all.
    pub(super) fn is_of_dialling(&self) -> bool {
        matches!(self, Self::DialFailed(_) | Self::DialTimedOut)
    }

    /// Whether the peer chose the other connection (RFC 4271 §6.8).
    pub(super) fn is_collision(&self) -> bool {
        self.received().is_some_and(|it| it.code == Code::COLLISION)
    }

    /// What the peer said.
    pub fn received(&self) -> Option<&Notification> {
        match self {
            Self::Notified { notification } => Some(notification),
            Self::DialFailed(_)
            | Self::DialTimedOut
            | Self::Closed(_)
            | Self::BrokenRule(_)
            | Self::OutOfTurn(_)
            | Self::WrongAsn { .. }
            | Self::SameIdentifier
            | Self::HoldTimerExpired(_)
            | Self::SendHoldTimerExpired
            | Self::PathDown(_)
            | Self::Replaced
            | Self::Stopped => None,
        }
    }

    /// What the peer is told.
    pub fn notification(&self) -> Option<Notification> {
        let code = match self {
            Self::BrokenRule(error) => return Some(error.fault.notification()),
            Self::OutOfTurn(State::OpenSent) => Code::UNEXPECTED_IN_OPEN_SENT,
            Self::OutOfTurn(State::OpenConfirm) => Code::UNEXPECTED_IN_OPEN_CONFIRM,
            Self::OutOfTurn(State::Established | State::Idle | State::Connect) => {
                Code::UNEXPECTED_IN_ESTABLISHED
            }
            Self::WrongAsn { .. } => Code::BAD_PEER_AS,
            Self::SameIdentifier => Code::BAD_BGP_IDENTIFIER,
            Self::HoldTimerExpired(_) => Code::HOLD_TIMER_EXPIRED,
            Self::PathDown(_) => Code::BFD_DOWN,
            // Who reads nothing would not read this either.
            Self::SendHoldTimerExpired => return None,
            Self::DialFailed(_)
            | Self::DialTimedOut
            | Self::Closed(_)
            | Self::Notified { .. }
            | Self::Replaced
            | Self::Stopped => {
                return None;
            }
        };
        Some(Notification::new(code))
    }
}
