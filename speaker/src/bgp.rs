//! BGP: a session with every peer of this node.
//!
//! ```text
//! watch<Option<Peers>> ─ Bgp ─┬─ watch<Orders> ─> peer task (router-1) ─ Session ─ TCP
//! watch<Reachable> (BFD) ─────┤                        ▲ ▲
//! leave(Departure) ───────────┼─ watch<Callers> ─> listener, where one is asked for
//!                             └─ interfaces ─> search ─┴─ watch<Routers> ─> bfd
//! ```
//!
//! Each peer has a task of its own, so that none waits for another. A task lives as long as what its
//! session is made of ([`Blueprint`]) stays the same; other routes reach it through its channel, and the
//! session sends what differs.

mod dial;
mod listen;
mod path;
mod peer;
mod settings;
mod standing;
mod telling;
mod unnumbered;
mod wire;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use ferrolb_core::config::Peer;
use ferrolb_core::departure::Departure;
use ferrolb_proto::bgp::AdjRibOut;
use ferrolb_proto::bgp::notification::{Code, Notification};
use ferrolb_proto::bgp::session::Farewell;
use ferrolb_runtime::event::EventQueue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::bfd::Reachable;
use crate::metrics::Metrics;
use ferrolb_runtime::latest::publish;
use listen::{Caller, Listeners};
use path::Path;
use peer::{Orders, PeerTask};
use settings::{Blueprint, Target};
pub use standing::Sessions;
use telling::Telling;
pub use unnumbered::Routers;
use unnumbered::Searches;

/// Everything that peers are to have, by name of the BGPPeer.
pub type Peers = BTreeMap<String, DesiredPeer>;

/// What a peer is to have.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredPeer {
    /// How to talk to it.
    pub peer: Peer,
    /// Identity of its BGPPeer, for Events.
    pub uid: String,
    /// The routes it is to have from this node.
    pub routes: Arc<AdjRibOut>,
}

/// What sessions need of the process.
#[derive(Clone, Debug)]
pub struct Context {
    /// The product's namespace.
    pub namespace: String,
    /// This Node.
    pub node: String,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where Events go.
    pub events: EventQueue,
    /// What BFD says of the paths to peers.
    pub reachable: watch::Receiver<Reachable>,
    /// How sessions stand; nothing before the first peers are known.
    pub sessions: watch::Sender<Option<Sessions>>,
    /// Where routers that were found by interface are told.
    pub routers: watch::Sender<Routers>,
    /// The port on which peers may connect, if they may.
    pub listen: Option<NonZeroU16>,
}

/// The running sessions.
#[derive(Debug)]
pub struct Bgp {
    leave: oneshot::Sender<Departure>,
    task: JoinHandle<()>,
}

impl Bgp {
    /// Follows what peers are to have; nothing is begun before that is known.
    pub fn start(desired: watch::Receiver<Option<Peers>>, context: Context) -> Self {
        let (leave, left) = oneshot::channel();
        let listeners = Listeners::new(context.listen);
        let searches = Searches::new(context.routers.clone());
        let (running, ending) = (BTreeMap::new(), Vec::new());
        let supervisor = Supervisor { desired, context, listeners, searches, running, ending };
        Self { leave, task: tokio::spawn(supervisor.run(left)) }
    }

    /// Ends every session, at most within `limit`.
    pub async fn leave(self, departure: Departure, limit: Duration) {
        // A supervisor that is gone has no session left.
        let _ = self.leave.send(departure);
        if tokio::time::timeout(limit, self.task).await.is_err() {
            tracing::debug!(event = "leave", "not every BGP session ended in time");
        }
    }
}

struct Supervisor {
    desired: watch::Receiver<Option<Peers>>,
    context: Context,
    listeners: Listeners,
    searches: Searches,
    running: BTreeMap<String, Running>,
    ending: Vec<JoinHandle<()>>,
}

struct Running {
    blueprint: Blueprint,
    orders: watch::Sender<Orders>,
    caller: Caller,
    task: JoinHandle<()>,
}

