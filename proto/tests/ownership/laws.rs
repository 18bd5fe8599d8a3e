//! What must hold in every trace.

use std::fmt::Write;

use crate::script::{Fault, MS, SECOND, Time};
use crate::world::{Config, Sim, World};

/// Two answer for one address no longer than this after they could hear each other.
const ONE_ANSWER: Time = 2300 * MS;
/// The same while frames are lost: each owner is asked for once in ten seconds.
const ONE_ANSWER_LOSSY: Time = 13 * SECOND;
/// Nobody answers no longer than this after the last fault…
const ANSWERED: Time = 3500 * MS;
/// …or than this where the nodes know different configurations.
const ANSWERED_STALE: Time = 14 * SECOND;
/// From the crash of an owner to the next one.
const TAKEN_OVER: Time = 1500 * MS;
/// How long nothing happened before and after what is judged by itself.
const REST: Time = 4 * SECOND;
/// Not at all, with a tick's grace.
const NEVER: Time = 0;

/// What is expected of an address since the last fault.
#[derive(Clone, Copy)]
enum Expect {
    Anything,
    /// A new owner soon.
    TakeOver,
    /// Somebody, all the time; who was able at the time of the fault.
    NoGap(u8),
    /// The same one.
    NoMove(usize),
}

#[derive(Default)]
pub(crate) struct Laws {
    owners: Vec<u8>,
    doubled_since: Vec<Option<Time>>,
    unowned_since: Vec<Option<Time>>,
    expected: Vec<Option<Expect>>,
    last_fault: Time,
    told: Option<Config>,
    story: String,
    gap: Option<String>,
}

impl Laws {
    pub(crate) fn new(addresses: usize) -> Self {
        Self {
            owners: vec![0; addresses],
            doubled_since: vec![None; addresses],
            unowned_since: vec![None; addresses],
            expected: vec![None; addresses],
            ..Self::default()
        }
    }

    pub(crate) fn story(&self) -> &str {
        self.story.trim_end()
    }

    pub(crate) fn owns(&mut self, now: Time, address: usize, node: usize, owns: bool) {
        let mask = self.owners[address] & !(1 << node) | u8::from(owns) << node;
        if mask != self.owners[address] {
            self.owners[address] = mask;
            let nodes: Vec<usize> = (0..8).filter(|node| mask >> node & 1 == 1).collect();
            writeln!(self.story, "{:9.3} s  address {address}: {nodes:?}", now as f64 / SECOND as f64)
                .unwrap();
        }
        if let Some(Expect::NoGap(able)) = self.expected[address]
            && mask == 0
            && now < self.last_fault + REST
        {
            self.gap.get_or_insert_with(|| {
                format!("address {address}: nobody answers during a planned move ({able:08b} could)")
            });
        }
    }

    /// A frame arrives that was very long under way. It may do harm for a moment, so what is expected of
    /// each moment is void; the laws of duration stand.
    pub(crate) fn late_frame(&mut self) {
        self.expected.fill(Some(Expect::Anything));
    }

