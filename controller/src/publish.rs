//! The writes that follow from a pass: Services, pools, the ConfigurationState.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_api::v1beta1::{ConfigurationState, IPAddressPool};
use ferrolb_api::well_known::{component, configuration_state, field_manager, label};
use ferrolb_core::allocator::{Allocation, Event, StatusWrite};
use ferrolb_core::config::Compiled;
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status;
use ferrolb_runtime::keep::{self, Wanted};
use ferrolb_runtime::lease::Held as LeaseHeld;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::write;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::assumed::version;
use crate::pool_status::Due;
use crate::reconcile::{Controller, Lead, RETRY, sooner};
use crate::reporter::Reporter;
use crate::states::{is_ours, stale};
use crate::stored::Stored;
use crate::view::View;
use crate::writer::{self, Answer};

/// Status writes under way at a time.
const CONCURRENT_WRITES: usize = 32;
/// Status writes of one pass. With more to be done, another pass goes first: so what changes meanwhile
/// need not wait for all of them.
const BATCH: usize = 512;

impl Controller {
    pub(crate) async fn write_services(
        &mut self,
        lead: &mut Lead,
        view: &View,
        allocation: &Allocation,
        lease: &LeaseHeld,
    ) -> Option<Duration> {
        // What is decided now counts more than what is in doubt from before.
        let decided = |key: &Arc<ServiceKey>| allocation.outcomes.get(key).and_then(|it| it.write.as_ref());
        let in_doubt = lead.assumed.in_doubt().filter(|(key, _)| decided(key).is_none());
        let in_doubt: BTreeMap<Arc<ServiceKey>, StatusWrite> =
            in_doubt.map(|(key, write)| (Arc::clone(key), write.clone())).collect();
        let mut writes: Vec<(&Arc<ServiceKey>, &StatusWrite)> = in_doubt.iter().collect();
        for (key, outcome) in allocation.outcomes.iter() {
            match &outcome.write {
                Some(write) => writes.push((key, write)),
                // What is written already is told at once, the rest with its write.
                None => {
                    let mut events = match lead.assumed.is_under_way(key) {
                        true => Vec::new(),
                        false => lead.untold.settled(key, outcome.assignment.as_ref()),
                    };
                    events.retain(|event| !outcome.events.contains(event));
                    events.extend_from_slice(&outcome.events);
                    tell(&mut self.reporter, view, key, &events);
                }
            }
        }
        lead.postponed.retain(|key| lead.waiting.contains_key(key) || in_doubt.contains_key(key));
        let now = Instant::now();
        // Of what is in doubt, some may be somebody else's by now.
        let writes = writes.into_iter().filter(|(key, _)| view.handled.contains_key(*key));
        let stored = writes.filter_map(|(key, write)| Some((key, view.services.get(key)?, write)));
        let is_due = |key: &ServiceKey, it: &Stored| lead.postponed.is_due(key, it.seen().version, now);
        let due = stored.filter(|(key, service, _)| is_due(key, service));
        let mut batch: Vec<_> = due.take(BATCH + 1).collect();
        let more = batch.len() > BATCH;
        batch.truncate(BATCH);
        self.reporter.set_busy(!batch.is_empty());
        let mut next = None;
        let (client, limits, shutdown) = (&self.client, self.limits, &self.shutdown);
        let assumed = &mut lead.assumed;
        for (key, service, write) in &batch {
            assumed.sending(key, write, service.seen().version);
            if let Some(outcome) = allocation.outcomes.get(key).filter(|it| it.write.is_some()) {
                lead.untold.sending(key, write, &outcome.events);
            }
        }
        let mut requests = Vec::new();
        for (key, service, write) in batch {
            requests.push(async move {
                let answer = match shutdown.begun() {
                    true => Answer::NotSent,
                    false => writer::write(client.clone(), lease, limits, service, write).await,
                };
                (key, service.seen().version, answer)
            });
        }
        let mut answers = stream::iter(requests).buffer_unordered(CONCURRENT_WRITES);
        while let Some((key, of_version, answer)) = answers.next().await {
            match answer {
                Answer::Done(resource_version) => {
                    lead.postponed.over(key);
                    assumed.answered(key, version(resource_version.as_deref()));
                    if let Some(since) = lead.waiting.remove(key) {
                        self.metrics.latency.observe(since.elapsed().as_secs_f64());
                    }
                    tracing::info!(event = "serviceUpdated", service = %key, "updated service object");
                    tell(&mut self.reporter, view, key, &lead.untold.done(key));
                }
                // The store will show what came in between, or that the Service is gone.
                Answer::Failed(error) if error.is_conflict() => {
                    assumed.conflicted(key);
                    lead.postponed.failed(key, of_version, Instant::now());
                }
                Answer::Failed(error) if error.is_not_found() => assumed.forget(key),
                Answer::Failed(error) => {
                    self.metrics.update_errors.inc();
                    let cause = chain(&error);
                    tracing::warn!(op = "updateServiceStatus", service = %key, error = cause, "status not written, retrying");
                    // An error of the server itself leaves open whether it happened.
                    if error.code().is_some_and(|code| code < 500) {
                        assumed.not_done(key);
                    }
                    lead.postponed.failed(key, of_version, Instant::now());
                }
                Answer::NotSent => {
                    assumed.not_done(key);
                    next = sooner(next, Some(RETRY));
                }
            }
        }
        self.reporter.set_busy(more);
        let again = if more { Some(Duration::ZERO) } else { lead.postponed.next(Instant::now()) };
        sooner(next, again)
    }

