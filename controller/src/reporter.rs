//! Events on Services: each once while its cause lasts, from a task of its own, so that telling never
//! delays giving.

use std::collections::BTreeMap;

use ferrolb_api::well_known::reporter;
use ferrolb_core::allocator::Event;
use ferrolb_core::service::ServiceKey;
use ferrolb_runtime::event::{self, EventSink, EventType};
use ferrolb_runtime::log::{chain, list};
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::Client;
use tokio::sync::mpsc;

/// Events that may wait; with more, the API server is in no state to take them anyway.
const WAITING: usize = 1024;

/// Tells owners of Services what was decided.
pub(crate) struct Reporter {
    told: BTreeMap<ServiceKey, Vec<Event>>,
    outbox: mpsc::Sender<(ObjectReference, Event)>,
}

impl Reporter {
    /// Starts the task that sends.
    pub(crate) fn start(client: Client, instance: &str) -> Self {
        let (outbox, inbox) = mpsc::channel(WAITING);
        tokio::spawn(send(EventSink::new(client, reporter::CONTROLLER, instance), inbox));
        Self { told: BTreeMap::new(), outbox }
    }

    /// Tells what was not told in the last pass.
    pub(crate) fn tell(&mut self, key: &ServiceKey, service: &Service, events: &[Event]) {
        let told = self.told.get(key).map(Vec::as_slice).unwrap_or_default();
        for event in events.iter().filter(|event| !told.contains(event)) {
            log_event(key, event);
            if self.outbox.try_send((event::reference(service), event.clone())).is_err() {
                tracing::warn!(op = "event", service = %key, "too many events wait, dropping one");
            }
        }
        if events.is_empty() {
            self.told.remove(key);
        } else {
            self.told.insert(key.clone(), events.to_vec());
        }
    }

    /// Forgets Services that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&ServiceKey) -> bool) {
        self.told.retain(|key, _| exists(key));
    }
}

fn log_event(service: &ServiceKey, event: &Event) {
    match event {
        Event::Assigned(addresses) => tracing::info!(
            event = "ipAllocated",
            %service,
            ip = list(addresses),
            "IP address assigned by controller"
        ),
        Event::AssignedAdditional(address) => {
            tracing::info!(event = "ipAllocated", %service, ip = list([address]), "IP address assigned by controller");
        }
        Event::Cleared { refusal, .. } => tracing::info!(
            event = "clearAssignment",
            %service,
            reason = %refusal,
            "current IP not allowed by config, clearing"
        ),
        Event::DeprecatedAnnotation(key) => tracing::warn!(
            event = "deprecatedAnnotation",
            %service,
            annotation = key,
            "The used annotation is deprecated. Support might get removed in future versions"
        ),
        other => tracing::warn!(op = "allocateIPs", %service, error = %other, "IP allocation failed"),
    }
}

async fn send(mut sink: EventSink, mut inbox: mpsc::Receiver<(ObjectReference, Event)>) {
    while let Some((about, event)) = inbox.recv().await {
        let type_ = if event.is_warning() { EventType::Warning } else { EventType::Normal };
        if let Err(error) = sink.publish(&about, type_, event.reason(), &event.to_string()).await {
            tracing::warn!(op = "event", reason = event.reason(), error = chain(&error), "event not sent");
        }
    }
}
