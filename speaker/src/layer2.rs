//! Layer 2: answers and announcements on every link that can carry them.
//!
//! ```text
//! watch<Links> ────────┐           ┌─ watch<Desired> ─> link task (eth0) ─ ARP and NDP sockets
//! watch<Orders> ───────┼─ Layer2 ──┤                          │
//! hand_over() ─────────┘           └─ watch<Desired> ─> link task (eth1) ─ …
//! watch<Standings> <── who owns what, as seen on the wire ────┘
//! ```
//!
//! All of it is on one thread of its own: nothing else keeps an answer waiting, a plan over thousands of Services
//! least of all.
//!
//! The task of a link ends when the link loses its carrier; when it is back, a new one asks the wire for
//! everything again.

mod link;
mod ndp_socket;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_core::planner::{LinkClaims, Seen, Wire};
use ferrolb_proto::conflict::{Members, Plan, Standing};
use ferrolb_runtime::readiness::Condition;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::links::{Link, Links};
use crate::metrics::Metrics;
use crate::thread;
use ferrolb_runtime::latest::publish;
use link::{Desired, LinkTask, Sockets, sleep_until};

/// What is to be done, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// All speakers, and whose MAC is whose.
    pub members: Arc<Members>,
    /// What is planned for each address.
    pub claims: LinkClaims,
    /// Whether the API server has just come back, so that nothing is taken away.
    pub hold: bool,
}

/// Who owns what, by address and index of the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    by_address: BTreeMap<IpAddr, BTreeMap<u32, Standing>>,
}

impl Standings {
    /// Notes what one link sees.
    fn set(&mut self, address: IpAddr, link: u32, standing: Option<Standing>) {
        let of_address = self.by_address.entry(address).or_default();
        match standing {
            Some(standing) => drop(of_address.insert(link, standing)),
            None => drop(of_address.remove(&link)),
        }
        if of_address.is_empty() {
            self.by_address.remove(&address);
        }
    }

    /// A link is gone.
    fn forget(&mut self, link: u32) {
        self.by_address.retain(|_, links| {
            links.remove(&link);
            !links.is_empty()
        });
    }

    /// What all links together see: where one of them owns an address this node does.
    pub fn wire(&self) -> Wire {
        let seen = |links: &BTreeMap<u32, Standing>| {
            let rank = |standing: &&Standing| match standing {
                Standing::Owner => 0,
                Standing::Conflict(_) => 1,
                Standing::Other(_) => 2,
            };
            Some(match links.values().min_by_key(rank)? {
                Standing::Owner => Seen::Here,
                Standing::Conflict(mac) => Seen::Conflict(*mac),
                Standing::Other(node) => Seen::Elsewhere(node.as_deref().map(ToOwned::to_owned)),
            })
        };
        self.by_address.iter().filter_map(|(address, links)| Some((*address, seen(links)?))).collect()
    }
}

/// Pause before sockets that failed are opened again.
const RETRY: Duration = Duration::from_secs(1);

/// The running layer 2.
#[derive(Debug)]
pub struct Layer2 {
    hand_over: oneshot::Sender<Duration>,
    ended: oneshot::Receiver<()>,
}

impl Layer2 {
    /// Follows the links and the orders, and says in `standings` who owns what. `open` holds while every
    /// link that can carry announcements has its sockets.
    pub fn start(
        links: watch::Receiver<Links>,
        orders: watch::Receiver<Option<Orders>>,
        standings: watch::Sender<Standings>,
        metrics: Arc<Metrics>,
        open: Condition,
    ) -> io::Result<Self> {
        let (hand_over, handed) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let supervisor = Supervisor {
            links,
            orders,
            standings: Arc::new(standings),
            metrics,
            open,
            running: BTreeMap::new(),
            failing: BTreeSet::new(),
            tasks: JoinSet::new(),
            serial: 0,
            retry_at: None,
        };
        thread::start("layer2", || async {
            supervisor.run(handed).await;
            // Whoever waited for it may have given up.
            let _ = end.send(());
        })?;
        Ok(Self { hand_over, ended })
    }

    /// Ends: goes on answering for each address until another node is heard to announce it, at most
    /// for `limit`.
    pub async fn hand_over(self, limit: Duration) {
        // A supervisor that is gone has nothing left to hand over.
        let _ = self.hand_over.send(limit);
        let _ = self.ended.await;
    }
}

struct Supervisor {
    links: watch::Receiver<Links>,
    orders: watch::Receiver<Option<Orders>>,
    standings: Arc<watch::Sender<Standings>>,
    metrics: Arc<Metrics>,
    open: Condition,
    running: BTreeMap<u32, Running>,
    /// Links whose sockets could not be opened, or failed.
    failing: BTreeSet<u32>,
    tasks: JoinSet<(u32, u64, io::Result<()>)>,
    serial: u64,
    retry_at: Option<Instant>,
}

struct Running {
    name: String,
    speaks_ipv6: bool,
    /// Tells two tasks of one link apart.
    serial: u64,
    desired: watch::Sender<Desired>,
}

