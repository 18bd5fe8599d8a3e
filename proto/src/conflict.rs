//! Which addresses one link owns. The wire is the arbiter: two speakers conflict only where a client
//! could hear both, so before a link takes an address it asks there (RFC 5227, RFC 4862 §5.4).
//!
//! ```text
//! Plan { claims, members } ─┐                             ┌─> Send { frame, cause }
//! Frame(bytes) ─────────────┼─> Claimant ───────poll─────>┤
//! LinkAddress, Leave ───────┤   slots: ip -> State        └─> Event(Standing | Claimed | Contested | Ignored)
//! handle_timeout ───────────┘   └─ Announcer: answers, gratuitous frames
//! ```
//!
//! ```text
//!            turn comes            nobody answers
//! Waiting ─────────────> Probing ─────────────────> Owning ──not ours any more──> Retiring ─> Idle
//!    ^                    │    │                      │  ^                           another announces,
//!    └─owner gone, doubt──┤    │answer of a stranger  │  └─ defends once              2 s at most
//!                      Standby └──> Conflict <────────┘     second conflict within 10 s
//!                      (another member owns)
//! ```
//!
//! The rules, by their names in [`Rules`]; the sixth is [`hold`], for whoever makes the plan:
//! 1. *Claim*: whose turn it is probes; only silence gives the address. A member that answers stays the
//!    owner, whoever ranks better. A stranger that answers is a conflict: nothing is announced, and it is
//!    asked again every second.
//! 2. *Start*: a link that has just come up owns nothing and claims only by rule 1.
//! 3. *Crash*: an owner that is suspected is asked for at once; silence gives the address.
//! 4. *Planned move*: who must not own an address any more answers until another announces it.
//! 5. *Conflict*: of two owners the worse falls silent, the better announces again; against somebody who
//!    insists nobody fights. An owner announces again when a member appears.
//! 6. *Hold*: right after the API server came back nothing is taken away.
//! 7. *Generation*: a member that started anew owns nothing until it says so, and what was heard is
//!    verified, since it may be the late word of an owner that has given up meanwhile.

mod hear;
mod plan;
mod said;
mod slot;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::plan::{Candidate, Claim, Claims, Liveness, Member, Members, Node, Plan, hold};
pub use self::slot::Standing;
use self::slot::{Slot, State};
use crate::announcer::{self, Announcer, Cause, LinkAddress};
use crate::answer::Ignored;
use crate::ethernet::{Frame, MacAddr};
use crate::{arp, ndp};

/// What each candidate gives those before it: the time to probe and to be heard.
const TURN: Duration = Duration::from_millis(500);
/// Longest time to go on answering for what another node is to take over.
const HAND_OVER: Duration = Duration::from_secs(2);
/// RFC 5227 §2.4 (DEFEND_INTERVAL): a second conflict within this time is not fought.
const DEFEND: Duration = Duration::from_secs(10);
/// What belongs to one conflict: several frames say the same.
const ONE_CONFLICT: Duration = Duration::from_millis(500);
/// Until then another owner was asked whether it insists.
const FOUGHT: Duration = Duration::from_millis(1500);
/// After this time a stranger, or an owner that is in doubt, is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Every owner is asked for in this time, by itself and by its heir, but never more often than…
const AUDIT: Duration = Duration::from_secs(10);
/// …one address in this time.
const AUDIT_PAUSE: Duration = Duration::from_millis(50);
/// From then on a link that never heard of an address would have, had it an owner.
const SEASONED: Duration = Duration::from_secs(3);
/// Events that may wait to be polled.
const QUEUE: usize = 8192;

/// Which rules are in force: all of them. The simulation takes them away one by one to show what each
/// of them is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "one for each rule of the module's list")]
pub struct Rules {
    pub claim: bool,
    pub start: bool,
    pub crash: bool,
    pub planned: bool,
    pub conflict: bool,
    pub generation: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { claim: true, start: true, crash: true, planned: true, conflict: true, generation: true }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// A frame arrived on the link.
    Frame(&'a [u8]),
    /// What is planned, all of it.
    Plan(Plan),
    /// The link's own addresses, changed or not.
    LinkAddress(LinkAddress),
    /// This speaker is about to end: nothing is claimed any more, all is handed over.
    Leave,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Put a frame on the link. The cause is for counters and logs; a probe has none.
    Send {
        /// The exact bytes.
        frame: Frame,
        /// The address that it is about.
        about: IpAddr,
        /// Why it is sent; none: to ask.
        cause: Option<Cause>,
    },
    /// Something to count, to log or to act on.
    Event(Event),
}

/// Something that happened without a frame to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A frame got no answer.
    Ignored(Ignored),
    /// Who owns the address changed; none: nobody that is known.
    Standing(IpAddr, Option<Standing>),
    /// The link took the address, so long after it became free.
    Claimed(IpAddr, Duration),
    /// Another host with this MAC claims an address that this link owns.
    Contested(IpAddr, MacAddr),
}

