//! The one writer of what this speaker says of Services in the cluster: ServiceL2Status,
//! ServiceBGPStatus, its BGPSessions, its ConfigurationState and Events.
//!
//! ```text
//! watch<Report> ───────────┐
//! watch<Sessions> ─────────┤
//! Store<Service…Status> ───┼─ difference ─> create · patch · delete · event ─> API server
//! Store<ConfigurationState>┘        └─ what was written counts until the stores show it (assumed)
//! ```
//!
//! Level-triggered: whatever differs from the report is written, whoever made it differ; when nothing
//! differs nothing is written. A failure is tried again later and delays no announcement.

mod assumed;
mod diff;
mod kind;
mod perform;
mod report;
mod sessions;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_api::v1beta1::{ConfigurationState, ServiceBGPStatus, ServiceL2Status};
use ferrolb_api::well_known::{annotation, component, field_manager, label, reporter};
use ferrolb_core::planner::Event;
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status;
use ferrolb_runtime::event::{EventSink, EventType};
use ferrolb_runtime::watch::{Changed, Store, Watches};
use ferrolb_runtime::write::{self, WriteError};
use ferrolb_runtime::{Shutdown, keep, log};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use crate::bgp::Sessions;
use crate::metrics::Metrics;
use assumed::Assumed;
use diff::{desired_state, is_current};
pub use report::{Report, ServiceReport, ServiceReports};
use sessions::SessionObjects;
use statuses::Statuses;

/// Events recorded before other writes get a turn.
const EVENTS_OF_A_PASS: usize = 50;
/// Pauses after failures: the first, and the longest.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(10);

/// Why a pass did not come to its end.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error("cannot write {what}")]
    Write { what: String, source: WriteError },
    #[error("{what} does not hold what was written to it")]
    Disagreement { what: String },
}

/// The writer.
pub struct Writer {
    /// Client of the API server.
    pub client: Client,
    /// The product's namespace.
    pub namespace: String,
    /// This Node.
    pub node: String,
    /// This pod, owner of what is written.
    pub pod: String,
    /// What to say; nothing yet before the first plan.
    pub report: watch::Receiver<Option<Arc<Report>>>,
    /// How BGP sessions stand; nothing before peers are known.
    pub sessions: watch::Receiver<Option<Sessions>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl Writer {
    /// Writes until the shutdown begins. `watches` are to be this writer's own.
    pub async fn run(self, watches: Watches, shutdown: Shutdown) {
        let states: Api<ConfigurationState> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = format!("{}-{}", component::SPEAKER, self.node);
        let mine = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let writing = Writing {
            layer2: Statuses::watch(&self.client, &self.namespace, &self.node, &watches),
            bgp: Statuses::watch(&self.client, &self.namespace, &self.node, &watches),
            sessions: SessionObjects::watch(&self.client, &self.namespace, &self.node, &watches),
            stored_states: watches.add_with(states.clone(), mine),
            changed: watches.changed(),
            events: EventSink::new(self.client.clone(), reporter::SPEAKER, self.node.clone()),
            state_name: name,
            states,
            assumed_states: Assumed::default(),
            told: BTreeSet::new(),
            all_told: None,
            writer: self,
        };
        tokio::select! {
            () = writing.run() => {}
            () = shutdown.requested() => {}
        }
    }
}

struct Writing {
    writer: Writer,
    layer2: Statuses<ServiceL2Status>,
    bgp: Statuses<ServiceBGPStatus>,
    sessions: SessionObjects,
    states: Api<ConfigurationState>,
    stored_states: Store<ConfigurationState>,
    changed: Changed,
    assumed_states: Assumed<ConfigurationState>,
    state_name: String,
    events: EventSink,
    /// Events that were recorded and whose cause lasts.
    told: BTreeSet<(ServiceKey, Event)>,
    /// The report all of whose Events are among them.
    all_told: Option<Arc<Report>>,
}

impl Writing {
    async fn run(mut self) {
        tokio::join!(
            self.layer2.listed(),
            self.bgp.listed(),
            self.sessions.listed(),
            self.stored_states.listed()
        );
        let owner = self.owner().await;
        let mut pause = FIRST_RETRY;
        let mut retry_at: Option<Instant> = Some(Instant::now());
        loop {
            tokio::select! {
                Ok(()) = self.writer.report.changed() => {}
                Ok(()) = self.writer.sessions.changed() => {}
                () = self.changed.next() => {}
                () = sleep_until(retry_at) => {}
            }
            retry_at = None;
            let Some(report) = self.writer.report.borrow_and_update().clone() else { continue };
            match self.pass(&report, &owner).await {
                Ok(again) => {
                    pause = FIRST_RETRY;
                    retry_at = again;
                }
                Err(error) => {
                    self.writer.metrics.write_failed();
                    let error = log::chain(&error);
                    tracing::warn!(op = "writeStatus", error, "cannot write status, trying again");
                    retry_at = Some(Instant::now() + pause);
                    pause = (2 * pause).min(LAST_RETRY);
                }
            }
        }
    }

    /// This pod as the owner of what is written.
    async fn owner(&self) -> OwnerReference {
        let pods: Api<Pod> = Api::namespaced(self.writer.client.clone(), &self.writer.namespace);
        let name = &self.writer.pod;
        let mut pause = FIRST_RETRY;
        loop {
            match write::bounded(pods.get(name)).await {
                Ok(pod) => {
                    return keep::owned_by_pod(name, &pod.uid().unwrap_or_default());
                }
                Err(error) => {
                    let error = log::chain(&error);
                    tracing::warn!(
                        op = "readOwnPod",
                        pod = name,
                        error,
                        "cannot read the own pod, trying again"
                    );
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(LAST_RETRY);
                }
            }
        }
    }

