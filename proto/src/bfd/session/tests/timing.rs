//! When packets leave and when silence is too long.

use super::*;

/// The times at which packets leave until `end`, with nothing heard.
fn departures(session: &mut Session, mut now: Instant, end: Instant) -> Vec<Instant> {
    let mut times = Vec::new();
    while let Some(at) = session.next_timeout().filter(|at| *at <= end) {
        now = now.max(at);
        session.handle_timeout(now);
        times.extend(sent(session).iter().map(|_| now));
    }
    times
}

fn gaps(times: &[Instant]) -> impl Iterator<Item = Duration> {
    times.windows(2).map(|pair| pair[1] - pair[0])
}

/// RFC 5880 §6.8.3, §6.8.7.
#[test]
fn who_is_not_up_sends_about_once_a_second() {
    let now = zero();
    let mut session = Session::new(now, number(1), settings(), 7);
    let times = departures(&mut session, now, now + 20_000 * MS);
    assert_eq!(times[0], now);
    assert!(gaps(&times).all(|gap| gap >= 750 * MS && gap <= 1000 * MS));
    assert!(gaps(&times).any(|gap| gap != gaps(&times).next().unwrap()), "jitter");
}

/// RFC 5880 §6.8.2, §6.8.7: the slower wish of both, less a quarter at most.
#[test]
fn who_is_up_sends_as_both_agreed() {
    let now = zero();
    let mut session = session_in(State::Up, now, settings());
    let end = now + 800 * MS;
    let times = departures(&mut session, now, end);
    assert!(times.len() >= 2 && gaps(&times).all(|gap| gap >= 225 * MS && gap <= 300 * MS));
    let slower = ControlPacket { required_min_rx: 500 * MS, ..says(State::Up) };
    hears(&mut session, end, slower);
    assert_eq!(session.transmit_interval(), 500 * MS);
    let none = ControlPacket { required_min_rx: Duration::ZERO, ..says(State::Up) };
    hears(&mut session, end, none);
    assert!(departures(&mut session, end, end + 200 * MS).is_empty(), "it wants nothing periodic");
}

/// RFC 5880 §6.8.3: a wish for more is honoured from the last packet on.
#[test]
fn a_wish_for_more_is_honoured_at_once() {
    let now = zero();
    let mut session = session_in(State::Up, now, Settings { transmit_interval: 10 * MS, ..settings() });
    hears(&mut session, now, ControlPacket { required_min_rx: 5_000 * MS, ..says(State::Up) });
    session.handle_timeout(now);
    drain(&mut session);
    let later = now + 200 * MS;
    hears(&mut session, later, ControlPacket { required_min_rx: 50 * MS, ..says(State::Up) });
    session.handle_timeout(later);
    assert_eq!(sent(&mut session).len(), 1, "the last one is longer ago than the new interval");
}

/// RFC 5880 §6.8.4: the other side's multiplier, the slower wish of both.
#[test]
fn silence_counts_by_the_other_sides_multiplier() {
    let now = zero();
    let mult = |mult| NonZeroU8::new(mult).unwrap();
    for (theirs, multiplier, expected) in [(100, 3, 900), (500, 3, 1500), (100, 5, 1500)] {
        let mut session = session_in(State::Up, now, settings());
        let packet =
            ControlPacket { desired_min_tx: theirs * MS, detect_mult: mult(multiplier), ..says(State::Up) };
        hears(&mut session, now, packet);
        assert_eq!(session.detection_time(), Some(expected * MS));
        session.handle_timeout(now + expected * MS - MS);
        assert_eq!(session.state(), State::Up);
        session.handle_timeout(now + expected * MS);
        assert_eq!(session.state(), State::Down);
    }
}