/// The machine of one link.
#[derive(Debug)]
pub struct Claimant {
    rules: Rules,
    link: LinkAddress,
    announcer: Announcer,
    plan: Plan,
    slots: BTreeMap<IpAddr, Slot>,
    timers: BTreeSet<(Instant, IpAddr)>,
    /// To probe when polled.
    due: BTreeSet<IpAddr>,
    events: VecDeque<Event>,
    /// When the first plan came.
    born: Option<Instant>,
    audit_at: Option<Instant>,
    audited: Option<IpAddr>,
    leaving: bool,
}

impl Claimant {
    /// A link that has come up.
    pub fn new(link: LinkAddress, rules: Rules) -> Self {
        Self {
            rules,
            link,
            announcer: Announcer::new(link),
            plan: Plan::nothing(),
            slots: BTreeMap::new(),
            timers: BTreeSet::new(),
            due: BTreeSet::new(),
            events: VecDeque::new(),
            born: None,
            audit_at: None,
            audited: None,
            leaving: false,
        }
    }

    /// Takes what happened at `now`.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Frame(frame) => {
                if let Some(said) = said::said(frame) {
                    self.hear(now, said);
                }
                self.announcer.handle_input(now, announcer::Input::Frame(frame));
            }
            Input::Plan(plan) => self.replan(now, plan),
            Input::LinkAddress(link) => {
                self.link = link;
                self.announcer.handle_input(now, announcer::Input::LinkAddress(link));
                self.reconsider_all(now);
            }
            Input::Leave => {
                self.leaving = true;
                self.reconsider_all(now);
            }
        }
        self.handle_timeout(now);
    }

    /// Takes the time.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, ip)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(slot) = self.slots.get_mut(&ip) {
                slot.timer = None;
                self.due_now(now, ip);
            }
        }
        if self.audit_at.is_none_or(|at| at <= now) {
            self.audit(now);
        }
        self.announcer.handle_timeout(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|&(at, _)| at);
        [timer, self.audit_at, self.announcer.next_timeout()].into_iter().flatten().min()
    }

    /// The next effect. What became of an address is told before the frames that say so.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(event) = self.events.pop_front() {
            return Some(Output::Event(event));
        }
        match self.announcer.poll_output() {
            Some(announcer::Output::Send { frame, cause }) => {
                let about = match cause {
                    Cause::Answer(question) => question.ip,
                    Cause::Announcement(ip) => ip,
                };
                return Some(Output::Send { frame, about, cause: Some(cause) });
            }
            Some(announcer::Output::Event(announcer::Event::Ignored(why))) => {
                return Some(Output::Event(Event::Ignored(why)));
            }
            None => {}
        }
        if let Some(ip) = self.due.pop_first() {
            let mac = self.link.mac;
            let frame = match ip {
                IpAddr::V4(ip) => arp::probe(mac, ip),
                IpAddr::V6(ip) => ndp::probe(mac, ip),
            };
            return Some(Output::Send { frame, about: ip, cause: None });
        }
        None
    }

    /// Whether the link answers for the address.
    pub fn owns(&self, ip: IpAddr) -> bool {
        self.slots.get(&ip).is_some_and(|slot| slot.state.answers())
    }

    /// Whether the link answers for nothing.
    pub fn is_silent(&self) -> bool {
        self.announcer.is_empty()
    }

    fn tell(&mut self, event: Event) {
        // Never full while the driver drains after each call.
        if self.events.len() < QUEUE {
            self.events.push_back(event);
        }
    }

    /// Puts a slot into a state, with the time at which it is due again.
    fn enter(&mut self, ip: IpAddr, state: State, timer: Option<Instant>) {
        let Some(slot) = self.slots.get_mut(&ip) else { return };
        if let Some(at) = slot.timer.take() {
            self.timers.remove(&(at, ip));
        }
        let (answered, before) = (slot.state.answers(), slot.standing());
        slot.state = state;
        slot.timer = timer;
        let (answers, standing) = (slot.state.answers(), slot.standing());
        self.timers.extend(timer.map(|at| (at, ip)));
        if !matches!(
            self.slots.get(&ip).map(|it| &it.state),
            Some(State::Probing { .. } | State::Owning { .. })
        ) {
            self.due.remove(&ip);
        }
        debug_assert!(answers || !answered || !matches!(standing, Some(Standing::Owner)));
        if before != standing {
            self.tell(Event::Standing(ip, standing));
        }
    }

    /// Begins to answer and to announce.
    fn own(&mut self, now: Instant, ip: IpAddr) {
        let free_since = self.slots.get(&ip).map_or(now, |slot| slot.free_since);
        self.enter(ip, State::Owning { since: now, contested: None }, None);
        self.announcer.handle_input(now, announcer::Input::Own(ip));
        self.tell(Event::Claimed(ip, now.saturating_duration_since(free_since)));
    }

    /// Falls silent at once.
    fn release(&mut self, now: Instant, ip: IpAddr, state: State, timer: Option<Instant>) {
        self.announcer.handle_input(now, announcer::Input::Disown(ip));
        self.enter(ip, state, timer);
    }

    /// Waits for its turn.
    fn wait(&mut self, now: Instant, ip: IpAddr) {
        let Some(slot) = self.slots.get_mut(&ip) else { return };
        let Some(turn) = slot.claim.turn else { return };
        if !matches!(slot.state, State::Waiting { .. } | State::Probing { .. }) {
            slot.free_since = now;
        }
        let doubted = slot.state.owner();
        self.enter(ip, State::Waiting { since: now, doubted }, Some(now + TURN * turn));
    }

    /// A new plan: everything that it changes, and nothing else.
    fn replan(&mut self, now: Instant, plan: Plan) {
        self.born.get_or_insert(now);
        let before = std::mem::replace(&mut self.plan, plan);
        let gone: Vec<IpAddr> =
            self.slots.keys().filter(|ip| !self.plan.claims.contains_key(ip)).copied().collect();
        for ip in gone {
            self.release(now, ip, State::Idle { owner: None }, None);
            self.slots.remove(&ip);
        }
        let changed: Vec<(IpAddr, Arc<Claim>)> = self
            .plan
            .claims
            .iter()
            .filter(|(ip, claim)| self.slots.get(ip).is_none_or(|slot| slot.claim != **claim))
            .map(|(ip, claim)| (*ip, Arc::clone(claim)))
            .collect();
        for (ip, claim) in changed {
            match self.slots.get_mut(&ip) {
                Some(slot) => slot.claim = claim,
                None => drop(self.slots.insert(ip, Slot::new(now, claim))),
            }
            self.reconsider(now, ip);
        }
        if !Arc::ptr_eq(&before.members, &self.plan.members) && before.members != self.plan.members {
            self.follow_members(now, &before.members);
        } else if before.hold != self.plan.hold {
            self.reconsider_all(now);
        }
    }

    /// Members came, went, or became suspect.
    fn follow_members(&mut self, now: Instant, before: &Members) {
        let members = Arc::clone(&self.plan.members);
        let doubtful: Vec<IpAddr> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.state.owner().is_some_and(|owner| self.is_doubtful(before, owner)))
            .map(|(ip, _)| *ip)
            .collect();
        for ip in doubtful {
            match self.slots.get(&ip).map(|slot| &slot.state) {
                Some(State::Idle { .. }) => self.enter(ip, State::Idle { owner: None }, None),
                _ => self.wait(now, ip),
            }
        }
        self.reconsider_all(now);
        if self.rules.conflict && members.risen(before).any(|node| node != members.own()) {
            self.announcer.handle_input(now, announcer::Input::Reannounce);
            self.ask_the_risen(now);
        }
    }

    /// Whether what happened among the members puts in doubt that the host with this MAC still answers.
    fn is_doubtful(&self, before: &Members, owner: MacAddr) -> bool {
        let Some(node) = self.plan.members.node_of(owner) else { return false };
        let (was, is) = (before.get(node), self.plan.members.get(node));
        let (Some(was), Some(is)) = (was, is) else { return true };
        let restarted = self.rules.generation && was.life != is.life;
        let connected = |member: &Member| member.links.as_ref().and_then(|it| it.get(&owner).copied());
        let unplugged = connected(is) == Some(false) && connected(was) != Some(false);
        let worse = if self.rules.crash { Liveness::Suspect } else { Liveness::Dead };
        restarted || unplugged || (is.liveness >= worse && is.liveness > was.liveness)
    }

    fn reconsider_all(&mut self, now: Instant) {
        let all: Vec<IpAddr> = self.slots.keys().copied().collect();
        for ip in all {
            self.reconsider(now, ip);
        }
    }
}

#[cfg(test)]
mod tests;
