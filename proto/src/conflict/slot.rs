//! What one address is to a link, and what becomes of it when time passes or the plan changes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hear::Rival;
use super::{AUDIT, AUDIT_PAUSE, Claim, Claimant, HAND_OVER, Node, SEASONED, TURN};
use crate::announcer;
use crate::ethernet::MacAddr;

/// Who owns an address, as seen on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// This link.
    Owner,
    /// Another speaker; its node, where the MAC is known.
    Other(Option<Node>),
    /// A host that is no speaker.
    Conflict(MacAddr),
}

/// A row of probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    left: u8,
    pause: Duration,
}

/// Where nobody was ever heard.
const QUICK: Round = Round { left: 3, pause: Duration::from_millis(50) };
/// Where there was an owner, or may have been: with 30 % of the frames lost three probes or their
/// answers are all lost in 13 % of the cases, fifteen in 4 of 100,000.
const CAREFUL: Round = Round { left: 15, pause: Duration::from_millis(20) };

/// How often another owner is asked whether it insists, how far apart, and how long its answer takes.
const ASKED: u8 = 3;
const ASK_PAUSE: Duration = Duration::from_millis(100);
const ANSWER: Duration = Duration::from_millis(300);

#[derive(Debug, Clone)]
pub(super) enum State {
    /// Not for this link to claim.
    Idle { owner: Option<MacAddr> },
    /// Those with a better turn come first. `doubted` was the owner.
    Waiting { since: Instant, doubted: Option<MacAddr> },
    /// Asks who has it.
    Probing { round: Round, doubted: Option<MacAddr>, conflict: Option<Stranger> },
    /// Answers and announces. Another host claimed the address at a time.
    Owning { since: Instant, contested: Option<Contest> },
    /// Answers until another announces it.
    Retiring,
    /// The speaker with this MAC owns it.
    Standby { owner: MacAddr, node: Option<Node> },
    /// A host that is no speaker has it.
    Conflict(Stranger),
}

/// Another host claims an address that this link owns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contest {
    /// Which.
    pub(super) mac: MacAddr,
    /// When that was heard first.
    pub(super) since: Instant,
    /// How often it was asked since then whether it insists, and until when its answer counts.
    pub(super) asked: u8,
    pub(super) answers_until: Instant,
}

/// A host that is no speaker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stranger {
    pub(super) mac: MacAddr,
    /// Whether it was heard again after a pause: once may be a frame that was long under way.
    pub(super) confirmed: bool,
}

impl State {
    pub(super) fn answers(&self) -> bool {
        matches!(self, Self::Owning { .. } | Self::Retiring)
    }

