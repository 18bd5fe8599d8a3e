//! The session with one peer: the state machine of RFC 4271 §8.
//!
//! ```text
//! Connected · DialFailed · Accepted ──────┐               ┌─> Dial · Accept · Refuse
//! Received · Closed · Flushed (of either) ┤               ├─> Write(bytes) · Close (of either)
//! PathDown · PathUp (BFD) ────────────────┼─> Session ────┤
//! Desired(routes) · Stop ─────────────────┤  state+timers └─> Event(Up · Down · Failed · …)
//! handle_timeout ─────────────────────────┘
//!
//! Idle ──retry time──> Connect ──Connected──> OpenSent ──OPEN──> OpenConfirm ──KEEPALIVE──> Established
//!  ^ └────────────────────────Accepted──────────^                    │                         │
//!  └──────────────────────┴──── any failure: NOTIFICATION where one is due, Close, pause ───────┘
//! ```
//!
//! A state owns its data, so nothing of an old connection outlives it. There are two connections at most:
//! one that this side dialled and one that the peer opened, until it is clear which stays
//! ([`collision`]). `Active` of the RFC is Idle here: the peer may connect during a pause.
//!
//! The driver owns the connections: it dials, reads and writes as told, and after `Close` reports
//! nothing more of that one. Desired routes are conflated: the latest ones count. They are to be given only
//! while everything written before is out, which bounds what waits for a peer that reads slowly.

mod collision;
mod ended;
mod established;
mod exchange;
mod leaving;
mod look;
mod phase;
mod received;
mod settings;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::message::{self, Inbox, Message};
use super::notification::{Code, Notification};
use super::timers;
use super::{AdjRibOut, NextHops};
use crate::jitter::Jitter;
use collision::{Damping, Slot};
pub use ended::Ended;
use established::Established;
pub use exchange::{Event, Farewell, Input, Origin, Output};
pub use phase::State;
use phase::{Connection, Phase};
pub use received::MOST as MOST_RECEIVED;
pub use settings::{Negotiated, PeerAsn, Settings};

/// The session.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    /// Of the connection that leads, or what is waited for.
    phase: Phase,
    /// Of a second connection, until it is clear which stays: OpenSent or OpenConfirm.
    rival: Option<Phase>,
    desired: Arc<AdjRibOut>,
    jitter: Jitter,
    /// Tries in a row that led to no stable session.
    failures: u32,
    damping: Damping,
    longest_retry: Duration,
    /// Whether a session was established since this one exists (RFC 4724: the restart is over then).
    returned: bool,
    outputs: VecDeque<Output>,
    updates_sent: u64,
}

impl Session {
    /// A session that dials at `now`, and after failures with pauses of at most `longest_retry`.
    pub fn new(now: Instant, settings: Settings, longest_retry: Duration, seed: u64) -> Self {
        Self {
            settings,
            phase: Phase::Idle { until: Some(now) },
            rival: None,
            desired: Arc::default(),
            jitter: Jitter::new(seed),
            failures: 0,
            damping: Damping::default(),
            longest_retry,
            returned: false,
            outputs: VecDeque::new(),
            updates_sent: 0,
        }
    }

