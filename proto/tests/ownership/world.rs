//! Nodes, the wire between them, their membership and the API server, all under one virtual clock.

mod faults;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_proto::announcer::LinkAddress;
use ferrolb_proto::conflict::{
    Candidate, Claim, Claimant, Claims, Event, Input, Liveness, Member, Members, Node, Output, Plan, Rules,
    Standing, hold,
};
use ferrolb_proto::ethernet::{Frame, Header, MacAddr};

use crate::laws::Laws;
use crate::random::Random;
use crate::script::{END, Fault, MS, SECOND, Time, write};

/// What the API server says: for each address who may own it, and how much each node is preferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) eligible: Vec<u8>,
    pub(crate) preference: Vec<[u64; 8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    liveness: Liveness,
    life: u64,
}

/// A node.
pub(crate) struct Sim {
    /// The machine of its link, while its process runs and its cable is plugged in.
    machine: Option<Claimant>,
    pub(crate) running: bool,
    pub(crate) plugged: bool,
    pub(crate) leaving: bool,
    settled: bool,
    life: u64,
    views: Vec<Option<View>>,
    pub(crate) config: Option<Arc<Config>>,
    pub(crate) hold_until: Time,
    /// It held when it planned last; and has not heard of the API server since that went away.
    holds: bool,
    lost: bool,
    claims: Claims,
    known: Vec<Option<usize>>,
    /// Its clock is ahead by this, and runs fast or slow by so many of a million.
    offset: Time,
    drift: i64,
}

/// The rules in force: those of the machine, and that of whoever plans.
#[derive(Clone, Copy)]
pub(crate) struct InForce {
    pub(crate) machine: Rules,
    pub(crate) hold: bool,
}

impl Default for InForce {
    fn default() -> Self {
        Self { machine: Rules::default(), hold: true }
    }
}

enum Happening {
    Frame { to: usize, frame: Frame, sent: Time },
    View { at: usize, of: usize, view: View, epoch: u64 },
    FarewellEnds { at: usize, of: usize, life: u64 },
    Config { at: usize, config: Arc<Config>, hold: bool },
    HoldEnds { at: usize },
    Settled { at: usize, life: u64 },
    Ends { node: usize, life: u64 },
    Fault(Fault),
    Tick,
}

pub(crate) struct World {
    start: Instant,
    pub(crate) now: Time,
    random: Random,
    pub(crate) nodes: Vec<Sim>,
    addresses: Vec<IpAddr>,
    names: Vec<Node>,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    serial: u64,
    pub(crate) side: u8,
    deaf: Option<(usize, usize)>,
    pub(crate) loss: u64,
    pub(crate) api_away: bool,
    /// Restarts the count of what is known of one node by another: what was under way is void.
    epochs: Vec<Vec<u64>>,
    hears: Vec<Vec<bool>>,
    pub(crate) truth: Config,
    pub(crate) preempt: bool,
    rules: InForce,
    laws: Laws,
}

fn mac(node: usize) -> MacAddr {
    MacAddr::new([2, 0, 0, 0, 0, node as u8])
}

fn link(node: usize) -> LinkAddress {
    LinkAddress { mac: mac(node), link_local: Some(format!("fe80::{node:x}").parse().unwrap()) }
}

/// The order among equals, another one for each address.
fn rank(node: usize, address: usize) -> u64 {
    Random::new((node * 31 + address * 7919) as u64).next()
}

impl World {
    /// One trace. An error tells the whole story.
    pub(crate) fn run(seed: u64, rules: InForce) -> Result<(), String> {
        let mut random = Random::new(seed);
        let (count, addresses) = (random.range(3, 9) as usize, random.range(1, 4) as usize);
        let script = write(&mut random, count, addresses);
        let mut world = Self::new(random, count, addresses, rules);
        for (at, fault) in &script {
            world.push(*at, Happening::Fault(fault.clone()));
        }
        for tick in 1..END / (100 * MS) {
            world.push(tick * 100 * MS, Happening::Tick);
        }
        world.play().map_err(|violation| {
            let schedule: Vec<String> = script
                .iter()
                .map(|(at, fault)| format!("{:9.3} s  {fault}", *at as f64 / SECOND as f64))
                .collect();
            let story = world.laws.story();
            format!(
                "{count} nodes, {addresses} addresses\n{}\n--- owners\n{story}\n--- {violation}",
                schedule.join("\n")
            )
        })
    }

