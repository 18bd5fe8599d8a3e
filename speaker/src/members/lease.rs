//! Membership by Leases, one for each node, where speakers cannot reach each other's ports.
//!
//! ```text
//! Store<Lease> ──Renewals: who lives──┐
//!            └───Cards: its links─────┼─> watch<Members> ─> agent
//! Store<Pod> ────who has none yet─────┘
//! watch<Links> ─> Cards ─ watch<Card> ─> Renewer ─ server-side apply ─> API server
//! ```
//!
//! The decisions are [`Renewals`]' and [`Cards`]'. The renewer is a task of its own: an API server that does
//! not answer must not delay what the watch tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferrolb_api::v1beta1::LeaseTimes;
use ferrolb_api::well_known::{annotation, component, field_manager, label, object};
use ferrolb_proto::conflict::Liveness;
use ferrolb_runtime::watch::{Changed, Store, Watches};
use ferrolb_runtime::{latest, log, write};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::cards::{Card, Cards, Farewell};
use super::renewals::{Renewals, Stamp};
use super::{Member, MemberLink, Members, Membership, publish, sleep_until};
use crate::links::Links;
use crate::metrics::Metrics;
use crate::stores::prune_pod;

/// Renewals of a burst are looked at together.
const BURST: Duration = Duration::from_millis(20);
/// Longest time that a renewal may take; then another is sent.
const PATIENCE: Duration = Duration::from_secs(2);

/// What this speaker needs to take part.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this Node.
    pub node: String,
    /// Name of this pod, which owns the Lease.
    pub pod: String,
    /// Namespace of pods and Leases.
    pub namespace: String,
    /// Labels of the speakers' pods.
    pub pod_labels: String,
    /// When who is believed to be dead.
    pub times: LeaseTimes,
}

impl Membership {
    /// Begins to take part.
    pub fn by_leases(
        settings: Settings,
        client: Client,
        watches: &Watches,
        links: watch::Receiver<Links>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let life = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let leases = Api::namespaced(client.clone(), &settings.namespace);
        let pods = Api::namespaced(client, &settings.namespace);
        let select = |labels: &str| watcher::Config::default().labels(labels);
        let of_speakers =
            format!("{}={},{}={}", label::APP, label::APP_VALUE, label::COMPONENT, component::SPEAKER);
        let (publish, view) = watch::channel(Members::default());
        let (leave, left) = oneshot::channel();
        let task = Task {
            cards: Cards::new(settings.node.clone(), u64::try_from(life).unwrap_or(u64::MAX)),
            renewals: Renewals::new(settings.node.clone(), settings.times),
            read: BTreeMap::new(),
            pods: watches.add_pruned(pods, select(&settings.pod_labels), prune),
            leases: watches.add_with(leases.clone(), select(&of_speakers)),
            changed: watches.changed(),
            api: leases,
            settings,
            links,
            publish,
            metrics,
        };
        Self { view, leave, task: tokio::spawn(task.run(left)) }
    }
}

/// The node of a pod is what tells whose it is.
fn prune(pod: &mut Pod) {
    let node_name = pod.spec.as_mut().and_then(|spec| spec.node_name.take());
    prune_pod(pod);
    pod.spec = Some(PodSpec { node_name, ..PodSpec::default() });
}

struct Task {
    settings: Settings,
    cards: Cards,
    renewals: Renewals,
    /// Cards as they were read last, by node.
    read: BTreeMap<String, String>,
    api: Api<Lease>,
    pods: Store<Pod>,
    leases: Store<Lease>,
    changed: Changed,
    links: watch::Receiver<Links>,
    publish: watch::Sender<Members>,
    metrics: Arc<Metrics>,
}

