//! Several machines on one virtual clock and a network whose links can be cut.

use std::collections::BTreeSet;

use rand::SeedableRng;

use super::*;

const LATENCY: Duration = Duration::from_millis(1);

struct World {
    start: Instant,
    now: Instant,
    nodes: Vec<Node>,
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    cut: BTreeSet<(usize, usize)>,
    /// Of 100 packets so many are lost, every so-manieth in turn.
    loss: u64,
}

struct Node {
    gossip: Option<Gossip>,
    lives: u64,
    events: Vec<Event>,
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, index as u8 + 1], 7946))
}

fn name(index: usize) -> String {
    format!("node-{index}")
}

impl World {
    fn new(count: usize) -> Self {
        let start = Instant::now();
        let mut world = Self {
            start,
            now: start,
            nodes: Vec::new(),
            flying: BTreeMap::new(),
            sent: 0,
            cut: BTreeSet::new(),
            loss: 0,
        };
        for index in 0..count {
            world.nodes.push(Node { gossip: None, lives: 0, events: Vec::new() });
            world.boot(index);
        }
        for index in 0..count {
            world.know(index, (0..count).filter(|other| *other != index));
        }
        world
    }

    /// A process starts (again) on a node.
    fn boot(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.lives += 1;
        let identity = Identity { node: name(index), address: address(index), generation: node.lives };
        node.gossip = Some(Gossip::new(identity, StdRng::seed_from_u64(index as u64 * 31 + node.lives)));
    }

    /// The API server names its peers.
    fn know(&mut self, index: usize, others: impl Iterator<Item = usize>) {
        let running: BTreeSet<SocketAddr> = others.map(address).collect();
        self.input(index, Input::Peers(Peers { known: running.clone(), running }));
    }

    fn input(&mut self, index: usize, input: Input<'_>) {
        if let Some(gossip) = &mut self.nodes[index].gossip {
            gossip.handle_input(self.now, input);
        }
        self.drain(index);
    }

    fn drain(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(gossip) = &mut node.gossip else { return };
        while let Some(output) = gossip.poll_output() {
            match output {
                Output::Event(event) => node.events.push(event),
                Output::Send { to, packet } => {
                    let Some(to) = (0..).take(250).find(|other| address(*other) == to) else { continue };
                    self.sent += 1;
                    let lost = self.sent * self.loss / 100 != (self.sent - 1) * self.loss / 100;
                    if !lost && !self.cut.contains(&(index, to)) {
                        self.flying.insert((self.now + LATENCY, self.sent), (to, packet));
                    }
                }
            }
        }
    }

    /// Lets time pass until the condition holds; says how long that took.
    fn until(&mut self, what: &str, bound: Duration, done: impl Fn(&Self) -> bool) -> Duration {
        let began = self.now;
        while !done(self) {
            let arrival = self.flying.keys().next().map(|&(at, _)| at);
            let timers = self.nodes.iter().filter_map(|node| node.gossip.as_ref()?.next_timeout());
            let next = timers.chain(arrival).min().expect("something is always due");
            assert!(next <= began + bound, "{what}: not within {bound:?}: {:?}", self.views());
            self.now = self.now.max(next);
            while let Some(entry) = self.flying.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, packet) = entry.remove();
                self.input(to, Input::Packet(&packet));
            }
            for index in 0..self.nodes.len() {
                if let Some(gossip) = &mut self.nodes[index].gossip {
                    gossip.handle_timeout(self.now);
                }
                self.drain(index);
            }
        }
        self.now - began
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.until("time", time + Duration::from_secs(2), |world| world.now >= end);
    }

    fn views(&self) -> Vec<Option<&Living>> {
        self.nodes.iter().map(|node| node.gossip.as_ref().map(Gossip::living)).collect()
    }

    fn members(&self, index: usize) -> &Living {
        self.nodes[index].gossip.as_ref().expect("running").living()
    }

    /// Whether every running machine sees exactly these alive.
    fn agree(&self, alive: &[usize]) -> bool {
        self.views().into_iter().flatten().all(|members| {
            (0..self.nodes.len()).all(|index| {
                let liveness = members.nodes.get(&name(index)).copied();
                if alive.contains(&index) {
                    liveness == Some(Liveness::Alive)
                } else {
                    matches!(liveness, None | Some(Liveness::Dead))
                }
            })
        })
    }

    fn isolate(&mut self, index: usize) {
        self.flying.retain(|_, (to, _)| *to != index);
        for other in 0..self.nodes.len() {
            self.cut.extend([(index, other), (other, index)]);
        }
    }
}

#[test]
fn three_speakers_join_and_only_then_are_settled() {
    let mut world = World::new(3);
    assert!(world.views().into_iter().flatten().all(|members| !members.settled));
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2]));
    assert!(world.views().into_iter().flatten().all(|members| members.settled));
    let joins = &world.nodes[0].events;
    assert_eq!(joins.len(), 2, "{joins:?}");
    assert!(joins.iter().all(|e| matches!(e, Event::Liveness { before: None, now: Liveness::Alive, .. })));
}

