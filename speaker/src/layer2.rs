//! Layer 2: answers and announcements on every link that can carry them.
//!
//! ```text
//! watch<Links> ───────────┐           ┌─ watch<Desired> ─> link task (eth0) ─ ARP and NDP sockets
//! watch<OwnedAddresses> ──┼─ Layer2 ──┤
//!                         │           └─ watch<Desired> ─> link task (eth1) ─ …
//! hand_over() ────────────┘  opens sockets, starts and stops tasks
//! ```
//!
//! The task of a link ends when the link loses its carrier; when it is back, a new one announces
//! everything again.

mod link;
mod ndp_socket;
mod packet_socket;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_core::planner::OwnedAddresses;
use ferrolb_runtime::readiness::Condition;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::links::{Link, Links};
use crate::metrics::Metrics;
use link::{Desired, LinkTask, Sockets, sleep_until};

/// Pause before sockets that failed are opened again.
const RETRY: Duration = Duration::from_secs(1);

/// The running layer 2.
#[derive(Debug)]
pub struct Layer2 {
    hand_over: oneshot::Sender<Duration>,
    task: JoinHandle<()>,
}

impl Layer2 {
    /// Follows the links and the addresses to announce. `open` holds while every link that can carry
    /// announcements has its sockets.
    pub fn start(
        links: watch::Receiver<Links>,
        owned: watch::Receiver<OwnedAddresses>,
        metrics: Arc<Metrics>,
        open: Condition,
    ) -> Self {
        let (hand_over, handed) = oneshot::channel();
        let supervisor = Supervisor {
            links,
            owned,
            metrics,
            open,
            running: BTreeMap::new(),
            failing: BTreeSet::new(),
            tasks: JoinSet::new(),
            serial: 0,
            retry_at: None,
        };
        Self { hand_over, task: tokio::spawn(supervisor.run(handed)) }
    }

    /// Ends: goes on answering for each address until another node is heard to announce it, at most
    /// for `limit`.
    pub async fn hand_over(self, limit: Duration) {
        // A supervisor that is gone has nothing left to hand over.
        let _ = self.hand_over.send(limit);
        let _ = self.task.await;
    }
}

struct Supervisor {
    links: watch::Receiver<Links>,
    owned: watch::Receiver<OwnedAddresses>,
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
                Ok(()) = self.owned.changed() => {}
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
        let owned = self.owned.borrow_and_update().clone();
        self.metrics.count_only(owned.keys().copied().collect());
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
            let addresses = owned.iter().filter(|(_, interfaces)| interfaces.contains(&link.name));
            let desired = Desired {
                address: link.address,
                owned: addresses.map(|(ip, _)| *ip).collect(),
                handing_over: false,
            };
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
                let task = LinkTask::new(link.name.clone(), sockets, receiver, Arc::clone(&self.metrics));
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
            running.desired.send_modify(|desired| desired.handing_over = true);
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
        self.desired.send_if_modified(|current| {
            let changed = *current != desired;
            *current = desired;
            changed
        });
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
