//! Membership of one speaker as a machine: packets, peers and time in, packets and liveness out.
//!
//! ```text
//! Packet(bytes) ──┐                     ┌─> Send { to, packet }
//! Peers(..) ──────┼─> Gossip ────poll───┤
//! Leave ──────────┤   foca + timers     └─> Event(Liveness | Malformed)
//! handle_timeout ─┘   living(): the view
//! ```
//!
//! The SWIM protocol itself is the library's. Here is what it leaves to its user:
//! - Every known peer that is not a living member is greeted again and again, so a lost greeting, a
//!   restarted peer and a healed partition all come right by themselves.
//! - Suspicion is not told by the library: the view is compared after every call.
//! - A suspicion that was refuted is not acted on when its timer fires (the library would tell the
//!   living member that it is down).
//! - Whether the view can be trusted yet: [`Living::settled`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::{Duration, Instant};

use ferrolb_proto::conflict::Liveness;
use foca::{Foca, NoCustomBroadcast, PeriodicParams, PostcardCodec, State, Timer};
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use super::peers::Peers;

/// How often peers that are no members are greeted: after a partition nobody yields before it is over for a member,
/// and two are not to answer for longer than a second.
const GREETING: Duration = Duration::from_millis(250);
/// After being declared down by mistake: a greeting under the new identity, soon.
const REJOIN_GREETING: Duration = Duration::from_millis(20);
/// How long a speaker that has just started waits for its peers before it believes to be alone.
const SETTLE: Duration = Duration::from_secs(3);
/// A farewell may be lost like any datagram.
const FAREWELLS: u8 = 2;
const FAREWELL_PAUSE: Duration = Duration::from_millis(50);
/// Sealed and with its headers, a packet still fits an Ethernet frame.
const MAX_PACKET: usize = 1350;
/// What one renewal adds to a generation, which starts as the milliseconds of a clock that may have
/// been set back since another process of this node used it.
const RENEWAL: u64 = 60_000;

/// Who speaks: a node, where it is reached, and which life of it this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Name of the Node.
    pub(crate) node: String,
    /// Where its speaker listens.
    pub(crate) address: SocketAddr,
    /// Of two identities with one address, the higher generation is the living one.
    pub(crate) generation: u64,
}

impl foca::Identity for Identity {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<Self> {
        Some(Self { generation: self.generation.saturating_add(RENEWAL), ..self.clone() })
    }

    fn addr(&self) -> SocketAddr {
        self.address
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.generation > adversary.generation
    }
}

/// What the gossip says of all speakers, this one among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Living {
    /// Whether enough was heard to act on: a speaker that has just started must not take for dead whom
    /// it has not met yet. Once true, always true.
    pub(crate) settled: bool,
    /// By name of the Node.
    pub(crate) nodes: BTreeMap<String, Liveness>,
    /// Which life of a node that is.
    pub(crate) lives: BTreeMap<String, u64>,
    /// Where it is reached; this node is not among them.
    pub(crate) addresses: BTreeMap<String, SocketAddr>,
}

impl Living {
    /// Nodes whose speaker is not known to be dead.
    pub(crate) fn living(&self) -> impl Iterator<Item = &str> {
        let living = self.nodes.iter().filter(|(_, liveness)| **liveness <= Liveness::Suspect);
        living.map(|(node, _)| node.as_str())
    }
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// A packet arrived, opened.
    Packet(&'a [u8]),
    /// The other speakers, all of them; first when they are known at all.
    Peers(Peers),
    /// Say goodbye. Nothing is received any more.
    Leave,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Send a packet, sealed.
    Send { to: SocketAddr, packet: Vec<u8> },
    /// Something to count or to log.
    Event(Event),
}

/// Something that happened without a packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Another node came, is suspected, or went.
    Liveness { node: String, address: SocketAddr, before: Option<Liveness>, now: Liveness },
    /// A packet of a key holder that is no message of ours.
    Malformed,
}

type Swim = Foca<Identity, PostcardCodec, StdRng, NoCustomBroadcast>;

/// The machine.
pub(crate) struct Gossip {
    swim: Swim,
    peers: Peers,
    timers: BTreeMap<(Instant, u64), Timer<Identity>>,
    timer_number: u64,
    greet_at: Option<Instant>,
    settle_at: Option<Instant>,
    leaving: Option<Farewell>,
    /// What the view was made of: order and state of the library's own list.
    seen: Vec<(SocketAddr, u64, State)>,
    living: Living,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy)]
struct Farewell {
    left: u8,
    at: Instant,
}

