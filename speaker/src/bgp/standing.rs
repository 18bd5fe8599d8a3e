//! How each session stands, for its BGPSession.
//!
//! The supervisor says which peers there are; the task of each keeps its own entry up to date. An entry
//! that did not change is not touched, so that whoever writes the objects sleeps while nothing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ferrolb_api::v1alpha1::{BGPSessionNegotiated, BGPSessionState, BGPSessionStatus};
use ferrolb_proto::bgp::session::{Event, Negotiated, PeerAsn, Session};
use tokio::sync::watch;

use super::settings::Blueprint;
use super::{Context, Peers};

/// By name of the BGPPeer.
pub type Sessions = BTreeMap<String, BGPSessionStatus>;

/// How the session with one peer stands.
pub(super) struct Standing {
    sessions: watch::Sender<Option<Sessions>>,
    status: BGPSessionStatus,
}

impl Standing {
    pub(super) fn new(name: &str, blueprint: &Blueprint, context: &Context) -> Self {
        let peer_asn = match blueprint.settings.peer_asn {
            PeerAsn::Exactly(asn) => Some(asn.0.into()),
            PeerAsn::Internal => Some(blueprint.settings.local_asn.0.into()),
            PeerAsn::External => None,
        };
        let status = BGPSessionStatus {
            node: context.node.clone(),
            peer: name.to_owned(),
            address: blueprint.label(),
            local_asn: blueprint.settings.local_asn.0.into(),
            peer_asn,
            since: Some(crate::status::now()),
            ..BGPSessionStatus::default()
        };
        Self { sessions: context.sessions.clone(), status }
    }

    pub(super) fn event(&mut self, event: &Event) {
        let status = &mut self.status;
        match event {
            Event::Up(negotiated) => {
                status.established += 1;
                status.peer_asn = Some(negotiated.peer_asn.0.into());
            }
            Event::Down(ended) | Event::Failed(ended) => {
                status.last_error = Some(ended.to_string());
                if let Some(sent) = ended.notification() {
                    status.last_notification_sent = Some(sent.to_string());
                }
                if let Some(received) = ended.received() {
                    status.last_notification_received = Some(received.to_string());
                }
            }
            Event::Ignored(_) => {}
        }
    }

    pub(super) fn observe(&mut self, session: &Session, wanted: usize, bfd: Option<&str>) {
        let status = &mut self.status;
        let negotiated = session.negotiated();
        let state =
            if negotiated.is_some() { BGPSessionState::Established } else { BGPSessionState::Connect };
        if state != status.state {
            status.since = Some(crate::status::now());
        }
        status.state = state;
        status.bfd_state = bfd.map(ToOwned::to_owned);
        status.negotiated = negotiated.map(agreed);
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        status.prefixes_sent = count(session.announced());
        status.prefixes_wanted = count(wanted);
        status.prefixes_received = count(session.received());
        let unsent: BTreeSet<_> = session.unsent().into_iter().flat_map(|it| it.values()).collect();
        status.unsent = unsent.into_iter().map(ToString::to_string).collect();
        self.sessions.send_if_modified(|sessions| {
            // A peer that is not configured any more has no entry.
            match sessions.as_mut().and_then(|all| all.get_mut(&self.status.peer)) {
                Some(known) if *known != self.status => {
                    known.clone_from(&self.status);
                    true
                }
                Some(_) | None => false,
            }
        });
    }
}

/// From now on these peers have sessions.
pub(super) fn follow(sessions: &watch::Sender<Option<Sessions>>, peers: &Peers) {
    sessions.send_if_modified(|sessions| {
        let known = sessions.take();
        let begun = |name| known.as_ref().and_then(|all| all.get(name)).cloned().unwrap_or_default();
        let now: Sessions = peers.keys().map(|name| (name.clone(), begun(name))).collect();
        let changed = known.as_ref() != Some(&now);
        *sessions = Some(now);
        changed
    });
}

fn agreed(negotiated: &Negotiated) -> BGPSessionNegotiated {
    let seconds =
        |time: Option<Duration>| time.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    BGPSessionNegotiated {
        peer_identifier: negotiated.peer_identifier.to_string(),
        local_identifier: negotiated.local_identifier.to_string(),
        hold_time_seconds: seconds(negotiated.times.hold),
        keepalive_seconds: seconds(negotiated.times.keepalive),
        families: negotiated.families().map(|it| it.to_string()).collect(),
        capabilities: negotiated.capabilities().into_iter().collect(),
    }
}
