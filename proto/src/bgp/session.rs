//! The session with one peer: the state machine of RFC 4271 §8 for a speaker that dials.
//!
//! ```text
//! Connected · DialFailed · Received · Closed ─┐               ┌─> Dial · Write(bytes) · Close
//! PathDown · PathUp (BFD) ────────────────────┤               │
//! Desired(routes) · Flushed · Stop ───────────┼─> Session ────┤
//! handle_timeout ─────────────────────────────┘  state+timers └─> Event(Up · Down · Failed · …)
//!
//! Idle ──retry time──> Connect ──Connected──> OpenSent ──OPEN──> OpenConfirm ──KEEPALIVE──> Established
//!  ^                      │                      │                    │                         │
//!  └──────────────────────┴──── any failure: NOTIFICATION where one is due, Close, pause ───────┘
//! ```
//!
//! A state owns its data, so nothing of an old connection outlives it. `Active` of the RFC needs a
//! listener and is not there; nor is collision, which needs two connections.
//!
//! The driver owns the one connection: it dials, reads and writes as told, and after `Close` reports
//! nothing more of it. Desired routes are conflated: the latest ones count. They are to be given only
//! while everything written before is out, which bounds what waits for a peer that reads slowly.

mod ended;
mod established;
mod exchange;
mod leaving;
mod phase;
mod received;
mod settings;

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::message::{self, Inbox, Message};
use super::notification::{Code, Notification};
use super::timers;
use super::{AdjRibOut, NextHops, Prefix, Unsent};
use crate::jitter::Jitter;
pub use ended::Ended;
use established::Established;
pub use exchange::{Event, Farewell, Input, Output};
pub use phase::State;
use phase::{Connection, Phase};
pub use received::MOST as MOST_RECEIVED;
pub use settings::{Negotiated, PeerAsn, Settings};