impl Supervisor {
    async fn run(mut self, mut left: oneshot::Receiver<Departure>) {
        let departure = loop {
            tokio::select! {
                departure = &mut left => break departure,
                changed = self.desired.changed() => {
                    if changed.is_err() {
                        // The agent is gone; the sessions stay as they are until told to end.
                        break left.await;
                    }
                }
            }
            let Some(peers) = self.desired.borrow_and_update().clone() else { continue };
            self.reconcile(&peers);
        };
        // Who is gone without a word has left no time for more.
        let departure = departure.unwrap_or(Departure::Restarting);
        // Nobody is answered any more.
        self.listeners = Listeners::default();
        for running in std::mem::take(&mut self.running).into_values() {
            let farewell = farewell(&departure, running.blueprint.keeps_routes());
            self.ending.push(running.end(farewell));
        }
        for task in self.ending {
            // A task that panicked has closed its connection.
            let _ = task.await;
        }
    }

    /// Makes sessions and configuration agree.
    fn reconcile(&mut self, peers: &Peers) {
        self.ending.retain(|task| !task.is_finished());
        standing::follow(&self.context.sessions, peers);
        let gone: Vec<String> =
            self.running.keys().filter(|name| !peers.contains_key(*name)).cloned().collect();
        for running in gone.iter().filter_map(|name| self.running.remove(name)) {
            let peer = running.blueprint.to_string();
            tracing::info!(event = "peerRemoved", peer, reason = "removedFromConfig", "peer deconfigured");
            self.ending.push(running.end(Farewell::Said(Notification::new(Code::PEER_DECONFIGURED))));
        }
        for (name, desired) in peers {
            let blueprint = Blueprint::new(&desired.peer, &self.context.node);
            let orders = Orders {
                routes: Arc::clone(&desired.routes),
                longest_retry: settings::longest_retry(&desired.peer),
                stop: None,
            };
            let before = match self.running.remove(name) {
                Some(running) if running.blueprint == blueprint => {
                    running.follow(orders);
                    self.running.insert(name.clone(), running);
                    continue;
                }
                Some(changed) => {
                    tracing::info!(event = "peerChanged", peer = %blueprint, "session begins anew");
                    Some(changed.end(Farewell::Said(Notification::new(Code::OTHER_CONFIGURATION_CHANGE))))
                }
                None => {
                    tracing::info!(
                        event = "peerAdded",
                        peer = %blueprint,
                        "peer configured, starting BGP session"
                    );
                    None
                }
            };
            let telling = Telling::new(name, &desired.uid, &blueprint, &self.context);
            let (sender, receiver) = watch::channel(orders);
            let path = Path::new(name, self.context.reachable.clone());
            let (calls, callers) = mpsc::channel(1);
            let caller = Caller::new(&blueprint.dial, calls);
            let routers = self.context.routers.subscribe();
            let task = PeerTask::new(&blueprint, receiver, path, telling, (routers, callers));
            let task = tokio::spawn(async move {
                // Two sessions of one router with one address would be a collision.
                if let Some(before) = before {
                    let _ = before.await;
                }
                task.run().await;
            });
            self.running.insert(name.clone(), Running { blueprint, orders: sender, caller, task });
        }
        let interfaces = self.running.values().filter_map(|it| match &it.blueprint.dial.target {
            Target::Interface { interface, .. } => Some(interface.clone()),
            Target::Address(_) => None,
        });
        self.searches.follow(&interfaces.collect());
        self.listeners.follow(self.running.values().map(|it| (&it.blueprint.dial, &it.caller)));
    }
}

/// What a peer is told when the speaker ends. One that agreed to keep routes over a restart is left without
/// a word, which is how it knows that it is one (RFC 4724 §4).
fn farewell(departure: &Departure, keeps_routes: bool) -> Farewell {
    match departure {
        Departure::Leaving(why) => Farewell::Eased(Notification::shutdown(&why.to_string())),
        Departure::Restarting if keeps_routes => Farewell::Silent,
        Departure::Restarting => Farewell::Said(Notification::shutdown("the speaker of this node restarts")),
    }
}

impl Running {
    fn follow(&self, orders: Orders) {
        publish(&self.orders, orders);
    }

    /// Ends the session.
    fn end(self, farewell: Farewell) -> JoinHandle<()> {
        self.orders.send_modify(|orders| orders.stop = Some(farewell));
        self.task
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