    #[expect(clippy::disallowed_methods, reason = "any instant will do as the zero of a made-up clock")]
    fn new(mut random: Random, count: usize, addresses: usize, rules: InForce) -> Self {
        let ip = |n: usize| match n % 2 {
            0 => IpAddr::from([10, 0, 0, 200 + n as u8]),
            _ => format!("fd00::{n:x}").parse().unwrap(),
        };
        let nodes = (0..count)
            .map(|_| Sim {
                machine: None,
                running: false,
                plugged: true,
                leaving: false,
                settled: false,
                life: 0,
                views: vec![None; count],
                config: None,
                hold_until: 0,
                holds: false,
                lost: false,
                claims: Claims::new(),
                known: vec![None; addresses],
                offset: random.range(0, 3600 * SECOND),
                drift: random.range(0, 40_000) as i64 - 20_000,
            })
            .collect();
        let preempt = random.percent(10);
        let mut world = Self {
            start: Instant::now(),
            now: 0,
            random,
            nodes,
            addresses: (0..addresses).map(ip).collect(),
            names: (0..count).map(|node| Node::from(format!("node-{node}"))).collect(),
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            serial: 0,
            side: 0,
            deaf: None,
            loss: 0,
            api_away: false,
            epochs: vec![vec![0; count]; count],
            hears: vec![vec![false; count]; count],
            truth: Config {
                eligible: vec![(1_u16 << count).wrapping_sub(1) as u8; addresses],
                preference: vec![[0; 8]; addresses],
            },
            preempt,
            rules,
            laws: Laws::new(addresses),
        };
        for node in 0..count {
            world.start(node);
        }
        world
    }

    fn push(&mut self, at: Time, happening: Happening) {
        self.serial += 1;
        self.queue.push(Reverse((at, self.serial)));
        self.happenings.insert(self.serial, happening);
    }

    fn soon(&mut self, low: Time, high: Time, happening: Happening) {
        let at = self.now + self.random.range(low, high);
        self.push(at, happening);
    }

    /// The clock of a node, and back.
    fn local(&self, node: usize) -> Instant {
        let Sim { offset, drift, .. } = self.nodes[node];
        let skewed = self.now as i64 + self.now as i64 * drift / 1_000_000;
        self.start + Duration::from_micros(offset + skewed as u64)
    }

    fn due(&self, node: usize) -> Option<Time> {
        let Sim { machine, offset, drift, .. } = &self.nodes[node];
        let at = machine.as_ref()?.next_timeout()?;
        let skewed = (at - self.start).as_micros() as i64 - *offset as i64;
        // Rounded up: a timer that is looked at too early is looked at again at once.
        Some((skewed * 1_000_000 / (1_000_000 + drift) + 2).max(0) as Time)
    }

