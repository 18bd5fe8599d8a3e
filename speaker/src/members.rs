//! Which nodes have a living speaker, and on which links, learnt by gossip over UDP, or by [`lease`]s.
//!
//! ```text
//! Store<Pod> ──peers──┐                    ┌─Gossip── who lives ──┐
//! UDP ──Keyring::open─┼─ first byte says ──┤                      ├─> watch<Members> ─> agent
//! watch<Links> ───────┤                    └─Cards─── its links ──┘
//! clock ──────────────┘        └──Keyring::seal──> UDP
//! ```
//!
//! The decisions are [`gossip::Gossip`]'s and [`cards::Cards`]'; this is the socket, the clock and the log
//! beside them.

mod cards;
mod gossip;
mod keyring;
pub mod lease;
mod peers;
mod renewals;
mod seal;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferrolb_proto::conflict::Liveness;
use ferrolb_proto::ethernet::MacAddr;
use ferrolb_runtime::watch::{Changed, Store};
use k8s_openapi::api::core::v1::Pod;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::net::UdpSocket;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::links::Links;
use crate::metrics::Metrics;
use cards::{Card, CardLink, Cards, Farewell};
use gossip::{Event, Gossip, Identity, Input, Output};
use keyring::Keyring;
use peers::peers;
use seal::{CryptoError, Rejected};

/// Datagrams taken before timers get a turn: after a pause of this process the answers that are waiting
/// come before the timers that would declare their senders dead, and a flood cannot stop the clock.
const BATCH: usize = 256;
/// Longer datagrams are none of ours and come out cut, so that their seal is broken. A card is the longest.
const BUFFER: usize = 16 * 1024;
/// How often the Secret's file is looked at.
const RELOAD: Duration = Duration::from_secs(5);

/// What the first byte of a packet says of the rest.
const GOSSIP: u8 = 0;
const CARD: u8 = 1;

/// A link that another node announces on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLink {
    /// Its name there.
    pub name: String,
    /// Its MAC.
    pub mac: MacAddr,
    /// Whether something is connected.
    pub connected: bool,
}

/// A node's speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// How it is believed to be.
    pub liveness: Liveness,
    /// Another number for each time that it started, or came back from the dead.
    pub life: u64,
    /// Its links, once it told.
    pub links: Option<Vec<MemberLink>>,
}

/// All speakers, this one among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Whether enough was heard to act on: a speaker that has just started must not take for dead whom
    /// it has not met yet. Once true, always true.
    pub settled: bool,
    /// By name of the Node.
    pub nodes: BTreeMap<String, Member>,
}

impl Members {
    /// Nodes whose speaker is not known to be dead or to have left.
    pub fn living(&self) -> impl Iterator<Item = &str> {
        let living = |member: &Member| member.liveness <= Liveness::Suspect;
        self.nodes.iter().filter(move |(_, member)| living(member)).map(|(node, _)| node.as_str())
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
    /// The file that it is read from again now and then.
    pub secret_file: Option<PathBuf>,
}

/// Why a speaker cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is in use.
    #[error(
        "UDP port {} of {} is in use by another process: stop it, or give all speakers another port with --ml-bindport",
        .address.port(), .address.ip()
    )]
    PortInUse {
        /// Where.
        address: SocketAddr,
    },
    /// The address is not this host's, or something else is wrong.
    #[error("cannot listen on UDP {address} for membership (--ml-bindaddr, --ml-bindport)")]
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
        links: watch::Receiver<Links>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let address = settings.address;
        let socket = UdpSocket::bind(address).await.map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::PortInUse { address },
            _ => StartError::Bind { address, source },
        })?;
        let keyring = Keyring::new(&settings.secret)?;
        let generation = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let generation = u64::try_from(generation).unwrap_or(u64::MAX);
        let identity = Identity { node: settings.node.clone(), address, generation };
        let cards = Cards::new(settings.node.clone(), generation);
        let gossip = Gossip::new(identity, StdRng::from_seed(rand::random()));
        let (publish, view) = watch::channel(Members::default());
        let (leave, left) = oneshot::channel();
        let task = Task { settings, gossip, cards, keyring, socket, pods, changed, links, publish, metrics };
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
    cards: Cards,
    keyring: Keyring,
    socket: UdpSocket,
    pods: Store<Pod>,
    changed: Changed,
    links: watch::Receiver<Links>,
    publish: watch::Sender<Members>,
    metrics: Arc<Metrics>,
}