/// RFC 5880 §6.8.1: the discriminator is forgotten with the other side.
#[test]
fn whoever_is_silent_for_long_is_forgotten() {
    let now = zero();
    let mut session = session_in(State::Up, now, settings());
    session.handle_timeout(now + 900 * MS);
    assert!(sent(&mut session).iter().all(|packet| packet.your_discriminator.is_none()));
    assert_eq!(session.detection_time(), None);
}

/// RFC 5880 §6.5, §6.8.3: the first change comes with the session, and needs an answer.
#[test]
fn who_comes_up_polls_until_it_is_answered() {
    let now = zero();
    let mut session = session_in(State::Init, now, settings());
    hears(&mut session, now, says(State::Up));
    let packets = sent(&mut session);
    assert!(packets.len() == 1 && packets[0].poll && packets[0].desired_min_tx == 300 * MS);
    let next = session.next_timeout().unwrap();
    session.handle_timeout(next);
    assert!(sent(&mut session)[0].poll, "not answered yet");
    hears(&mut session, next, ControlPacket { is_final: true, ..says(State::Up) });
    session.handle_timeout(session.next_timeout().unwrap());
    assert!(!sent(&mut session)[0].poll);
}

/// RFC 5880 §6.8.3: the own packets become rarer, and rarer ones are waited for, only as the other side
/// knows it.
#[test]
fn an_edit_takes_force_without_a_false_alarm_on_either_side() {
    let now = zero();
    let mut session = session_in(State::Up, now, settings());
    let slower = Settings { transmit_interval: 900 * MS, receive_interval: 100 * MS, ..settings() };
    session.handle_input(now, Input::Settings(slower));
    assert_eq!(session.transmit_interval(), 300 * MS, "until the other side knows");
    assert_eq!(session.detection_time(), Some(900 * MS), "until the other side knows");
    let next = session.next_timeout().unwrap();
    session.handle_timeout(next);
    let packet = sent(&mut session)[0];
    assert!(packet.poll && packet.desired_min_tx == 900 * MS && packet.required_min_rx == 100 * MS);
    hears(&mut session, next, ControlPacket { is_final: true, ..says(State::Up) });
    assert_eq!(session.transmit_interval(), 900 * MS);
    assert_eq!(session.detection_time(), Some(300 * MS));
    // The other way it is at once.
    session.handle_input(next, Input::Settings(settings()));
    assert_eq!(session.transmit_interval(), 300 * MS);
    assert_eq!(session.detection_time(), Some(900 * MS));
    assert_eq!(session.state(), State::Up);
}

/// RFC 5880 §6.8.6: a poll is answered at once, and not with a poll.
#[test]
fn a_poll_is_answered_at_once() {
    let now = zero();
    let mut session = session_in(State::Up, now, settings());
    session.handle_input(now, Input::Settings(Settings { receive_interval: MS, ..settings() }));
    hears(&mut session, now, ControlPacket { poll: true, ..says(State::Up) });
    let packets = sent(&mut session);
    assert!(packets.len() == 1 && packets[0].is_final && !packets[0].poll, "{packets:?}");
}

/// RFC 5880 §6.8.16.
#[test]
fn who_is_taken_down_says_so_until_it_must_have_been_heard() {
    let now = zero();
    let mut session = session_in(State::Up, now, Settings { receive_interval: 2_000 * MS, ..settings() });
    session.handle_input(now, Input::AdminDown);
    let said = sent(&mut session);
    assert!(said.len() == 1 && said[0].state == State::AdminDown);
    assert!(!session.is_stopped(now));
    let end = now + 6_000 * MS;
    let mut again = 0;
    let mut at = now;
    while !session.is_stopped(at) {
        at = session.next_timeout().unwrap();
        session.handle_timeout(at);
        again += sent(&mut session).len();
    }
    assert!(at == end && (5..=8).contains(&again), "{again}");
    hears(&mut session, end, ControlPacket { poll: true, ..says(State::Down) });
    session.handle_timeout(end + 5_000 * MS);
    assert!(sent(&mut session).is_empty());
}
