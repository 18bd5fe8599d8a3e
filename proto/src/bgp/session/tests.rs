mod collision;
mod simulation;
mod table;

use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;
use crate::bgp::{Asn, Family, NextHops, PathAttributes, Prefix};

const SECOND: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "any instant will do as the zero of a made-up clock")]
fn zero() -> Instant {
    Instant::now()
}

fn settings(local: u32, peer: u32) -> Settings {
    Settings {
        local_asn: Asn(local),
        peer_asn: PeerAsn::Exactly(Asn(peer)),
        identifier: None,
        fallback_identifier: Ipv4Addr::new(1, 1, 1, 1),
        hold_time: 90,
        keepalive: None,
        families: Family::ALL.into(),
        graceful_restart: None,
    }
}

fn next_hops(host: u8) -> NextHops {
    NextHops { v4: Some(Ipv4Addr::new(10, 0, 0, host)), v6: format!("fd00::{host}").parse().ok() }
}

fn routes(count: u8) -> Arc<AdjRibOut> {
    let route = |host| Prefix::around(Ipv4Addr::new(192, 168, 20, host).into(), 32).unwrap();
    Arc::new((0..count).map(|host| (route(host), Arc::new(PathAttributes::default()))).collect())
}

/// The OPEN of the other side.
fn peers_open(settings: &Settings) -> Vec<u8> {
    message::open(&settings.open(next_hops(2), false))
}

fn drain(session: &mut Session) -> Vec<Output> {
    std::iter::from_fn(|| session.poll_output()).collect()
}

/// A session of AS 1 with AS 2 in a state.
fn in_state(now: Instant, state: State) -> Session {
    let mut session = Session::new(now, settings(1, 2), 30 * SECOND, 0);
    let steps: [&dyn Fn(&mut Session); 4] = [
        &|session| session.handle_timeout(now),
        &|session| session.handle_input(now, Input::Connected(next_hops(1))),
        &|session| session.handle_input(now, Input::Received(Origin::Dialled, &peers_open(&settings(2, 1)))),
        &|session| session.handle_input(now, Input::Received(Origin::Dialled, &message::keepalive())),
    ];
    for step in steps {
        if session.state() == state {
            break;
        }
        step(&mut session);
    }
    assert_eq!(session.state(), state);
    drain(&mut session);
    session
}

