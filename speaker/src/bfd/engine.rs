//! The thread's one task: packets, time and wishes into the sessions, packets out.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use ferrolb_proto::bfd::demux::{Demux, Path};
use ferrolb_proto::bfd::session::{Event, Input, Output, Session, echoed_discriminator};
use ferrolb_proto::bfd::{ControlPacket, Discriminator, State};
use nix::ifaddrs::getifaddrs;
use tokio::sync::{oneshot, watch};

use super::echo::{Echoes, Near};
use super::receiver::{Kind, Receiver};
use super::sender::Sender;
use super::telling::Telling;
use super::wanted::{Wanted, is_in, wanted};
use super::{Context, Reachability, Reachable};
use crate::bgp::{Peers, Routers};
use ferrolb_runtime::latest::publish;

/// Sockets that could not be opened are tried again after this.
const RETRY: Duration = Duration::from_secs(5);
/// Packets of one socket that are looked at before the time is; the rest waits for the next turn.
const BATCH: usize = 256;

pub(super) struct Engine {
    desired: watch::Receiver<Option<Peers>>,
    /// Routers of peers that are named by interface.
    routers: watch::Receiver<Routers>,
    reachable: watch::Sender<Reachable>,
    context: Context,
    sessions: BTreeMap<Path, Running>,
    by_discriminator: BTreeMap<Discriminator, Path>,
    demux: Demux,
    receivers: BTreeMap<Kind, Receiver>,
    echoes: Echoes,
    /// When sockets that are missing are tried again.
    retry_at: Option<Instant>,
}

struct Running {
    session: Session,
    discriminator: Discriminator,
    sender: Option<Sender>,
    /// Where echo packets go, once the router was heard.
    near: Option<Near>,
    wanted: Wanted,
    /// Whether it is wanted no more, and only tells the router so.
    ends: bool,
    reachability: Reachability,
    telling: Telling,
}

impl Engine {
    pub(super) fn new(
        desired: watch::Receiver<Option<Peers>>,
        routers: watch::Receiver<Routers>,
        reachable: watch::Sender<Reachable>,
        context: Context,
    ) -> Self {
        Self {
            desired,
            routers,
            reachable,
            context,
            sessions: BTreeMap::new(),
            by_discriminator: BTreeMap::new(),
            demux: Demux::default(),
            receivers: BTreeMap::new(),
            echoes: Echoes::default(),
            retry_at: None,
        }
    }

    /// Runs until told to leave, and then until every router must have heard of it.
    pub(super) async fn run(mut self, mut left: oneshot::Receiver<()>, told: oneshot::Sender<()>) {
        let mut follows = true;
        loop {
            self.turn();
            tokio::select! {
                () = arrived(&self.receivers, &self.echoes) => {}
                () = sleep_until(self.next_timeout()) => {}
                _ = &mut left => break,
                changed = self.desired.changed(), if follows => {
                    // Without the agent sessions stay as they are until told to end.
                    follows = changed.is_ok();
                    self.follow();
                }
                Ok(()) = self.routers.changed() => self.follow(),
            }
        }
        self.reconcile(&Peers::new());
        self.turn();
        // Whoever asked may be gone.
        let _ = told.send(());
        while !self.sessions.is_empty() {
            tokio::select! {
                () = arrived(&self.receivers, &self.echoes) => {}
                () = sleep_until(self.next_timeout()) => {}
            }
            self.turn();
        }
    }

    fn follow(&mut self) {
        let peers = self.desired.borrow_and_update().clone();
        if let Some(peers) = peers {
            self.reconcile(&peers);
        }
    }

