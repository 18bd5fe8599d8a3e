//! What other hosts say about addresses, and what follows from it.

use std::net::IpAddr;
use std::time::Instant;

use super::said::{Said, What};
use super::slot::{Contest, State, Stranger};
use super::{ASK_AGAIN, Claimant, DEFEND, Event, FOUGHT, Liveness, Node, ONE_CONFLICT};
use crate::announcer;
use crate::ethernet::MacAddr;

/// Who another host is, in the matter of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rival {
    /// It may own the address and ranks before this node.
    Better(Node),
    /// It may own the address and ranks after this node.
    Worse(Node),
    /// It may own the address, but is to leave it to this node.
    Yields(Node),
    /// A speaker that must not own it, as far as is known here.
    Outsider(Node),
    /// A speaker that said goodbye.
    Leaving,
    /// A host that is no speaker.
    Stranger,
    /// Not every speaker told its MACs yet: it may be one.
    Unknown,
}

impl Claimant {
    pub(super) fn rival(&self, ip: IpAddr, mac: MacAddr) -> Rival {
        let members = &self.plan.members;
        let Some(node) = members.node_of(mac) else {
            return if members.is_complete() { Rival::Stranger } else { Rival::Unknown };
        };
        if members.get(node).is_some_and(|it| it.liveness == Liveness::Left) {
            return Rival::Leaving;
        }
        let Some(slot) = self.slots.get(&ip) else { return Rival::Outsider(node.clone()) };
        let (theirs, ours) = (slot.claim.place(node), slot.claim.place(members.own()));
        match (theirs, ours) {
            (None, _) if self.plan.hold => Rival::Worse(node.clone()),
            (None, _) => Rival::Outsider(node.clone()),
            (Some(_), None) => Rival::Better(node.clone()),
            (Some((their_rank, their_preference)), Some((rank, preference))) => {
                let better = their_rank < rank;
                if preference > their_preference || (slot.claim.preempt && !better) {
                    Rival::Yields(node.clone())
                } else if better {
                    Rival::Better(node.clone())
                } else {
                    Rival::Worse(node.clone())
                }
            }
        }
    }

    pub(super) fn hear(&mut self, now: Instant, said: Said) {
        let Said { ip, mac, what } = said;
        let ours = mac == self.link.mac || self.plan.members.node_of(mac) == Some(self.plan.members.own());
        if ours {
            return;
        }
        let rival = self.rival(ip, mac);
        let Some(slot) = self.slots.get_mut(&ip) else { return };
        slot.heard |= what == What::Have;
        match (slot.state.clone(), what) {
            (State::Probing { conflict, .. }, What::Have) => self.answered(now, ip, mac, rival, conflict),
            (State::Probing { .. }, What::Probe) => self.probed_too(now, ip, mac, &rival),
            (State::Owning { since, contested }, What::Have) => {
                self.contest(now, ip, mac, rival, since, contested);
            }
            (State::Retiring, What::Have) => match rival {
                Rival::Leaving | Rival::Stranger => {}
                Rival::Better(node) | Rival::Worse(node) | Rival::Yields(node) | Rival::Outsider(node) => {
                    slot.last = Some(node);
                    self.release(now, ip, State::Idle { owner: Some(mac) }, None);
                }
                Rival::Unknown => self.release(now, ip, State::Idle { owner: Some(mac) }, None),
            },
            (State::Idle { .. }, What::Have) => match rival {
                Rival::Leaving | Rival::Stranger | Rival::Unknown => {}
                Rival::Better(node) | Rival::Worse(node) | Rival::Yields(node) | Rival::Outsider(node) => {
                    slot.last = Some(node);
                    self.enter(ip, State::Idle { owner: Some(mac) }, None);
                }
            },
            (State::Standby { owner, .. }, What::Have) => match rival {
                Rival::Better(_) | Rival::Worse(_) if owner == mac => {}
                Rival::Better(node) | Rival::Worse(node) => self.stand_by(now, ip, mac, Some(node), true),
                Rival::Yields(_) => self.wait(now, ip),
                Rival::Outsider(_) | Rival::Leaving | Rival::Stranger | Rival::Unknown => {}
            },
            (State::Waiting { .. } | State::Conflict(_), What::Have) => match rival {
                Rival::Better(node) | Rival::Worse(node) => self.stand_by(now, ip, mac, Some(node), true),
                // Asking will tell.
                Rival::Yields(_) | Rival::Outsider(_) | Rival::Leaving | Rival::Stranger | Rival::Unknown => {
                }
            },
            // The announcer answers where there is something to answer.
            (
                State::Owning { .. }
                | State::Retiring
                | State::Idle { .. }
                | State::Standby { .. }
                | State::Waiting { .. }
                | State::Conflict(_),
                What::Probe,
            ) => {}
        }
    }