    fn play(&mut self) -> Result<(), String> {
        loop {
            let timer = (0..self.nodes.len()).filter_map(|node| Some((self.due(node)?, node))).min();
            let next = self.queue.peek().map_or(END, |Reverse((at, _))| *at);
            if let Some((at, node)) = timer
                && at <= next
            {
                self.now = self.now.max(at);
                if self.now >= END {
                    return Ok(());
                }
                let now = self.local(node);
                if let Some(machine) = &mut self.nodes[node].machine {
                    machine.handle_timeout(now);
                }
                self.drain(node);
                continue;
            }
            let Some(Reverse((at, serial))) = self.queue.pop() else { return Ok(()) };
            self.now = self.now.max(at);
            if self.now >= END {
                return Ok(());
            }
            match self.happenings.remove(&serial).unwrap() {
                Happening::Frame { to, frame, sent } => {
                    if self.now > sent + 200 * MS {
                        self.laws.late_frame();
                    }
                    self.input(to, Input::Frame(&frame));
                }
                Happening::View { at, of, view, epoch } => {
                    if self.epochs[at][of] == epoch && self.nodes[at].running {
                        self.nodes[at].views[of] = Some(view);
                        self.nodes[at].settled = true;
                        self.plan(at);
                        if view.liveness == Liveness::Left {
                            let life = view.life;
                            self.push(self.now + 3 * SECOND, Happening::FarewellEnds { at, of, life });
                        }
                    }
                }
                Happening::FarewellEnds { at, of, life } => {
                    let left = View { liveness: Liveness::Left, life };
                    if self.nodes[at].views[of] == Some(left) {
                        self.nodes[at].views[of] = Some(View { liveness: Liveness::Dead, life });
                        self.plan(at);
                    }
                }
                Happening::Config { at, config, hold } => {
                    if self.nodes[at].running && !self.api_away {
                        self.nodes[at].config = Some(config);
                        self.nodes[at].lost = false;
                        if hold {
                            let until = self.now + 10 * SECOND;
                            self.nodes[at].hold_until = until;
                            self.push(until, Happening::HoldEnds { at });
                        }
                        self.plan(at);
                    }
                }
                Happening::HoldEnds { at } => self.plan(at),
                Happening::Settled { at, life } => {
                    if self.nodes[at].life == life {
                        self.nodes[at].settled = true;
                        self.plan(at);
                    }
                }
                Happening::Ends { node, life } => {
                    if self.nodes[node].life == life && self.nodes[node].leaving {
                        self.stop(node);
                    }
                }
                Happening::Fault(fault) => {
                    let mut laws = std::mem::take(&mut self.laws);
                    laws.fault(self, &fault);
                    self.laws = laws;
                    self.fault(&fault);
                }
                Happening::Tick => {
                    let mut laws = std::mem::take(&mut self.laws);
                    let verdict = laws.check(self);
                    self.laws = laws;
                    verdict?;
                }
            }
        }
    }

    fn input(&mut self, node: usize, input: Input<'_>) {
        let now = self.local(node);
        if let Some(machine) = &mut self.nodes[node].machine {
            machine.handle_input(now, input);
        }
        self.drain(node);
    }

    fn drain(&mut self, node: usize) {
        let mut replan = false;
        while let Some(output) = self.nodes[node].machine.as_mut().and_then(Claimant::poll_output) {
            match output {
                Output::Send { frame, .. } => self.send(node, &frame),
                Output::Event(Event::Standing(ip, standing)) => {
                    let index = self.addresses.iter().position(|it| *it == ip).unwrap();
                    let known = match standing {
                        Some(Standing::Owner) => Some(node),
                        Some(Standing::Other(Some(name))) => self.names.iter().position(|it| *it == name),
                        Some(Standing::Other(None) | Standing::Conflict(_)) | None => None,
                    };
                    replan |= self.nodes[node].known[index] != known;
                    self.nodes[node].known[index] = known;
                }
                Output::Event(Event::Ignored(_) | Event::Claimed(..) | Event::Contested(..)) => {}
            }
        }
        for (index, ip) in self.addresses.iter().enumerate() {
            let owns = self.nodes[node].machine.as_ref().is_some_and(|machine| machine.owns(*ip));
            self.laws.owns(self.now, index, node, owns);
        }
        if replan {
            self.plan(node);
        }
    }

    fn send(&mut self, from: usize, frame: &Frame) {
        let destination = Header::parse(frame).unwrap().destination;
        for to in 0..self.nodes.len() {
            let meant = destination.is_multicast() || destination == mac(to);
            if to == from || !meant || !self.connected(from, to) || self.random.percent(self.loss) {
                continue;
            }
            let (frame, sent) = (*frame, self.now);
            let late = if self.random.percent(2) { 20 * MS } else { MS };
            self.soon(50, late, Happening::Frame { to, frame, sent });
            // Twice, once in a while very late.
            if self.random.percent(2) {
                let late = if self.random.percent(15) { 4 * SECOND } else { 50 * MS };
                self.soon(MS, late, Happening::Frame { to, frame, sent });
            }
        }
    }