impl Supervisor {
    async fn run(mut self, mut hand_over: oneshot::Receiver<Duration>) {
        loop {
            self.reconcile();
            tokio::select! {
                biased;
                limit = &mut hand_over => return self.hand_over(limit.unwrap_or_default()).await,
                Ok(()) = self.orders.changed() => {}
                Ok(()) = self.links.changed() => {}
                Some(Ok((index, serial, outcome))) = self.tasks.join_next() => {
                    self.ended(index, serial, outcome);
                }
                () = sleep_until(self.retry_at) => self.retry_at = None,
            }
        }
    }

    /// Makes tasks and links agree, and tells each task what it is to do.
    fn reconcile(&mut self) {
        let links = self.links.borrow_and_update().clone();
        let orders = self.orders.borrow_and_update().clone();
        let connected: BTreeMap<u32, &Link> =
            links.by_index.iter().filter(|(_, link)| link.connected).map(|(i, link)| (*i, link)).collect();
        self.running.retain(|index, running| {
            let stays = connected.get(index).is_some_and(|link| link.name == running.name);
            if !stays {
                running.tell_deleted();
            }
            stays
        });
        self.failing.retain(|index| connected.contains_key(index));
        for (index, link) in connected {
            let plan = orders.as_ref().map(|orders| {
                let here = orders.claims.iter().filter(|(_, it)| it.interfaces.contains(&link.name));
                let claims = here.map(|(ip, it)| (*ip, Arc::clone(&it.claim))).collect();
                Plan { members: Arc::clone(&orders.members), claims, hold: orders.hold }
            });
            let desired = Desired { address: link.address, plan, leaving: false };
            match self.running.get_mut(&index) {
                Some(running) => running.follow(desired),
                None if self.failing.contains(&index) && self.retry_at.is_some() => {}
                None => self.open(index, link, desired),
            }
        }
        self.open.set(self.failing.is_empty());
    }

    fn open(&mut self, index: u32, link: &Link, desired: Desired) {
        match Sockets::open(index) {
            Ok(sockets) => {
                self.failing.remove(&index);
                self.serial += 1;
                let serial = self.serial;
                let speaks_ipv6 = desired.address.link_local.is_some();
                let (sender, receiver) = watch::channel(desired);
                let (metrics, standings) = (Arc::clone(&self.metrics), Arc::clone(&self.standings));
                let task = LinkTask::new(index, link.name.clone(), sockets, receiver, metrics, standings);
                self.tasks.spawn(async move { (index, serial, task.run().await) });
                let running = Running { name: link.name.clone(), speaks_ipv6, serial, desired: sender };
                running.tell_created();
                self.running.insert(index, running);
            }
            Err(error) => {
                if self.failing.insert(index) {
                    let interface = &link.name;
                    tracing::error!(op = "createARPResponder", interface, %error, "failed to create ARP responder");
                }
                self.retry_at = Some(Instant::now() + RETRY);
            }
        }
    }

    fn ended(&mut self, index: u32, serial: u64, outcome: io::Result<()>) {
        let Some(running) = self.running.get(&index).filter(|running| running.serial == serial) else {
            return;
        };
        if let Err(error) = outcome {
            // The netlink event that the link went down is about to say the same.
            let interface = &running.name;
            tracing::info!(op = "receive", interface, %error, "the socket of the interface failed");
        }
        running.tell_deleted();
        self.running.remove(&index);
        self.failing.insert(index);
        self.retry_at = Some(Instant::now() + RETRY);
    }

    async fn hand_over(mut self, limit: Duration) {
        for running in self.running.values() {
            running.desired.send_modify(|desired| desired.leaving = true);
        }
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::debug!(event = "handOver", "nobody took over everything in time");
        }
    }
}

impl Running {
    fn follow(&mut self, desired: Desired) {
        let speaks_ipv6 = desired.address.link_local.is_some();
        let interface = &self.name;
        if speaks_ipv6 && !self.speaks_ipv6 {
            tracing::info!(event = "createNDPResponder", interface, "created NDP responder for interface");
        } else if !speaks_ipv6 && self.speaks_ipv6 {
            tracing::info!(event = "deleteNDPResponder", interface, "deleted NDP responder for interface");
        }
        self.speaks_ipv6 = speaks_ipv6;
        publish(&self.desired, desired);
    }

    fn tell_created(&self) {
        let interface = &self.name;
        tracing::info!(event = "createARPResponder", interface, "created ARP responder for interface");
        if self.speaks_ipv6 {
            tracing::info!(event = "createNDPResponder", interface, "created NDP responder for interface");
        }
    }

    fn tell_deleted(&self) {
        let interface = &self.name;
        tracing::info!(event = "deleteARPResponder", interface, "deleted ARP responder for interface");
        if self.speaks_ipv6 {
            tracing::info!(event = "deleteNDPResponder", interface, "deleted NDP responder for interface");
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
