//! Events on Services: each once while its cause lasts.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::well_known::reporter;
use ferrolb_core::allocator::Event;
use ferrolb_core::service::ServiceKey;
use ferrolb_runtime::event::{EventQueue, EventType};
use ferrolb_runtime::log::list;
use kube::Client;

use crate::stored::Stored;

/// Tells owners of Services what was decided.
pub(crate) struct Reporter {
    told: BTreeMap<Arc<ServiceKey>, Vec<Event>>,
    queue: EventQueue,
}

impl Reporter {
    /// Nothing is told yet.
    pub(crate) fn start(client: Client, instance: &str) -> Self {
        let queue = EventQueue::start(client, reporter::CONTROLLER, instance);
        Self { told: BTreeMap::new(), queue }
    }

    /// Tells what was not told in the last pass.
    pub(crate) fn tell(&mut self, key: &Arc<ServiceKey>, service: &Stored, events: &[Event]) {
        let told = self.told.get(key).map(Vec::as_slice).unwrap_or_default();
        for event in events.iter().filter(|event| !told.contains(event)) {
            log_event(key, event);
            let type_ = if event.is_warning() { EventType::Warning } else { EventType::Normal };
            self.queue.send(service.reference(), type_, event.reason(), event.to_string());
        }
        self.told.insert(Arc::clone(key), events.to_vec());
    }

    /// There is nothing to tell of a Service any more.
    pub(crate) fn settled(&mut self, key: &ServiceKey) {
        self.told.remove(key);
    }

    /// Whether statuses are being written: Events about them have time.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.queue.set_busy(busy);
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
            ip = list(addresses.iter()),
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
