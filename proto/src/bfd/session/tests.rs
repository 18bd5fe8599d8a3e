//! The state machine, the intervals, and the modes.

mod modes;
mod simulation;
mod timing;

use std::num::NonZeroU8;

use super::*;

const MS: Duration = Duration::from_millis(1);

#[expect(clippy::disallowed_methods, reason = "any instant will do as the zero of a made-up clock")]
fn zero() -> Instant {
    Instant::now()
}

fn number(number: u32) -> Discriminator {
    Discriminator::new(number).unwrap()
}

/// 300 ms, three times.
fn settings() -> Settings {
    Settings {
        transmit_interval: 300 * MS,
        receive_interval: 300 * MS,
        detect_mult: NonZeroU8::new(3).unwrap(),
        passive: false,
        echo_interval: None,
    }
}

/// What the other side says in a state.
fn says(state: State) -> ControlPacket {
    ControlPacket {
        diagnostic: Diagnostic::NONE,
        state,
        poll: false,
        is_final: false,
        control_plane_independent: false,
        demand: false,
        detect_mult: NonZeroU8::new(3).unwrap(),
        my_discriminator: number(2),
        your_discriminator: Some(number(1)),
        desired_min_tx: 100 * MS,
        required_min_rx: 100 * MS,
        required_min_echo_rx: 100 * MS,
    }
}

fn drain(session: &mut Session) -> Vec<Output> {
    std::iter::from_fn(|| session.poll_output()).collect()
}

fn sent(session: &mut Session) -> Vec<ControlPacket> {
    let packet = |output| if let Output::Send(packet) = output { Some(packet) } else { None };
    drain(session).into_iter().filter_map(packet).collect()
}

fn hears(session: &mut Session, now: Instant, packet: ControlPacket) {
    session.handle_input(now, Input::Received(&packet));
}

/// A session in a state, with nothing left to do.
fn session_in(state: State, now: Instant, settings: Settings) -> Session {
    let mut session = Session::new(now, number(1), settings, 7);
    session.handle_timeout(now);
    match state {
        State::Down => {}
        State::Init => hears(&mut session, now, says(State::Down)),
        State::Up => {
            hears(&mut session, now, says(State::Init));
            session.handle_timeout(now);
            hears(&mut session, now, ControlPacket { is_final: true, ..says(State::Up) });
        }
        State::AdminDown => {
            hears(&mut session, now, says(State::Down));
            session.handle_input(now, Input::AdminDown);
        }
    }
    drain(&mut session);
    assert_eq!(session.state(), state);
    session
}

/// RFC 5880 §6.2 and §6.8.6: every state with everything that the other side can say, with time and with
/// the administrator.
#[test]
fn every_state_answers_every_event() {
    // The state after, what is told, and the diagnostic that the other side gets to know.
    type Row<'a> = (&'a str, [(State, &'a str, Diagnostic); 4]);
    const OK: Diagnostic = Diagnostic::NONE;
    const SIGNALED: Diagnostic = Diagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN;
    const EXPIRED: Diagnostic = Diagnostic::CONTROL_DETECTION_TIME_EXPIRED;
    const ADMIN: Diagnostic = Diagnostic::ADMINISTRATIVELY_DOWN;
    use State::Down as D;
    let quiet = (State::AdminDown, "", ADMIN);
    let table: [Row<'_>; 6] = [
        // In the states AdminDown, Down, Init, Up.
        ("AdminDown", [quiet, (D, "", OK), (D, "", SIGNALED), (D, "down: admin", SIGNALED)]),
        ("Down", [quiet, (State::Init, "", OK), (State::Init, "", OK), (D, "down: signaled", SIGNALED)]),
        ("Init", [quiet, (State::Up, "up", OK), (State::Up, "up", OK), (State::Up, "", OK)]),
        ("Up", [quiet, (D, "", OK), (State::Up, "up", OK), (State::Up, "", OK)]),
        ("silence", [quiet, (D, "", OK), (D, "", EXPIRED), (D, "down: expired", EXPIRED)]),
        (
            "stop",
            [
                quiet,
                (State::AdminDown, "", ADMIN),
                (State::AdminDown, "", ADMIN),
                (State::AdminDown, "down: stop", ADMIN),
            ],
        ),
    ];
    let states = [State::AdminDown, State::Down, State::Init, State::Up];
    let now = zero();
    for (event, row) in table {
        for (state, (after, told, diagnostic)) in states.into_iter().zip(row) {
            let mut session = session_in(state, now, settings());
            match event {
                "AdminDown" => hears(&mut session, now, says(State::AdminDown)),
                "Down" => hears(&mut session, now, says(State::Down)),
                "Init" => hears(&mut session, now, says(State::Init)),
                "Up" => hears(&mut session, now, says(State::Up)),
                "silence" => session.handle_timeout(now + 900 * MS),
                _ => session.handle_input(now, Input::AdminDown),
            }
            let outputs = drain(&mut session);
            let events: Vec<&str> = outputs
                .iter()
                .filter_map(|output| match output {
                    Output::Event(Event::Up) => Some("up"),
                    Output::Event(Event::Down(Down::Signaled(_))) => Some("down: signaled"),
                    Output::Event(Event::Down(Down::RemoteAdminDown)) => Some("down: admin"),
                    Output::Event(Event::Down(Down::Expired(time))) => {
                        assert_eq!(*time, 900 * MS);
                        Some("down: expired")
                    }
                    Output::Event(Event::Down(Down::AdminDown)) => Some("down: stop"),
                    Output::Event(Event::Down(Down::EchoFailed(_))) => Some("down: echo"),
                    Output::Send(_) | Output::SendEcho(_) => None,
                })
                .collect();
            assert_eq!((session.state(), events.concat()), (after, told.to_owned()), "{event} in {state}");
            assert_eq!(session.packet().diagnostic, diagnostic, "{event} in {state}");
            if after != state {
                // RFC 5880 §6.8.7: what changed is told at once.
                let told =
                    outputs.iter().any(|it| matches!(it, Output::Send(packet) if packet.state == after));
                assert!(told, "{event} in {state}: {outputs:?}");
            }
        }
    }
}

#[test]
fn only_what_is_no_administrators_doing_is_a_failure() {
    assert!(Down::Expired(MS).is_failure() && Down::EchoFailed(MS).is_failure());
    assert!(Down::Signaled(Diagnostic::NONE).is_failure());
    assert!(!Down::RemoteAdminDown.is_failure() && !Down::AdminDown.is_failure());
}
