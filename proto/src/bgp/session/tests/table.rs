//! Every state with every event.

use proptest::prelude::*;

use super::*;

/// An event by name.
fn happen(session: &mut Session, now: Instant, event: &str) {
    let bytes = match event {
        "OPEN" => peers_open(&settings(2, 1)),
        "OPEN of another AS" => peers_open(&settings(3, 1)),
        "KEEPALIVE" => message::keepalive(),
        "UPDATE" => message::frame(message::UPDATE, &[0, 0, 0, 0]),
        "bad UPDATE" => message::frame(message::UPDATE, &[0, 0, 0, 4, 0x40, 1, 1, 9]),
        "unreadable UPDATE" => message::frame(message::UPDATE, &[0, 0, 0, 0, 33, 1]),
        "NOTIFICATION" => message::notification(&Notification::new(Code::PEER_DECONFIGURED)),
        "garbage" => b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(),
        _ => Vec::new(),
    };
    let input = match event {
        "connected" => Input::Connected(next_hops(1)),
        "accepted" => Input::Accepted(next_hops(1)),
        "dial failed" => Input::DialFailed("connection refused".to_owned()),
        "closed" => Input::Closed(Origin::Dialled, "reset".to_owned()),
        "path down" => Input::PathDown("silence".to_owned()),
        "path up" => Input::PathUp,
        "stop" => Input::Stop(Farewell::Said(Notification::shutdown(""))),
        "time" => return session.handle_timeout(now + 3600 * SECOND),
        _ => Input::Received(Origin::Dialled, &bytes),
    };
    session.handle_input(now, input);
}

#[test]
fn every_state_answers_every_event() {
    use State::{Connect, Established, Idle, OpenConfirm, OpenSent};
    let states = [Idle, Connect, OpenSent, OpenConfirm, Established];
    // What each state says, and the state after; `-`: nothing and the same one.
    let table: [(&str, [(&str, State); 5]); 16] = [
        (
            "time",
            [
                ("dial", Connect),
                ("close failed", Idle),
                ("NOTIFICATION 4/0 close failed", Idle),
                ("NOTIFICATION 4/0 close failed", Idle),
                ("NOTIFICATION 4/0 close down", Idle),
            ],
        ),
        (
            "connected",
            [("close", Idle), ("OPEN", OpenSent), ("", OpenSent), ("", OpenConfirm), ("", Established)],
        ),
        (
            "accepted",
            [
                ("accept OPEN", OpenSent),
                ("accept OPEN", Connect),
                ("accept OPEN", OpenSent),
                ("accept OPEN", OpenConfirm),
                ("refuse", Established),
            ],
        ),
        ("dial failed", [("", Idle), ("failed", Idle), ("", OpenSent), ("", OpenConfirm), ("", Established)]),
        ("closed", [("", Idle), ("failed", Idle), ("failed", Idle), ("failed", Idle), ("down", Idle)]),
        (
            "OPEN",
            [
                ("", Idle),
                ("", Connect),
                ("KEEPALIVE", OpenConfirm),
                ("NOTIFICATION 5/2 close failed", Idle),
                ("NOTIFICATION 5/3 close down", Idle),
            ],
        ),
        (
            "OPEN of another AS",
            [
                ("", Idle),
                ("", Connect),
                ("NOTIFICATION 2/2 close failed", Idle),
                ("NOTIFICATION 5/2 close failed", Idle),
                ("NOTIFICATION 5/3 close down", Idle),
            ],
        ),
        (
            "KEEPALIVE",
            [
                ("", Idle),
                ("", Connect),
                ("NOTIFICATION 5/1 close failed", Idle),
                ("up END END", Established),
                ("", Established),
            ],
        ),
        (
            "UPDATE",
            [
                ("", Idle),
                ("", Connect),
                ("NOTIFICATION 5/1 close failed", Idle),
                ("NOTIFICATION 5/2 close failed", Idle),
                ("", Established),
            ],
        ),
        (
            "bad UPDATE",
            [
                ("", Idle),
                ("", Connect),
                ("NOTIFICATION 5/1 close failed", Idle),
                ("NOTIFICATION 5/2 close failed", Idle),
                ("ignored", Established),
            ],
        ),
        (
            "unreadable UPDATE",
            [
                ("", Idle),
                ("", Connect),
                ("NOTIFICATION 3/10 close failed", Idle),
                ("NOTIFICATION 3/10 close failed", Idle),
                ("NOTIFICATION 3/10 close down", Idle),
            ],
        ),
        (
            "NOTIFICATION",
            [("", Idle), ("", Connect), ("close failed", Idle), ("close failed", Idle), ("close down", Idle)],
        ),
        (
            "garbage",
            [
                ("", Idle),
                ("", Connect),
                ("NOTIFICATION 1/1 close failed", Idle),
                ("NOTIFICATION 1/1 close failed", Idle),
                ("NOTIFICATION 1/1 close down", Idle),
            ],
        ),
        (
            "path down",
            [
                ("", Idle),
                ("close failed", Idle),
                ("NOTIFICATION 6/10 close failed", Idle),
                ("NOTIFICATION 6/10 close failed", Idle),
                ("NOTIFICATION 6/10 close down", Idle),
            ],
        ),
        ("path up", [("", Idle), ("", Connect), ("", OpenSent), ("", OpenConfirm), ("", Established)]),
        (
            "stop",
            [
                ("", Idle),
                ("close", Idle),
                ("NOTIFICATION 6/2 close", Idle),
                ("NOTIFICATION 6/2 close", Idle),
                ("NOTIFICATION 6/2 close down", Idle),
            ],
        ),
    ];
    let now = zero();
    for (event, row) in table {
        for (state, (said, after)) in states.into_iter().zip(row) {
            let mut session = in_state(now, state);
            happen(&mut session, now, event);
            assert_eq!(told(&drain(&mut session)), said, "{state}: {event}");
            assert_eq!(session.state(), after, "{state}: {event}");
            // Whoever is idle will try again, unless stopped.
            assert_eq!(session.next_timeout().is_none(), event == "stop", "{state}: {event}");
        }
    }
}

proptest! {
    /// Whatever arrives, in whatever pieces: no panic, no unbounded output, and a session that ended
    /// says so.
    #[test]
    fn any_bytes_are_survived(
        state in prop_oneof![Just(State::OpenSent), Just(State::OpenConfirm), Just(State::Established)],
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..64),
                // A sound header before anything.
                (1u8..6, proptest::collection::vec(any::<u8>(), 0..64))
                    .prop_map(|(kind, body)| message::frame(kind, &body)),
                Just(message::keepalive()),
            ],
            0..8,
        ),
    ) {
        let now = zero();
        let mut session = in_state(now, state);
        for piece in &pieces {
            session.handle_input(now, Input::Received(Origin::Dialled, piece));
        }
        let outputs = drain(&mut session);
        prop_assert!(outputs.len() <= 4 + pieces.len());
        let ended = outputs.iter().any(|it| matches!(it, Output::Event(Event::Down(_) | Event::Failed(_))));
        prop_assert_eq!(ended, session.state() == State::Idle);
        prop_assert_eq!(ended, outputs.contains(&Output::Close(Origin::Dialled)));
    }
}
