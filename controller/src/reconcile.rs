//! One pass: observe (stores), decide (pure), write what differs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{
    BFDProfile, BGPAdvertisement, Community, ConfigurationState, IPAddressPool, L2Advertisement,
};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_api::well_known::field_manager;
use ferrolb_core::allocator::{Allocation, allocate};
use ferrolb_core::config::{Compiled, Compiler};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::ServiceKey;
use ferrolb_runtime::lease::Held as LeaseHeld;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::shutdown::Shutdown;
use ferrolb_runtime::watch::Store;
use ferrolb_runtime::write;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};

use crate::args::Args;
use crate::arrivals::Arrivals;
use crate::assumed::{Assumed, Seen};
use crate::barrier::Barrier;
use crate::metrics::Metrics;
use crate::pool_status::Written;
use crate::postponed::Postponed;
use crate::reporter::Reporter;
use crate::rivals::{Rivals, last_writer};
use crate::states::conflicts;
use crate::stored::Stored;
use crate::untold::Untold;
use crate::view::View;
use crate::writer::Limits;

/// After a pass in which something failed.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// Rivals that are asked for by name in one pass; there are few, or something larger is wrong.
const NAMED_RIVALS: usize = 16;

/// What the controller watches.
pub(crate) struct Stores {
    pub(crate) services: Store<Stored>,
    pub(crate) pools: Store<IPAddressPool>,
    pub(crate) reservations: Store<AddressReservation>,
    pub(crate) l2_advertisements: Store<L2Advertisement>,
    pub(crate) bgp_advertisements: Store<BGPAdvertisement>,
    pub(crate) bgp_peers: Store<BGPPeer>,
    pub(crate) bfd_profiles: Store<BFDProfile>,
    pub(crate) communities: Store<Community>,
    pub(crate) nodes: Store<Node>,
    pub(crate) namespaces: Store<Namespace>,
    pub(crate) states: Store<ConfigurationState>,
}

/// The controller between two passes.
pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) pod_name: String,
    class: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) stores: Stores,
    arrivals: Arrivals,
    pub(crate) metrics: Metrics,
    pub(crate) reporter: Reporter,
    pub(crate) shutdown: Shutdown,
    view: View,
    compiler: Compiler,
    /// The configuration as it was compiled last, and from what.
    compiled: Option<(Resources, Arc<Compiled>)>,
    lead: Option<Lead>,
    pub(crate) owner: Option<OwnerReference>,
}

/// What a leader knows beyond its stores. It ends with its term: what another one did meanwhile is known
/// to the stores alone. (If there was no other one, the term goes on.)
#[derive(Default)]
pub(crate) struct Lead {
    term: i32,
    barrier: Passage,
    pub(crate) assumed: Assumed,
    rivals: Rivals,
    pub(crate) pools: Written,
    pub(crate) postponed: Postponed,
    pub(crate) untold: Untold,
    /// Services that are to be written, and since when.
    pub(crate) waiting: BTreeMap<Arc<ServiceKey>, Instant>,
}

#[derive(Default)]
enum Passage {
    #[default]
    Unread,
    Before(Barrier),
    Passed,
}