    /// While this link asks, somebody has the address.
    fn answered(&mut self, now: Instant, ip: IpAddr, mac: MacAddr, rival: Rival, conflict: Option<Stranger>) {
        match rival {
            Rival::Better(node) | Rival::Worse(node) => self.stand_by(now, ip, mac, Some(node), false),
            // A planned move: it goes on answering until this link announces.
            Rival::Yields(_) | Rival::Outsider(_) | Rival::Leaving => {}
            Rival::Stranger => {
                let state = State::Conflict(Stranger { mac, confirmed: conflict.is_some() });
                self.enter(ip, state, Some(now + ASK_AGAIN));
            }
            Rival::Unknown => self.stand_by(now, ip, mac, None, true),
        }
    }

    /// While this link asks, another host asks too (RFC 5227 §2.1.1): the worse lets the better go first.
    fn probed_too(&mut self, now: Instant, ip: IpAddr, mac: MacAddr, rival: &Rival) {
        let gives_way = match rival {
            Rival::Better(_) => true,
            Rival::Unknown => mac < self.link.mac,
            Rival::Stranger => {
                self.enter(ip, State::Conflict(Stranger { mac, confirmed: false }), Some(now + ASK_AGAIN));
                return;
            }
            Rival::Worse(_) | Rival::Yields(_) | Rival::Outsider(_) | Rival::Leaving => false,
        };
        if gives_way {
            self.enter(ip, State::Waiting { since: now, doubted: None }, Some(now + super::TURN));
        }
    }

    /// Another host says that it has an address which this link owns.
    fn contest(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: MacAddr,
        rival: Rival,
        since: Instant,
        contested: Option<Contest>,
    ) {
        if !self.rules.conflict || rival == Rival::Leaving {
            return;
        }
        if let Rival::Better(node) = &rival
            // Else it may be the late word of an owner that is gone.
            && self.plan.members.is_alive(node)
        {
            self.tell(Event::Contested(ip, mac));
            return self.give_up(now, ip, mac, Some(node.clone()));
        }
        // Answers to our own questions of a moment ago.
        let handed_over = matches!(rival, Rival::Yields(_) | Rival::Outsider(_));
        if handed_over && now.saturating_duration_since(since) < ONE_CONFLICT {
            return;
        }
        let insists = contested.is_some_and(|contest| match rival {
            Rival::Stranger => (ONE_CONFLICT..DEFEND).contains(&now.saturating_duration_since(contest.since)),
            // A speaker is asked; anything else may be its late word. What it says at first may cross what it hears.
            _ => contest.asked > 1 && now < contest.answers_until,
        });
        let is_known = contested.is_some_and(|contest| now < contest.since + FOUGHT);
        if is_known && !insists {
            return;
        }
        self.tell(Event::Contested(ip, mac));
        match rival {
            Rival::Better(node) | Rival::Worse(node) | Rival::Yields(node) | Rival::Outsider(node)
                if insists =>
            {
                self.give_up(now, ip, mac, Some(node));
            }
            Rival::Unknown if mac < self.link.mac => self.give_up(now, ip, mac, None),
            Rival::Stranger if insists => {
                self.release(
                    now,
                    ip,
                    State::Conflict(Stranger { mac, confirmed: true }),
                    Some(now + ASK_AGAIN),
                );
            }
            Rival::Worse(_)
            | Rival::Yields(_)
            | Rival::Outsider(_)
            | Rival::Unknown
            | Rival::Stranger
            | Rival::Better(_)
            | Rival::Leaving => {
                // Asking after a while tells whether it insists.
                let contest = Contest { mac, since: now, asked: 0, answers_until: now };
                self.enter(ip, State::Owning { since, contested: Some(contest) }, Some(now + ASK_AGAIN));
                self.announcer.handle_input(now, announcer::Input::Announce(ip));
            }
        }
    }

    /// A member came to life. Whom this link heard before it knew that, and must yield to, is asked at once: it says
    /// what it says now.
    pub(super) fn ask_the_risen(&mut self, now: Instant) {
        let is_due = |ip: IpAddr, contest: &Contest| match self.rival(ip, contest.mac) {
            Rival::Better(node) => contest.asked == 0 && self.plan.members.is_alive(&node),
            _ => false,
        };
        let due: Vec<IpAddr> = self
            .slots
            .iter()
            .filter_map(|(ip, slot)| match &slot.state {
                State::Owning { contested: Some(contest), .. } if is_due(*ip, contest) => Some(*ip),
                _ => None,
            })
            .collect();
        for ip in due {
            self.due_now(now, ip);
        }
    }

    /// Falls silent for another owner. If what was heard was the late word of one that is gone, nobody answers
    /// now and nobody knows but this link: it asks before those whose turn is earlier.
    fn give_up(&mut self, now: Instant, ip: IpAddr, mac: MacAddr, node: Option<Node>) {
        self.announcer.handle_input(now, announcer::Input::Disown(ip));
        self.stand_by(now, ip, mac, node, true);
        let Some(slot) = self.slots.get(&ip) else { return };
        if let Some(at) = slot.timer {
            self.enter(ip, slot.state.clone(), Some(at.min(now + ASK_AGAIN)));
        }
    }
}
