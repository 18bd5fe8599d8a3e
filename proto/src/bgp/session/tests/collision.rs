//! Connections that the peer opens, alone and beside our own (RFC 4271 §6.8).

use super::*;

/// A session that dials, whose identifier is above or below the peer's 10.0.0.2, and takes up the peer's
/// connection too.
fn both(now: Instant, identifier: u8) -> Session {
    let ours = Settings { identifier: Some(Ipv4Addr::new(10, 0, 0, identifier)), ..settings(1, 2) };
    let mut session = Session::new(now, ours, 30 * SECOND, 0);
    session.handle_timeout(now);
    session.handle_input(now, Input::Connected(next_hops(1)));
    session.handle_input(now, Input::Accepted(next_hops(1)));
    assert_eq!(told(&drain(&mut session)), "dial OPEN accept OPEN");
    session
}

fn hear(session: &mut Session, now: Instant, origin: Origin, bytes: &[u8]) -> String {
    session.handle_input(now, Input::Received(origin, bytes));
    told(&drain(session))
}

#[test]
fn of_two_connections_that_of_the_higher_identifier_stays() {
    use Origin::{Accepted, Dialled};
    let open = peers_open(&settings(2, 1));
    let keepalive = message::keepalive();
    for (identifier, stays, goes) in [(1, Accepted, Dialled), (3, Dialled, Accepted)] {
        let close = if goes == Dialled { "close" } else { "close-accepted" };
        for order in [[stays, goes], [goes, stays]] {
            let now = zero();
            let mut session = both(now, identifier);
            assert_eq!(hear(&mut session, now, order[0], &open), "KEEPALIVE");
            let said = hear(&mut session, now, order[1], &open);
            let expected = if order[1] == goes {
                format!("NOTIFICATION 6/7 {close}")
            } else {
                format!("NOTIFICATION 6/7 {close} KEEPALIVE")
            };
            assert_eq!(said, expected, "{identifier}: {order:?}");
            assert_eq!(hear(&mut session, now, goes, &keepalive), "", "nobody is there");
            assert_eq!(hear(&mut session, now, stays, &keepalive), "up END END");
            assert_eq!(session.state(), State::Established);
        }
    }
}

#[test]
fn with_equal_identifiers_the_higher_as_decides() {
    let now = zero();
    let mut session = both(now, 2);
    let open = peers_open(&settings(2, 1));
    assert_eq!(hear(&mut session, now, Origin::Dialled, &open), "KEEPALIVE");
    // RFC 6286 §2.3: the peer has AS 2, this side AS 1.
    let said = hear(&mut session, now, Origin::Accepted, &open);
    assert_eq!(said, "NOTIFICATION 6/7 close KEEPALIVE");
}

#[test]
fn the_connection_that_is_established_first_stays_whoever_comes() {
    let now = zero();
    let open = peers_open(&settings(2, 1));
    let mut session = both(now, 3);
    hear(&mut session, now, Origin::Accepted, &open);
    assert_eq!(hear(&mut session, now, Origin::Accepted, &message::keepalive()), "up END END");
    assert_eq!(hear(&mut session, now, Origin::Dialled, &open), "NOTIFICATION 6/7 close");
    session.handle_input(now, Input::Accepted(next_hops(1)));
    assert_eq!(told(&drain(&mut session)), "refuse");
    assert_eq!(session.state(), State::Established);
    // Its end is the end of the session.
    session.handle_input(now, Input::Closed(Origin::Accepted, "reset".to_owned()));
    assert_eq!(told(&drain(&mut session)), "down");
    assert_eq!(session.state(), State::Idle);
}

#[test]
fn a_peer_that_cannot_be_dialled_connects_by_itself() {
    let now = zero();
    let mut session = in_state(now, State::Connect);
    session.handle_input(now, Input::DialFailed("refused".to_owned()));
    let pause = session.next_timeout().unwrap();
    drain(&mut session);
    session.handle_input(now, Input::Accepted(next_hops(1)));
    hear(&mut session, now, Origin::Accepted, &peers_open(&settings(2, 1)));
    hear(&mut session, now, Origin::Accepted, &message::keepalive());
    assert_eq!(session.state(), State::Established);
    session.handle_timeout(pause);
    assert_eq!(told(&drain(&mut session)), "", "nothing is dialled beside it");
    // While this side still tries, too: what was begun ends.
    let mut session = in_state(now, State::Connect);
    session.handle_input(now, Input::Accepted(next_hops(1)));
    hear(&mut session, now, Origin::Accepted, &peers_open(&settings(2, 1)));
    assert_eq!(hear(&mut session, now, Origin::Accepted, &message::keepalive()), "close up END END");
}

