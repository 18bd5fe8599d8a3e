//! The one loop that decides what this node announces.
//!
//! ```text
//! stores ─┐
//! members ┼─ any change ─→ compile, plan_service, merge ─→ watch<OwnedAddresses> ─→ layer2
//! links ──┘                          └──────────────────→ watch<Published> ─→ status; logs, Events
//! ```
//!
//! Nothing is decided here: the loop gathers the inputs of pure functions and hands their results on.
//! While the API server is away the stores keep what they had, so everything stays in force; while a
//! first list or the first word of the other speakers is missing, nothing is announced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ferrolb_api::v1beta1::{IPAddressPool, L2Advertisement};
use ferrolb_api::well_known::label;
use ferrolb_core::config::{Diagnostic, Severity, compile};
use ferrolb_core::planner::{Holders, OwnedAddresses, PlanInput, ServicePlan, merge, plan_service};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_runtime::Shutdown;
use ferrolb_runtime::watch::{Changed, Store};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use tokio::sync::watch;

use crate::links::Links;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::reporter::Reporter;

/// Changes of the API come in bursts (a Deployment's endpoints); one pass serves a whole burst. What
/// members and links say is acted on at once.
const BURST: Duration = Duration::from_millis(15);

/// What the agent watches.
pub(crate) struct Stores {
    pub(crate) services: Store<Service>,
    pub(crate) slices: Store<EndpointSlice>,
    pub(crate) nodes: Store<Node>,
    pub(crate) pools: Store<IPAddressPool>,
    pub(crate) l2_advertisements: Store<L2Advertisement>,
}

/// Result of a pass, for those who tell it to the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Published {
    /// For every Service that this product handles.
    pub(crate) plans: BTreeMap<ServiceKey, ServicePlan>,
    /// What is wrong with the configuration.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Settings of this speaker.
pub(crate) struct Settings {
    pub(crate) node: String,
    pub(crate) class: Option<String>,
    pub(crate) ignore_exclude_label: bool,
}

/// The agent between two passes.
pub(crate) struct Agent {
    pub(crate) settings: Settings,
    pub(crate) stores: Stores,
    pub(crate) metrics: Metrics,
    pub(crate) reporter: Reporter,
    /// Without membership: every Node counts as alive.
    pub(crate) members: Option<watch::Receiver<Members>>,
    pub(crate) links: watch::Receiver<Links>,
    pub(crate) owned: watch::Sender<OwnedAddresses>,
    /// None before the first pass.
    pub(crate) published: watch::Sender<Option<Arc<Published>>>,
}

impl Agent {
    /// Runs until the shutdown.
    pub(crate) async fn run(mut self, mut changed: Changed, shutdown: Shutdown) {
        tokio::select! {
            () = self.ready() => {}
            () = shutdown.requested() => return,
        }
        loop {
            self.pass();
            tokio::select! {
                () = changed.next() => tokio::time::sleep(BURST).await,
                () = changed_view(self.members.as_mut()) => {}
                () = changed_view(Some(&mut self.links)) => {}
                () = shutdown.requested() => return,
            }
        }
    }

    /// Returns once every store has had its first list and enough was heard of the other speakers.
    async fn ready(&mut self) {
        self.stores.services.listed().await;
        self.stores.slices.listed().await;
        self.stores.nodes.listed().await;
        self.stores.pools.listed().await;
        self.stores.l2_advertisements.listed().await;
        if let Some(members) = &mut self.members
            && members.wait_for(|members| members.settled).await.is_err()
        {
            // The membership ends with the process only.
            std::future::pending::<()>().await;
        }
    }

    fn pass(&mut self) {
        let resources = Resources::default()
            .with_pools(self.stores.pools.list())
            .with_l2_advertisements(self.stores.l2_advertisements.list())
            .with_nodes(self.stores.nodes.list().iter().map(|node| &**node));
        let compiled = compile(&resources);
        let services = self.services();
        let holders = Holders::new(services.values());
        let input = PlanInput {
            config: &compiled.config,
            nodes: &resources.nodes,
            members: &self.living(&resources),
            this_node: &self.settings.node,
            interfaces: &self.links.borrow_and_update().names(),
            ignore_exclude_label: self.settings.ignore_exclude_label,
            holders: &holders,
        };
        let plans: BTreeMap<ServiceKey, ServicePlan> =
            services.iter().map(|(key, service)| (key.clone(), plan_service(&input, service))).collect();

        // The wire comes first, then the words.
        let owned = merge(plans.values()).layer2;
        self.owned.send_if_modified(|current| {
            let differs = *current != owned;
            *current = owned;
            differs
        });
        let invalid = compiled.diagnostics.iter().any(|it| it.severity() == Severity::Invalid);
        self.metrics.planned(!invalid);
        let before = self.published.borrow().clone();
        let nothing = BTreeMap::new();
        self.reporter.tell(before.as_ref().map_or(&nothing, |it| &it.plans), &plans, |key| {
            self.stores.services.get(&key.namespace, &key.name)
        });
        let now = Published { plans, diagnostics: compiled.diagnostics };
        if before.as_deref() != Some(&now) {
            self.published.send_replace(Some(Arc::new(now)));
        }
    }

    fn services(&self) -> BTreeMap<ServiceKey, LoadBalancer> {
        let mut slices: BTreeMap<(String, String), Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in self.stores.slices.list() {
            if let Some(service) = slice.labels().get(label::SERVICE_NAME_OF_SLICE) {
                let key = (slice.namespace().unwrap_or_default(), service.clone());
                slices.entry(key).or_default().push(slice);
            }
        }
        let mut services = BTreeMap::new();
        for service in self.stores.services.list() {
            let key = (service.namespace().unwrap_or_default(), service.name_any());
            let own = slices.get(&key).map(Vec::as_slice).unwrap_or_default();
            let service = LoadBalancer::new(&service, own.iter().map(|slice| &**slice));
            if service.is_handled_by(self.settings.class.as_deref()) {
                services.insert(service.key.clone(), service);
            }
        }
        services
    }

    /// Nodes that count as alive; this one always does.
    fn living(&mut self, resources: &Resources) -> BTreeSet<String> {
        let mut living: BTreeSet<String> = match &mut self.members {
            Some(members) => members.borrow_and_update().living().map(ToOwned::to_owned).collect(),
            None => resources.nodes.keys().cloned().collect(),
        };
        living.insert(self.settings.node.clone());
        living
    }
}

/// Returns when the view has something new; never where there is no view, or no more.
async fn changed_view<T>(view: Option<&mut watch::Receiver<T>>) {
    if let Some(view) = view
        && view.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
