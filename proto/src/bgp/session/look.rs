//! What can be seen of a session.

use std::collections::BTreeMap;

use super::established::Established;
use super::{Negotiated, Phase, Session, State};
use crate::bgp::{Prefix, Unsent};

impl Session {
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
}