    /// Whether the wire carries frames between two nodes.
    pub(crate) fn connected(&self, a: usize, b: usize) -> bool {
        let side = |node: usize| self.side >> node & 1;
        self.nodes[a].plugged && self.nodes[b].plugged && side(a) == side(b)
    }

    /// Whether a node may own an address, by what it knows.
    pub(crate) fn able(&self, node: usize, address: usize) -> bool {
        let Sim { machine, leaving, settled, config, .. } = &self.nodes[node];
        machine.is_some()
            && !leaving
            && *settled
            && config.as_ref().is_some_and(|it| it.eligible[address] >> node & 1 == 1)
    }

    fn follow_wire(&mut self) {
        for at in 0..self.nodes.len() {
            for of in 0..self.nodes.len() {
                let deaf = self.deaf == Some((at, of)) || self.deaf == Some((of, at));
                let both = self.nodes[at].running && self.nodes[of].running && !self.nodes[of].leaving;
                let hears = both && !deaf && self.connected(at, of);
                let life = self.nodes[of].life;
                let known = self.nodes[at].views[of].is_some_and(|view| view.life == life);
                if at == of || (self.hears[at][of] == hears && (known || !hears)) {
                    continue;
                }
                self.hears[at][of] = hears;
                self.epochs[at][of] += 1;
                let epoch = self.epochs[at][of];
                let view = |liveness, life| Happening::View { at, of, view: View { liveness, life }, epoch };
                if hears {
                    self.soon(20 * MS, 800 * MS, view(Liveness::Alive, life));
                } else if let Some(View { life, liveness }) = self.nodes[at].views[of] {
                    let suspected = self.now + self.random.range(200 * MS, 550 * MS);
                    if liveness != Liveness::Left {
                        self.push(suspected, view(Liveness::Suspect, life));
                        self.push(suspected + 1500 * MS, view(Liveness::Dead, life));
                    }
                }
            }
        }
    }

    fn plan(&mut self, node: usize) {
        let sim = &self.nodes[node];
        let Some(config) = sim.config.as_ref().filter(|_| sim.settled) else { return };
        let member = |of: usize, liveness, life| {
            let links = Some(BTreeMap::from([(mac(of), self.nodes[of].plugged)]));
            (self.names[of].clone(), Member { liveness, life, links })
        };
        let others = sim
            .views
            .iter()
            .enumerate()
            .filter_map(|(of, view)| Some(member(of, (*view)?.liveness, (*view)?.life)));
        let members = others.chain([member(node, Liveness::Alive, sim.life)]).collect();
        let claims = self.addresses.iter().enumerate().map(|(address, ip)| {
            let preference = config.preference[address];
            let mut order: Vec<usize> =
                (0..self.nodes.len()).filter(|it| config.eligible[address] >> it & 1 == 1).collect();
            order.sort_by_key(|it| (Reverse(preference[*it]), rank(*it, address)));
            let goes_first = |it: &&usize| {
                let alive = sim.views[**it].is_some_and(|view| view.liveness == Liveness::Alive);
                alive && sim.known[address] != Some(**it)
            };
            let place = order.iter().position(|it| *it == node);
            let turn = place.map(|place| order[..place].iter().filter(goes_first).count() as u32);
            let candidates = order
                .iter()
                .map(|it| Candidate { node: self.names[*it].clone(), preference: preference[*it] });
            (*ip, Arc::new(Claim { candidates: candidates.collect(), turn, preempt: self.preempt }))
        });
        let mut claims: Claims = claims.collect();
        let holds = (self.now < sim.hold_until || (sim.holds && sim.lost)) && self.rules.hold;
        if holds {
            claims = hold(&claims, &sim.claims);
        }
        let members = Arc::new(Members::new(self.names[node].clone(), members));
        self.nodes[node].claims.clone_from(&claims);
        self.nodes[node].holds = holds;
        let plan = Plan { members, claims, hold: holds };
        self.input(node, Input::Plan(plan));
    }
}
