//! What is said of a session: log lines, metrics, its BGPSession, and Events about its BGPPeer.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_proto::bgp::Unsent;
use ferrolb_proto::bgp::session::{Ended, Event, Session, State};
use ferrolb_runtime::event::{EventQueue, EventType};
use k8s_openapi::api::core::v1::ObjectReference;

use super::Context;
use super::settings::Blueprint;
use super::standing::Standing;
use crate::metrics::{Metrics, SessionNumbers};

/// Reasons of Events.
const UP: &str = "SessionUp";
const DOWN: &str = "SessionDown";
const FAILED: &str = "SessionFailed";

pub(super) struct Telling {
    /// As logs name it.
    peer: String,
    label: String,
    node: String,
    local_asn: u32,
    about: ObjectReference,
    metrics: Arc<Metrics>,
    events: EventQueue,
    /// The failure that was told last; a repetition is worth no line.
    told: Option<Ended>,
    unsent: BTreeSet<Unsent>,
    updates: u64,
    standing: Standing,
}

impl Telling {
    pub(super) fn new(name: &str, uid: &str, blueprint: &Blueprint, context: &Context) -> Self {
        let types = kube::core::TypeMeta::resource::<BGPPeer>();
        Self {
            peer: blueprint.to_string(),
            label: blueprint.label(),
            node: context.node.clone(),
            local_asn: blueprint.settings.local_asn.0,
            about: ObjectReference {
                api_version: Some(types.api_version),
                kind: Some(types.kind),
                namespace: Some(context.namespace.clone()),
                name: Some(name.to_owned()),
                uid: Some(uid.to_owned()),
                ..ObjectReference::default()
            },
            metrics: Arc::clone(&context.metrics),
            events: context.events.clone(),
            told: None,
            unsent: BTreeSet::new(),
            updates: 0,
            standing: Standing::new(name, blueprint, context),
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.standing.event(event);
        let (peer, node) = (&self.peer, &self.node);
        match event {
            Event::Up(negotiated) => {
                self.told = None;
                let peer_asn = negotiated.peer_asn.0;
                let hold = negotiated.times.hold.map(|it| it.as_secs()).unwrap_or_default();
                tracing::info!(
                    event = "sessionUp",
                    peer,
                    localASN = self.local_asn,
                    peerASN = peer_asn,
                    holdTime = hold,
                    "BGP session established"
                );
                let families: Vec<String> = negotiated.families().map(|it| it.to_string()).collect();
                let text = format!(
                    "node \"{node}\": BGP session with {peer} established (AS {peer_asn}, hold time {hold} s, {})",
                    families.join(", ")
                );
                self.publish(EventType::Normal, UP, &text);
            }
            Event::Down(ended) => {
                if let Ended::Notified { notification } = ended {
                    tracing::error!(
                        event = "peerNotification",
                        peer,
                        "peer sent notification, closing session: {notification}"
                    );
                }
                tracing::warn!(
                    event = "sessionDown",
                    peer,
                    localASN = self.local_asn,
                    "BGP session down: {ended}"
                );
                if *ended != Ended::Stopped {
                    let text = format!("node \"{node}\": BGP session with {peer} down: {ended}");
                    self.publish(EventType::Warning, DOWN, &text);
                }
            }
            Event::Failed(ended) if self.told.as_ref() == Some(ended) => {
                tracing::debug!(op = "connect", peer, "no session yet: {ended}");
            }
            Event::Failed(ended) => {
                tracing::error!(op = "connect", peer, error = %ended, "failed to connect to peer");
                let text = format!("node \"{node}\": no BGP session with {peer}: {ended}");
                self.publish(EventType::Warning, FAILED, &text);
                self.told = Some(ended.clone());
            }
            Event::Ignored(malformed) => {
                tracing::debug!(event = "malformedUpdate", peer, "ignored routes of the peer: {malformed}");
            }
        }
    }

    /// Looks at the session after something happened.
    pub(super) fn observe(&mut self, session: &Session, wanted: usize, bfd: Option<&str>) {
        let numbers = SessionNumbers {
            up: session.state() == State::Established,
            announced: session.announced(),
            wanted,
            updates: session.updates_sent() - self.updates,
        };
        self.updates = session.updates_sent();
        self.metrics.session(&self.label, numbers);
        let unsent: BTreeSet<Unsent> =
            session.unsent().into_iter().flat_map(|it| it.values().copied()).collect();
        for why in unsent.difference(&self.unsent) {
            tracing::warn!(event = "routesNotSent", peer = self.peer, "some routes are not sent: {why}");
        }
        self.unsent = unsent;
        self.standing.observe(session, wanted, bfd);
    }

    fn publish(&self, kind: EventType, reason: &'static str, text: &str) {
        self.events.send(self.about.clone(), kind, reason, text.to_owned());
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.metrics.forget_session(&self.label);
    }
}
