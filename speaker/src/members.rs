//! Which nodes have a living speaker, learnt by gossip over UDP.
//!
//! ```text
//! Store<Pod> ──peers──┐
//! UDP ──Seal::open────┼─> gossip::Gossip ──members()──> watch<Members> ─> agent
//! clock ──────────────┘        └──Send──Seal::seal──> UDP
//! ```
//!
//! The decisions are [`gossip::Gossip`]'s; this is the socket, the clock and the log beside it.

mod gossip;
mod seal;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ferrolb_runtime::watch::{Changed, Store};
use k8s_openapi::api::core::v1::Pod;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::net::UdpSocket;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use gossip::{Event, Gossip, Identity, Input, Output, Peers};
use seal::{CryptoError, Rejected, Seal};

/// Datagrams taken before timers get a turn: after a pause of this process the answers that are waiting
/// come before the timers that would declare their senders dead, and a flood cannot stop the clock.
const BATCH: usize = 256;
/// Longer datagrams are none of ours and come out cut, so that their seal is broken.
const BUFFER: usize = 2048;

/// How a node's speaker is believed to be. The better comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liveness {
    /// It answers.
    Alive,
    /// It did not answer lately.
    Suspect,
    /// It said goodbye, or did not answer for long.
    Dead,
}

/// All speakers, this one among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Whether enough was heard to act on: a speaker that has just started must not take for dead whom
    /// it has not met yet. Once true, always true.
    pub settled: bool,
    /// By name of the Node.
    pub nodes: BTreeMap<String, Liveness>,
}

impl Members {
    /// Nodes whose speaker is not known to be dead.
    pub fn living(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|(_, liveness)| **liveness != Liveness::Dead).map(|(node, _)| node.as_str())
    }
}

/// What this speaker needs to take part.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this Node.
    pub node: String,
    /// Name of this pod, which is no peer.
    pub pod: String,
    /// Where to listen; also what the others are told.
    pub address: SocketAddr,
    /// The content of the Secret.
    pub secret: Vec<u8>,
}

/// Why a speaker cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not this host's, or the port is in use.
    #[error("cannot listen on UDP {address} for membership")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// No key.
    #[error("cannot derive the membership key")]
    Key,
}

impl From<CryptoError> for StartError {
    fn from(_: CryptoError) -> Self {
        Self::Key
    }
}

