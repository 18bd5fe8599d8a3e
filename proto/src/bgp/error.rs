//! What is wrong with a received message, by consequence.
//!
//! [`MessageError`] ends the session with a NOTIFICATION. Faults of an UPDATE that leave its routes
//! readable do not (RFC 7606): see [`Malformed`](super::update::Malformed).

use super::notification::{Code, Notification};

/// Why a message ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of a message: {fault}")]
pub struct MessageError {
    /// Where the offending field starts, counted from the first byte of the message.
    pub offset: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// A rule that a message breaks so that the session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// RFC 4271 §6.1: the marker is not all ones.
    #[error("the marker is not all ones, so this is no BGP or the start of a message was lost")]
    Marker,
    /// RFC 4271 §6.1: no message of this type has this length.
    #[error("length {0} is not possible")]
    Length(u16),
    /// RFC 4271 §6.1: nobody defined this type.
    #[error("unknown message type {0}")]
    Type(u8),
    /// RFC 4271 §6.2: another version than 4.
    #[error("BGP version {0} is not 4")]
    Version(u8),
    /// RFC 4271 §6.2: neither 0 nor at least 3 seconds.
    #[error("hold time {0} s is neither 0 nor at least 3")]
    HoldTime(u16),
    /// RFC 6286 §2.1: 0 is no identifier.
    #[error("the BGP identifier is 0.0.0.0")]
    Identifier,
    /// RFC 4271 §6.2: only capabilities are optional parameters.
    #[error("unknown optional parameter {0}")]
    OptionalParameter(u8),
    /// RFC 4271 §6.2: the optional parameters do not fit their lengths, or a capability its own.
    #[error("malformed optional parameters")]
    OptionalParameters,
    /// RFC 4271 §6.3: the lengths of an UPDATE exceed the message.
    #[error("the lengths inside the UPDATE exceed it")]
    UpdateLengths,
    /// RFC 4271 §6.3: an attribute that everybody must know, and nobody does.
    #[error("unknown well-known attribute {0}")]
    WellKnownAttribute(u8),
    /// RFC 7606 §3(g): MP_REACH_NLRI or MP_UNREACH_NLRI twice.
    #[error("attribute {0} occurs twice")]
    TwiceMultiprotocol(u8),
    /// RFC 7606 §5.3: routes that cannot be told from each other.
    #[error("routes of attribute {0} cannot be read")]
    MultiprotocolRoutes(u8),
    /// RFC 7606 §5.3: the same of the routes outside the attributes.
    #[error("routes cannot be read")]
    Routes,
}

impl Fault {
    /// What the peer is told.
    pub(super) fn notification(self) -> Notification {
        match self {
            Self::Marker => Notification::new(Code::CONNECTION_NOT_SYNCHRONIZED),
            Self::Length(length) => {
                Notification::new(Code::BAD_MESSAGE_LENGTH).with_data(&length.to_be_bytes())
            }
            Self::Type(kind) => Notification::new(Code::BAD_MESSAGE_TYPE).with_data(&[kind]),
            Self::Version(_) => Notification::new(Code::UNSUPPORTED_VERSION).with_data(&[0, 4]),
            Self::HoldTime(_) => Notification::new(Code::UNACCEPTABLE_HOLD_TIME),
            Self::Identifier => Notification::new(Code::BAD_BGP_IDENTIFIER),
            Self::OptionalParameter(_) => Notification::new(Code::UNSUPPORTED_OPTIONAL_PARAMETER),
            Self::OptionalParameters => Notification::new(Code::OPEN_MESSAGE_ERROR),
            Self::UpdateLengths | Self::TwiceMultiprotocol(_) => {
                Notification::new(Code::MALFORMED_ATTRIBUTE_LIST)
            }
            Self::WellKnownAttribute(_) => Notification::new(Code::UNRECOGNIZED_WELL_KNOWN_ATTRIBUTE),
            Self::MultiprotocolRoutes(_) => Notification::new(Code::OPTIONAL_ATTRIBUTE_ERROR),
            Self::Routes => Notification::new(Code::INVALID_NETWORK_FIELD),
        }
    }
}
