//! Messages (RFC 4271 §4.1): cutting them out of a stream of bytes, and putting them into one.

use super::error::{Fault, MessageError};
use super::notification::Notification;
use super::open::Open;
use super::update::{self, Update};
use super::{Family, refresh};

const MARKER: [u8; 16] = [0xff; 16];
const HEADER: usize = 19;
/// No message is longer (RFC 4271 §4.1).
pub(super) const MAX_MESSAGE: usize = 4096;
/// What an UPDATE has besides its routes and attributes: the header and two lengths.
pub(super) const UPDATE_OVERHEAD: usize = HEADER + 4;

const OPEN: u8 = 1;
pub(super) const UPDATE: u8 = 2;
const NOTIFICATION: u8 = 3;
const KEEPALIVE: u8 = 4;
const ROUTE_REFRESH: u8 = 5;

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Open(Open),
    Update(Update),
    Notification(Notification),
    Keepalive,
    /// A request to send the routes of a family again; none if it is of no use to us.
    RouteRefresh(Option<Family>),
}

/// Received bytes that are not yet a whole message.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    read: usize,
}

impl Inbox {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it is complete. `four_octets`: AS numbers in an UPDATE have four.
    pub(super) fn next(&mut self, four_octets: bool) -> Result<Option<Message>, MessageError> {
        let rest = self.bytes.get(self.read..).unwrap_or_default();
        let Some((header, after)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [marker @ .., high, low, kind] = header;
        if *marker != MARKER {
            return Err(MessageError { offset: 0, fault: Fault::Marker });
        }
        let length = u16::from_be_bytes([*high, *low]);
        let wrong_length = || MessageError { offset: 16, fault: Fault::Length(length) };
        let body_length = usize::from(length).checked_sub(HEADER).ok_or_else(wrong_length)?;
        if usize::from(length) > MAX_MESSAGE {
            return Err(wrong_length());
        }
        // Before the rest is waited for: a peer that sends nonsense is told at once.
        let possible = match *kind {
            OPEN => body_length >= 10,
            UPDATE => body_length >= 4,
            NOTIFICATION => body_length >= 2,
            KEEPALIVE => body_length == 0,
            ROUTE_REFRESH => body_length >= 4,
            other => return Err(MessageError { offset: 18, fault: Fault::Type(other) }),
        };
        if !possible {
            return Err(wrong_length());
        }
        let Some(body) = after.get(..body_length) else { return Ok(None) };
        let message = match *kind {
            OPEN => Message::Open(Open::decode(body, HEADER)?),
            UPDATE => Message::Update(update::decode(body, HEADER, four_octets)?),
            NOTIFICATION => Message::Notification(Notification::decode(body)),
            KEEPALIVE => Message::Keepalive,
            _ => Message::RouteRefresh(refresh::decode(body)),
        };
        self.read += usize::from(length);
        Ok(Some(message))
    }
}

/// A message around a body, which must leave room for the header.
pub(super) fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    debug_assert!(usize::from(length) <= MAX_MESSAGE);
    [&MARKER[..], &length.to_be_bytes(), &[kind], body].concat()
}

pub(super) fn open(open: &Open) -> Vec<u8> {
    frame(OPEN, &open.encode())
}

pub(super) fn keepalive() -> Vec<u8> {
    frame(KEEPALIVE, &[])
}

pub(super) fn notification(notification: &Notification) -> Vec<u8> {
    frame(NOTIFICATION, &notification.encode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bgp::notification::Code;

    fn all(bytes: &[u8], chunk: usize) -> Result<Vec<Message>, MessageError> {
        let mut inbox = Inbox::default();
        let mut messages = Vec::new();
        for part in bytes.chunks(chunk) {
            inbox.push(part);
            while let Some(message) = inbox.next(true)? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn messages_come_out_however_the_stream_is_cut() {
        let cease = Notification::new(Code::PEER_DECONFIGURED);
        let stream = [keepalive(), notification(&cease), frame(ROUTE_REFRESH, &[0, 2, 0, 1]), keepalive()];
        let stream = stream.concat();
        for chunk in 1..=stream.len() {
            let expected = [
                Message::Keepalive,
                Message::Notification(cease.clone()),
                Message::RouteRefresh(Some(Family::Ipv6Unicast)),
                Message::Keepalive,
            ];
            assert_eq!(all(&stream, chunk).unwrap(), expected, "in chunks of {chunk}");
        }
    }

    #[test]
    fn headers_that_cannot_be_are_refused_before_their_body_comes() {
        let header = |length: u16, kind: u8| [&MARKER[..], &length.to_be_bytes(), &[kind]].concat();
        for (bytes, offset, fault) in [
            (vec![0xfe; 19], 0, Fault::Marker),
            (b"GET / HTTP/1.1\r\nHost: x\r\n".to_vec(), 0, Fault::Marker),
            (header(18, KEEPALIVE), 16, Fault::Length(18)),
            (header(4097, UPDATE), 16, Fault::Length(4097)),
            (header(28, OPEN), 16, Fault::Length(28)),
            (header(22, UPDATE), 16, Fault::Length(22)),
            (header(20, NOTIFICATION), 16, Fault::Length(20)),
            (header(20, KEEPALIVE), 16, Fault::Length(20)),
            (header(22, ROUTE_REFRESH), 16, Fault::Length(22)),
            (header(19, 0), 18, Fault::Type(0)),
            (header(19, 6), 18, Fault::Type(6)),
        ] {
            assert_eq!(all(&bytes, bytes.len()), Err(MessageError { offset, fault }), "{bytes:02x?}");
        }
        let told = Fault::Length(18).notification();
        assert_eq!((told.code, told.data), (Code::BAD_MESSAGE_LENGTH, vec![0, 18]));
    }
}