/// This speaker's part in the membership.
#[derive(Debug)]
pub struct Membership {
    view: watch::Receiver<Members>,
    leave: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Membership {
    /// Begins to take part. `pods` are all speakers' pods, `changed` tells of changes among them.
    pub async fn start(
        settings: Settings,
        pods: Store<Pod>,
        changed: Changed,
        metrics: Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let address = settings.address;
        let socket = UdpSocket::bind(address).await.map_err(|source| StartError::Bind { address, source })?;
        let seal = Seal::new(&settings.secret)?;
        let generation = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let identity = Identity {
            node: settings.node.clone(),
            address,
            generation: u64::try_from(generation).unwrap_or(u64::MAX),
        };
        let gossip = Gossip::new(identity, StdRng::from_seed(rand::random()));
        let (publish, view) = watch::channel(gossip.members().clone());
        let (leave, left) = oneshot::channel();
        let task = Task { settings, gossip, seal, socket, pods, changed, publish, metrics };
        Ok(Self { view, leave, task: tokio::spawn(task.run(left)) })
    }

    /// The members, from now on.
    pub fn view(&self) -> watch::Receiver<Members> {
        self.view.clone()
    }

    /// Says goodbye; returns when that was said.
    pub async fn leave(self) {
        // A task that ended already has nobody to say it to; a panic in it ends the process.
        let _ = self.leave.send(());
        let _ = self.task.await;
    }
}

struct Task {
    settings: Settings,
    gossip: Gossip,
    seal: Seal,
    socket: UdpSocket,
    pods: Store<Pod>,
    changed: Changed,
    publish: watch::Sender<Members>,
    metrics: Arc<Metrics>,
}

impl Task {
    async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        let mut buffer = [0; BUFFER];
        let mut leaving = false;
        tokio::select! {
            () = self.pods.listed() => {}
            _ = &mut leave => return,
        }
        loop {
            self.drain();
            if self.gossip.has_left() {
                return;
            }
            tokio::select! {
                biased;
                _ = &mut leave, if !leaving => {
                    leaving = true;
                    self.gossip.handle_input(Instant::now(), Input::Leave);
                }
                result = self.socket.readable() => {
                    if result.is_ok() {
                        self.receive(&mut buffer);
                    }
                    self.gossip.handle_timeout(Instant::now());
                }
                () = sleep_until(self.gossip.next_timeout()) => self.gossip.handle_timeout(Instant::now()),
                () = self.changed.next() => {
                    let peers = peers(&self.pods.list(), &self.settings.pod, self.settings.address);
                    self.gossip.handle_input(Instant::now(), Input::Peers(peers));
                }
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            let Ok((length, _)) = self.socket.try_recv_from(buffer) else { return };
            match self.seal.open(&mut buffer[..length]) {
                Ok(packet) => self.gossip.handle_input(Instant::now(), Input::Packet(packet)),
                Err(Rejected::Foreign) => self.metrics.membership_dropped("foreign"),
                Err(Rejected::Forged) => self.metrics.membership_dropped("forged"),
            }
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.gossip.poll_output() {
            match output {
                Output::Send { to, packet } => {
                    // What cannot be sent now is lost like any datagram; the protocol repeats.
                    let sent = self.seal.seal(&packet).map(|datagram| self.socket.try_send_to(&datagram, to));
                    if !matches!(sent, Ok(Ok(_))) {
                        self.metrics.membership_dropped("unsent");
                    }
                }
                Output::Event(event) => self.tell(event),
            }
        }
        let members = self.gossip.members();
        self.publish.send_if_modified(|published| {
            let changed = published != members;
            if changed {
                published.clone_from(members);
            }
            changed
        });
    }

    fn tell(&self, event: Event) {
        match event {
            Event::Liveness { node, address, before, now } => {
                let what = match (before, now) {
                    (_, Liveness::Dead) => "NodeLeave",
                    (None | Some(Liveness::Dead), Liveness::Alive | Liveness::Suspect) => "NodeJoin",
                    (Some(Liveness::Alive | Liveness::Suspect), Liveness::Alive | Liveness::Suspect) => {
                        tracing::debug!(event = "nodeLiveness", node, liveness = ?now, "liveness changed");
                        return;
                    }
                };
                tracing::info!(
                    "node addr" = %address.ip(),
                    "node event" = what,
                    "node name" = node,
                    "node event - forcing sync"
                );
            }
            Event::Malformed => self.metrics.membership_dropped("malformed"),
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// The other speakers among the pods: those with an address of the family that this one listens on.
fn peers(pods: &[Arc<Pod>], own_pod: &str, own: SocketAddr) -> Peers {
    let mut peers = Peers::default();
    for pod in pods.iter().filter(|pod| pod.metadata.name.as_deref() != Some(own_pod)) {
        let Some(status) = &pod.status else { continue };
        let addresses =
            status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).chain(status.pod_ip.as_deref());
        let address = addresses
            .filter_map(|text| text.parse::<IpAddr>().ok())
            .find(|ip| ip.is_ipv4() == own.is_ipv4() && *ip != own.ip());
        let Some(address) = address.map(|ip| SocketAddr::new(ip, own.port())) else { continue };
        match status.phase.as_deref() {
            Some("Succeeded" | "Failed") => {}
            Some("Running") => {
                peers.known.insert(address);
                peers.running.insert(address);
            }
            _ => {
                peers.known.insert(address);
            }
        }
    }
    peers
}

#[cfg(test)]
mod tests;