impl Task {
    async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        let mut buffer = vec![0; BUFFER];
        let mut leaving = false;
        let mut reload = tokio::time::interval(RELOAD);
        tokio::select! {
            () = self.pods.listed() => {}
            _ = &mut leave => return,
        }
        let links = self.links.borrow_and_update().clone();
        self.cards.set_links(Instant::now(), &links);
        loop {
            self.drain();
            if self.gossip.has_left() {
                return;
            }
            let now = Instant::now();
            let timeout = self.gossip.next_timeout().into_iter().chain(self.cards.next_timeout(now)).min();
            tokio::select! {
                biased;
                _ = &mut leave, if !leaving => {
                    leaving = true;
                    // The card says which of its addresses are to be taken over, so it goes first.
                    self.cards.leave(Instant::now());
                    self.drain();
                    self.gossip.handle_input(Instant::now(), Input::Leave);
                }
                result = self.socket.readable() => {
                    if result.is_ok() {
                        self.receive(&mut buffer);
                    }
                    self.gossip.handle_timeout(Instant::now());
                }
                () = sleep_until(timeout) => self.gossip.handle_timeout(Instant::now()),
                () = self.changed.next() => {
                    let peers = peers(&self.pods.list(), &self.settings.pod, self.settings.address);
                    self.gossip.handle_input(Instant::now(), Input::Peers(peers));
                }
                Ok(()) = self.links.changed() => {
                    let links = self.links.borrow_and_update().clone();
                    self.cards.set_links(Instant::now(), &links);
                }
                _ = reload.tick() => self.reload(),
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            let Ok((length, _)) = self.socket.try_recv_from(buffer) else { return };
            let now = Instant::now();
            match self.keyring.open(now, &mut buffer[..length]) {
                Ok(packet) => self.take(now, &packet),
                Err(Rejected::Foreign) => self.metrics.membership_dropped("foreign"),
                Err(Rejected::Forged) => self.metrics.membership_dropped("forged"),
            }
            self.drain();
        }
    }

    fn take(&mut self, now: Instant, packet: &[u8]) {
        match packet.split_first() {
            Some((&GOSSIP, packet)) => self.gossip.handle_input(now, Input::Packet(packet)),
            Some((&CARD, card)) => match serde_json::from_slice::<Card>(card) {
                Ok(card) => drop(self.cards.receive(now, card)),
                Err(_) => self.metrics.membership_dropped("malformed"),
            },
            _ => self.metrics.membership_dropped("malformed"),
        }
    }

    fn send(&self, to: SocketAddr, kind: u8, content: &[u8]) {
        let mut packet = Vec::with_capacity(1 + content.len());
        packet.push(kind);
        packet.extend_from_slice(content);
        // What cannot be sent now is lost like any datagram; the protocol repeats.
        let sealed = self.keyring.seal(Instant::now(), &packet).unwrap_or_default();
        let sent = sealed.iter().filter(|it| self.socket.try_send_to(it, to).is_ok()).count();
        if sent == 0 {
            self.metrics.membership_dropped("unsent");
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.gossip.poll_output() {
            match output {
                Output::Send { to, packet } => self.send(to, GOSSIP, &packet),
                Output::Event(event) => self.tell(event),
            }
        }
        let now = Instant::now();
        let living = self.gossip.living();
        let lives = living.living().filter_map(|node| Some((node.to_owned(), *living.lives.get(node)?)));
        self.cards.set_living(now, lives.collect());
        self.cards.retain(|node| living.nodes.contains_key(node));
        if self.cards.due(now)
            && let Ok(card) = serde_json::to_vec(self.cards.own())
        {
            // Also to those that are taken for dead: they may only be out of hearing.
            for to in BTreeSet::from_iter(living.addresses.values()) {
                self.send(*to, CARD, &card);
            }
        }
        publish(&self.publish, self.members(now), &self.metrics);
    }

    /// What gossip and cards say together.
    fn members(&self, now: Instant) -> Members {
        let living = self.gossip.living();
        let nodes = living.nodes.iter().map(|(node, liveness)| {
            let liveness = match self.cards.farewell(now, node) {
                Some(Farewell::JustNow) => Liveness::Left,
                Some(Farewell::LongAgo) | None => *liveness,
            };
            let life = living.lives.get(node).copied().unwrap_or_default();
            let links = self.cards.links(node).map(|links| links.iter().map(MemberLink::from).collect());
            (node.clone(), Member { liveness, life, links })
        });
        Members { settled: living.settled, nodes: nodes.collect() }
    }

    /// Reads the Secret again.
    fn reload(&mut self) {
        let Some(file) = &self.settings.secret_file else { return };
        match std::fs::read(file) {
            // An empty file is one that is being replaced: it must not open the membership to everybody.
            Ok(secret) if !secret.is_empty() => match self.keyring.renew(Instant::now(), &secret) {
                Ok(true) => tracing::info!(
                    event = "membershipKeyChanged",
                    "the membership secret changed; the old one counts for {} s more",
                    keyring::OVERLAP.as_secs()
                ),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(op = "reloadSecret", %error, "keeping the old membership secret")
                }
            },
            Ok(_) => {}
            Err(error) => tracing::debug!(op = "reloadSecret", %error, "keeping the old membership secret"),
        }
    }

    fn tell(&self, event: Event) {
        match event {
            Event::Liveness { node, address, before, now } => {
                let what = match (before, now) {
                    (_, Liveness::Dead | Liveness::Left) => "NodeLeave",
                    (None | Some(Liveness::Dead | Liveness::Left), Liveness::Alive | Liveness::Suspect) => {
                        "NodeJoin"
                    }
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

impl From<&CardLink> for MemberLink {
    fn from(link: &CardLink) -> Self {
        Self { name: link.name.clone(), mac: link.mac.into(), connected: link.connected }
    }
}

fn publish(publish: &watch::Sender<Members>, members: Members, metrics: &Metrics) {
    publish.send_if_modified(|published| {
        let changed = *published != members;
        if changed {
            metrics.set_members(members.nodes.values().map(|member| member.liveness));
            *published = members;
        }
        changed
    });
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
