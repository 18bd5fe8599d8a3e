//! What a session holds once the peer's OPEN is in.

use std::collections::BTreeMap;
use std::time::Instant;

use super::phase::Connection;
use super::received::Received;
use super::{Ended, Negotiated};
use crate::bgp::notification::Notification;
use crate::bgp::{AdjRibOut, Prefix, Unsent, timers};
use crate::jitter::Jitter;

#[derive(Debug)]
pub(super) struct Established {
    pub(super) connection: Connection,
    pub(super) negotiated: Negotiated,
    pub(super) since: Instant,
    hold_at: Option<Instant>,
    pub(super) keepalive_at: Option<Instant>,
    /// What the peer was sent.
    pub(super) sent: AdjRibOut,
    pub(super) unsent: BTreeMap<Prefix, Unsent>,
    /// What the peer sent.
    pub(super) received: Received,
    /// Set once the peer is asked to lead traffic elsewhere.
    pub(super) leaving: Option<Leaving>,
}

/// How a session that is about to end does it.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) at: Instant,
    pub(super) farewell: Notification,
}

impl Established {
    pub(super) fn new(now: Instant, connection: Connection, negotiated: Negotiated) -> Self {
        let mut session = Self {
            connection,
            negotiated,
            since: now,
            hold_at: None,
            keepalive_at: None,
            sent: AdjRibOut::new(),
            unsent: BTreeMap::new(),
            received: Received::default(),
            leaving: None,
        };
        session.heard(now);
        session
    }

    /// A connection that is not confirmed must not stay for ever, whatever hold time was agreed on.
    pub(super) fn must_be_confirmed(&mut self, now: Instant) {
        self.hold_at.get_or_insert(now + timers::OPEN_HOLD);
    }

    /// Something arrived: the peer is there.
    pub(super) fn heard(&mut self, now: Instant) {
        self.hold_at = self.negotiated.times.hold.map(|hold| now + hold);
    }

    pub(super) fn keepalive_sent(&mut self, now: Instant, jitter: &mut Jitter) {
        self.keepalive_at = self.negotiated.times.keepalive.map(|it| now + jitter.apply(it));
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let leaves_at = self.leaving.as_ref().map(|it| it.at);
        [self.hold_at, self.keepalive_at, self.send_hold_at(), leaves_at].into_iter().flatten().min()
    }

    pub(super) fn leaves_now(&self, now: Instant) -> bool {
        self.leaving.as_ref().is_some_and(|it| it.at <= now)
    }

    /// Why time ends the session, if it does.
    pub(super) fn expired(&self, now: Instant) -> Option<Ended> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.hold_at) {
            Some(Ended::HoldTimerExpired(self.negotiated.times.hold.unwrap_or(timers::OPEN_HOLD)))
        } else if due(self.send_hold_at()) {
            Some(Ended::SendHoldTimerExpired)
        } else {
            None
        }
    }

    fn send_hold_at(&self) -> Option<Instant> {
        Some(self.connection.unflushed? + self.negotiated.times.send_hold()?)
    }
}
