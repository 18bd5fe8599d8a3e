//! What a peer makes of our messages.

use std::collections::BTreeMap;

use super::message::{Inbox, MAX_MESSAGE, Message};
use super::update::Update;

/// Applies UPDATEs to the routes that the peer has, family and prefix to attributes. Checks that they are messages.
pub(super) fn apply(table: &mut BTreeMap<Vec<u8>, Vec<u8>>, messages: &[Vec<u8>]) {
    fn routes(mut bytes: &[u8], family: u8) -> Vec<Vec<u8>> {
        let mut routes = Vec::new();
        while let [length, ..] = bytes {
            let (route, rest) = bytes.split_at(1 + usize::from(length.div_ceil(8)));
            routes.push([&[family], route].concat());
            bytes = rest;
        }
        routes
    }
    for message in messages {
        assert!(message.len() <= MAX_MESSAGE, "{} octets", message.len());
        let mut inbox = Inbox::default();
        inbox.push(message);
        let read = inbox.next(true);
        let sound = |update: &Update| update.malformed.is_none();
        assert!(matches!(&read, Ok(Some(Message::Update(it))) if sound(it)), "{message:02x?}");
        let field = |bytes: &[u8]| {
            let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
            (bytes[2..2 + length].to_vec(), bytes[2 + length..].to_vec())
        };
        let (withdrawn, rest) = field(&message[19..]);
        let (mut attributes, announced) = field(&rest);
        for route in routes(&withdrawn, 4) {
            assert!(table.remove(&route).is_some(), "withdraws what it never announced");
        }
        let mut reached = routes(&announced, 4);
        // The attribute with the routes of IPv6 is the first one, with a length of one or two octets.
        if let [flags, kind @ (14 | 15), ..] = *attributes.as_slice() {
            let long = usize::from(flags & 0x10 != 0);
            let length = if long == 1 {
                usize::from(u16::from_be_bytes([attributes[2], attributes[3]]))
            } else {
                usize::from(attributes[2])
            };
            let value: Vec<u8> = attributes.drain(..3 + long + length).skip(3 + long).collect();
            if kind == 14 {
                reached.extend(routes(&value[21..], 6));
            } else {
                for route in routes(&value[3..], 6) {
                    assert!(table.remove(&route).is_some(), "withdraws what it never announced");
                }
            }
        }
        for route in reached {
            table.insert(route, attributes.clone());
        }
    }
}
