//! Kubernetes Events (core/v1), as `kubectl describe` shows them.
//!
//! Callers publish on transitions only. A repeated event within [`REPEAT_WINDOW`] raises the count of
//! the first instead of adding an object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use tokio::sync::{mpsc, watch};

use crate::write::{self, WriteError};

/// How long a repetition counts as the same event.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(600);
/// How many events are remembered for that.
const REMEMBERED: usize = 512;

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Something happened as wanted.
    Normal,
    /// Something needs attention.
    Warning,
}

/// Events that may wait; with more, the API server is in no state to take them anyway.
const WAITING: usize = 4096;
/// Events under way at a time.
const CONCURRENT: usize = 8;

/// Longest time that Events wait for what goes before them.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Sends Events from a task of its own, so that telling never delays doing.
#[derive(Clone, Debug)]
pub struct EventQueue {
    outbox: mpsc::Sender<Waiting>,
    busy: Arc<watch::Sender<bool>>,
}

#[derive(Debug)]
struct Waiting {
    about: ObjectReference,
    type_: EventType,
    reason: &'static str,
    message: String,
}

impl EventQueue {
    /// Starts the task. `component` is shown as the events' source, `instance` is the pod or node.
    pub fn start(client: Client, component: &'static str, instance: impl Into<String>) -> Self {
        let (outbox, mut inbox) = mpsc::channel::<Waiting>(WAITING);
        let busy = Arc::new(watch::Sender::new(false));
        let go_on = busy.subscribe();
        let sink = EventSink::new(client, component, instance);
        tokio::spawn(async move {
            let waiting = futures::stream::poll_fn(move |context| inbox.poll_recv(context));
            let publish = |Waiting { about, type_, reason, message }| {
                let (sink, mut go_on) = (&sink, go_on.clone());
                async move {
                    // Whoever is busy for longer, or is gone, is not waited for.
                    let _ = tokio::time::timeout(LONGEST_WAIT, go_on.wait_for(|busy| !busy)).await;
                    if let Err(error) = sink.publish(&about, type_, reason, &message).await {
                        let cause = crate::log::chain(&error);
                        tracing::warn!(op = "event", reason, error = cause, "event not sent");
                    }
                }
            };
            waiting.for_each_concurrent(CONCURRENT, publish).await;
        });
        Self { outbox, busy }
    }

    /// Says whether this process has more urgent requests to make: Events wait for these, but not for ever.
    pub fn set_busy(&self, busy: bool) {
        self.busy.send_replace(busy);
    }

    /// Sends an event about an object, some time soon; with too many waiting it is dropped with a line.
    pub fn send(&self, about: ObjectReference, type_: EventType, reason: &'static str, message: String) {
        if self.outbox.try_send(Waiting { about, type_, reason, message }).is_err() {
            tracing::warn!(op = "event", reason, "too many events wait, dropping one");
        }
    }
}

/// Writes Events of one component.
pub struct EventSink {
    client: Client,
    component: &'static str,
    instance: String,
    recent: Mutex<HashMap<Key, Recent>>,
}

type Key = (String, String, String);

#[derive(Clone)]
struct Recent {
    name: String,
    count: i32,
    at: Instant,
}

impl EventSink {
    /// `component` is shown as the event's source, `instance` is the pod or node that reports.
    pub fn new(client: Client, component: &'static str, instance: impl Into<String>) -> Self {
        Self { client, component, instance: instance.into(), recent: Mutex::default() }
    }

    /// Publishes an event about an object.
    pub async fn publish(
        &self,
        about: &ObjectReference,
        type_: EventType,
        reason: &str,
        message: &str,
    ) -> Result<(), WriteError> {
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".into());
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let key = (about.uid.clone().unwrap_or_default(), reason.to_owned(), message.to_owned());
        let now = Timestamp::now();
        if let Some(mut recent) = self.recent(&key) {
            let patch = serde_json::json!({"count": recent.count + 1, "lastTimestamp": Time(now)});
            let parameters = PatchParams::default();
            match write::bounded(events.patch(&recent.name, &parameters, &Patch::Merge(patch))).await {
                Ok(_) => {
                    recent.count += 1;
                    recent.at = Instant::now();
                    self.remember(key, recent);
                    return Ok(());
                }
                // It was deleted or has expired: tell it anew.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let subject = about.name.clone().unwrap_or_default();
        let name = format!("{subject}.{:x}{:04x}", now.as_nanosecond(), rand::random::<u16>());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: about.clone(),
            type_: Some(match type_ {
                EventType::Normal => "Normal".into(),
                EventType::Warning => "Warning".into(),
            }),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            source: Some(EventSource { component: Some(self.component.into()), host: None }),
            reporting_component: Some(self.component.into()),
            reporting_instance: Some(self.instance.clone()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        write::create(&events, self.component, &event).await?;
        self.remember(key, Recent { name, count: 1, at: Instant::now() });
        Ok(())
    }

    /// The same event, if there was one lately.
    fn recent(&self, key: &Key) -> Option<Recent> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|_, it| it.at.elapsed() < REPEAT_WINDOW);
        recent.get(key).cloned()
    }

    fn remember(&self, key: Key, event: Recent) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() < REMEMBERED || recent.contains_key(&key) {
            recent.insert(key, event);
        }
    }
}

/// A reference to an object, for the event's subject.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: object.namespace(),
        name: Some(object.name_any()),
        uid: object.uid(),
        resource_version: object.resource_version(),
        field_path: None,
    }
}
