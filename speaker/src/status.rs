//! Tells the cluster what this node does: a `ServiceL2Status` for each Service that it announces, and its
//! `ConfigurationState`. One writer; it compares what is wanted with what the stores show, so what others
//! delete or edit comes back, and nothing is written while all is as it should be.

mod layer2;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_api::v1beta1::{ConfigurationState, ServiceL2Status, ServiceL2StatusStatus};
use ferrolb_api::well_known::{component, configuration_state, field_manager, label};
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status;
use ferrolb_runtime::keep::{self, Wanted};
use ferrolb_runtime::log::chain;
use ferrolb_runtime::watch::{Changed, Store};
use ferrolb_runtime::write::{self, WriteError};
use ferrolb_runtime::Shutdown;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use crate::agent::Published;
use crate::metrics::Metrics;
use layer2::{Action, Seen, actions};

/// After a failed write; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// An object that was created is expected in the store within this time.
const ECHO: Duration = Duration::from_secs(10);

/// Whose statuses these are.
pub(crate) struct Identity {
    pub(crate) namespace: String,
    pub(crate) node: String,
    pub(crate) pod: String,
}

/// What the writer reads.
pub(crate) struct Stores {
    pub(crate) l2_statuses: Store<ServiceL2Status>,
    pub(crate) states: Store<ConfigurationState>,
    /// The speakers' pods: its own owns what it writes.
    pub(crate) pods: Store<Pod>,
}

/// The writer.
pub(crate) struct StatusWriter {
    pub(crate) client: Client,
    pub(crate) identity: Identity,
    pub(crate) stores: Stores,
    pub(crate) published: watch::Receiver<Option<Arc<Published>>>,
    pub(crate) metrics: Metrics,
    /// Objects created whose echo the store has not shown yet.
    pub(crate) created: BTreeMap<ServiceKey, (String, Instant)>,
}

impl StatusWriter {
    /// Writes until the shutdown. The objects then go with the pod that owns them.
    pub(crate) async fn run(mut self, mut changed: Changed, shutdown: Shutdown) {
        tokio::select! {
            () = async {
                self.stores.l2_statuses.listed().await;
                self.stores.states.listed().await;
                self.stores.pods.listed().await;
            } => {}
            () = shutdown.requested() => return,
        }
        let mut pause = FIRST_PAUSE;
        loop {
            let failed = tokio::select! {
                result = self.pass() => result.is_err(),
                () = shutdown.requested() => return,
            };
            if failed {
                self.metrics.write_failed();
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = shutdown.requested() => return,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            pause = FIRST_PAUSE;
            tokio::select! {
                () = changed.next() => {}
                Ok(()) = self.published.changed() => {}
                () = shutdown.requested() => return,
            }
        }
    }

    async fn pass(&mut self) -> Result<(), ()> {
        let Some(published) = self.published.borrow_and_update().clone() else { return Ok(()) };
        let Some(pod) = self.stores.pods.get(&self.identity.namespace, &self.identity.pod) else {
            tracing::debug!(op = "updateStatus", pod = self.identity.pod, "own pod is not listed yet");
            return Ok(());
        };
        let owner = keep::owned_by_pod(&self.identity.pod, &pod.uid().unwrap_or_default());
        let states = self.write_state(&published, owner.clone()).await;
        let statuses = self.write_l2_statuses(&published, &owner).await;
        states.and(statuses)
    }

    async fn write_state(&self, published: &Published, owner: OwnerReference) -> Result<(), ()> {
        let name = format!("{}-{}", component::SPEAKER, self.identity.node);
        let current = self.stores.states.get(&self.identity.namespace, &name);
        let status = status::configuration_state(
            &published.diagnostics,
            configuration_state::CONFIG_CONDITION,
            Time(Timestamp::now()),
            current.as_ref().and_then(|state| state.status.as_ref()),
        );
        let wanted = Wanted {
            name,
            labels: [
                (label::COMPONENT_TYPE.to_owned(), component::SPEAKER.to_owned()),
                (label::NODE_NAME.to_owned(), self.identity.node.clone()),
            ]
            .into(),
            owner: Some(owner),
            status: json!(status),
        };
        let api: Api<ConfigurationState> = Api::namespaced(self.client.clone(), &self.identity.namespace);
        let (manager, status_manager) = (field_manager::SPEAKER, field_manager::CONFIG_RECONCILER);
        let kept = keep::keep(&api, current.as_deref(), &wanted, manager, status_manager).await;
        if kept.as_ref().is_ok_and(|written| *written) {
            for finding in &published.diagnostics {
                tracing::warn!(op = "configuration", error = %finding, "failed to parse the configuration");
            }
        }
        told("updateConfigurationState", kept)
    }

    async fn write_l2_statuses(&mut self, published: &Published, owner: &OwnerReference) -> Result<(), ()> {
        let seen: Vec<Seen> = self.stores.l2_statuses.list().iter().filter_map(|it| Seen::of(it)).collect();
        self.created.retain(|_, (name, at)| {
            at.elapsed() < ECHO && !seen.iter().any(|it| it.name == *name)
        });
        let mut result = Ok(());
        for action in actions(&published.plans, &seen, &self.identity.node, owner) {
            let done = self.act(action, owner).await;
            result = result.and(told("updateServiceL2Status", done));
        }
        result
    }

    async fn act(&mut self, action: Action, owner: &OwnerReference) -> Result<(), WriteError> {
        let api: Api<ServiceL2Status> = Api::namespaced(self.client.clone(), &self.identity.namespace);
        match action {
            Action::Delete { name, uid } => match write::delete(&api, &name, Some(&uid)).await {
                // Another object of that name: the store will show it.
                Err(error) if error.is_conflict() => Ok(()),
                other => other,
            },
            Action::Create { service, .. } if self.created.contains_key(&service) => Ok(()),
            Action::Create { service, status } => {
                let object = ServiceL2Status {
                    metadata: ObjectMeta {
                        generate_name: Some("l2-".into()),
                        labels: Some(layer2::labels(&service, &self.identity.node)),
                        owner_references: Some(vec![owner.clone()]),
                        ..ObjectMeta::default()
                    },
                    ..ServiceL2Status::default()
                };
                let created = write::create(&api, field_manager::SPEAKER, &object).await?;
                let name = created.name_any();
                self.created.insert(service, (name.clone(), Instant::now()));
                write_status(&api, &name, &status).await
            }
            Action::Correct { name, service, status } => {
                let wanted = Wanted {
                    name: name.clone(),
                    labels: layer2::labels(&service, &self.identity.node),
                    owner: Some(owner.clone()),
                    status: json!(status),
                };
                let current = self.stores.l2_statuses.get(&self.identity.namespace, &name);
                let manager = field_manager::SPEAKER;
                keep::keep(&api, current.as_deref(), &wanted, manager, manager).await.map(drop)
            }
        }
    }
}

async fn write_status(
    api: &Api<ServiceL2Status>,
    name: &str,
    status: &ServiceL2StatusStatus,
) -> Result<(), WriteError> {
    write::merge_status(api, field_manager::SPEAKER, name, &json!({"status": status})).await.map(drop)
}

fn told<T>(op: &'static str, result: Result<T, WriteError>) -> Result<(), ()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(op, error = chain(&error), "status not written, retrying");
            Err(())
        }
    }
}