/// The session.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    phase: Phase,
    desired: Arc<AdjRibOut>,
    jitter: Jitter,
    /// Tries in a row that led to no stable session.
    failures: u32,
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
            desired: Arc::default(),
            jitter: Jitter::new(seed),
            failures: 0,
            longest_retry,
            returned: false,
            outputs: VecDeque::new(),
            updates_sent: 0,
        }
    }

    /// Takes what happened at `now`.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        let idle = Phase::Idle { until: None };
        self.phase = match (mem::replace(&mut self.phase, idle), input) {
            (phase, Input::Desired(desired)) => {
                self.desired = Arc::clone(desired);
                self.announce(now, phase)
            }
            (phase, Input::Stop(farewell)) => self.stop(now, phase, farewell),
            // Nothing of what was begun arrives.
            (Phase::Connect { .. }, Input::PathDown(why)) => {
                self.outputs.push_back(Output::Close);
                self.fail(now, Ended::PathDown(why))
            }
            (
                phase @ (Phase::OpenSent { .. } | Phase::OpenConfirm(_) | Phase::Established(_)),
                Input::PathDown(why),
            ) => self.refuse(now, phase, Ended::PathDown(why)),
            // The pause was for a peer that could not be reached.
            (Phase::Idle { until: Some(_) }, Input::PathUp) => Phase::Idle { until: Some(now) },
            (Phase::Connect { .. }, Input::Connected(next_hops)) => self.open(now, next_hops),
            (Phase::Connect { .. }, Input::DialFailed(why)) => self.fail(now, Ended::DialFailed(why)),
            // It opened although nobody waits for it any more.
            (phase @ Phase::Idle { .. }, Input::Connected(_)) => {
                self.outputs.push_back(Output::Close);
                phase
            }
            (
                mut phase @ (Phase::OpenSent { .. } | Phase::OpenConfirm(_) | Phase::Established(_)),
                Input::Received(bytes),
            ) => {
                if let Some(connection) = phase.connection() {
                    connection.inbox.push(bytes);
                }
                self.receive(now, phase)
            }
            (Phase::Connect { .. } | Phase::OpenSent { .. } | Phase::OpenConfirm(_), Input::Closed(why)) => {
                self.fail(now, Ended::Closed(why))
            }
            (Phase::Established(session), Input::Closed(why)) => self.down(now, &session, Ended::Closed(why)),
            (mut phase, Input::Flushed) => {
                if let Some(connection) = phase.connection() {
                    connection.unflushed = None;
                }
                phase
            }
            // Of a connection that this side has closed, or a second one, which the driver never has; and what
            // BFD says of a path that nothing is on, or that works.
            (
                phase @ Phase::Idle { .. },
                Input::DialFailed(_)
                | Input::Received(_)
                | Input::Closed(_)
                | Input::PathDown(_)
                | Input::PathUp,
            )
            | (phase @ Phase::Connect { .. }, Input::Received(_) | Input::PathUp)
            | (
                phase @ (Phase::OpenSent { .. } | Phase::OpenConfirm(_) | Phase::Established(_)),
                Input::DialFailed(_) | Input::Connected(_) | Input::PathUp,
            ) => phase,
        };
    }

    /// Takes the time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let idle = Phase::Idle { until: None };
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        self.phase = match mem::replace(&mut self.phase, idle) {
            Phase::Idle { until } if due(until) => {
                self.outputs.push_back(Output::Dial);
                Phase::Connect { deadline: now + timers::DIAL }
            }
            Phase::Connect { deadline } if deadline <= now => {
                self.outputs.push_back(Output::Close);
                self.fail(now, Ended::DialTimedOut)
            }
            Phase::OpenSent { deadline, .. } if deadline <= now => {
                self.end(Some(&Notification::new(Code::HOLD_TIMER_EXPIRED)));
                self.fail(now, Ended::HoldTimerExpired(timers::OPEN_HOLD))
            }
            Phase::OpenConfirm(mut session) => match session.expired(now) {
                Some(ended) => {
                    self.end(ended.notification().as_ref());
                    self.fail(now, ended)
                }
                None => {
                    self.keep_alive(now, &mut session);
                    Phase::OpenConfirm(session)
                }
            },
            Phase::Established(mut session) => match session.expired(now) {
                Some(ended) => {
                    self.end(ended.notification().as_ref());
                    self.down(now, &session, ended)
                }
                None if session.leaves_now(now) => self.leave(now, session),
                None => {
                    self.keep_alive(now, &mut session);
                    Phase::Established(session)
                }
            },
            phase @ (Phase::Idle { .. } | Phase::Connect { .. } | Phase::OpenSent { .. }) => phase,
        };
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Idle { until } => *until,
            Phase::Connect { deadline } | Phase::OpenSent { deadline, .. } => Some(*deadline),
            Phase::OpenConfirm(session) | Phase::Established(session) => session.next_timeout(),
        }
    }

    /// Pauses between tries are no longer than this from now on.
    pub fn set_longest_retry(&mut self, longest_retry: Duration) {
        self.longest_retry = longest_retry;
    }

    /// The next effect.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The state it is in.
    pub fn state(&self) -> State {
        self.phase.state()
    }

    /// Whether it was stopped and will do nothing more.
    pub fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Idle { until: None })
    }

    /// How many routes the peer has from us.
    pub fn announced(&self) -> usize {
        self.established().map_or(0, |session| session.sent.len())
    }

    /// What both sides agreed on, while the session is established.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.established().map(|session| &session.negotiated)
    }

    /// How many routes the peer announces, [`MOST_RECEIVED`] for that many or more.
    pub fn received(&self) -> usize {
        self.established().map_or(0, |session| session.received.count())
    }

    /// The routes that it should have but does not get, and why.
    pub fn unsent(&self) -> Option<&BTreeMap<Prefix, Unsent>> {
        self.established().map(|session| &session.unsent)
    }

    fn established(&self) -> Option<&Established> {
        match &self.phase {
            Phase::Established(session) => Some(session),
            Phase::Idle { .. } | Phase::Connect { .. } | Phase::OpenSent { .. } | Phase::OpenConfirm(_) => {
                None
            }
        }
    }

    /// UPDATEs sent since this session exists.
    pub fn updates_sent(&self) -> u64 {
        self.updates_sent
    }

    fn open(&mut self, now: Instant, next_hops: NextHops) -> Phase {
        let open = self.settings.open(next_hops, !self.returned);
        self.outputs.push_back(Output::Write(message::open(&open)));
        let connection = Connection { inbox: Inbox::default(), next_hops, unflushed: Some(now) };
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
                self.outputs.push_back(Output::Close);
                self.down(now, &session, Ended::Notified { notification })
            }
            (Phase::OpenSent { .. } | Phase::OpenConfirm(_), Message::Notification(notification)) => {
                self.outputs.push_back(Output::Close);
                self.fail(now, Ended::Notified { notification })
            }
            (Phase::OpenSent { connection, deadline }, Message::Open(open)) => {
                match self.settings.negotiate(&open, connection.next_hops) {
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
        self.write(now, &mut session, message::keepalive());
        session.keepalive_sent(now, &mut self.jitter);
        Phase::OpenConfirm(session)
    }

    fn establish(&mut self, now: Instant, session: Box<Established>) -> Phase {
        self.returned = true;
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
        self.outputs.push_back(Output::Write(message));
    }

    /// Ends the session because of what the peer did.
    fn refuse(&mut self, now: Instant, phase: Phase, ended: Ended) -> Phase {
        self.end(ended.notification().as_ref());
        match phase {
            Phase::Established(session) => self.down(now, &session, ended),
            Phase::Idle { .. } | Phase::Connect { .. } | Phase::OpenSent { .. } | Phase::OpenConfirm(_) => {
                self.fail(now, ended)
            }
        }
    }

    fn end(&mut self, farewell: Option<&Notification>) {
        self.outputs.extend(farewell.map(|it| Output::Write(message::notification(it))));
        self.outputs.push_back(Output::Close);
    }

    fn fail(&mut self, now: Instant, ended: Ended) -> Phase {
        self.outputs.push_back(Output::Event(Event::Failed(ended)));
        self.pause(now)
    }

    fn down(&mut self, now: Instant, session: &Established, ended: Ended) -> Phase {
        if now.saturating_duration_since(session.since) >= timers::STABLE {
            self.failures = 0;
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