impl Gossip {
    /// A speaker that knows nobody yet.
    pub(crate) fn new(identity: Identity, random: StdRng) -> Self {
        let nodes = BTreeMap::from([(identity.node.clone(), Liveness::Alive)]);
        let living = Living { nodes, ..Living::default() };
        Self {
            swim: Foca::new(identity, config(), random, PostcardCodec),
            peers: Peers::default(),
            timers: BTreeMap::new(),
            timer_number: 0,
            greet_at: None,
            settle_at: None,
            leaving: None,
            seen: Vec::new(),
            living,
            outputs: VecDeque::new(),
        }
    }

    /// The present view.
    pub(crate) fn living(&self) -> &Living {
        &self.living
    }

    /// Whether goodbye was said as often as it is going to be.
    pub(crate) fn has_left(&self) -> bool {
        self.leaving.is_some_and(|farewell| farewell.left == 0)
    }

    /// Takes what happened at `now`.
    pub(crate) fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Packet(_) if self.leaving.is_some() => {}
            Input::Packet(packet) => self.drive(now, |swim, effects| swim.handle_data(packet, effects)),
            Input::Peers(peers) => {
                self.settle_at.get_or_insert(now + SETTLE);
                if peers.known.iter().any(|address| !self.peers.known.contains(address)) {
                    self.greet_at = Some(now);
                }
                self.peers = peers;
            }
            Input::Leave => {
                self.timers.clear();
                self.drive(now, |swim, effects| swim.leave_cluster(effects));
                self.timers.clear();
                self.leaving = Some(Farewell { left: FAREWELLS, at: now + FAREWELL_PAUSE });
            }
        }
        self.handle_timeout(now);
    }

    /// Takes the time.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(farewell) = self.leaving {
            if farewell.left > 0 && farewell.at <= now {
                self.leaving = Some(Farewell { left: farewell.left - 1, at: now + FAREWELL_PAUSE });
                self.drive(now, |swim, effects| swim.gossip(effects));
                self.timers.clear();
            }
            return;
        }
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now
        {
            let timer = entry.remove();
            if self.is_due(&timer) {
                self.drive(now, |swim, effects| swim.handle_timer(timer, effects));
            }
        }
        if self.greet_at.is_some_and(|at| at <= now) {
            self.greet(now);
        }
        self.settle(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self.leaving {
            Some(farewell) => (farewell.left > 0).then_some(farewell.at),
            None => {
                let timer = self.timers.keys().next().map(|&(at, _)| at);
                let settle = self.settle_at.filter(|_| !self.living.settled);
                [timer, self.greet_at, settle].into_iter().flatten().min()
            }
        }
    }

    /// The next effect.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether acting on a timer does no harm: a suspicion must still stand.
    fn is_due(&self, timer: &Timer<Identity>) -> bool {
        match timer {
            Timer::ChangeSuspectToDown { member_id, incarnation, .. } => {
                self.swim.iter_membership_state().any(|member| {
                    member.id() == member_id
                        && member.state() == State::Suspect
                        && member.incarnation() == *incarnation
                })
            }
            _ => true,
        }
    }

    fn greet(&mut self, now: Instant) {
        let living: BTreeSet<SocketAddr> = self.swim.iter_members().map(|m| m.id().address).collect();
        let missing: Vec<SocketAddr> = self.peers.known.difference(&living).copied().collect();
        for address in missing {
            // Only the address of a greeting counts; who is there is what the answer tells.
            let anybody = Identity { node: String::new(), address, generation: 0 };
            self.drive(now, |swim, effects| swim.announce(anybody, effects));
        }
        self.greet_at = Some(now + GREETING);
    }

    fn settle(&mut self, now: Instant) {
        if self.living.settled || self.settle_at.is_none() {
            return;
        }
        let joined = self.swim.iter_members().any(|m| self.peers.running.contains(&m.id().address));
        let alone = self.peers.running.is_empty();
        self.living.settled = joined || alone || self.settle_at.is_some_and(|at| at <= now);
    }

    /// Calls the library and takes what it wants done.
    fn drive(&mut self, now: Instant, call: impl FnOnce(&mut Swim, &mut Effects) -> Result<(), foca::Error>) {
        let mut effects = Effects::default();
        // Other errors are the library's book-keeping about messages that came too late.
        if let Err(foca::Error::Decode(_) | foca::Error::MalformedPacket | foca::Error::DataTooBig) =
            call(&mut self.swim, &mut effects)
        {
            self.outputs.push_back(Output::Event(Event::Malformed));
        }
        for (after, timer) in effects.timers {
            self.timer_number += 1;
            self.timers.insert((now + after, self.timer_number), timer);
        }
        self.outputs.extend(effects.packets.into_iter().map(|(to, packet)| Output::Send { to, packet }));
        if effects.rejoined {
            self.greet_at = Some(now + REJOIN_GREETING);
        }
        if self.leaving.is_none() {
            self.look();
        }
    }

    /// Compares the library's list with what was seen before and tells the difference.
    fn look(&mut self) {
        let list = || self.swim.iter_membership_state();
        let short = |m: &foca::Member<Identity>| (m.id().address, m.id().generation, m.state());
        if list().map(short).eq(self.seen.iter().copied()) {
            return;
        }
        self.seen = list().map(short).collect();
        let own = &self.swim.identity().node;
        let mut nodes = BTreeMap::from([(own.clone(), Liveness::Alive)]);
        let (mut addresses, mut lives) = (BTreeMap::new(), BTreeMap::new());
        for member in list().filter(|member| member.id().node != *own) {
            let Identity { node, address, generation } = member.id();
            let liveness = liveness(member.state());
            // A node that changed its address is known twice; what lives counts.
            let entry = nodes.entry(node.clone()).or_insert(liveness);
            if liveness <= *entry {
                *entry = liveness;
                addresses.insert(node.clone(), *address);
                lives.insert(node.clone(), *generation);
            }
        }
        self.living.addresses.extend(addresses);
        self.living.lives = lives;
        for (node, &now) in &nodes {
            let before = self.living.nodes.get(node).copied();
            let unheard = before.is_none() && now == Liveness::Dead;
            if before != Some(now) && !unheard {
                self.tell(node.clone(), before, now);
            }
        }
        let vanished: Vec<(String, Liveness)> = self
            .living
            .nodes
            .iter()
            .filter(|(node, before)| !nodes.contains_key(*node) && **before != Liveness::Dead)
            .map(|(node, before)| (node.clone(), *before))
            .collect();
        for (node, before) in vanished {
            self.tell(node, Some(before), Liveness::Dead);
        }
        self.living.addresses.retain(|node, _| nodes.contains_key(node));
        self.living.nodes = nodes;
    }

    fn tell(&mut self, node: String, before: Option<Liveness>, now: Liveness) {
        if let Some(&address) = self.living.addresses.get(&node) {
            self.outputs.push_back(Output::Event(Event::Liveness { node, address, before, now }));
        }
    }
}