    /// Takes what happened at `now`.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Accepted(next_hops) => self.accept(now, next_hops),
            Input::Received(origin, bytes) => self.on(origin, |session, mut phase| {
                let Some(connection) = phase.connection() else { return phase };
                connection.inbox.push(bytes);
                session.receive(now, phase)
            }),
            Input::Closed(origin, why) => self.on(origin, |session, phase| match phase {
                Phase::Idle { .. } => phase,
                Phase::Connect { .. } | Phase::OpenSent { .. } | Phase::OpenConfirm(_) => {
                    session.fail(now, Ended::Closed(why))
                }
                Phase::Established(established) => session.down(now, &established, Ended::Closed(why)),
            }),
            Input::Flushed(origin) => self.on(origin, |_, mut phase| {
                if let Some(connection) = phase.connection() {
                    connection.unflushed = None;
                }
                phase
            }),
            Input::Desired(desired) => {
                self.desired = Arc::clone(desired);
                let phase = self.lift();
                self.phase = self.announce(now, phase);
            }
            Input::Stop(farewell) => {
                self.give_up_rival(farewell.said());
                let phase = self.lift();
                self.phase = self.stop(now, phase, farewell);
            }
            Input::PathDown(why) => {
                let ended = Ended::PathDown(why);
                self.give_up_rival(ended.notification().as_ref());
                self.phase = match self.lift() {
                    phase @ Phase::Idle { .. } => phase,
                    // Nothing of what was begun arrives.
                    Phase::Connect { .. } => {
                        self.outputs.push_back(Output::Close(Origin::Dialled));
                        self.fail(now, ended)
                    }
                    phase @ (Phase::OpenSent { .. } | Phase::OpenConfirm(_) | Phase::Established(_)) => {
                        self.refuse(now, phase, ended)
                    }
                };
            }
            Input::PathUp => {
                // The pause was for a peer that could not be reached.
                if let Phase::Idle { until: Some(until) } = &mut self.phase {
                    *until = now;
                }
            }
            Input::Connected(next_hops) => match self.phase {
                Phase::Connect { .. } => self.phase = self.open(now, Origin::Dialled, next_hops),
                // It opened although nobody waits for it any more.
                Phase::Idle { .. } => self.outputs.push_back(Output::Close(Origin::Dialled)),
                Phase::OpenSent { .. } | Phase::OpenConfirm(_) | Phase::Established(_) => {}
            },
            Input::DialFailed(why) => {
                if matches!(self.phase, Phase::Connect { .. }) {
                    self.on(Origin::Dialled, |session, _| session.fail(now, Ended::DialFailed(why)));
                }
            }
        }
    }

    /// Takes the time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(rival) = self.rival.take() {
            let rival = self.tick(now, rival);
            self.put(Slot::Rival, rival);
        }
        let phase = self.lift();
        let phase = self.tick(now, phase);
        self.put(Slot::Leader, phase);
    }

    fn tick(&mut self, now: Instant, phase: Phase) -> Phase {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match phase {
            Phase::Idle { until } if due(until) => {
                self.outputs.push_back(Output::Dial);
                Phase::Connect { deadline: now + timers::DIAL }
            }
            Phase::Connect { deadline } if deadline <= now => {
                self.outputs.push_back(Output::Close(Origin::Dialled));
                self.fail(now, Ended::DialTimedOut)
            }
            Phase::OpenSent { connection, deadline } if deadline <= now => {
                self.end(connection.origin, Some(&Notification::new(Code::HOLD_TIMER_EXPIRED)));
                self.fail(now, Ended::HoldTimerExpired(timers::OPEN_HOLD))
            }
            Phase::OpenConfirm(mut session) => match session.expired(now) {
                Some(ended) => {
                    self.end(session.connection.origin, ended.notification().as_ref());
                    self.fail(now, ended)
                }
                None => {
                    self.keep_alive(now, &mut session);
                    Phase::OpenConfirm(session)
                }
            },
            Phase::Established(mut session) => match session.expired(now) {
                Some(ended) => {
                    self.end(session.connection.origin, ended.notification().as_ref());
                    self.down(now, &session, ended)
                }
                None if session.leaves_now(now) => self.leave(now, session),
                None => {
                    self.keep_alive(now, &mut session);
                    Phase::Established(session)
                }
            },
            phase @ (Phase::Idle { .. } | Phase::Connect { .. } | Phase::OpenSent { .. }) => phase,
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let rival = self.rival.as_ref().and_then(Phase::next_timeout);
        self.phase.next_timeout().into_iter().chain(rival).min()
    }

    /// Pauses between tries are no longer than this from now on.
    pub fn set_longest_retry(&mut self, longest_retry: Duration) {
        self.longest_retry = longest_retry;
    }

    /// The next effect.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn open(&mut self, now: Instant, origin: Origin, next_hops: NextHops) -> Phase {
        let open = self.settings.open(next_hops, !self.returned);
        self.outputs.push_back(Output::Write(origin, message::open(&open)));
        let connection = Connection { origin, inbox: Inbox::default(), next_hops, unflushed: Some(now) };
        Phase::OpenSent { connection, deadline: now + timers::OPEN_HOLD }
    }

    /// Takes every whole message that has arrived.
    fn receive(&mut self, now: Instant, mut phase: Phase) -> Phase {
        loop {
            let four_octets = phase.four_octets();
            let Some(connection) = phase.connection() else { return phase };
            let message = match connection.inbox.next(four_octets) {
                Ok(Some(message)) => message,
                Ok(None) => return phase,
                Err(error) => return self.refuse(now, phase, Ended::BrokenRule(error)),
            };
            phase = self.take(now, phase, message);
        }
    }

    fn take(&mut self, now: Instant, phase: Phase, message: Message) -> Phase {
        let state = phase.state();
        match (phase, message) {
            // The peer closes; no answer to a NOTIFICATION (RFC 4271 §6).
            (Phase::Established(session), Message::Notification(notification)) => {
                self.outputs.push_back(Output::Close(session.connection.origin));
                self.down(now, &session, Ended::Notified { notification })
            }
            (
                mut phase @ (Phase::OpenSent { .. } | Phase::OpenConfirm(_)),
                Message::Notification(notification),
            ) => {
                self.outputs.extend(phase.connection().map(|it| Output::Close(it.origin)));
                self.fail(now, Ended::Notified { notification })
            }
            (Phase::OpenSent { connection, deadline }, Message::Open(open)) => {
                match self.settings.negotiate(&open, connection.next_hops) {
                    Ok(negotiated) if self.loses(connection.origin, &negotiated) => {
                        self.end(connection.origin, Some(&Notification::new(Code::COLLISION)));
                        Phase::Idle { until: None }
                    }
                    Ok(negotiated) => self.confirm(now, connection, negotiated),
                    Err(ended) => self.refuse(now, Phase::OpenSent { connection, deadline }, ended),
                }
            }
            (Phase::OpenConfirm(mut session), Message::Keepalive) => {
                session.heard(now);
                self.establish(now, session)
            }
            (Phase::Established(mut session), Message::Keepalive) => {
                session.heard(now);
                Phase::Established(session)
            }
            (Phase::Established(mut session), Message::Update(update)) => {
                session.heard(now);
                session.received.take(&update);
                self.outputs.extend(update.malformed.map(|why| Output::Event(Event::Ignored(why))));
                Phase::Established(session)
            }
            (Phase::Established(mut session), Message::RouteRefresh(family)) => {
                session.heard(now);
                session.sent.retain(|prefix, _| Some(prefix.family()) != family);
                self.announce(now, Phase::Established(session))
            }
            (
                phase @ Phase::OpenSent { .. },
                Message::Update(_) | Message::Keepalive | Message::RouteRefresh(_),
            )
            | (
                phase @ Phase::OpenConfirm(_),
                Message::Open(_) | Message::Update(_) | Message::RouteRefresh(_),
            )
            | (phase @ Phase::Established(_), Message::Open(_)) => {
                self.refuse(now, phase, Ended::OutOfTurn(state))
            }
            // Without a connection there are no messages.
            (phase @ (Phase::Idle { .. } | Phase::Connect { .. }), _) => phase,
        }
    }

    fn confirm(&mut self, now: Instant, connection: Connection, negotiated: Negotiated) -> Phase {
        let mut session = Box::new(Established::new(now, connection, negotiated));
        session.must_be_confirmed(now);
        self.write(now, &mut session, message::keepalive());
        session.keepalive_sent(now, &mut self.jitter);
        Phase::OpenConfirm(session)
    }

    fn establish(&mut self, now: Instant, session: Box<Established>) -> Phase {
        self.returned = true;
        self.stop_dialling();
        self.outputs.push_back(Output::Event(Event::Up(session.negotiated.clone())));
        let mut phase = self.announce(now, Phase::Established(session));
        if let Phase::Established(session) = &mut phase {
            for message in session.negotiated.export.end_of_rib() {
                self.write(now, session, message);
            }
        }
        phase
    }

    /// Sends what differs from the desired routes.
    fn announce(&mut self, now: Instant, phase: Phase) -> Phase {
        let Phase::Established(mut session) = phase else { return phase };
        let export = &session.negotiated.export;
        let (sendable, unsent) = match session.leaving {
            Some(_) => export.sendable(&leaving::eased(&self.desired)),
            None => export.sendable(&self.desired),
        };
        let updates = export.updates(&session.sent, &sendable);
        self.updates_sent += updates.len() as u64;
        for update in updates {
            self.write(now, &mut session, update);
        }
        (session.sent, session.unsent) = (sendable, unsent);
        Phase::Established(session)
    }

    fn keep_alive(&mut self, now: Instant, session: &mut Established) {
        if session.keepalive_at.is_some_and(|at| at <= now) {
            self.write(now, session, message::keepalive());
            session.keepalive_sent(now, &mut self.jitter);
        }
    }

    fn write(&mut self, now: Instant, session: &mut Established, message: Vec<u8>) {
        session.connection.unflushed.get_or_insert(now);
        self.outputs.push_back(Output::Write(session.connection.origin, message));
    }

    /// Ends the session because of what the peer did.
    fn refuse(&mut self, now: Instant, mut phase: Phase, ended: Ended) -> Phase {
        if let Some(connection) = phase.connection() {
            self.end(connection.origin, ended.notification().as_ref());
        }
        match phase {
            Phase::Established(session) => self.down(now, &session, ended),
            Phase::Idle { .. } | Phase::Connect { .. } | Phase::OpenSent { .. } | Phase::OpenConfirm(_) => {
                self.fail(now, ended)
            }
        }
    }

    fn end(&mut self, origin: Origin, farewell: Option<&Notification>) {
        self.outputs.extend(farewell.map(|it| Output::Write(origin, message::notification(it))));
        self.outputs.push_back(Output::Close(origin));
    }

    fn fail(&mut self, now: Instant, ended: Ended) -> Phase {
        if !ended.is_of_dialling() && !ended.is_collision() {
            self.damping.broke(now, self.longest_retry);
        }
        match self.other().state() {
            // What came of it was decided on the other connection, or that one goes on.
            State::Established => Phase::Idle { until: None },
            State::Connect | State::OpenSent | State::OpenConfirm if ended.is_collision() => {
                Phase::Idle { until: None }
            }
            State::Connect | State::OpenSent | State::OpenConfirm => {
                self.outputs.push_back(Output::Event(Event::Failed(ended)));
                Phase::Idle { until: None }
            }
            State::Idle => {
                self.outputs.push_back(Output::Event(Event::Failed(ended)));
                self.pause(now)
            }
        }
    }

    fn down(&mut self, now: Instant, session: &Established, ended: Ended) -> Phase {
        if now.saturating_duration_since(session.since) >= timers::STABLE {
            self.failures = 0;
            self.damping = Damping::default();
        } else {
            self.damping.broke(now, self.longest_retry);
        }
        self.outputs.push_back(Output::Event(Event::Down(ended)));
        self.pause(now)
    }

    fn pause(&mut self, now: Instant) -> Phase {
        let pause = self.jitter.apply(timers::retry(self.failures, self.longest_retry));
        self.failures = self.failures.saturating_add(1);
        Phase::Idle { until: Some(now + pause) }
    }
}

#[cfg(test)]
mod tests;