impl Controller {
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        args: &Args,
        limits: Limits,
        stores: Stores,
        (arrivals, shutdown): (Arrivals, Shutdown),
        (metrics, reporter): (Metrics, Reporter),
    ) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            pod_name: args.pod_name.clone(),
            class: Some(args.lb_class.clone()).filter(|class| !class.is_empty()),
            limits,
            stores,
            arrivals,
            metrics,
            reporter,
            shutdown,
            view: View::default(),
            compiler: Compiler::default(),
            compiled: None,
            lead: None,
            owner: None,
        }
    }

    /// Makes a pass as the leader; the time after which to come again, whatever happens.
    pub(crate) async fn pass(&mut self, lease: &LeaseHeld) -> Option<Duration> {
        let term = lease.covers(Duration::ZERO)?;
        let lead = self.lead.take().filter(|lead| lead.term == term);
        let mut lead = lead.unwrap_or_else(|| Lead { term, ..Lead::default() });
        let mut view = std::mem::take(&mut self.view);
        let arrived = self.arrivals.take().unwrap_or_else(Instant::now);
        view.refresh(self.stores.services.list(), self.class.as_deref());
        let next = self.pass_as(&mut lead, &view, arrived, lease).await;
        (self.lead, self.view) = (Some(lead), view);
        next
    }

    /// Follows the configuration without deciding anything: another process is the leader.
    pub(crate) fn stand_by(&mut self) {
        self.arrivals.take();
        let compiled = self.compile();
        self.metrics.show_configuration(&compiled);
        self.metrics.forget_pools();
    }

    async fn pass_as(
        &mut self,
        lead: &mut Lead,
        view: &View,
        arrived: Instant,
        lease: &LeaseHeld,
    ) -> Option<Duration> {
        if !self.is_past(lead, view).await {
            return Some(RETRY);
        }
        lead.assumed.catch_up(|key| view.seen(key));
        let compiled = self.compile();
        self.note_rivals(lead, view).await;
        lead.assumed.held_mut().set_conflicts(conflicts(&self.stores.states.list()));
        let allocation = allocate(&compiled.config, &view.handled, lead.assumed.held());
        lead.assumed.held_mut().accept(&allocation);
        self.show(&compiled, &allocation);
        let (waiting, assumed) = (&mut lead.waiting, &lead.assumed);
        waiting.retain(|key, _| {
            assumed.is_under_way(key) || allocation.outcomes.get(key).is_some_and(|it| it.write.is_some())
        });
        for (key, _) in allocation.outcomes.iter().filter(|(_, outcome)| outcome.write.is_some()) {
            lead.waiting.entry(Arc::clone(key)).or_insert(arrived);
        }

        let mut next = self.write_services(lead, view, &allocation, lease).await;
        self.reporter.retain(|key| view.services.contains_key(key));
        lead.untold.retain(|key| view.services.contains_key(key));
        if lease.covers(self.limits.write).is_some() {
            next = sooner(next, self.write_pools(lead, &allocation).await);
            next = sooner(next, self.write_state(&compiled).await);
            next = sooner(next, self.delete_stale_states().await);
        }
        sooner(next, lead.rivals.next_change(Instant::now()))
    }

    /// Whether the store shows what the leader before may have written last.
    async fn is_past(&self, lead: &mut Lead, view: &View) -> bool {
        if matches!(lead.barrier, Passage::Unread) {
            match Barrier::read(self.client.clone()).await {
                Ok(barrier) => lead.barrier = Passage::Before(barrier),
                Err(error) => {
                    let cause = chain(&error);
                    tracing::warn!(op = "listServices", error = cause, "cannot begin to lead yet, retrying");
                    return false;
                }
            }
        }
        if let Passage::Before(barrier) = &lead.barrier {
            let passed = barrier.is_passed(|key| view.seen(key));
            lead.barrier = if passed { Passage::Passed } else { Passage::Unread };
        }
        matches!(lead.barrier, Passage::Passed)
    }

    /// Finds out who wrote over statuses.
    async fn note_rivals(&self, lead: &mut Lead, view: &View) {
        let now = Instant::now();
        lead.rivals.retain(|key| view.handled.contains_key(key), now);
        let mut lookups = Vec::new();
        for service in view.handled.values().filter(|it| it.is_load_balancer && it.is_overwritten()) {
            let Some(Seen { version, .. }) = view.seen(&service.key) else { continue };
            let own = lead.assumed.is_under_way(&service.key);
            if own || !lead.rivals.is_news(&service.key, &service.uid, version) {
                continue;
            }
            lookups.push(async move { (service, version, self.overwriter(&service.key).await) });
            if lookups.len() == NAMED_RIVALS {
                break;
            }
        }
        let found: Vec<_> = stream::iter(lookups).buffer_unordered(NAMED_RIVALS).collect().await;
        for (service, version, name) in found {
            lead.rivals.note(&service.key, &service.uid, version, name, now);
        }
        lead.assumed.held_mut().set_rivals(lead.rivals.now(now));
    }

    /// Who wrote the status of a Service last, besides us. (Stores do not keep who wrote what.)
    async fn overwriter(&self, key: &ServiceKey) -> String {
        let api: Api<Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let current = write::bounded_by(self.limits.write, api.get(&key.name)).await;
        let fields = current.ok().and_then(|it| it.metadata.managed_fields).unwrap_or_default();
        last_writer(&fields, field_manager::CONTROLLER).unwrap_or_else(|| "an unknown writer".to_owned())
    }

    /// The configuration in force. Most passes are for Services: it is read anew only where it differs.
    fn compile(&mut self) -> Arc<Compiled> {
        let resources = self.resources();
        if let Some((before, compiled)) = &self.compiled
            && *before == resources
        {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(self.compiler.compile(&resources));
        self.compiled = Some((resources, Arc::clone(&compiled)));
        compiled
    }

    fn resources(&self) -> Resources {
        Resources::default()
            .with_pools(self.stores.pools.list())
            .with_reservations(self.stores.reservations.list())
            .with_l2_advertisements(self.stores.l2_advertisements.list())
            .with_bgp_advertisements(self.stores.bgp_advertisements.list())
            .with_bgp_peers(self.stores.bgp_peers.list())
            .with_bfd_profiles(self.stores.bfd_profiles.list())
            .with_communities(self.stores.communities.list())
            .with_nodes(self.stores.nodes.list().iter().map(|node| &**node))
            .with_namespaces(self.stores.namespaces.list().iter().map(|namespace| &**namespace))
    }

    fn show(&mut self, compiled: &Compiled, allocation: &Allocation) {
        self.metrics.show_configuration(compiled);
        self.metrics.show_allocation(allocation);
        self.metrics.updates.inc();
    }
}

/// The earlier of two times to come again.
pub(crate) fn sooner(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    [a, b].into_iter().flatten().min()
}
