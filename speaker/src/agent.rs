//! What this node announces, from what the cluster holds to the channels that the wire follows.
//!
//! ```text
//! stores, watch<Standings> ──debounced──┐
//! watch<Members> ──at once──────────────┼─> World ─view::plan()─> Plan ─┬─> watch<Orders> ─────────> layer2
//! watch<Links> ────at once──────────────┤                               ├─> watch<Option<Peers>> ──> bgp
//! watch<Found> ────at once──────────────┘                               └─> watch<Report> ─────────> status
//! ```
//!
//! Each pass comes to what a plan made of nothing would be, and acts on the difference: log lines and
//! metrics on transitions only. A pass over an unchanged world ends before it plans; of another one it
//! takes over what still holds ([`scope`]). Nothing is announced until every store
//! had its first list and the membership is settled; an API server that goes away changes nothing, and
//! when it is back, what it does not show any more goes on for some seconds.

#[cfg(test)]
mod bench;
mod debug;
pub mod readings;
mod scope;
#[cfg(test)]
pub(crate) mod testing;
pub mod transition;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_core::config::{Compiled, Memory};
use ferrolb_core::planner::{Member, Protocol};
use ferrolb_core::resources::Resources;
use ferrolb_proto::conflict::{self, Liveness, Node};
use ferrolb_runtime::Shutdown;
use ferrolb_runtime::admin::Pages;
use ferrolb_runtime::log::list;
use ferrolb_runtime::readiness::Condition;
use ferrolb_runtime::watch::Changed;
use tokio::sync::watch;

use crate::bgp::Peers;
use crate::layer2::{Orders, Standings};
use crate::links::Links;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::secrets::{Found, Secrets};
use crate::status::Report;
use crate::stores::Stores;
use ferrolb_runtime::latest::publish;
use readings::{Readings, keep_endpoints};
use transition::{Transition, transitions};
use view::{Plan, World, plan};

/// Changes of the cluster's objects come in bursts; one pass serves those of this time.
const DEBOUNCE: Duration = Duration::from_millis(15);
/// With very many objects a pass takes long. After it comes a pause of so many times its length, so that
/// passes which follow each other leave the cores to others…
const PAUSE: u32 = 4;
/// …but not a longer one.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long after the API server's return nothing is taken away: in the lab, nodes and endpoints that serve
/// are shown as unready for four to eight seconds.
const HOLD: Duration = Duration::from_secs(10);
/// Without an API server for longer than this, nodes are marked as not ready, and their pods with them
/// (node-monitor-grace-period)…
const GRACE: Duration = Duration::from_secs(40);
/// …and that may come a minute after its return, when the controllers of Kubernetes are back too. Until then
/// Services that lose every endpoint at once keep them: kube-proxy has the last word anyway.
const KEEP_ENDPOINTS: Duration = Duration::from_secs(120);

/// How this speaker was told to behave.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this Node.
    pub node: String,
    /// Load balancer class to handle.
    pub class: Option<String>,
    /// Whether the exclude label of nodes is ignored.
    pub ignore_exclude_label: bool,
    /// Whether a cordoned node gives its addresses away.
    pub withdraw_on_cordon: bool,
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
    /// Where the links read.
    pub orders: watch::Sender<Option<Orders>>,
    /// What they see.
    pub standings: watch::Receiver<Standings>,
    /// Where the last plan is shown.
    pub pages: Pages,
    /// Where BGP reads; nothing before the first plan.
    pub peers: watch::Sender<Option<Peers>>,
    /// Where the status writer reads.
    pub report: watch::Sender<Option<Arc<Report>>>,
}

