//! BFD: whether the routers that BGP peers with can still be reached.
//!
//! ```text
//! watch<Option<Peers>> ─┐
//! watch<Routers> ───────┴ wanted() ─> one Session a path ─┬─> UDP 3784, 4784; echo packets
//! admin_down() ───────────────────────────────────────────┴─> watch<Reachable> ──> bgp
//! ```
//!
//! All sessions live on one thread of their own: at intervals of 10 ms nothing else may keep them waiting,
//! a plan over thousands of Services least of all. Each has a socket to send from; what arrives comes
//! through one socket for each kind of path, and is told apart by [`Demux`](ferrolb_proto::bfd::demux::Demux).

mod echo;
mod engine;
mod receiver;
mod sender;
mod telling;
mod wanted;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use ferrolb_proto::bfd::session::Down;
use ferrolb_runtime::event::EventQueue;
use tokio::sync::{oneshot, watch};

use crate::bgp::{Peers, Routers};
use crate::metrics::BfdMetrics;
use crate::thread;
use engine::Engine;

/// How the path to a router is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reachability {
    /// Whether the BFD session is up.
    pub up: bool,
    /// How often it went down because packets did not go both ways any more.
    pub failures: u64,
    /// Why it went down last.
    pub last: Option<Down>,
}

/// How the paths are, by name of the BGPPeer that asks for BFD.
pub type Reachable = BTreeMap<String, Reachability>;

/// What sessions need of the process.
#[derive(Clone, Debug)]
pub struct Context {
    /// The product's namespace.
    pub namespace: String,
    /// This Node.
    pub node: String,
    /// Counters.
    pub metrics: BfdMetrics,
    /// Where Events go.
    pub events: EventQueue,
}

/// The running sessions.
#[derive(Debug)]
pub struct Bfd {
    leave: Option<oneshot::Sender<()>>,
    told: oneshot::Receiver<()>,
    ended: oneshot::Receiver<()>,
}

impl Bfd {
    /// Follows what peers are to have, and tells BGP how their paths are.
    pub fn start(
        desired: watch::Receiver<Option<Peers>>,
        routers: watch::Receiver<Routers>,
        reachable: watch::Sender<Reachable>,
        context: Context,
    ) -> io::Result<Self> {
        let (leave, left) = oneshot::channel();
        let (tell, told) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let engine = Engine::new(desired, routers, reachable, context);
        thread::start("bfd", || async {
            engine.run(left, tell).await;
            // Whoever waited for it may have given up.
            let _ = end.send(());
        })?;
        Ok(Self { leave: Some(leave), told, ended })
    }

    /// Takes every session down, so that routers do not take the end of this process for a failure of the
    /// path (RFC 5882 §3.2). Returns when they were told.
    pub async fn admin_down(&mut self) {
        if let Some(leave) = self.leave.take() {
            // A thread that is gone has no session left.
            let _ = leave.send(());
            let _ = (&mut self.told).await;
        }
    }

    /// Waits, at most so long, until routers must have heard of it (RFC 5880 §6.8.16).
    pub async fn ended(mut self, limit: Duration) {
        self.admin_down().await;
        if tokio::time::timeout(limit, self.ended).await.is_err() {
            tracing::debug!(event = "leave", "not every BFD session ended in time");
        }
    }
}

#[cfg(test)]
mod tests;