    /// Everything that arrived, then the time, then what comes of both.
    fn turn(&mut self) {
        self.receive();
        self.receive_echoes();
        let now = Instant::now();
        for running in self.sessions.values_mut() {
            if running.session.next_timeout().is_some_and(|at| at <= now) {
                running.session.handle_timeout(now);
            }
        }
        let mut told = false;
        for running in self.sessions.values_mut() {
            told |= running.carry_out(&mut self.echoes);
        }
        let over: Vec<Path> = self
            .sessions
            .iter()
            .filter(|(_, running)| running.ends && running.session.is_stopped(now))
            .map(|(path, _)| path.clone())
            .collect();
        for path in &over {
            self.remove(path);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.open_sockets(now);
        }
        if told {
            self.publish();
            let echoing = self.sessions.values().filter(|running| running.session.is_echoing());
            let links = echoing.filter_map(|running| running.near.map(|near| near.interface)).collect();
            self.echoes.retain(&links);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let sessions = self.sessions.values().filter_map(|running| running.session.next_timeout());
        sessions.chain(self.retry_at).min()
    }

    fn receive(&mut self) {
        for receiver in self.receivers.values_mut() {
            for _ in 0..BATCH {
                let (payload, arrival, interface) = match receiver.receive() {
                    Ok(Some(received)) => received,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(op = "bfd", %error, "a packet could not be received");
                        break;
                    }
                };
                let packet = match ControlPacket::parse(payload) {
                    Ok(packet) => packet,
                    Err(error) => {
                        self.context.metrics.discarded();
                        tracing::debug!(op = "bfd", peer = %arrival.source, %error, "not a BFD packet");
                        continue;
                    }
                };
                let found = self.demux.find(&packet, arrival);
                match found.map(|it| self.by_discriminator.get(&it).and_then(|it| self.sessions.get_mut(it)))
                {
                    Ok(Some(running)) => {
                        running.telling.series.received();
                        if let (IpAddr::V4(own), IpAddr::V4(router)) = (arrival.destination, arrival.source) {
                            running.near = Some(Near { own, router, interface });
                        }
                        running.session.handle_input(Instant::now(), Input::Received(&packet));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        self.context.metrics.discarded();
                        tracing::debug!(op = "bfd", peer = %arrival.source, %error, "packet discarded");
                    }
                }
            }
        }
    }

    fn receive_echoes(&mut self) {
        let (sessions, by_discriminator) = (&mut self.sessions, &self.by_discriminator);
        self.echoes.receive(BATCH, |payload| {
            let path = echoed_discriminator(payload).and_then(|it| by_discriminator.get(&it));
            if let Some(running) = path.and_then(|path| sessions.get_mut(path)) {
                running.telling.series.echo_received();
                running.session.handle_input(Instant::now(), Input::Echoed(payload));
            }
        });
    }

    /// Makes sessions and configuration agree.
    fn reconcile(&mut self, peers: &Peers) {
        let now = Instant::now();
        let networks = networks();
        let routers = self.routers.borrow_and_update().clone();
        let mut wanted = wanted(peers, &routers, |address| is_in(address, &networks));
        for (path, running) in &mut self.sessions {
            match wanted.remove(path) {
                Some(again) if !running.ends => {
                    if again.settings != running.wanted.settings {
                        tracing::info!(event = "bfdChanged", peer = %path.remote, "BFD session has other settings");
                        running.session.handle_input(now, Input::Settings(again.settings));
                    }
                    self.demux.insert(running.discriminator, path.clone(), again.minimum_ttl);
                    running.wanted = again;
                }
                Some(again) => drop(wanted.insert(path.clone(), again)),
                None if !running.ends => {
                    running.session.handle_input(now, Input::AdminDown);
                    running.ends = true;
                }
                None => {}
            }
        }
        for (path, wanted) in wanted {
            // One that ends gives way at once.
            self.remove(&path);
            self.begin(now, path, wanted);
        }
        self.open_sockets(now);
        self.publish();
    }

    fn begin(&mut self, now: Instant, path: Path, wanted: Wanted) {
        let discriminator = loop {
            let random = rand::random::<Discriminator>();
            if !self.demux.contains(random) {
                break random;
            }
        };
        tracing::info!(event = "bfdAdded", peer = %path.remote, multihop = path.multihop, "BFD session begins");
        let running = Running {
            session: Session::new(now, discriminator, wanted.settings, rand::random()),
            discriminator,
            sender: None,
            near: None,
            ends: false,
            reachability: Reachability::default(),
            telling: Telling::new(&path, &self.context),
            wanted,
        };
        self.demux.insert(discriminator, path.clone(), running.wanted.minimum_ttl);
        self.by_discriminator.insert(discriminator, path.clone());
        self.sessions.insert(path, running);
    }