/// What the last pass came to.
#[derive(Default)]
struct Last {
    memory: Memory,
    compiled: Option<(Resources, Arc<Compiled>)>,
    world: Option<World>,
    plan: Arc<Plan>,
    readings: Readings,
    /// Before this time no other is made for the sake of the cluster's objects.
    pause_until: Option<Instant>,
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
        let shown = Arc::new(watch::channel(Arc::<Plan>::default()).0);
        let page = Arc::clone(&shown);
        self.pages.add("plan", move || debug::page(&page.borrow().clone()));
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
                () = self.changed.next(), if due.is_none_or(|at| at > soon().max(last.pause())) => {
                    due = Some(soon().max(last.pause()));
                    continue;
                }
                Ok(()) = self.standings.changed(), if due.is_none_or(|at| at > soon()) => {
                    due = Some(soon());
                    continue;
                }
            }
            let found = secrets.borrow_and_update().clone();
            let began = Instant::now();
            self.pass(&mut last, found);
            last.pause_until = Some(Instant::now() + (began.elapsed() * PAUSE).min(LONGEST_PAUSE));
            shown.send_replace(Arc::clone(&last.plan));
            // When what is held is looked at again.
            let held = self.changed.restored().map(|at| at + HOLD);
            let ends = held.into_iter().chain(self.endpoints_kept_until());
            due = ends.filter(|at| *at > Instant::now()).min();
        }
    }

    /// Whether what seems to be gone may only not be seen yet: some seconds long from the API server's return,
    /// and on if it goes away again meanwhile.
    fn holds(&self, last: &Last) -> bool {
        let held = last.world.as_ref().is_some_and(|before| before.hold);
        self.changed.restored().is_some_and(|at| at.elapsed() < HOLD) || (held && self.changed.is_lost())
    }

    /// Until when endpoints are believed to serve that are said not to.
    fn endpoints_kept_until(&self) -> Option<Instant> {
        let outage = self.changed.outage().filter(|it| it.lasted > GRACE)?;
        Some(outage.ended + KEEP_ENDPOINTS)
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
        let plan = plan(&world, last.world.as_ref(), &last.plan);
        // The wire first, then the talking about it.
        if world.settled {
            let members = Arc::clone(&world.speakers);
            let orders = Orders { members, claims: plan.claims.clone(), hold: world.hold };
            publish(&self.orders, Some(orders));
            // A peer that keeps routes while this speaker restarts must not hear the end of the table
            // before the table is whole.
            publish(&self.peers, Some(view::peers(&world, &plan.routes)));
        }
        view::tell_withheld(&last.plan, &plan);
        view::tell_kernel(&last.plan, &plan);
        for protocol in PROTOCOLS {
            self.tell(&transitions(&last.plan.services, &plan.services, protocol), protocol);
        }
        self.metrics.planned(view::is_valid(diagnostics));
        let before = self.report.borrow().clone();
        let before = before.as_deref().map(|report| (&*last.plan, report));
        let report = Report::new(&plan, diagnostics, &world, before);
        publish(&self.report, Some(Arc::new(report)));
        (last.world, last.plan) = (Some(world), Arc::new(plan));
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
        let speakers = Arc::new(self.speakers());
        let (settled, members) = self.members(&nodes);
        let mut services = last.readings.read(
            &self.stores.services.list(),
            &self.stores.slices.list(),
            self.settings.class.as_deref(),
        );
        if let Some(before) = &last.world
            && self.endpoints_kept_until().is_some_and(|end| Instant::now() < end)
        {
            keep_endpoints(&mut services, &before.services);
        }
        let hold = self.holds(last);
        World {
            compiled,
            nodes,
            settled,
            members,
            speakers,
            wire: self.standings.borrow_and_update().wire(),
            hold,
            peer_uids: self.stores.peer_uids(),
            unread_secrets,
            kernel: view::kernel(&services, &self.links.borrow()),
            services,
            this_node: self.settings.node.clone(),
            ignore_exclude_label: self.settings.ignore_exclude_label,
            withdraw_on_cordon: self.settings.withdraw_on_cordon,
        }
    }

    /// All speakers for the links; of this node what its kernel says now. Without membership nobody's MAC
    /// is known.
    fn speakers(&self) -> conflict::Members {
        let own = Node::from(self.settings.node.as_str());
        let Some(members) = &self.members else { return conflict::Members::new(own, BTreeMap::new()) };
        let members = members.borrow();
        let others = members.nodes.iter().filter(|(node, _)| **node != self.settings.node);
        let others = others.map(|(node, member)| {
            let links = member.links.as_ref();
            let links = links.map(|links| links.iter().map(|link| (link.mac, link.connected)).collect());
            let member = conflict::Member { liveness: member.liveness, life: member.life, links };
            (Node::from(node.as_str()), member)
        });
        let links = self.links.borrow();
        let here = links.by_index.values().map(|link| (link.address.mac, link.connected)).collect();
        let here = conflict::Member { liveness: Liveness::Alive, life: 0, links: Some(here) };
        conflict::Members::new(own.clone(), others.chain([(own, here)]).collect())
    }

    /// Whether the members can be relied on, and who they are for the plan. Without membership, every Node.
    fn members(
        &mut self,
        nodes: &BTreeMap<String, ferrolb_core::node::Node>,
    ) -> (bool, BTreeMap<String, Member>) {
        let links = self.links.borrow_and_update();
        let connected = links.by_index.values().filter(|link| link.connected);
        let here =
            Member { alive: true, interfaces: Some(connected.map(|link| link.name.clone()).collect()) };
        let (settled, mut all): (bool, BTreeMap<String, Member>) = match &mut self.members {
            Some(members) => {
                let members = members.borrow_and_update();
                let member = |(node, it): (&String, &crate::members::Member)| {
                    let connected = |links: &Vec<crate::members::MemberLink>| {
                        links.iter().filter(|it| it.connected).map(|it| it.name.clone()).collect()
                    };
                    let alive = it.liveness == Liveness::Alive;
                    (node.clone(), Member { alive, interfaces: it.links.as_ref().map(connected) })
                };
                (members.settled, members.nodes.iter().map(member).collect())
            }
            None => (
                true,
                nodes.keys().map(|node| (node.clone(), Member { alive: true, interfaces: None })).collect(),
            ),
        };
        all.insert(self.settings.node.clone(), here);
        (settled, all)
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

impl Last {
    /// The end of the pause after it.
    fn pause(&self) -> Instant {
        self.pause_until.unwrap_or_else(Instant::now)
    }
}

/// When a burst of changes that begins now is over.
fn soon() -> Instant {
    Instant::now() + DEBOUNCE
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