#[test]
fn what_ends_one_connection_leaves_the_other_one() {
    let now = zero();
    let open = peers_open(&settings(2, 1));
    let mut session = both(now, 1);
    // The peer has chosen: no failure.
    let collision = message::notification(&Notification::new(Code::COLLISION));
    assert_eq!(hear(&mut session, now, Origin::Dialled, &collision), "close");
    assert_eq!(hear(&mut session, now, Origin::Accepted, &open), "KEEPALIVE");
    // A fault is told although the other one goes on.
    let mut session = both(now, 1);
    let wrong = peers_open(&settings(3, 1));
    assert_eq!(hear(&mut session, now, Origin::Accepted, &wrong), "NOTIFICATION 2/2 close-accepted failed");
    assert_eq!(hear(&mut session, now, Origin::Dialled, &open), "KEEPALIVE");
    // Time ends both, and then the pause begins.
    let mut session = both(now, 1);
    session.handle_timeout(now + 240 * SECOND);
    let said = told(&drain(&mut session));
    assert_eq!(said, "NOTIFICATION 4/0 close-accepted failed NOTIFICATION 4/0 close failed");
    assert_eq!(session.state(), State::Idle);
    // So do BFD and the end.
    let mut session = both(now, 1);
    session.handle_input(now, Input::PathDown("silence".to_owned()));
    let said = told(&drain(&mut session));
    assert_eq!(said, "NOTIFICATION 6/10 close-accepted NOTIFICATION 6/10 close failed");
    let mut session = both(now, 1);
    session.handle_input(now, Input::Stop(Farewell::Silent));
    assert_eq!(told(&drain(&mut session)), "close-accepted close");
    session.handle_input(now, Input::Accepted(next_hops(1)));
    assert_eq!(told(&drain(&mut session)), "refuse");
}

#[test]
fn the_latest_connection_of_the_peer_counts() {
    let now = zero();
    let mut session = both(now, 1);
    session.handle_input(now, Input::Accepted(next_hops(1)));
    assert_eq!(told(&drain(&mut session)), "close-accepted accept OPEN");
    let mut session = in_state(now, State::Idle);
    for expected in ["accept OPEN", "close-accepted accept OPEN"] {
        session.handle_input(now, Input::Accepted(next_hops(1)));
        assert_eq!(told(&drain(&mut session)), expected);
    }
}

/// RFC 4724 §5.
#[test]
fn a_peer_that_restarts_gracefully_takes_the_place_of_its_old_self() {
    for (graceful, after, expected) in
        [(None, 60, "refuse"), (Some(120), 60, "close down accept OPEN"), (Some(120), 1, "refuse")]
    {
        let now = zero();
        let mut session = in_state(now, State::OpenSent);
        let theirs = Settings { graceful_restart: graceful, ..settings(2, 1) };
        hear(&mut session, now, Origin::Dialled, &peers_open(&theirs));
        hear(&mut session, now, Origin::Dialled, &message::keepalive());
        let later = now + after * SECOND;
        session.handle_input(later, Input::Accepted(next_hops(1)));
        assert_eq!(told(&drain(&mut session)), expected, "{graceful:?} after {after} s");
    }
}

/// DampPeerOscillations of RFC 4271 §8.1.1.
#[test]
fn a_peer_whose_connections_break_again_and_again_has_to_wait() {
    let now = zero();
    let mut session = in_state(now, State::Idle);
    for _ in 0..3 {
        session.handle_input(now, Input::Accepted(next_hops(1)));
        session.handle_input(now, Input::Closed(Origin::Accepted, "reset".to_owned()));
        assert_eq!(told(&drain(&mut session)), "accept OPEN failed");
    }
    session.handle_input(now, Input::Accepted(next_hops(1)));
    assert_eq!(told(&drain(&mut session)), "refuse");
    // Its own tries go on, and when the time is over the peer's count again.
    let later = now + SECOND;
    session.handle_input(later, Input::Accepted(next_hops(1)));
    hear(&mut session, later, Origin::Accepted, &peers_open(&settings(2, 1)));
    hear(&mut session, later, Origin::Accepted, &message::keepalive());
    let stable = later + 60 * SECOND;
    session.handle_input(stable, Input::Closed(Origin::Accepted, "reset".to_owned()));
    drain(&mut session);
    session.handle_input(stable, Input::Accepted(next_hops(1)));
    assert_eq!(told(&drain(&mut session)), "accept OPEN", "a session that was stable ends the counting");
}