    /// Before a fault takes effect: what is to follow.
    pub(crate) fn fault(&mut self, world: &World, fault: &Fault) {
        let at_rest = world.now >= self.last_fault + REST && world.loss == 0 && world.side == 0;
        let current = self.told.as_ref().is_none_or(|told| *told == world.truth);
        let agree = || world.nodes.iter().all(|it| it.config.as_deref() == Some(&world.truth));
        for address in 0..self.owners.len() {
            let mask = self.owners[address];
            let owner = (mask.count_ones() == 1).then(|| mask.trailing_zeros() as usize);
            let mut able = (0..world.nodes.len())
                .filter(|it| world.able(*it, address))
                .fold(0, |all, it| all | 1_u8 << it);
            let preferred = world.truth.preference[address].iter().any(|it| *it > 0);
            // Who must not own it any more may do so for a while yet, where that is held or not known.
            let may_stay = |owner: usize| world.truth.eligible[address] >> owner & 1 == 1;
            let expected = match (owner, fault) {
                _ if !at_rest => Expect::Anything,
                (Some(owner), Fault::Crash(node) | Fault::Unplug(node))
                    if owner == *node && !world.api_away =>
                {
                    Expect::TakeOver
                }
                (Some(owner), Fault::Leave(node))
                    if owner == *node && able & !mask != 0 && !world.api_away =>
                {
                    able &= !mask;
                    Expect::NoGap(able)
                }
                (Some(_), Fault::Toggle(node, of)) if *of == address && !world.api_away => {
                    able &= !(1 << node);
                    if able & !mask == 0 { Expect::Anything } else { Expect::NoGap(able) }
                }
                (Some(_), Fault::Prefer(_, of)) if *of == address && !world.api_away => Expect::NoGap(able),
                (
                    Some(owner),
                    Fault::Start(_)
                    | Fault::Plug(_)
                    | Fault::Heal
                    | Fault::Listen
                    | Fault::Suspect(_)
                    | Fault::ApiAway
                    | Fault::ApiBack(_)
                    | Fault::ApiSettled,
                ) if !preferred && !world.preempt && current && may_stay(owner) => match fault {
                    Fault::Start(node) if *node == owner || !agree() => Expect::Anything,
                    _ => Expect::NoMove(owner),
                },
                _ => Expect::Anything,
            };
            self.expected[address] = Some(expected);
        }
        if matches!(fault, Fault::ApiAway) {
            self.told = Some(world.truth.clone());
        }
        self.last_fault = world.now;
        writeln!(self.story, "{:9.3} s  -- {fault}", world.now as f64 / SECOND as f64).unwrap();
    }

    pub(crate) fn check(&mut self, world: &World) -> Result<(), String> {
        if let Some(gap) = self.gap.take() {
            return Err(gap);
        }
        let (now, count) = (world.now, world.nodes.len());
        // Who holds what another let go knows another configuration, too.
        let own_view = |it: &Sim| it.config.as_deref() != Some(&world.truth) || now < it.hold_until + REST;
        let differ = world.nodes.iter().filter(|it| it.running).any(own_view);
        for address in 0..self.owners.len() {
            let mask = self.owners[address];
            let owns = |node: usize| mask >> node & 1 == 1;
            let doubled = (0..count).any(|a| owns(a) && (0..a).any(|b| owns(b) && world.connected(a, b)));
            self.doubled_since[address] = doubled.then(|| self.doubled_since[address].unwrap_or(now));
            let orphan = (0..count).any(|a| {
                let answered = (0..count).any(|b| owns(b) && (a == b || world.connected(a, b)));
                world.able(a, address) && !answered
            });
            self.unowned_since[address] = orphan.then(|| self.unowned_since[address].unwrap_or(now));
            let lasting = |since: Option<Time>| since.map(|it| now - it.max(self.last_fault));
            let bound = if world.loss == 0 { ONE_ANSWER } else { ONE_ANSWER_LOSSY };
            if lasting(self.doubled_since[address]).is_some_and(|it| it > bound) {
                return Err(format!("address {address}: more than one answers"));
            }
            let bound = if differ || world.loss > 0 { ANSWERED_STALE } else { ANSWERED };
            if lasting(self.unowned_since[address]).is_some_and(|it| it > bound) {
                return Err(format!("address {address}: nobody answers"));
            }
            if now > self.last_fault + REST {
                continue;
            }
            match self.expected[address] {
                Some(Expect::TakeOver) if orphan && now > self.last_fault + TAKEN_OVER => {
                    return Err(format!("address {address}: not taken over"));
                }
                Some(Expect::NoMove(owner)) if mask != 1 << owner && now > self.last_fault + NEVER => {
                    return Err(format!(
                        "address {address}: moved from node {owner} though nothing was wrong with it"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
