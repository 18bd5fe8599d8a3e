//! How a session ends for good.
//!
//! ```text
//! Stop(Silent) ──────────────────────────────────────────────> Close
//! Stop(Said) ──────────────────────────────> NOTIFICATION ───> Close
//! Stop(Eased) ─> GRACEFUL_SHUTDOWN ─ pause ─> withdrawals ─> NOTIFICATION ─> Close
//! ```

use std::sync::Arc;
use std::time::Instant;

use super::established::{Established, Leaving};
use super::{Ended, Farewell, Origin, Output, Phase, Session};
use crate::bgp::notification::Notification;
use crate::bgp::{AdjRibOut, Community, PathAttributes, timers};

impl Session {
    pub(super) fn stop(&mut self, now: Instant, phase: Phase, farewell: Farewell) -> Phase {
        let (said, eased) = match farewell {
            Farewell::Silent => (None, false),
            Farewell::Said(notification) => (Some(notification), false),
            Farewell::Eased(notification) => (Some(notification), true),
        };
        match phase {
            Phase::Idle { .. } => {}
            Phase::Connect { .. } => self.outputs.push_back(Output::Close(Origin::Dialled)),
            Phase::OpenSent { connection, .. } => self.end(connection.origin, said.as_ref()),
            Phase::OpenConfirm(session) => self.end(session.connection.origin, said.as_ref()),
            // What it was told first counts: the peer is being asked already.
            Phase::Established(session) if session.leaving.is_some() && eased => {
                return Phase::Established(session);
            }
            Phase::Established(mut session) if eased && !session.sent.is_empty() => {
                let at = now + timers::EASE;
                session.leaving = said.map(|farewell| Leaving { at, farewell });
                return self.announce(now, Phase::Established(session));
            }
            Phase::Established(session) => self.part(now, &session, said.as_ref()),
        }
        Phase::Idle { until: None }
    }

    /// The time that the peer had is over: nothing is announced any more, and then the session ends.
    pub(super) fn leave(&mut self, now: Instant, mut session: Box<Established>) -> Phase {
        let farewell = session.leaving.take().map(|it| it.farewell);
        self.desired = Arc::default();
        let phase = self.announce(now, Phase::Established(session));
        match farewell {
            Some(farewell) => self.stop(now, phase, Farewell::Said(farewell)),
            None => phase,
        }
    }

    fn part(&mut self, now: Instant, session: &Established, farewell: Option<&Notification>) {
        self.end(session.connection.origin, farewell);
        self.down(now, session, Ended::Stopped);
    }
}

/// The routes with the community GRACEFUL_SHUTDOWN, by which routers of other ASs prefer any other path
/// (RFC 8326 §4), and with the preference that does the same inside the own AS.
pub(super) fn eased(routes: &AdjRibOut) -> AdjRibOut {
    let ease = |attributes: &Arc<PathAttributes>| {
        let mut eased = PathAttributes::clone(attributes);
        eased.communities.insert(Community::GRACEFUL_SHUTDOWN);
        eased.local_preference = Some(0);
        Arc::new(eased)
    };
    routes.iter().map(|(prefix, attributes)| (*prefix, ease(attributes))).collect()
}
