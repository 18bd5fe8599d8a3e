//! NOTIFICATION (RFC 4271 §4.5): why a session ends, as sent, as received, and in words.

use std::borrow::Cow;
use std::fmt;

/// Longest shutdown communication (RFC 9003 §2).
const SHUTDOWN_TEXT: usize = 255;

/// Error code and subcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u8, pub u8);

impl Code {
    pub(super) const CONNECTION_NOT_SYNCHRONIZED: Self = Self(1, 1);
    pub(super) const BAD_MESSAGE_LENGTH: Self = Self(1, 2);
    pub(super) const BAD_MESSAGE_TYPE: Self = Self(1, 3);
    pub(super) const OPEN_MESSAGE_ERROR: Self = Self(2, 0);
    pub(super) const UNSUPPORTED_VERSION: Self = Self(2, 1);
    pub(super) const BAD_PEER_AS: Self = Self(2, 2);
    pub(super) const BAD_BGP_IDENTIFIER: Self = Self(2, 3);
    pub(super) const UNSUPPORTED_OPTIONAL_PARAMETER: Self = Self(2, 4);
    pub(super) const UNACCEPTABLE_HOLD_TIME: Self = Self(2, 6);
    pub(super) const MALFORMED_ATTRIBUTE_LIST: Self = Self(3, 1);
    pub(super) const UNRECOGNIZED_WELL_KNOWN_ATTRIBUTE: Self = Self(3, 2);
    pub(super) const OPTIONAL_ATTRIBUTE_ERROR: Self = Self(3, 9);
    pub(super) const INVALID_NETWORK_FIELD: Self = Self(3, 10);
    pub(super) const HOLD_TIMER_EXPIRED: Self = Self(4, 0);
    /// RFC 6608: a message that the state does not expect.
    pub(super) const UNEXPECTED_IN_OPEN_SENT: Self = Self(5, 1);
    pub(super) const UNEXPECTED_IN_OPEN_CONFIRM: Self = Self(5, 2);
    pub(super) const UNEXPECTED_IN_ESTABLISHED: Self = Self(5, 3);
    /// RFC 4486: whoever runs the speaker ends it.
    pub const ADMINISTRATIVE_SHUTDOWN: Self = Self(6, 2);
    /// RFC 4486: the peer is no longer configured.
    pub const PEER_DECONFIGURED: Self = Self(6, 3);
    /// RFC 4486: the peer is configured in another way.
    pub const OTHER_CONFIGURATION_CHANGE: Self = Self(6, 6);
    /// RFC 4486: another connection with the peer stays.
    pub(super) const COLLISION: Self = Self(6, 7);
    /// RFC 9384: BFD says that the peer cannot be reached.
    pub(super) const BFD_DOWN: Self = Self(6, 10);

    fn carries_text(self) -> bool {
        matches!(self, Self(6, 2 | 4))
    }

    fn name(self) -> (&'static str, &'static str) {
        let code = match self.0 {
            1 => "Message Header Error",
            2 => "OPEN Message Error",
            3 => "UPDATE Message Error",
            4 => "Hold Timer Expired",
            5 => "Finite State Machine Error",
            6 => "Cease",
            7 => "ROUTE-REFRESH Message Error",
            8 => "Send Hold Timer Expired",
            _ => "unknown error",
        };
        let subcode = match (self.0, self.1) {
            (1, 1) => "Connection Not Synchronized",
            (1, 2) => "Bad Message Length",
            (1, 3) => "Bad Message Type",
            (2, 1) => "Unsupported Version Number",
            (2, 2) => "Bad Peer AS",
            (2, 3) => "Bad BGP Identifier",
            (2, 4) => "Unsupported Optional Parameter",
            (2, 6) => "Unacceptable Hold Time",
            (2, 7) => "Unsupported Capability",
            (2, 11) => "Role Mismatch",
            (3, 1) => "Malformed Attribute List",
            (3, 2) => "Unrecognized Well-known Attribute",
            (3, 3) => "Missing Well-known Attribute",
            (3, 4) => "Attribute Flags Error",
            (3, 5) => "Attribute Length Error",
            (3, 6) => "Invalid ORIGIN Attribute",
            (3, 8) => "Invalid NEXT_HOP Attribute",
            (3, 9) => "Optional Attribute Error",
            (3, 10) => "Invalid Network Field",
            (3, 11) => "Malformed AS_PATH",
            (5, 1) => "Unexpected Message in OpenSent",
            (5, 2) => "Unexpected Message in OpenConfirm",
            (5, 3) => "Unexpected Message in Established",
            (6, 1) => "Maximum Number of Prefixes Reached",
            (6, 2) => "Administrative Shutdown",
            (6, 3) => "Peer De-configured",
            (6, 4) => "Administrative Reset",
            (6, 5) => "Connection Rejected",
            (6, 6) => "Other Configuration Change",
            (6, 7) => "Connection Collision Resolution",
            (6, 8) => "Out of Resources",
            (6, 9) => "Hard Reset",
            (6, 10) => "BFD Down",
            (7, 1) => "Invalid Message Length",
            _ => "",
        };
        (code, subcode)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.1) {
            ((code, ""), 0) => f.write_str(code),
            ((code, ""), subcode) => write!(f, "{code} ({}/{subcode})", self.0),
            ((code, subcode), _) => write!(f, "{code}: {subcode}"),
        }
    }
}