fn liveness(state: State) -> Liveness {
    match state {
        State::Alive => Liveness::Alive,
        State::Suspect => Liveness::Suspect,
        State::Down => Liveness::Dead,
    }
}

/// What the library asks for during one call.
#[derive(Default)]
struct Effects {
    packets: Vec<(SocketAddr, Vec<u8>)>,
    timers: Vec<(Duration, Timer<Identity>)>,
    rejoined: bool,
}

impl foca::Runtime<Identity> for Effects {
    fn notify(&mut self, notification: foca::Notification<'_, Identity>) {
        self.rejoined |= matches!(notification, foca::Notification::Rejoin(_));
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        self.packets.push((to.address, data.to_vec()));
    }

    fn submit_after(&mut self, event: Timer<Identity>, after: Duration) {
        self.timers.push((after, event));
    }
}

/// Measured with both cores busy: a dead node is suspected after 0.35 s (half of the cases), 0.55 s at
/// most, and down 1.5 s later; pauses of 300 ms of a living one take nobody down.
fn config() -> foca::Config {
    const ONE: NonZeroUsize = NonZeroUsize::MIN;
    const THREE: NonZeroUsize = ONE.saturating_add(2);
    const PACKET: NonZeroUsize = ONE.saturating_add(MAX_PACKET - 1);
    foca::Config {
        probe_period: Duration::from_millis(200),
        probe_rtt: Duration::from_millis(80),
        num_indirect_probes: THREE,
        max_transmissions: NonZeroU8::MIN.saturating_add(7),
        suspect_to_down_after: Duration::from_millis(1500),
        remove_down_after: Some(Duration::from_secs(3600)),
        max_packet_size: PACKET,
        notify_down_members: true,
        periodic_announce: Some(PeriodicParams { frequency: Duration::from_secs(30), num_members: ONE }),
        // Greetings do that.
        periodic_announce_to_down_members: None,
        periodic_gossip: Some(PeriodicParams { frequency: Duration::from_millis(50), num_members: THREE }),
    }
}

#[cfg(test)]
mod tests;
