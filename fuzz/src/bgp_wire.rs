//! Both ends of a BGP connection, for the targets.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ferrolb_proto::bgp::session::{Input, Output, PeerAsn, Session, Settings};
use ferrolb_proto::bgp::{Asn, Family, NextHops};

const HEADER: usize = 19;
const LONGEST: usize = 4096;

/// A session of AS 64512 that takes any other AS, after which it dials at once.
pub(crate) fn session(now: Instant, families: BTreeSet<Family>, graceful_restart: bool) -> Session {
    let settings = Settings {
        local_asn: Asn(64512),
        peer_asn: PeerAsn::External,
        identifier: Some(Ipv4Addr::new(10, 0, 0, 1)),
        fallback_identifier: Ipv4Addr::new(10, 0, 0, 1),
        hold_time: 90,
        keepalive: None,
        families,
        graceful_restart: graceful_restart.then_some(120),
    };
    Session::new(now, settings, Duration::from_secs(30), 1)
}

pub(crate) fn next_hops() -> NextHops {
    NextHops { v4: Some(Ipv4Addr::new(10, 0, 0, 1)), v6: "fd00::1".parse().ok() }
}

/// A message of the router, cut to what a message can hold.
pub(crate) fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let body = &body[..body.len().min(LONGEST - HEADER)];
    let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    [&[0xff; 16][..], &length.to_be_bytes(), &[kind], body].concat()
}

/// The OPEN of a router of AS 64513 with or without AS numbers of four octets, which carries both families.
pub(crate) fn open(four_octets: bool) -> Vec<u8> {
    let both = [1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1];
    let asn = [65, 4, 0, 0, 0xfc, 1];
    let capabilities = [&both[..], if four_octets { &asn } else { &[] }].concat();
    let length = u8::try_from(capabilities.len()).unwrap_or_default();
    let start = [4, 0xfc, 1, 0, 90, 10, 0, 0, 2, length + 2, 2, length];
    frame(1, &[&start[..], &capabilities].concat())
}

/// What the session says to this, each message checked.
pub(crate) fn say(session: &mut Session, now: Instant, input: Input<'_>) -> Vec<Output> {
    session.handle_input(now, input);
    drain(session)
}

pub(crate) fn drain(session: &mut Session) -> Vec<Output> {
    let outputs: Vec<Output> = std::iter::from_fn(|| session.poll_output()).collect();
    for output in &outputs {
        if let Output::Write(_, message) = output {
            check(message);
        }
    }
    outputs
}

/// One whole message of a kind that there is.
fn check(message: &[u8]) {
    assert!((HEADER..=LONGEST).contains(&message.len()), "{} octets", message.len());
    let length = usize::from(u16::from_be_bytes([message[16], message[17]]));
    assert!(message[..16] == [0xff; 16] && length == message.len() && (1..=5).contains(&message[18]));
}