/// Outputs in short: messages by name, events by their beginning.
fn told(outputs: &[Output]) -> String {
    let name = |bytes: &[u8]| match bytes {
        [.., 4] if bytes.len() == 19 => "KEEPALIVE".to_owned(),
        bytes => match bytes.get(18..) {
            Some([1, ..]) => "OPEN".to_owned(),
            Some([2, 0, 0, 0, 0] | [2, 0, 0, 0, 6, 0x80, 15, 3, ..]) => "END".to_owned(),
            Some([2, ..]) => "UPDATE".to_owned(),
            Some([3, code, subcode, ..]) => format!("NOTIFICATION {code}/{subcode}"),
            other => panic!("{other:?}"),
        },
    };
    let words = outputs.iter().map(|output| match output {
        Output::Dial => "dial".to_owned(),
        Output::Write(_, bytes) => name(bytes),
        Output::Close(Origin::Dialled) => "close".to_owned(),
        Output::Close(Origin::Accepted) => "close-accepted".to_owned(),
        Output::Accept => "accept".to_owned(),
        Output::Refuse => "refuse".to_owned(),
        Output::Event(Event::Up(_)) => "up".to_owned(),
        Output::Event(Event::Down(_)) => "down".to_owned(),
        Output::Event(Event::Failed(_)) => "failed".to_owned(),
        Output::Event(Event::Ignored(_)) => "ignored".to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn an_established_session_sends_all_routes_then_the_end_then_only_differences() {
    let now = zero();
    let mut session = in_state(now, State::OpenConfirm);
    session.handle_input(now, Input::Desired(&routes(3)));
    assert_eq!(told(&drain(&mut session)), "", "not before the session is established");
    session.handle_input(now, Input::Received(Origin::Dialled, &message::keepalive()));
    assert_eq!(told(&drain(&mut session)), "up UPDATE END END");
    assert_eq!((session.announced(), session.updates_sent()), (3, 1));
    session.handle_input(now, Input::Desired(&routes(3)));
    assert_eq!(told(&drain(&mut session)), "");
    session.handle_input(now, Input::Desired(&routes(2)));
    assert_eq!(told(&drain(&mut session)), "UPDATE");
    let refresh = message::frame(5, &[0, 1, 0, 1]);
    session.handle_input(now, Input::Received(Origin::Dialled, &refresh));
    assert_eq!(told(&drain(&mut session)), "UPDATE");
    let other_family = message::frame(5, &[0, 2, 0, 1]);
    session.handle_input(now, Input::Received(Origin::Dialled, &other_family));
    assert_eq!(told(&drain(&mut session)), "");
    assert_eq!((session.announced(), session.updates_sent()), (2, 3));
}

#[test]
fn a_silent_peer_is_given_up_after_the_hold_time_and_told_so() {
    let now = zero();
    let mut session = in_state(now, State::Established);
    let mut keepalives = 0;
    while let Some(at) = session.next_timeout().filter(|at| *at < now + 90 * SECOND) {
        session.handle_timeout(at);
        session.handle_input(at, Input::Flushed(Origin::Dialled));
        assert_eq!(told(&drain(&mut session)), "KEEPALIVE");
        keepalives += 1;
    }
    assert!((3..=4).contains(&keepalives), "{keepalives}");
    session.handle_timeout(now + 90 * SECOND);
    let outputs = drain(&mut session);
    assert_eq!(told(&outputs), "NOTIFICATION 4/0 close down");
    let Some(Output::Event(Event::Down(why))) = outputs.last() else { panic!() };
    assert_eq!(why.to_string(), "hold timer expired: nothing was heard from the peer for 90 s");
}

/// Without a hold time nobody is given up for silence, but only once there is a session.
#[test]
fn a_session_without_hold_time_lasts_and_a_connection_that_is_never_confirmed_does_not() {
    let now = zero();
    let without = Settings { hold_time: 0, ..settings(2, 1) };
    let mut session = in_state(now, State::OpenSent);
    session.handle_input(now, Input::Received(Origin::Dialled, &peers_open(&without)));
    assert_eq!(session.next_timeout(), Some(now + 240 * SECOND));
    session.handle_timeout(now + 240 * SECOND);
    assert_eq!(told(&drain(&mut session)), "KEEPALIVE NOTIFICATION 4/0 close failed");
    let mut session = in_state(now, State::OpenSent);
    session.handle_input(now, Input::Received(Origin::Dialled, &peers_open(&without)));
    session.handle_input(now, Input::Received(Origin::Dialled, &message::keepalive()));
    session.handle_input(now, Input::Flushed(Origin::Dialled));
    assert_eq!((session.state(), session.next_timeout()), (State::Established, None));
}

/// A machine that slept, or a clock that jumped: however late time is told, it is one expiry and a new try.
#[test]
fn a_jump_of_the_clock_ends_the_session_once_and_it_comes_back() {
    let now = zero();
    let mut session = in_state(now, State::Established);
    let woken = now + 86_400 * SECOND;
    session.handle_timeout(woken);
    assert_eq!(told(&drain(&mut session)), "NOTIFICATION 4/0 close down");
    session.handle_timeout(woken);
    assert_eq!(told(&drain(&mut session)), "");
    let next = session.next_timeout().unwrap();
    assert!(next <= woken + SECOND, "a session that was stable is tried soon");
    // Time that seems to go back changes nothing.
    session.handle_timeout(now);
    assert_eq!((told(&drain(&mut session)), session.next_timeout()), (String::new(), Some(next)));
    session.handle_timeout(next);
    assert_eq!(told(&drain(&mut session)), "dial");
}

#[test]
fn a_peer_that_reads_nothing_is_given_up() {
    let now = zero();
    let mut session = in_state(now, State::Established);
    session.handle_input(now, Input::Flushed(Origin::Dialled));
    session.handle_input(now, Input::Desired(&routes(1)));
    for second in (0..480).step_by(20) {
        let at = now + second * SECOND;
        session.handle_input(at, Input::Received(Origin::Dialled, &message::keepalive()));
        session.handle_timeout(at);
        assert_eq!(session.state(), State::Established, "after {second} s");
    }
    drain(&mut session);
    session.handle_input(now + 479 * SECOND, Input::Received(Origin::Dialled, &message::keepalive()));
    session.handle_timeout(now + 480 * SECOND);
    assert_eq!(told(&drain(&mut session)), "close down");
}

#[test]
fn failures_are_answered_by_longer_pauses_and_a_stable_session_ends_them() {
    let start = zero();
    let mut session = Session::new(start, settings(1, 2), 30 * SECOND, 7);
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let at = session.next_timeout().unwrap();
        session.handle_timeout(at);
        session.handle_input(at, Input::DialFailed("connection refused".to_owned()));
        assert_eq!(told(&drain(&mut session)), "dial failed");
        pauses.push(session.next_timeout().unwrap() - at);
    }
    for (pause, full) in pauses.iter().zip([1, 2, 4, 8, 16, 30, 30]) {
        let full = full * SECOND;
        assert!(*pause <= full && *pause >= full * 3 / 4, "{pause:?} of {full:?}");
    }
    let at = session.next_timeout().unwrap();
    session.handle_timeout(at);
    session.handle_input(at, Input::Connected(next_hops(1)));
    session.handle_input(at, Input::Received(Origin::Dialled, &peers_open(&settings(2, 1))));
    session.handle_input(at, Input::Received(Origin::Dialled, &message::keepalive()));
    let later = at + 60 * SECOND;
    session.handle_input(later, Input::Closed(Origin::Dialled, "reset".to_owned()));
    assert!(session.next_timeout().unwrap() - later <= SECOND);
}

#[test]
fn the_wrong_as_is_named_and_told() {
    let now = zero();
    let mut session = in_state(now, State::OpenSent);
    session.handle_input(now, Input::Received(Origin::Dialled, &peers_open(&settings(3, 1))));
    let outputs = drain(&mut session);
    assert_eq!(told(&outputs), "NOTIFICATION 2/2 close failed");
    let Some(Output::Event(Event::Failed(why))) = outputs.last() else { panic!() };
    assert!(why.to_string().starts_with("unexpected peer ASN 3, want 2"), "{why}");
    // The other way round the peer tells us.
    let mut session = in_state(now, State::OpenSent);
    let refusal = message::notification(&Notification::new(Code::BAD_PEER_AS));
    session.handle_input(now, Input::Received(Origin::Dialled, &refusal));
    let Some(Output::Event(Event::Failed(why))) = drain(&mut session).pop() else { panic!() };
    assert_eq!(
        why.to_string(),
        "the peer sent NOTIFICATION OPEN Message Error: Bad Peer AS: it expects another AS number of this \
         node than myASN (or localASN)"
    );
}

#[test]
fn peers_are_told_apart_by_as() {
    let accepts = |peer_asn, asn: u32, identifier: u8| {
        let ours = Settings { peer_asn, ..settings(1, 1) };
        let theirs = settings(asn, 1).open(next_hops(identifier), false);
        ours.negotiate(&theirs, next_hops(1)).map(|it| it.peer_asn)
    };
    assert_eq!(accepts(PeerAsn::Internal, 1, 2), Ok(Asn(1)));
    assert_eq!(accepts(PeerAsn::External, 70_000, 2), Ok(Asn(70_000)));
    assert_eq!(accepts(PeerAsn::Exactly(Asn(70_000)), 70_000, 2), Ok(Asn(70_000)));
    let wrong = |got, want| Err(Ended::WrongAsn { got: Asn(got), want });
    assert_eq!(accepts(PeerAsn::Internal, 2, 2), wrong(2, PeerAsn::Internal));
    assert_eq!(accepts(PeerAsn::External, 1, 2), wrong(1, PeerAsn::External));
    assert_eq!(accepts(PeerAsn::External, 0, 2), wrong(0, PeerAsn::External));
    assert_eq!(accepts(PeerAsn::Internal, 1, 1), Err(Ended::SameIdentifier));
    assert_eq!(accepts(PeerAsn::External, 2, 1), Ok(Asn(2)), "another AS may have the same identifier");
}

#[test]
fn families_are_those_that_both_sides_offer() {
    let negotiated = |ours: &[Family], theirs: Option<&[Family]>| {
        let families = |it: &[Family]| it.iter().copied().collect();
        let ours = Settings { families: families(ours), ..settings(1, 2) };
        let mut open = Settings { families: families(theirs.unwrap_or_default()), ..settings(2, 1) }
            .open(next_hops(2), false);
        open.identifier = Ipv4Addr::new(9, 9, 9, 9);
        ours.negotiate(&open, next_hops(1)).unwrap().families().collect::<Vec<_>>()
    };
    let [v4, v6] = Family::ALL;
    assert_eq!(negotiated(&[v4, v6], Some(&[v6])), [v6]);
    assert_eq!(negotiated(&[v4], Some(&[v4, v6])), [v4]);
    assert_eq!(negotiated(&[v4], Some(&[v6])), []);
    assert_eq!(negotiated(&[v4, v6], None), [v4], "a speaker without multiprotocol carries IPv4");
}

#[test]
fn stopping_says_goodbye_or_nothing() {
    let now = zero();
    let cease = || Notification::shutdown("the speaker ends");
    let (said, eased) = (|| Farewell::Said(cease()), || Farewell::Eased(cease()));
    for (state, farewell, expected) in [
        (State::Idle, said(), ""),
        (State::Connect, said(), "close"),
        (State::Connect, eased(), "close"),
        (State::OpenSent, said(), "NOTIFICATION 6/2 close"),
        (State::OpenConfirm, eased(), "NOTIFICATION 6/2 close"),
        (State::Established, said(), "NOTIFICATION 6/2 close down"),
        // Nothing was announced, so nobody has to look for another path.
        (State::Established, eased(), "NOTIFICATION 6/2 close down"),
        (State::Established, Farewell::Silent, "close down"),
    ] {
        let mut session = in_state(now, state);
        session.handle_input(now, Input::Stop(farewell));
        assert_eq!(told(&drain(&mut session)), expected, "{state}");
        assert!(session.is_stopped() && session.next_timeout().is_none());
        session.handle_timeout(now + 3600 * SECOND);
        assert_eq!(told(&drain(&mut session)), "");
    }
}

#[test]
fn leaving_asks_for_other_paths_then_withdraws_then_says_goodbye() {
    const SHUTDOWN: [u8; 4] = [0xff, 0xff, 0, 0];
    for (local, preference) in [(1, false), (2, true)] {
        let now = zero();
        let mut session = Session::new(now, settings(local, 2), 30 * SECOND, 0);
        session.handle_timeout(now);
        session.handle_input(now, Input::Connected(next_hops(1)));
        session.handle_input(now, Input::Received(Origin::Dialled, &peers_open(&settings(2, local))));
        session.handle_input(now, Input::Desired(&routes(2)));
        session.handle_input(now, Input::Received(Origin::Dialled, &message::keepalive()));
        drain(&mut session);
        let farewell = || Farewell::Eased(Notification::shutdown("the node leaves"));
        session.handle_input(now, Input::Stop(farewell()));
        let outputs = drain(&mut session);
        assert_eq!(told(&outputs), "UPDATE");
        let [Output::Write(_, update)] = outputs.as_slice() else { panic!() };
        let has = |attribute: &[u8]| update.windows(attribute.len()).any(|it| it == attribute);
        assert!(has(&[&[0xc0, 8, 4][..], &SHUTDOWN].concat()));
        assert_eq!(has(&[0x40, 5, 4, 0, 0, 0, 0]), preference, "LOCAL_PREF 0 inside the own AS");
        // Meanwhile the session is a session: it refreshes, follows the plan, and is asked only once.
        session.handle_input(now, Input::Stop(farewell()));
        session.handle_input(now, Input::Desired(&routes(3)));
        session.handle_input(now, Input::Received(Origin::Dialled, &message::frame(5, &[0, 1, 0, 1])));
        let outputs = drain(&mut session);
        assert_eq!(told(&outputs), "UPDATE UPDATE");
        let asks = |it: &Output| matches!(it, Output::Write(_, it) if it.windows(4).any(|it| it == SHUTDOWN));
        assert!(outputs.iter().all(asks));
        let at = session.next_timeout().unwrap();
        session.handle_timeout(at);
        let outputs = drain(&mut session);
        assert_eq!(told(&outputs), "UPDATE NOTIFICATION 6/2 close down");
        let Some(Output::Write(_, withdrawal)) = outputs.first() else { panic!() };
        assert_eq!(withdrawal[19..21], [0, 15], "three routes of five octets are withdrawn");
        assert!(session.is_stopped());
    }
}

#[test]
fn graceful_restart_says_once_that_the_speaker_is_back() {
    let now = zero();
    let ours = Settings { graceful_restart: Some(120), ..settings(1, 2) };
    let mut session = Session::new(now, ours, 30 * SECOND, 0);
    let mut opens = Vec::new();
    for _ in 0..2 {
        let at = session.next_timeout().unwrap();
        session.handle_timeout(at);
        session.handle_input(at, Input::Connected(next_hops(1)));
        session.handle_input(at, Input::Received(Origin::Dialled, &peers_open(&settings(2, 1))));
        session.handle_input(at, Input::Received(Origin::Dialled, &message::keepalive()));
        session.handle_input(at, Input::Closed(Origin::Dialled, "reset".to_owned()));
        opens.extend(drain(&mut session).into_iter().find_map(|output| match output {
            Output::Write(_, bytes) if bytes[18] == 1 => Some(bytes),
            _ => None,
        }));
    }
    // Code 64, 10 octets, the restart bit, 120 s, both families with forwarding kept.
    let capability = |flags| [64, 10, flags, 120, 0, 1, 1, 0x80, 0, 2, 1, 0x80];
    let has = |open: &[u8], flags| open.windows(12).any(|it| it == capability(flags));
    assert!(has(&opens[0], 0x80) && has(&opens[1], 0));
}
