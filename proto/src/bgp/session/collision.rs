//! Two connections with one peer: both sides dialled (RFC 4271 §6.8).
//!
//! The session takes up the peer's connection beside its own until the OPENs say which stays: the one that
//! was opened by the side with the higher identifier. An established session stays whoever comes, unless the
//! peer said that it restarts gracefully: then its new connection means that the old one is dead (RFC 4724 §5).
//!
//! A peer whose connections break again and again is answered no sooner than it would be dialled
//! (DampPeerOscillations of RFC 4271 §8.1.1).

use std::mem;
use std::time::{Duration, Instant};

use super::{Ended, Negotiated, Notification, Origin, Output, Phase, Session};
use crate::bgp::notification::Code;
use crate::bgp::{NextHops, timers};

/// Which of the two.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    Leader,
    Rival,
}

/// So many connections may break in a row before the peer has to wait.
const PATIENCE: u32 = 3;

/// Connections that broke before the session was stable.
#[derive(Debug, Default)]
pub(super) struct Damping {
    broken: u32,
    until: Option<Instant>,
}

impl Damping {
    pub(super) fn broke(&mut self, now: Instant, longest: Duration) {
        self.broken = self.broken.saturating_add(1);
        let over = self.broken.checked_sub(PATIENCE);
        self.until = over.map(|it| now + timers::retry(it, longest));
    }

    fn refuses(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// Whose connection stays (RFC 4271 §6.8): that of the side with the higher identifier, or, with equal ones,
/// with the higher AS (RFC 6286 §2.3).
fn stays(local: &super::Settings, negotiated: &Negotiated) -> Origin {
    let ours = (negotiated.local_identifier, local.local_asn);
    let theirs = (negotiated.peer_identifier, negotiated.peer_asn);
    if ours > theirs { Origin::Dialled } else { Origin::Accepted }
}

impl Session {
    /// The peer has connected.
    pub(super) fn accept(&mut self, now: Instant, next_hops: NextHops) {
        if self.damping.refuses(now) {
            self.outputs.push_back(Output::Refuse);
            return;
        }
        let slot = match &self.phase {
            Phase::Idle { until: None } => None,
            Phase::Idle { until: Some(_) } => Some(Slot::Leader),
            Phase::Established(session) => {
                // What the peer dialled before this session was up has arrived by now.
                let is_new = now.saturating_duration_since(session.since) >= timers::DIAL;
                let restarted = is_new && session.negotiated.peer_restarts() && session.leaving.is_none();
                restarted.then_some(Slot::Leader)
            }
            // The peer has one connection of its own at a time: the older one is dead.
            Phase::OpenSent { connection, .. } if connection.origin == Origin::Accepted => Some(Slot::Leader),
            Phase::OpenConfirm(session) if session.connection.origin == Origin::Accepted => {
                Some(Slot::Leader)
            }
            Phase::Connect { .. } | Phase::OpenSent { .. } | Phase::OpenConfirm(_) => Some(Slot::Rival),
        };
        let replaced = match slot {
            None => {
                self.outputs.push_back(Output::Refuse);
                return;
            }
            Some(Slot::Leader) => Some(self.lift()),
            Some(Slot::Rival) => self.rival.take(),
        };
        if let Some(mut replaced) = replaced {
            self.outputs.extend(replaced.connection().map(|it| Output::Close(it.origin)));
            if let Phase::Established(session) = replaced {
                // The phase that follows is that of the new connection.
                self.down(now, &session, Ended::Replaced);
            }
        }
        self.outputs.push_back(Output::Accept);
        let phase = self.open(now, Origin::Accepted, next_hops);
        match slot {
            Some(Slot::Rival) => self.rival = Some(phase),
            Some(Slot::Leader) | None => self.phase = phase,
        }
    }

    /// Takes out the phase that leads.
    pub(super) fn lift(&mut self) -> Phase {
        mem::replace(&mut self.phase, Phase::Idle { until: None })
    }

    /// Does something with the phase of a connection. One that is not there was closed by this side.
    pub(super) fn on(&mut self, origin: Origin, act: impl FnOnce(&mut Self, Phase) -> Phase) {
        let (slot, phase) = if self.phase.origin() == Some(origin) {
            (Slot::Leader, self.lift())
        } else if let Some(rival) = self.rival.take_if(|it| it.origin() == Some(origin)) {
            (Slot::Rival, rival)
        } else {
            return;
        };
        let phase = act(self, phase);
        self.put(slot, phase);
    }

    /// Puts a phase back where it was, and has the one lead that came further.
    pub(super) fn put(&mut self, slot: Slot, phase: Phase) {
        match slot {
            Slot::Leader => self.phase = phase,
            Slot::Rival => self.rival = Some(phase).filter(|it| it.origin().is_some()),
        }
        let passed = matches!(self.rival, Some(Phase::Established(_)));
        let alone = matches!(self.phase, Phase::Idle { .. });
        if (passed || alone)
            && let Some(rival) = self.rival.take()
        {
            let before = mem::replace(&mut self.phase, rival);
            self.rival = Some(before).filter(|it| it.origin().is_some());
        }
    }

    /// The connection besides the one whose phase was taken out.
    pub(super) fn other(&self) -> &Phase {
        self.rival.as_ref().unwrap_or(&self.phase)
    }

    /// Whether a connection, now that the peer has said who it is, gives way to the other one. If not, the
    /// other one may.
    pub(super) fn loses(&mut self, origin: Origin, negotiated: &Negotiated) -> bool {
        match self.other() {
            Phase::Idle { .. } | Phase::Connect { .. } | Phase::OpenSent { .. } => false,
            Phase::Established(_) => true,
            Phase::OpenConfirm(_) if stays(&self.settings, negotiated) != origin => true,
            Phase::OpenConfirm(_) => {
                let other = match self.rival.take() {
                    Some(rival) => rival,
                    None => self.lift(),
                };
                if let Some(origin) = other.origin() {
                    self.end(origin, Some(&Notification::new(Code::COLLISION)));
                }
                false
            }
        }
    }

    /// The other connection is established: nobody waits for this one.
    pub(super) fn stop_dialling(&mut self) {
        if matches!(self.phase, Phase::Connect { .. }) {
            self.outputs.push_back(Output::Close(Origin::Dialled));
            self.phase = Phase::Idle { until: None };
        }
    }

    /// Ends the second connection.
    pub(super) fn give_up_rival(&mut self, said: Option<&Notification>) {
        if let Some(origin) = self.rival.take().and_then(|it| it.origin()) {
            self.end(origin, said);
        }
    }
}
