//! What a BGP router sends, from its OPEN on or once the session is established.
//!
//! The first byte chooses what was agreed before, the second one how the stream is cut; then come bytes as
//! they are, or messages whose headers are sound: kind, two octets of length, body.

use std::sync::OnceLock;
use std::time::Instant;

use ferrolb_proto::bgp::Family;
use ferrolb_proto::bgp::session::{Event, Input, MOST_RECEIVED, Origin, Output, Session, State};

use crate::bgp_wire::{drain, frame, next_hops, open, say, session};

const FOUR_OCTETS: u8 = 1;
const ESTABLISHED: u8 = 2;
const FRAMED: u8 = 4;

static ZERO: OnceLock<Instant> = OnceLock::new();

pub(crate) fn run(data: &[u8]) {
    let [agreed, cut, rest @ ..] = data else { return };
    let stream = if agreed & FRAMED == 0 { rest.to_vec() } else { framed(rest) };
    let (whole, said) = feed(*agreed, &stream, stream.len().max(1));
    let (pieces, said_to_pieces) = feed(*agreed, &stream, usize::from(*cut).max(1));
    assert_eq!(said, said_to_pieces, "however the stream is cut");
    assert_eq!((whole.state(), whole.received()), (pieces.state(), pieces.received()));
    assert!(whole.received() <= MOST_RECEIVED);
    let ended = said.iter().any(|it| matches!(it, Output::Event(Event::Down(_) | Event::Failed(_))));
    assert_eq!(ended, whole.state() == State::Idle);
    assert_eq!(ended, said.contains(&Output::Close(Origin::Dialled)));
    // Only who agreed to a hold time of 0 waits for ever, and not before the session is established.
    assert!(whole.next_timeout().is_some() || whole.state() == State::Established);
}

fn feed(agreed: u8, stream: &[u8], cut: usize) -> (Session, Vec<Output>) {
    let now = *ZERO.get_or_init(Instant::now);
    let mut session = session(now, Family::ALL.into(), true);
    session.handle_timeout(now);
    say(&mut session, now, Input::Connected(next_hops()));
    if agreed & ESTABLISHED != 0 {
        for message in [open(agreed & FOUR_OCTETS != 0), frame(4, &[])] {
            say(&mut session, now, Input::Received(Origin::Dialled, &message));
        }
        assert_eq!(session.state(), State::Established);
    }
    drain(&mut session);
    let mut said = Vec::new();
    for piece in stream.chunks(cut) {
        said.extend(say(&mut session, now, Input::Received(Origin::Dialled, piece)));
    }
    (session, said)
}

fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let [kind, high, low, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (body, after) = rest.split_at(length);
        // Kinds that there are, and one that is none.
        stream.extend(frame(1 + kind % 6, body));
        bytes = after;
    }
    stream
}
