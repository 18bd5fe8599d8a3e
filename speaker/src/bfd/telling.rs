//! What is said of a session: log lines, metrics, and Events about its BGPPeers.

use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_proto::bfd::demux::Path;
use ferrolb_proto::bfd::session::{Down, Event};
use ferrolb_runtime::event::EventType;
use k8s_openapi::api::core::v1::ObjectReference;

use super::Context;
use crate::metrics::BfdSeries;

/// Reasons of Events.
const UP: &str = "BFDUp";
const DOWN: &str = "BFDDown";
const FAILED: &str = "BFDFailed";

#[derive(Debug)]
pub(super) struct Telling {
    context: Context,
    /// As logs name the router.
    peer: String,
    pub(super) series: BfdSeries,
    /// The fault of its sockets that was told last.
    fault: Option<String>,
}

impl Telling {
    pub(super) fn new(path: &Path, context: &Context) -> Self {
        let peer = path.remote.to_string();
        let series = context.metrics.session(&peer, path.device.as_deref().unwrap_or("default"));
        Self { context: context.clone(), peer, series, fault: None }
    }

    pub(super) fn event(&self, event: Event, peers: &[(String, String)]) {
        let (peer, node) = (&self.peer, &self.context.node);
        match event {
            Event::Up => {
                self.series.up();
                tracing::info!(event = "bfdUp", peer, "BFD session up");
                self.publish(
                    peers,
                    EventType::Normal,
                    UP,
                    &format!("node \"{node}\": BFD session with {peer} up"),
                );
            }
            Event::Down(Down::AdminDown) => {
                self.series.down();
                tracing::info!(event = "bfdDown", peer, "BFD session taken down");
            }
            Event::Down(why) => {
                self.series.down();
                tracing::warn!(event = "bfdDown", peer, "BFD session down: {why}");
                let text = format!("node \"{node}\": BFD session with {peer} down: {why}");
                self.publish(peers, EventType::Warning, DOWN, &text);
            }
        }
    }

    /// What keeps the session from its sockets, or that nothing does; told when it changes.
    pub(super) fn sockets(&mut self, fault: Option<&str>, peers: &[(String, String)]) {
        if self.fault.as_deref() == fault {
            return;
        }
        self.fault = fault.map(str::to_owned);
        if let Some(fault) = fault {
            let (peer, node) = (&self.peer, &self.context.node);
            tracing::error!(op = "bfd", peer, error = fault, "no BFD session");
            let text = format!("node \"{node}\": no BFD session with {peer}: {fault}");
            self.publish(peers, EventType::Warning, FAILED, &text);
        }
    }

    fn publish(&self, peers: &[(String, String)], kind: EventType, reason: &'static str, text: &str) {
        let types = kube::core::TypeMeta::resource::<BGPPeer>();
        for (name, uid) in peers {
            let about = ObjectReference {
                api_version: Some(types.api_version.clone()),
                kind: Some(types.kind.clone()),
                namespace: Some(self.context.namespace.clone()),
                name: Some(name.clone()),
                uid: Some(uid.clone()),
                ..ObjectReference::default()
            };
            self.context.events.send(about, kind, reason, text.to_owned());
        }
    }
}