#[test]
fn a_crash_is_suspected_then_certain() {
    let mut world = World::new(3);
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2]));
    world.nodes[2].gossip = None;
    let suspected = world.until("suspicion", Duration::from_secs(2), |world| {
        [0, 1].iter().all(|index| world.members(*index).nodes[&name(2)] != Liveness::Alive)
    });
    world.until("death", Duration::from_secs(4), |world| world.agree(&[0, 1]));
    assert!(suspected < Duration::from_secs(1), "{suspected:?}");
    let events = &world.nodes[0].events;
    let last = events.last().expect("events");
    assert!(
        matches!(last, Event::Liveness { node, now: Liveness::Dead, .. } if *node == name(2)),
        "{events:?}"
    );
    assert!(world.members(0).settled, "settled stays");
}

#[test]
fn a_farewell_is_heard_at_once() {
    let mut world = World::new(3);
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2]));
    world.input(1, Input::Leave);
    let others =
        |world: &World| [0, 2].iter().all(|index| world.members(*index).nodes[&name(1)] == Liveness::Dead);
    let took = world.until("farewell", Duration::from_secs(1), others);
    assert!(took < Duration::from_millis(300), "{took:?}");
    world.until("left", Duration::from_secs(1), |world| {
        world.nodes[1].gossip.as_ref().is_some_and(Gossip::has_left)
    });
    // It does not come back by what the others still send.
    world.nodes[1].events.clear();
    world.run(Duration::from_secs(5));
    assert!(others(&world));
}

#[test]
fn a_quick_restart_takes_nobody_down() {
    let mut world = World::new(3);
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2]));
    world.nodes[1].gossip = None;
    world.run(Duration::from_millis(900));
    world.boot(1);
    world.know(1, [0, 2].into_iter());
    world.until("return", Duration::from_secs(2), |world| world.agree(&[0, 1, 2]));
    let dead = |event: &Event| matches!(event, Event::Liveness { now: Liveness::Dead, .. });
    assert!(!world.nodes[0].events.iter().any(dead), "{:?}", world.nodes[0].events);
}

#[test]
fn a_process_whose_clock_was_set_back_gets_in() {
    let mut world = World::new(2);
    world.nodes[1].lives = 1_000_000;
    world.boot(1);
    world.know(1, [0].into_iter());
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1]));
    world.nodes[1].lives = 0;
    world.boot(1);
    world.know(1, [0].into_iter());
    world.until("return", Duration::from_secs(10), |world| world.agree(&[0, 1]));
}

#[test]
fn a_healed_partition_comes_together() {
    let mut world = World::new(4);
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2, 3]));
    for (a, b) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        world.cut.extend([(a, b), (b, a)]);
    }
    world.until("partition", Duration::from_secs(5), |world| {
        world.members(0).living().eq(["node-0", "node-1"])
            && world.members(3).living().eq(["node-2", "node-3"])
    });
    world.run(Duration::from_secs(20));
    world.cut.clear();
    let took = world.until("healing", Duration::from_secs(10), |world| world.agree(&[0, 1, 2, 3]));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn one_who_was_cut_off_returns() {
    let mut world = World::new(3);
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2]));
    world.isolate(2);
    world.until("alone", Duration::from_secs(5), |world| {
        world.members(2).living().eq(["node-2"]) && world.members(0).living().eq(["node-0", "node-1"])
    });
    world.run(Duration::from_secs(20));
    world.cut.clear();
    let took = world.until("healing", Duration::from_secs(10), |world| world.agree(&[0, 1, 2]));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn one_blocked_path_takes_nobody_down() {
    let mut world = World::new(3);
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2]));
    world.cut.extend([(0, 1), (1, 0)]);
    for node in &mut world.nodes {
        node.events.clear();
    }
    world.run(Duration::from_secs(60));
    let dead = |event: &Event| matches!(event, Event::Liveness { now: Liveness::Dead, .. });
    assert!(!world.nodes.iter().any(|node| node.events.iter().any(dead)));
}

#[test]
fn loss_takes_nobody_down() {
    let mut world = World::new(5);
    world.until("join", Duration::from_secs(2), |world| world.agree(&[0, 1, 2, 3, 4]));
    world.loss = 10;
    world.run(Duration::from_secs(60));
    let dead = |event: &Event| matches!(event, Event::Liveness { now: Liveness::Dead, .. });
    assert!(!world.nodes.iter().any(|node| node.events.iter().any(dead)));
}

#[test]
fn who_hears_nobody_settles_after_a_while_and_who_has_no_peers_at_once() {
    let mut world = World::new(2);
    world.isolate(0);
    let began = world.now;
    world.until("settle", Duration::from_secs(5), |world| world.members(0).settled);
    assert!(world.now - began >= SETTLE);

    let mut alone = World::new(1);
    alone.until("settle", SETTLE, |world| world.members(0).settled);
    assert_eq!(alone.now, alone.start);
}

#[test]
fn nonsense_of_a_key_holder_is_reported() {
    let mut world = World::new(1);
    world.input(0, Input::Packet(&[0xff; 40]));
    world.input(0, Input::Packet(&[]));
    assert_eq!(world.nodes[0].events, [Event::Malformed, Event::Malformed]);
}

#[test]
fn many_speakers_learn_of_a_death() {
    let count = 30;
    let mut world = World::new(count);
    let all: Vec<usize> = (0..count).collect();
    world.until("join", Duration::from_secs(5), |world| world.agree(&all));
    world.nodes[7].gossip = None;
    let rest: Vec<usize> = all.iter().copied().filter(|index| *index != 7).collect();
    world.until("death", Duration::from_secs(8), |world| world.agree(&rest));
}
