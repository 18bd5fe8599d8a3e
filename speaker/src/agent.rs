//! What this node announces, from what the cluster holds to the channels that the wire follows.
//!
//! ```text
//! stores ──Changed (debounced)──┐
//! watch<Members> ──at once──────┼─> World ─view::plan()─> Plan ─┬─> watch<OwnedAddresses> ─> layer2
//! watch<Links> ────at once──────┤                               ├─> watch<Option<Peers>> ──> bgp
//! watch<Found> ────at once──────┘                               └─> watch<Report> ─────────> status
//! ```
//!
//! Each pass plans everything anew and acts on the difference: log lines and metrics on transitions
//! only. A pass over an unchanged world ends before it plans. Nothing is announced until every store
//! had its first list and the membership is settled; an API server that goes away changes nothing.

pub mod transition;
pub mod view;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_core::config::{Compiled, Memory};
use ferrolb_core::planner::{OwnedAddresses, Protocol};
use ferrolb_core::resources::Resources;
use ferrolb_runtime::Shutdown;
use ferrolb_runtime::log::list;
use ferrolb_runtime::readiness::Condition;
use ferrolb_runtime::watch::Changed;
use tokio::sync::watch;

use crate::bgp::Peers;
use crate::links::Links;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::secrets::{Found, Secrets};
use crate::status::Report;
use crate::stores::Stores;
use transition::{Announced, Transition, announced, transitions};
use view::{Plan, World, plan};

/// Changes of the cluster's objects come in bursts; one pass serves those of this time.
const DEBOUNCE: Duration = Duration::from_millis(15);

/// How this speaker was told to behave.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this Node.
    pub node: String,
    /// Load balancer class to handle.
    pub class: Option<String>,
    /// Whether the exclude label of nodes is ignored.
    pub ignore_exclude_label: bool,
}

/// The agent.
pub struct Agent {
    /// How to behave.
    pub settings: Settings,
    /// What the cluster holds.
    pub stores: Stores,
    /// Tells of changes of the stores.
    pub changed: Changed,
    /// Living speakers; without membership every Node counts as alive.
    pub members: Option<watch::Receiver<Members>>,
    /// Holds once the members can be relied on.
    pub settled: Condition,
    /// Interfaces of this node.
    pub links: watch::Receiver<Links>,
    /// Reads passwords of BGP peers.
    pub secrets: Secrets,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where the wire reads.
    pub owned: watch::Sender<OwnedAddresses>,
    /// Where BGP reads; nothing before the first plan.
    pub peers: watch::Sender<Option<Peers>>,
    /// Where the status writer reads.
    pub report: watch::Sender<Option<Report>>,
}

/// What the last pass came to.
#[derive(Default)]
struct Last {
    memory: Memory,
    compiled: Option<(Resources, Arc<Compiled>)>,
    world: Option<World>,
    plan: Plan,
    announced: [Announced; 2],
}

const PROTOCOLS: [Protocol; 2] = [Protocol::Layer2, Protocol::Bgp];

