//! Passive, demand, echo.

use super::*;

/// RFC 5880 §6.1, §6.8.7: after the first packet it is as active as others, until the other side is forgotten.
#[test]
fn who_is_passive_is_silent_until_spoken_to() {
    let now = zero();
    let mut session = Session::new(now, number(1), Settings { passive: true, ..settings() }, 7);
    assert_eq!(session.next_timeout(), None);
    session.handle_timeout(now + 10_000 * MS);
    assert!(drain(&mut session).is_empty());
    let now = now + 10_000 * MS;
    hears(&mut session, now, ControlPacket { your_discriminator: None, ..says(State::Down) });
    assert_eq!(sent(&mut session)[0].state, State::Init);
    hears(&mut session, now, says(State::Up));
    assert_eq!(session.state(), State::Up);
    drain(&mut session);
    session.handle_timeout(now + 900 * MS);
    assert!(sent(&mut session).is_empty() && session.next_timeout().is_none(), "forgotten");
}

/// RFC 5880 §6.6: demand mode is the other side's to ask for; polls go on.
#[test]
fn who_is_asked_for_silence_is_silent_but_for_polls() {
    let now = zero();
    let mut session = session_in(State::Up, now, settings());
    let demand = ControlPacket { demand: true, ..says(State::Up) };
    hears(&mut session, now, demand);
    session.handle_timeout(now + 500 * MS);
    assert!(sent(&mut session).is_empty());
    hears(&mut session, now + 500 * MS, ControlPacket { poll: true, ..demand });
    assert!(sent(&mut session)[0].is_final, "it asks whether we are there");
    session
        .handle_input(now + 500 * MS, Input::Settings(Settings { receive_interval: 200 * MS, ..settings() }));
    session.handle_timeout(now + 800 * MS);
    assert!(sent(&mut session)[0].poll);
    hears(&mut session, now + 800 * MS, ControlPacket { is_final: true, ..demand });
    session.handle_timeout(now + 1_200 * MS);
    assert!(sent(&mut session).is_empty(), "answered");
    hears(&mut session, now + 1_200 * MS, says(State::Up));
    session.handle_timeout(now + 1_500 * MS);
    assert_eq!(sent(&mut session).len(), 1, "no demand any more");
}

fn echoing() -> Settings {
    Settings { echo_interval: Some(50 * MS), ..settings() }
}

fn echoes(session: &mut Session) -> Vec<EchoPayload> {
    let payload = |output| if let Output::SendEcho(payload) = output { Some(payload) } else { None };
    drain(session).into_iter().filter_map(payload).collect()
}

/// Runs a session whose other side speaks every 100 ms, and whose echo packets come back while `returns`.
fn run(session: &mut Session, begin: Instant, time: Duration, returns: bool) -> Instant {
    let mut now = begin;
    let mut speaks = begin;
    while now < begin + time && session.state() == State::Up {
        now = session.next_timeout().unwrap().min(speaks).max(now);
        if now == speaks {
            speaks += 100 * MS;
            hears(session, now, ControlPacket { is_final: true, ..says(State::Up) });
        }
        session.handle_timeout(now);
        for payload in echoes(session) {
            if returns {
                session.handle_input(now, Input::Echoed(&payload));
            }
        }
    }
    now
}

/// RFC 5880 §6.8.3, §6.8.5, §6.8.9.
#[test]
fn echo_packets_are_sent_and_their_absence_is_a_failure() {
    let now = zero();
    let mut session = session_in(State::Up, now, echoing());
    assert!(session.is_echoing());
    assert_eq!(session.packet().required_min_rx, 1000 * MS, "echo packets tell enough");
    let now = run(&mut session, now, 2_000 * MS, true);
    assert_eq!(session.state(), State::Up);
    let failed = run(&mut session, now, 2_000 * MS, false);
    assert_eq!(
        (session.state(), session.packet().diagnostic),
        (State::Down, Diagnostic::ECHO_FUNCTION_FAILED)
    );
    // Three times the 100 ms that the other side allows.
    assert!(failed - now >= 300 * MS && failed - now <= 401 * MS, "{:?}", failed - now);
    assert!(!session.is_echoing());
}

#[test]
fn no_echo_where_the_other_side_returns_none() {
    let now = zero();
    let mut session = session_in(State::Up, now, echoing());
    hears(&mut session, now, ControlPacket { required_min_echo_rx: Duration::ZERO, ..says(State::Up) });
    assert!(!session.is_echoing());
    session.handle_timeout(now);
    assert!(echoes(&mut session).is_empty());
    assert_eq!(session.packet().required_min_rx, 300 * MS);
}

#[test]
fn a_process_that_was_kept_waiting_misses_no_echo_that_it_did_not_send() {
    let now = zero();
    let mut session = session_in(State::Up, now, echoing());
    let now = run(&mut session, now, 500 * MS, true) + 800 * MS;
    hears(&mut session, now, says(State::Up));
    session.handle_timeout(now);
    assert_eq!((session.state(), echoes(&mut session).len()), (State::Up, 1));
}

#[test]
fn an_echo_that_somebody_made_up_is_none() {
    let now = zero();
    let mut session = session_in(State::Up, now, echoing());
    session.handle_timeout(now);
    let [payload] = echoes(&mut session)[..] else { panic!("one echo packet") };
    assert_eq!(echoed_discriminator(&payload), Some(number(1)));
    for at in 0..payload.len() {
        let mut forged = payload;
        forged[at] ^= 1;
        session.handle_input(now, Input::Echoed(&forged));
    }
    session.handle_input(now, Input::Echoed(&payload[..15]));
    session.handle_input(now, Input::Echoed(&[]));
    hears(&mut session, now + 299 * MS, says(State::Up));
    session.handle_timeout(now + 300 * MS);
    assert_eq!(session.state(), State::Down);
    assert_eq!(echoed_discriminator(&[0; 16]), None);
}