    /// The MAC of another owner.
    pub(super) fn owner(&self) -> Option<MacAddr> {
        match self {
            Self::Idle { owner } => *owner,
            Self::Standby { owner, .. } => Some(*owner),
            Self::Waiting { .. }
            | Self::Probing { .. }
            | Self::Owning { .. }
            | Self::Retiring
            | Self::Conflict(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) claim: Arc<Claim>,
    pub(super) state: State,
    /// When it is due; that pair is in the machine's `timers`.
    pub(super) timer: Option<Instant>,
    created: Instant,
    /// Whether anybody was ever heard to have it.
    pub(super) heard: bool,
    pub(super) free_since: Instant,
    /// The node of the last owner, while that is in doubt.
    pub(super) last: Option<Node>,
}

impl Slot {
    pub(super) fn new(now: Instant, claim: Arc<Claim>) -> Self {
        Self {
            claim,
            state: State::Idle { owner: None },
            timer: None,
            created: now,
            heard: false,
            free_since: now,
            last: None,
        }
    }

    /// What is known of the owner. One that is asked for counts until it was found gone.
    pub(super) fn standing(&self) -> Option<Standing> {
        match &self.state {
            State::Owning { .. } | State::Retiring => Some(Standing::Owner),
            State::Standby { node, .. } => Some(Standing::Other(node.clone())),
            State::Conflict(Stranger { mac, confirmed: true })
            | State::Probing { conflict: Some(Stranger { mac, confirmed: true }), .. } => {
                Some(Standing::Conflict(*mac))
            }
            State::Probing { doubted: Some(_), .. } | State::Waiting { doubted: Some(_), .. } => {
                Some(Standing::Other(self.last.clone()))
            }
            State::Idle { owner: Some(_) } => Some(Standing::Other(self.last.clone())),
            State::Idle { owner: None }
            | State::Waiting { doubted: None, .. }
            | State::Probing { .. }
            | State::Conflict(_) => None,
        }
    }
}

impl Claimant {
    /// Whether this link may own the address, by what is planned and by what it is able to.
    fn may_own(&self, ip: IpAddr) -> bool {
        let able = ip.is_ipv4() || self.link.link_local.is_some();
        let planned = self.slots.get(&ip).is_some_and(|slot| slot.claim.turn.is_some());
        able && planned && !self.leaving
    }

    /// What the plan, the members or the link's own address make of a slot.
    pub(super) fn reconsider(&mut self, now: Instant, ip: IpAddr) {
        let may_own = self.may_own(ip);
        let Some(slot) = self.slots.get(&ip) else { return };
        match slot.state {
            State::Owning { .. } | State::Retiring if ip.is_ipv6() && self.link.link_local.is_none() => {
                self.release(now, ip, State::Idle { owner: None }, None);
            }
            State::Owning { .. } if !may_own => self.retire(now, ip),
            State::Retiring if may_own => {
                self.enter(ip, State::Owning { since: now, contested: None }, None);
                self.announcer.handle_input(now, announcer::Input::Own(ip));
            }
            State::Waiting { .. } | State::Probing { .. } | State::Conflict(_) if !may_own => {
                self.enter(ip, State::Idle { owner: None }, None);
            }
            State::Standby { owner, .. } if !may_own => {
                self.enter(ip, State::Idle { owner: Some(owner) }, None);
            }
            State::Waiting { since, doubted } => {
                let turn = slot.claim.turn.unwrap_or_default();
                let at = now.max(since + TURN * turn);
                self.enter(ip, State::Waiting { since, doubted }, Some(at));
            }
            State::Idle { owner: None } if may_own => self.wait(now, ip),
            State::Idle { owner: Some(owner) } | State::Standby { owner, .. } if may_own => {
                match self.rival(ip, owner) {
                    // Known already.
                    Rival::Better(_) | Rival::Worse(_)
                        if matches!(slot.state, State::Standby { node: Some(_), .. }) => {}
                    Rival::Better(node) | Rival::Worse(node) => {
                        self.stand_by(now, ip, owner, Some(node), true)
                    }
                    Rival::Unknown if matches!(slot.state, State::Standby { .. }) => {}
                    Rival::Yields(_)
                    | Rival::Outsider(_)
                    | Rival::Leaving
                    | Rival::Stranger
                    | Rival::Unknown => {
                        self.wait(now, ip);
                    }
                }
            }
            State::Conflict(Stranger { mac, .. }) if self.plan.members.node_of(mac).is_some() => {
                self.wait(now, ip)
            }
            State::Owning { .. }
            | State::Retiring
            | State::Idle { .. }
            | State::Standby { .. }
            | State::Probing { .. }
            | State::Conflict(_) => {}
        }
    }

    fn retire(&mut self, now: Instant, ip: IpAddr) {
        let own = self.plan.members.own();
        let others =
            self.slots.get(&ip).is_some_and(|slot| slot.claim.candidates.iter().any(|it| it.node != *own));
        if self.rules.planned && others {
            self.announcer.handle_input(now, announcer::Input::Quiet(ip));
            self.enter(ip, State::Retiring, Some(now + HAND_OVER));
        } else {
            self.release(now, ip, State::Idle { owner: None }, None);
        }
    }

    /// Takes note that another speaker owns the address. `verify`: nobody asked, so it may be late word.
    pub(super) fn stand_by(
        &mut self,
        now: Instant,
        ip: IpAddr,
        owner: MacAddr,
        node: Option<Node>,
        verify: bool,
    ) {
        let alive = node.as_deref().is_some_and(|it| self.plan.members.is_alive(it));
        let Some(slot) = self.slots.get_mut(&ip) else { return };
        slot.heard = true;
        slot.last.clone_from(&node);
        let in_doubt = (verify && self.rules.generation) || !alive;
        let timer = match slot.claim.turn {
            Some(turn) if in_doubt => Some(now + super::ASK_AGAIN + TURN * turn),
            _ => None,
        };
        self.enter(ip, State::Standby { owner, node }, timer);
    }

    /// The time of a slot has come.
    pub(super) fn due_now(&mut self, now: Instant, ip: IpAddr) {
        let Some(slot) = self.slots.get(&ip) else { return };
        match slot.state.clone() {
            State::Waiting { .. } | State::Standby { .. } | State::Conflict(_) => self.probe(now, ip),
            State::Probing { round, doubted, conflict } => self.next_probe(now, ip, round, doubted, conflict),
            State::Retiring => self.release(now, ip, State::Idle { owner: None }, None),
            State::Owning { since, contested: Some(contest) } if contest.asked < ASKED => {
                let contest = Contest { asked: contest.asked + 1, answers_until: now + ANSWER, ..contest };
                self.enter(ip, State::Owning { since, contested: Some(contest) }, Some(now + ASK_PAUSE));
                self.due.insert(ip);
            }
            State::Owning { .. } => {}
            State::Idle { .. } => {}
        }
    }

    /// Begins to ask.
    pub(super) fn probe(&mut self, now: Instant, ip: IpAddr) {
        let Some(slot) = self.slots.get_mut(&ip) else { return };
        let (doubted, conflict) = match slot.state {
            State::Standby { owner, .. } => (Some(owner), None),
            State::Waiting { doubted, .. } => (doubted, None),
            State::Conflict(stranger) => (None, Some(stranger)),
            _ => (None, None),
        };
        if matches!(slot.state, State::Standby { .. } | State::Conflict(_)) {
            slot.free_since = now;
        }
        let just_started = self.born.is_none_or(|born| slot.created < born + SEASONED);
        if !self.rules.claim || (just_started && !slot.heard && !self.rules.start) {
            return self.own(now, ip);
        }
        let round = if slot.heard || just_started || conflict.is_some() { CAREFUL } else { QUICK };
        self.next_probe(now, ip, round, doubted, conflict);
    }

    fn next_probe(
        &mut self,
        now: Instant,
        ip: IpAddr,
        round: Round,
        doubted: Option<MacAddr>,
        conflict: Option<Stranger>,
    ) {
        match round.left.checked_sub(1) {
            // Nobody is to own it: it was only asked whether a stranger still has it.
            None if self.slots.get(&ip).is_some_and(|slot| slot.claim.candidates.is_empty()) => {
                self.enter(ip, State::Idle { owner: None }, None);
            }
            None => self.own(now, ip),
            Some(left) => {
                let round = Round { left, ..round };
                self.enter(ip, State::Probing { round, doubted, conflict }, Some(now + round.pause));
                self.due.insert(ip);
            }
        }
    }

    /// Asks for one owned address whether another host has it too, or for one of which this node is the
    /// heir whether its owner still has it.
    pub(super) fn audit(&mut self, now: Instant) {
        let auditable = |slot: &Slot| match slot.state {
            State::Owning { .. } => true,
            State::Standby { .. } => slot.claim.turn == Some(0),
            _ => false,
        };
        let count = self.slots.values().filter(|slot| auditable(slot)).count();
        let pause = (AUDIT / u32::try_from(count.max(1)).unwrap_or(u32::MAX)).max(AUDIT_PAUSE);
        let is_first = self.audit_at.replace(now + pause).is_none();
        if is_first || !self.rules.conflict {
            return;
        }
        let after = self.slots.iter().filter(|(ip, slot)| Some(**ip) > self.audited && auditable(slot));
        let first = self.slots.iter().filter(|(_, slot)| auditable(slot));
        self.audited = after.chain(first).map(|(ip, _)| *ip).next();
        let Some(ip) = self.audited else { return };
        match self.slots.get(&ip).map(|slot| &slot.state) {
            Some(State::Owning { .. }) => drop(self.due.insert(ip)),
            _ => self.probe(now, ip),
        }
    }
}