    pub(crate) async fn write_pools(&mut self, lead: &mut Lead, allocation: &Allocation) -> Option<Duration> {
        let api: Api<IPAddressPool> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut next = None;
        let pools = self.stores.pools.list();
        lead.pools.retain(|name| pools.iter().any(|pool| pool.name_any() == name));
        for pool in pools {
            let name = pool.name_any();
            // A pool that is left out gives nothing.
            let status = allocation.counters.get(&name).map(|it| it.status()).unwrap_or_default();
            let shown = version(pool.resource_version().as_deref());
            match lead.pools.due(&name, pool.status.as_ref(), shown, &status, Instant::now()) {
                Due::No => continue,
                Due::In(wait) => {
                    next = sooner(next, Some(wait));
                    continue;
                }
                Due::Now => {}
            }
            let patch = json!({"metadata": {"uid": pool.uid()}, "status": status});
            match write::merge_status(&api, field_manager::CONTROLLER, &name, &patch).await {
                Ok(written) => {
                    let version = version(written.resource_version().as_deref());
                    lead.pools.note(name, status, version, Instant::now());
                }
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => {
                    self.metrics.update_errors.inc();
                    let cause = chain(&error);
                    tracing::warn!(
                        op = "updatePoolStatus",
                        pool = name,
                        error = cause,
                        "status not written, retrying"
                    );
                    next = sooner(next, Some(RETRY));
                }
            }
        }
        next
    }

    pub(crate) async fn write_state(&mut self, compiled: &Compiled) -> Option<Duration> {
        let Some(owner) = self.owner().await else { return Some(RETRY) };
        let current = self.stores.states.get(&self.namespace, configuration_state::CONTROLLER);
        let status = status::configuration_state(
            &compiled.diagnostics,
            status::concerns_controller,
            configuration_state::POOL_CONDITION,
            Time(Timestamp::now()),
            current.as_ref().and_then(|state| state.status.as_ref()),
        );
        let wanted = Wanted {
            name: configuration_state::CONTROLLER.into(),
            labels: [(label::COMPONENT_TYPE.into(), component::CONTROLLER.into())].into(),
            owner: Some(owner),
            status: json!(status),
        };
        let api: Api<ConfigurationState> = Api::namespaced(self.client.clone(), &self.namespace);
        let kept = keep::keep(
            &api,
            current.as_deref(),
            &wanted,
            field_manager::CONTROLLER,
            field_manager::POOL_RECONCILER,
        );
        match kept.await {
            Ok(false) => None,
            Ok(true) => {
                report(compiled);
                None
            }
            Err(error) => {
                self.metrics.update_errors.inc();
                let cause = chain(&error);
                tracing::warn!(op = "updateConfigurationState", error = cause, "state not written, retrying");
                Some(RETRY)
            }
        }
    }

    pub(crate) async fn delete_stale_states(&self) -> Option<Duration> {
        let api: Api<ConfigurationState> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut next = None;
        for state in stale(self.stores.states.list(), |node| self.stores.nodes.get_global(node).is_some()) {
            let name = state.name_any();
            match write::delete(&api, &name, state.uid().as_deref()).await {
                Ok(()) => tracing::info!(event = "stateDeleted", state = name, "its node is gone"),
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => {
                    self.metrics.update_errors.inc();
                    let cause = chain(&error);
                    tracing::warn!(
                        op = "deleteConfigurationState",
                        error = cause,
                        "state not deleted, retrying"
                    );
                    next = Some(RETRY);
                }
            }
        }
        next
    }

    /// This process's own pod, with which its state goes.
    async fn owner(&mut self) -> Option<OwnerReference> {
        if self.owner.is_none() {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
            match write::bounded(pods.get(&self.pod_name)).await {
                Ok(pod) => {
                    self.owner = Some(keep::owned_by_pod(&self.pod_name, &pod.uid().unwrap_or_default()));
                }
                Err(error) => {
                    let cause = chain(&error);
                    tracing::warn!(op = "readOwnPod", pod = self.pod_name, error = cause, "retrying");
                }
            }
        }
        self.owner.clone()
    }
}

fn tell(reporter: &mut Reporter, view: &View, key: &Arc<ServiceKey>, events: &[Event]) {
    if events.is_empty() {
        reporter.settled(key);
    } else if let Some(service) = view.services.get(key) {
        reporter.tell(key, service, events);
    }
}

fn report(compiled: &Compiled) {
    let mut invalid = compiled.diagnostics.iter().filter(|it| is_ours(it)).peekable();
    if invalid.peek().is_none() {
        tracing::info!(event = "config reloaded", "config reloaded");
    }
    for finding in invalid {
        tracing::warn!(op = "configuration", error = %finding, "failed to parse the configuration");
    }
}
