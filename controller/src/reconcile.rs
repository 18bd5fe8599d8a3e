//! One pass: observe (stores), decide (pure), write what differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::v1beta1::{
    BFDProfile, BGPAdvertisement, Community, ConfigurationState, IPAddressPool, L2Advertisement,
};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_api::well_known::{component, configuration_state, field_manager, label};
use ferrolb_core::allocator::{Allocation, LoadBalancers, StatusWrite, allocate};
use ferrolb_core::config::{Compiled, Diagnostic, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_core::status;
use ferrolb_runtime::keep::{self, Wanted};
use ferrolb_runtime::lease::Held as LeaseHeld;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::watch::Store;
use ferrolb_runtime::write;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::args::Args;
use crate::assumed::{Assumed, Seen, version};
use crate::metrics::Metrics;
use crate::reporter::Reporter;
use crate::states::stale;
use crate::writer;

/// Status writes under way at a time.
const CONCURRENT_WRITES: usize = 8;

/// What the controller watches.
pub(crate) struct Stores {
    pub(crate) services: Store<Service>,
    pub(crate) pools: Store<IPAddressPool>,
    pub(crate) l2_advertisements: Store<L2Advertisement>,
    pub(crate) bgp_advertisements: Store<BGPAdvertisement>,
    pub(crate) bgp_peers: Store<BGPPeer>,
    pub(crate) bfd_profiles: Store<BFDProfile>,
    pub(crate) communities: Store<Community>,
    pub(crate) nodes: Store<Node>,
    pub(crate) namespaces: Store<Namespace>,
    pub(crate) states: Store<ConfigurationState>,
}

type Services = BTreeMap<ServiceKey, Arc<Service>>;

/// The controller between two passes.
pub(crate) struct Controller {
    client: Client,
    namespace: String,
    pod_name: String,
    class: Option<String>,
    stores: Stores,
    metrics: Metrics,
    reporter: Reporter,
    assumed: Assumed,
    owner: Option<OwnerReference>,
}

impl Controller {
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        args: &Args,
        stores: Stores,
        metrics: Metrics,
        reporter: Reporter,
    ) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            pod_name: args.pod_name.clone(),
            class: Some(args.lb_class.clone()).filter(|class| !class.is_empty()),
            stores,
            metrics,
            reporter,
            assumed: Assumed::default(),
            owner: None,
        }
    }

    /// Makes a pass; true: something is left to be tried again.
    pub(crate) async fn pass(&mut self, lease: &LeaseHeld) -> bool {
        let services = self.services();
        self.assumed.catch_up(|key| {
            services.get(key).map(|service| Seen {
                uid: service.uid().unwrap_or_default(),
                version: version(service.resource_version().as_deref()),
            })
        });
        let compiled = compile(&self.resources());
        let handled: LoadBalancers = services
            .iter()
            .map(|(key, service)| (key.clone(), LoadBalancer::new(service, [])))
            .filter(|(_, service)| service.is_handled_by(self.class.as_deref()))
            .collect();
        let allocation = allocate(&compiled.config, &handled, self.assumed.held());
        self.assumed.held_mut().accept(&allocation);
        self.show(&compiled, &allocation);

        let mut retry = self.write_services(&services, &allocation, lease).await;
        self.reporter.retain(|key| services.contains_key(key));
        if lease.now() {
            retry |= self.write_pools(&allocation).await;
            retry |= self.write_state(&compiled).await;
            retry |= self.delete_stale_states().await;
        }
        retry
    }

    fn services(&self) -> Services {
        let key = |service: &Service| ServiceKey {
            namespace: service.namespace().unwrap_or_default(),
            name: service.name_any(),
        };
        self.stores.services.list().into_iter().map(|service| (key(&service), service)).collect()
    }

    fn resources(&self) -> Resources {
        Resources::default()
            .with_pools(self.stores.pools.list())
            .with_l2_advertisements(self.stores.l2_advertisements.list())
            .with_bgp_advertisements(self.stores.bgp_advertisements.list())
            .with_bgp_peers(self.stores.bgp_peers.list())
            .with_bfd_profiles(self.stores.bfd_profiles.list())
            .with_communities(self.stores.communities.list())
            .with_nodes(self.stores.nodes.list().iter().map(|node| &**node))
            .with_namespaces(self.stores.namespaces.list().iter().map(|namespace| &**namespace))
    }

    fn show(&mut self, compiled: &Compiled, allocation: &Allocation) {
        let mut services = BTreeMap::new();
        for assignment in allocation.outcomes.values().filter_map(|outcome| outcome.assignment.as_ref()) {
            *services.entry(assignment.pool.clone()).or_insert(0) += 1;
        }
        let invalid = compiled.diagnostics.iter().any(is_ours);
        self.metrics.show_pools(&allocation.counters, &services);
        self.metrics.config_loaded.set(1);
        self.metrics.config_stale.set(invalid.into());
        self.metrics.updates.inc();
    }

    async fn write_services(
        &mut self,
        services: &Services,
        allocation: &Allocation,
        lease: &LeaseHeld,
    ) -> bool {
        let mut writes: BTreeMap<ServiceKey, StatusWrite> =
            self.assumed.in_doubt().map(|(key, write)| (key.clone(), write.clone())).collect();
        for (key, outcome) in &allocation.outcomes {
            match &outcome.write {
                Some(write) => drop(writes.insert(key.clone(), write.clone())),
                // What is written already is told at once, the rest with its write.
                None => tell(&mut self.reporter, services, allocation, key),
            }
        }
        for (key, write) in &writes {
            self.assumed.sending(key, write);
        }
        let client = &self.client;
        let mut answers = stream::iter(&writes)
            .map(|(key, write)| async move {
                let seen = services.get(key).and_then(|service| service.resource_version());
                // Without the lease somebody else may be writing: leave it to them.
                let answer = match lease.now() {
                    true => Some(writer::write(client.clone(), key, seen.as_deref(), write).await),
                    false => None,
                };
                (key, answer)
            })
            .buffer_unordered(CONCURRENT_WRITES);
        let mut retry = false;
        while let Some((key, answer)) = answers.next().await {
            match answer {
                Some(Ok(written)) => {
                    self.assumed.answered(key, version(written.resource_version().as_deref()));
                    tracing::info!(event = "serviceUpdated", service = %key, "updated service object");
                    tell(&mut self.reporter, services, allocation, key);
                }
                // The store will show what came in between, or that the Service is gone.
                Some(Err(error)) if error.is_conflict() || error.is_not_found() => {
                    self.assumed.refused(key);
                    retry = true;
                }
                Some(Err(error)) => {
                    self.metrics.update_errors.inc();
                    let cause = chain(&error);
                    tracing::warn!(op = "updateServiceStatus", service = %key, error = cause, "status not written, retrying");
                    if error.code().is_some() {
                        self.assumed.refused(key);
                    }
                    retry = true;
                }
                None => self.assumed.refused(key),
            }
        }
        retry
    }

    async fn write_pools(&mut self, allocation: &Allocation) -> bool {
        let api: Api<IPAddressPool> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut retry = false;
        for pool in self.stores.pools.list() {
            let name = pool.name_any();
            // A pool that is left out gives nothing.
            let status = allocation.counters.get(&name).map(|it| it.status()).unwrap_or_default();
            if pool.status.as_ref() == Some(&status) {
                continue;
            }
            let patch = json!({"metadata": {"uid": pool.uid()}, "status": status});
            match write::merge_status(&api, field_manager::CONTROLLER, &name, &patch).await {
                Ok(_) => {}
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
                    retry = true;
                }
            }
        }
        retry
    }

    async fn write_state(&mut self, compiled: &Compiled) -> bool {
        let Some(owner) = self.owner().await else { return true };
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
            Ok(false) => false,
            Ok(true) => {
                report(compiled);
                false
            }
            Err(error) => {
                self.metrics.update_errors.inc();
                let cause = chain(&error);
                tracing::warn!(op = "updateConfigurationState", error = cause, "state not written, retrying");
                true
            }
        }
    }

    async fn delete_stale_states(&self) -> bool {
        let api: Api<ConfigurationState> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut retry = false;
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
                    retry = true;
                }
            }
        }
        retry
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

fn tell(reporter: &mut Reporter, services: &Services, allocation: &Allocation, key: &ServiceKey) {
    if let (Some(service), Some(outcome)) = (services.get(key), allocation.outcomes.get(key)) {
        reporter.tell(key, service, &outcome.events);
    }
}

/// Whether something that the controller works with is left out.
fn is_ours(diagnostic: &Diagnostic) -> bool {
    diagnostic.leaves_out() && status::concerns_controller(diagnostic)
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