    /// Writes all that differs. Says when to look again although nothing changes.
    async fn pass(
        &mut self,
        report: &Arc<Report>,
        owner: &OwnerReference,
    ) -> Result<Option<Instant>, PassError> {
        // Each has its turn, whatever becomes of the others.
        let outcomes = [
            self.write_state(report, owner).await.map(|()| None),
            self.layer2.write(report, &self.writer.node, owner).await,
            self.bgp.write(report, &self.writer.node, owner).await,
            self.write_sessions(owner).await,
            self.record_events(report).await,
        ];
        outcomes.into_iter().try_fold(None, |again, outcome| Ok(earlier(again, outcome?)))
    }

    async fn write_state(&mut self, report: &Report, owner: &OwnerReference) -> Result<(), PassError> {
        let stored = self.assumed_states.over(self.stored_states.list());
        let existing = stored.iter().find(|state| state.name_any() == self.state_name);
        let labels =
            [(label::COMPONENT_TYPE, component::SPEAKER), (label::NODE_NAME, self.writer.node.as_str())];
        let name = &self.state_name;
        let what = || format!("ConfigurationState {name}");
        let failed = |source| PassError::Write { what: what(), source };
        let manager = field_manager::CONFIG_RECONCILER;
        let mut current = existing.cloned();
        let conflicts = status::conflicts_annotation(&report.conflicts).unwrap_or_default();
        let told = current.as_ref().and_then(|it| it.annotations().get(annotation::ADDRESS_CONFLICTS));
        let (is_told, was_told) = (told.map_or("", String::as_str) == conflicts, told.is_some());
        let has_metadata = current.as_ref().is_some_and(|state| {
            diff::is_owned_by(&state.metadata, owner)
                && is_told
                && labels.iter().all(|(key, value)| state.labels().get(*key).is_some_and(|it| it == value))
        });
        let types = kube::core::TypeMeta::resource::<ConfigurationState>();
        if !has_metadata {
            let labels: BTreeMap<&str, &str> = labels.into();
            let mut object = json!({
                "apiVersion": types.api_version, "kind": types.kind,
                "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            });
            // Once there were conflicts, their end is told by an empty list.
            if was_told || !conflicts.is_empty() {
                object["metadata"]["annotations"] = json!({ annotation::ADDRESS_CONFLICTS: conflicts });
            }
            let written = write::apply(&self.states, manager, name, &object).await.map_err(failed)?;
            let written = Arc::new(written);
            self.assumed_states.wrote(current.as_deref(), Arc::clone(&written));
            current = Some(written);
        }
        let before = current.as_ref().and_then(|state| state.status.as_ref());
        let desired = desired_state(&report.diagnostics, now(), before);
        if before.is_some_and(|status| is_current(status, &desired)) {
            return Ok(());
        }
        let object = json!({
            "apiVersion": types.api_version, "kind": types.kind,
            "metadata": {"name": name}, "status": desired,
        });
        let written = write::apply_status(&self.states, manager, name, &object).await.map_err(failed)?;
        let agrees = written.status.as_ref().is_some_and(|status| is_current(status, &desired));
        self.assumed_states.wrote(current.as_deref(), Arc::new(written));
        if agrees { Ok(()) } else { Err(PassError::Disagreement { what: what() }) }
    }

    async fn write_sessions(&mut self, owner: &OwnerReference) -> Result<Option<Instant>, PassError> {
        let sessions = self.writer.sessions.borrow_and_update().clone();
        match sessions {
            Some(sessions) => self.sessions.write(&sessions, &self.writer.node, owner).await,
            None => Ok(None),
        }
    }

    async fn record_events(&mut self, report: &Arc<Report>) -> Result<Option<Instant>, PassError> {
        let Some(services) = &report.services else { return Ok(None) };
        if self.all_told.as_ref().is_some_and(|told| Arc::ptr_eq(told, report)) {
            return Ok(None);
        }
        let due: BTreeSet<(ServiceKey, Event)> = services
            .iter()
            .flat_map(|(key, service)| service.events.iter().map(|event| (key.clone(), event.clone())))
            .collect();
        self.told.retain(|cause| due.contains(cause));
        let mut untold = due.difference(&self.told).cloned().collect::<Vec<_>>();
        // The rest has its turn after a look at what changed meanwhile.
        let again = (untold.len() > EVENTS_OF_A_PASS).then(Instant::now);
        untold.truncate(EVENTS_OF_A_PASS);
        for (key, event) in untold {
            if event.is_warning() {
                tracing::warn!(op = "SetBalancer", service = %key, "{event}");
            }
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Service".to_owned()),
                namespace: Some(key.namespace.clone()),
                name: Some(key.name.clone()),
                uid: services.get(&key).map(|service| service.uid.to_string()),
                ..ObjectReference::default()
            };
            let kind = if event.is_warning() { EventType::Warning } else { EventType::Normal };
            let recorded = self.events.publish(&about, kind, event.reason(), &event.to_string()).await;
            match recorded {
                // The Service's namespace is going or gone: nobody is left to tell.
                Err(error) if error.is_not_found() || error.code() == Some(403) => {}
                Err(source) => {
                    return Err(PassError::Write { what: format!("Event about Service {key}"), source });
                }
                Ok(()) => {}
            }
            self.told.insert((key, event));
        }
        self.all_told = again.is_none().then(|| Arc::clone(report));
        Ok(again)
    }
}

/// The API keeps times by the second.
pub(crate) fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