/// A NOTIFICATION.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// What happened.
    pub code: Code,
    /// What the code defines.
    pub data: Vec<u8>,
}

impl Notification {
    /// One without data.
    pub fn new(code: Code) -> Self {
        Self { code, data: Vec::new() }
    }

    pub(super) fn with_data(self, data: &[u8]) -> Self {
        Self { data: data.to_vec(), ..self }
    }

    /// An administrative shutdown that says why (RFC 9003), cut at a character where it is too long.
    pub fn shutdown(text: &str) -> Self {
        let text = text.get(..text.floor_char_boundary(SHUTDOWN_TEXT)).unwrap_or_default();
        let length = u8::try_from(text.len()).unwrap_or_default();
        let data = [&[length], text.as_bytes()].concat();
        Self { code: Code::ADMINISTRATIVE_SHUTDOWN, data }
    }

    /// Body of a message; the framing makes sure that it has both codes.
    pub(super) fn decode(body: &[u8]) -> Self {
        let (code, data) = match body {
            [code, subcode, data @ ..] => (Code(*code, *subcode), data),
            _ => (Code(0, 0), body),
        };
        Self { code, data: data.to_vec() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [&[self.code.0, self.code.1], self.data.as_slice()].concat()
    }

    /// What the peer wrote for people, without characters that would disturb a log.
    fn text(&self) -> Option<String> {
        let (length, rest) = self.data.split_first().filter(|_| self.code.carries_text())?;
        let text: Cow<'_, str> = String::from_utf8_lossy(rest.get(..usize::from(*length))?);
        let text: String = text.chars().filter(|it| !it.is_control()).collect();
        (!text.is_empty()).then_some(text)
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)?;
        match self.text() {
            Some(text) => write!(f, " (\"{text}\")"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_told_in_words() {
        for (body, expected) in [
            (&[2u8, 2][..], "OPEN Message Error: Bad Peer AS"),
            (&[4, 0], "Hold Timer Expired"),
            (&[6, 99], "Cease (6/99)"),
            (&[200, 0], "unknown error"),
            (b"\x06\x02\x05night", "Cease: Administrative Shutdown (\"night\")"),
            (b"\x06\x04\x06a\nb\x1b[1", "Cease: Administrative Reset (\"ab[1\")"),
            (b"\x06\x02\x09night", "Cease: Administrative Shutdown"),
            (b"\x06\x05\x02ab", "Cease: Connection Rejected"),
        ] {
            let decoded = Notification::decode(body);
            assert_eq!(decoded.to_string(), expected);
            assert_eq!(decoded.encode(), body);
        }
    }

    #[test]
    fn a_shutdown_says_why_and_fits() {
        let told = Notification::shutdown("the node leaves").to_string();
        assert_eq!(told, "Cease: Administrative Shutdown (\"the node leaves\")");
        let long = Notification::shutdown(&"é".repeat(200));
        assert_eq!((long.data.len(), long.data[0]), (255, 254));
        assert!(long.to_string().contains("éé"));
    }
}