impl Agent {
    /// Plans until the shutdown begins. What was announced then stays announced.
    pub async fn run(mut self, shutdown: Shutdown) {
        tokio::select! {
            () = self.stores.listed() => {}
            () = shutdown.requested() => return,
        }
        let mut last = Last::default();
        let mut secrets = self.secrets.found();
        let mut due: Option<Instant> = Some(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = members_changed(&mut self.members) => {}
                Ok(()) = self.links.changed() => {}
                Ok(()) = secrets.changed() => {}
                () = sleep_until(due) => {}
                () = self.changed.next(), if due.is_none() => {
                    due = Some(Instant::now() + DEBOUNCE);
                    continue;
                }
            }
            due = None;
            let found = secrets.borrow_and_update().clone();
            self.pass(&mut last, found);
        }
    }

    fn pass(&mut self, last: &mut Last, secrets: Found) {
        let began = Instant::now();
        let world = self.observe(last, secrets);
        if last.world.as_ref() == Some(&world) {
            return;
        }
        let diagnostics = &world.compiled.diagnostics;
        let known = last.world.as_ref().map(|before| &before.compiled.diagnostics);
        if known != Some(diagnostics) {
            view::tell_diagnostics(diagnostics);
        }
        self.settled.set(world.settled);
        let plan = plan(&world);
        // The wire first, then the talking about it.
        self.owned.send_if_modified(|owned| {
            let changed = *owned != plan.announcements.layer2;
            if changed {
                owned.clone_from(&plan.announcements.layer2);
            }
            changed
        });
        // A peer that keeps routes while this speaker restarts must not hear the end of the table
        // before the table is whole.
        if world.settled {
            let peers = Some(view::peers(&world, &plan.announcements));
            self.peers.send_if_modified(|current| {
                let changed = *current != peers;
                if changed {
                    *current = peers;
                }
                changed
            });
        }
        view::tell_withheld(&last.plan, &plan);
        let now = PROTOCOLS.map(|protocol| announced(&plan.services, protocol));
        for ((before, now), protocol) in last.announced.iter().zip(&now).zip(PROTOCOLS) {
            self.tell(&transitions(before, now, &plan.services, protocol), protocol);
        }
        self.metrics.planned(view::is_valid(diagnostics));
        let report = Report::new(&plan, diagnostics, &world);
        self.report.send_if_modified(|current| {
            let changed = current.as_ref() != Some(&report);
            *current = Some(report);
            changed
        });
        (last.world, last.plan, last.announced) = (Some(world), plan, now);
        tracing::debug!(
            event = "planned",
            microseconds = began.elapsed().as_micros() as u64,
            "planned everything"
        );
    }

    /// Reads everything that a plan depends on.
    fn observe(&mut self, last: &mut Last, secrets: Found) -> World {
        let nodes = self.stores.nodes.list();
        let wanted = self.stores.secret_names();
        let unread_secrets: BTreeSet<String> = wanted.difference(&secrets.known).cloned().collect();
        self.secrets.want(wanted);
        let mut resources = Resources::default()
            .with_pools(self.stores.pools.list())
            .with_l2_advertisements(self.stores.l2_advertisements.list())
            .with_bgp_advertisements(self.stores.bgp_advertisements.list())
            .with_bgp_peers(self.stores.bgp_peers.list())
            .with_bfd_profiles(self.stores.bfd_profiles.list())
            .with_communities(self.stores.communities.list())
            .with_nodes(nodes.iter().map(Arc::as_ref));
        if unread_secrets.is_empty() {
            // From now on a Secret that is not there is missing.
            resources = resources.with_secrets(secrets.secrets.into_values());
        }
        let compiled = match &last.compiled {
            Some((before, compiled)) if *before == resources => Arc::clone(compiled),
            _ => {
                let mut compiled = last.memory.compile(&resources);
                compiled.diagnostics.retain(|it| it.concerns(&self.settings.node));
                Arc::new(compiled)
            }
        };
        let nodes = resources.nodes.clone();
        last.compiled = Some((resources, Arc::clone(&compiled)));
        let (settled, members) = match &mut self.members {
            Some(members) => {
                let members = members.borrow_and_update();
                (members.settled, members.living().map(ToOwned::to_owned).collect())
            }
            None => (true, nodes.keys().cloned().collect::<BTreeSet<_>>()),
        };
        World {
            compiled,
            nodes,
            settled,
            members,
            interfaces: self.links.borrow_and_update().names(),
            peer_uids: self.stores.peer_uids(),
            unread_secrets,
            services: view::load_balancers(
                &self.stores.services.list(),
                &self.stores.slices.list(),
                self.settings.class.as_deref(),
            ),
            this_node: self.settings.node.clone(),
            ignore_exclude_label: self.settings.ignore_exclude_label,
        }
    }

    fn tell(&self, transitions: &[Transition], protocol: Protocol) {
        for transition in transitions {
            let service = transition.service().to_string();
            match transition {
                Transition::Announced { pool, addresses, .. } => tracing::info!(
                    event = "serviceAnnounced",
                    service,
                    ips = list(addresses),
                    pool,
                    protocol = protocol.name(),
                    "service has IP, announcing"
                ),
                Transition::Withdrawn { pool, addresses, reason, .. } => tracing::info!(
                    event = "serviceWithdrawn",
                    service,
                    ip = list(addresses),
                    ips = list(addresses),
                    pool,
                    protocol = protocol.name(),
                    reason = reason.reason(protocol),
                    "withdrawing service announcement"
                ),
            }
            let announced = matches!(transition, Transition::Announced { .. });
            for address in transition.addresses() {
                self.metrics.set_announced(&service, protocol, &self.settings.node, *address, announced);
            }
        }
    }
}

async fn members_changed(members: &mut Option<watch::Receiver<Members>>) {
    if let Some(members) = members
        && members.changed().await.is_ok()
    {
        return;
    }
    // No membership, or it has ended: the view stays what it is.
    std::future::pending().await
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
