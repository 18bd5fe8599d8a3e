//! BGP: a session with every peer of this node.
//!
//! ```text
//! watch<Option<Peers>> ─ Bgp ─┬─ watch<Orders> ─> peer task (router-1) ─ Session ─ TCP
//! watch<Reachable> (BFD) ─────┤
//! leave() ────────────────────┘                   peer task (router-2) ─ …
//! ```
//!
//! Each peer has a task of its own, so that none waits for another. A task lives as long as what its
//! session is made of ([`Blueprint`]) stays the same; other routes reach it through its channel, and the
//! session sends what differs.

mod dial;
mod path;
mod peer;
mod settings;
mod telling;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferrolb_core::config::Peer;
use ferrolb_proto::bgp::AdjRibOut;
use ferrolb_proto::bgp::notification::{Code, Notification};
use ferrolb_runtime::event::EventQueue;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::bfd::Reachable;
use crate::latest::publish;
use crate::metrics::Metrics;
use path::Path;
use peer::{Orders, PeerTask};
use settings::Blueprint;
use telling::Telling;

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
}

/// The running sessions.
#[derive(Debug)]
pub struct Bgp {
    leave: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Bgp {
    /// Follows what peers are to have; nothing is begun before that is known.
    pub fn start(desired: watch::Receiver<Option<Peers>>, context: Context) -> Self {
        let (leave, left) = oneshot::channel();
        let supervisor = Supervisor { desired, context, running: BTreeMap::new(), ending: Vec::new() };
        Self { leave, task: tokio::spawn(supervisor.run(left)) }
    }

    /// Ends every session, at most within `limit`. Peers that agreed to keep routes over a restart are
    /// left without a word, which is how they know that it is one (RFC 4724 §4).
    pub async fn leave(self, limit: Duration) {
        // A supervisor that is gone has no session left.
        let _ = self.leave.send(());
        if tokio::time::timeout(limit, self.task).await.is_err() {
            tracing::debug!(event = "leave", "not every BGP session ended in time");
        }
    }
}

struct Supervisor {
    desired: watch::Receiver<Option<Peers>>,
    context: Context,
    running: BTreeMap<String, Running>,
    ending: Vec<JoinHandle<()>>,
}

struct Running {
    blueprint: Blueprint,
    orders: watch::Sender<Orders>,
    task: JoinHandle<()>,
}

impl Supervisor {
    async fn run(mut self, mut left: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                _ = &mut left => break,
                changed = self.desired.changed() => {
                    if changed.is_err() {
                        // The agent is gone; the sessions stay as they are until told to end.
                        let _ = left.await;
                        break;
                    }
                }
            }
            let Some(peers) = self.desired.borrow_and_update().clone() else { continue };
            self.reconcile(&peers);
        }
        for running in std::mem::take(&mut self.running).into_values() {
            let farewell = if running.blueprint.keeps_routes() {
                None
            } else {
                Some(Notification::shutdown("the speaker of this node ends"))
            };
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
        let gone: Vec<String> =
            self.running.keys().filter(|name| !peers.contains_key(*name)).cloned().collect();
        for running in gone.iter().filter_map(|name| self.running.remove(name)) {
            let peer = running.blueprint.to_string();
            tracing::info!(event = "peerRemoved", peer, reason = "removedFromConfig", "peer deconfigured");
            self.ending.push(running.end(Some(Notification::new(Code::PEER_DECONFIGURED))));
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
                    Some(changed.end(Some(Notification::new(Code::OTHER_CONFIGURATION_CHANGE))))
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
            let task = PeerTask::new(&blueprint, receiver, path, telling);
            let task = tokio::spawn(async move {
                // Two sessions of one router with one address would be a collision.
                if let Some(before) = before {
                    let _ = before.await;
                }
                task.run().await;
            });
            self.running.insert(name.clone(), Running { blueprint, orders: sender, task });
        }
    }
}

impl Running {
    fn follow(&self, orders: Orders) {
        publish(&self.orders, orders);
    }

    /// Ends the session with this said to the peer.
    fn end(self, farewell: Option<Notification>) -> JoinHandle<()> {
        self.orders.send_modify(|orders| orders.stop = Some(farewell));
        self.task
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