    fn remove(&mut self, path: &Path) {
        if let Some(gone) = self.sessions.remove(path) {
            self.demux.remove(gone.discriminator);
            self.by_discriminator.remove(&gone.discriminator);
        }
    }

    /// Opens what is needed and missing, closes what nobody needs.
    fn open_sockets(&mut self, now: Instant) {
        let kinds: BTreeSet<Kind> = self.sessions.keys().map(Kind::of).collect();
        self.receivers.retain(|kind, _| kinds.contains(kind));
        let mut faults: BTreeMap<Kind, String> = BTreeMap::new();
        for kind in kinds {
            if self.receivers.contains_key(&kind) {
                continue;
            }
            match Receiver::open(&kind) {
                Ok(receiver) => drop(self.receivers.insert(kind, receiver)),
                Err(error) => drop(faults.insert(kind.clone(), refused(kind.port(), &error))),
            }
        }
        let mut missing = !faults.is_empty();
        for (path, running) in &mut self.sessions {
            let mut fault = faults.get(&Kind::of(path)).cloned();
            if running.sender.is_none() {
                match Sender::open(path) {
                    Ok(sender) => running.sender = Some(sender),
                    Err(error) => {
                        fault = Some(format!("cannot open a socket to send from: {error}"));
                        missing = true;
                    }
                }
            }
            running.telling.sockets(fault.as_deref(), &running.wanted.peers);
        }
        self.retry_at = missing.then(|| now + RETRY);
    }

    fn publish(&self) {
        let living = self.sessions.values().filter(|running| !running.ends);
        let of_peers = living.flat_map(|running| {
            running.wanted.peers.iter().map(|(name, _)| (name.clone(), running.reachability))
        });
        publish(&self.reachable, of_peers.collect());
    }
}

impl Running {
    /// Does what the session wants; whether there was something to tell.
    fn carry_out(&mut self, echoes: &mut Echoes) -> bool {
        let mut told = false;
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(packet) => self.send(&packet),
                Output::SendEcho(payload) => {
                    let Some(near) = self.near else { continue };
                    match echoes.send(near, &payload) {
                        Ok(()) => self.telling.series.echo_sent(),
                        Err(error) => tracing::debug!(op = "bfd", %error, "an echo packet could not be sent"),
                    }
                }
                Output::Event(event) => {
                    told = true;
                    self.telling.event(event, &self.wanted.peers);
                    if let Event::Down(why) = event {
                        self.reachability.failures += u64::from(why.is_failure());
                        self.reachability.last = Some(why);
                    }
                    self.reachability.up = event == Event::Up;
                    self.telling.series.notified();
                }
            }
        }
        told
    }

    fn send(&self, packet: &ControlPacket) {
        let Some(sender) = &self.sender else { return };
        match sender.send(&packet.bytes()) {
            Ok(()) => self.telling.series.sent(),
            Err(error) if packet.state == State::Up => {
                tracing::debug!(op = "bfd", %error, "a packet could not be sent");
            }
            // A router that cannot be reached is what BFD is there to notice.
            Err(_) => {}
        }
    }
}

/// Waits until something may have arrived.
async fn arrived(receivers: &BTreeMap<Kind, Receiver>, echoes: &Echoes) {
    poll_fn(|context| {
        // Each is asked, so that each wakes this task.
        let mut any = echoes.poll_ready(context).is_ready();
        for receiver in receivers.values() {
            any |= receiver.poll_ready(context).is_ready();
        }
        if any { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn refused(port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "UDP port {port} of this node is taken: end the other BFD daemon (FRR's bfdd, BIRD, the network plugin) \
             or use no bfdProfile"
        ),
        _ => format!("cannot listen on UDP port {port}: {error}"),
    }
}

/// Addresses of this node with the masks of their networks.
fn networks() -> Vec<(IpAddr, IpAddr)> {
    let address = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
    };
    let interfaces = getifaddrs().into_iter().flatten();
    interfaces.filter_map(|it| Some((address(it.address?)?, address(it.netmask?)?))).collect()
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