impl Task {
    async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        let listed = async { tokio::join!(self.pods.listed(), self.leases.listed()) };
        tokio::select! {
            _ = listed => {}
            _ = &mut leave => return,
        }
        let links = self.links.borrow_and_update().clone();
        self.cards.set_links(Instant::now(), &links);
        let (tell, told) = watch::channel(self.cards.own().clone());
        let renewing = tokio::spawn(self.renewer().run(told));
        loop {
            self.look();
            let farewell = self.cards.next_farewell(Instant::now());
            tokio::select! {
                biased;
                _ = &mut leave => break,
                () = self.changed.next() => tokio::time::sleep(BURST).await,
                () = sleep_until(farewell) => {}
                Ok(()) = self.links.changed() => {
                    let links = self.links.borrow_and_update().clone();
                    self.cards.set_links(Instant::now(), &links);
                    latest::publish(&tell, self.cards.own().clone());
                }
            }
        }
        self.cards.leave(Instant::now());
        tell.send_replace(self.cards.own().clone());
        // A panic of the task ends the process by itself.
        let _ = renewing.await;
    }

    fn renewer(&self) -> Renewer {
        let pods = self.pods.list();
        let own = pods.iter().find(|pod| pod.name_any() == self.settings.pod).and_then(|pod| pod.uid());
        let owner = |uid| json!([{"apiVersion": "v1", "kind": "Pod", "name": self.settings.pod, "uid": uid}]);
        Renewer {
            api: self.api.clone(),
            times: self.settings.times,
            // The Lease goes when the node has no speaker any more.
            owner: own.map(owner).unwrap_or_default(),
        }
    }

    /// Takes what the API server shows, and tells what follows.
    fn look(&mut self) {
        let now = Instant::now();
        let mut stamps = BTreeMap::new();
        for lease in self.leases.list() {
            if let Some((node, stamp)) = self.read(now, &lease) {
                stamps.insert(node, stamp);
            }
        }
        self.renewals.see(now, &stamps);
        let members = self.members(now);
        for (node, event) in events(&self.publish.borrow(), &members) {
            tracing::info!("node event" = event, "node name" = node, "node event - forcing sync");
        }
        self.cards.retain(|node| members.nodes.contains_key(node));
        self.read.retain(|node, _| members.nodes.contains_key(node));
        publish(&self.publish, members, &self.metrics);
    }

    /// Of which node a Lease is, and its last renewal. One without a card is not ours.
    fn read(&mut self, now: Instant, lease: &Lease) -> Option<(String, Stamp)> {
        let name = lease.metadata.name.as_deref()?;
        let node = name.strip_prefix(object::SPEAKER_LEASE_PREFIX)?.to_owned();
        let text = lease.annotations().get(annotation::SPEAKER_CARD)?;
        let stamp = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        if node == self.settings.node {
            let card: Card = serde_json::from_str(text).ok()?;
            // What another process of this node left says nothing of this one.
            return (card.life == self.cards.own().life).then_some((node, stamp));
        }
        if self.read.get(&node) != Some(text) {
            let card: Card = serde_json::from_str(text).ok().filter(|card: &Card| card.node == node)?;
            self.cards.receive(now, card);
            self.read.insert(node.clone(), text.clone());
        }
        Some((node, stamp))
    }

    fn members(&self, now: Instant) -> Members {
        let links = |node: &str| {
            self.cards.links(node).map(|links| links.iter().map(MemberLink::from).collect::<Vec<_>>())
        };
        // Who runs without a Lease has not written one yet, or is replaced soon by one who does: it may own
        // addresses all the same.
        let unknown = Member { liveness: Liveness::Suspect, life: 0, links: None };
        let mut nodes: BTreeMap<String, Member> =
            running(&self.pods.list()).into_iter().map(|node| (node, unknown.clone())).collect();
        for (node, other) in self.renewals.others() {
            let liveness = match self.cards.farewell(now, node) {
                Some(Farewell::JustNow) => Liveness::Left,
                Some(Farewell::LongAgo) => Liveness::Dead,
                None => other.liveness,
            };
            let life = self.cards.life(node).saturating_add(other.returns);
            nodes.insert(node.clone(), Member { liveness, life, links: links(node) });
        }
        let own = self.settings.node.clone();
        let here = Member { liveness: Liveness::Alive, life: self.cards.own().life, links: links(&own) };
        nodes.insert(own, here);
        Members { settled: self.renewals.settled(), nodes }
    }
}

/// Nodes of the pods that run.
fn running(pods: &[Arc<Pod>]) -> BTreeSet<String> {
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running");
    let running = pods.iter().filter(|pod| runs(pod));
    running.filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect()
}

/// Who came and who went, in MetalLB's words.
fn events(before: &Members, now: &Members) -> Vec<(String, &'static str)> {
    let lives = |members: &Members, node: &str| {
        members.nodes.get(node).is_some_and(|it| it.liveness <= Liveness::Suspect)
    };
    let all: BTreeSet<&String> = before.nodes.keys().chain(now.nodes.keys()).collect();
    let changed = all.into_iter().filter(|node| lives(before, node) != lives(now, node));
    changed.map(|node| (node.clone(), if lives(now, node) { "NodeJoin" } else { "NodeLeave" })).collect()
}

/// Writes the own Lease, again and again.
struct Renewer {
    api: Api<Lease>,
    times: LeaseTimes,
    owner: Value,
}

impl Renewer {
    /// Until a card was written that says goodbye.
    async fn run(self, mut told: watch::Receiver<Card>) {
        let mut failing = false;
        loop {
            let card = told.borrow_and_update().clone();
            match self.renew(&card).await {
                Ok(()) if failing => {
                    failing = false;
                    tracing::info!(event = "leaseRenewed", "this node's Lease is renewed again");
                }
                Ok(()) => {}
                Err(error) if !failing => {
                    failing = true;
                    let error = log::chain(&error);
                    tracing::warn!(
                        event = "leaseNotRenewed",
                        error,
                        "this node's Lease was not renewed, retrying"
                    );
                }
                Err(_) => {}
            }
            if card.leaving {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(self.times.retry_period()) => {}
                changed = told.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn renew(&self, card: &Card) -> Result<(), write::WriteError> {
        let name = format!("{}{}", object::SPEAKER_LEASE_PREFIX, card.node);
        let parameters = PatchParams::apply(field_manager::SPEAKER).force();
        let lease = self.lease(&name, card);
        let patch = Patch::Apply(&lease);
        write::bounded_by(PATIENCE, self.api.patch(&name, &parameters, &patch)).await.map(drop)
    }

    fn lease(&self, name: &str, card: &Card) -> Value {
        let holder = if card.leaving { "" } else { &card.node };
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "labels": {label::APP: label::APP_VALUE, label::COMPONENT: component::SPEAKER},
                "annotations": {annotation::SPEAKER_CARD: json!(card).to_string()},
                "ownerReferences": self.owner,
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": self.times.duration().as_secs_f64().ceil() as u64,
                "renewTime": MicroTime(Timestamp::now()),
            },
        })
    }
}
