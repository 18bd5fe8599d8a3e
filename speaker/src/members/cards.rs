//! What each speaker tells the others of itself: its links, and that it is about to leave.
//!
//! ```text
//! own links ────────┐                  ┌─> due(): send the own card to all
//! Card of another ──┼─> Cards ─────────┤
//! who is living ────┘                  └─> links and farewells by node
//! ```
//!
//! A card goes to everybody when it changes or somebody appears, a few times since datagrams get lost, and
//! now and then at rest. Of two cards of a node the later life counts, then the higher version.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::links::Links;

/// When a card is sent after a change.
const REPEATS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1500)];
/// At rest.
const REST: Duration = Duration::from_secs(10);
/// How long a speaker that said goodbye may still answer for what it hands over.
const LEAVING: Duration = Duration::from_secs(3);
/// Links that a card has room for.
const LINKS: usize = 128;

/// One link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CardLink {
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    pub(crate) connected: bool,
}

/// What a speaker tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    pub(crate) node: String,
    /// When its process started, in milliseconds.
    pub(crate) life: u64,
    pub(crate) version: u64,
    pub(crate) leaving: bool,
    pub(crate) links: Vec<CardLink>,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Cards {
    own: Card,
    others: BTreeMap<String, (Card, Instant)>,
    known: BTreeSet<(String, u64)>,
    /// Number of times that the present card was sent, and when it is sent again.
    sent: usize,
    send_at: Option<Instant>,
}

impl Cards {
    pub(crate) fn new(node: String, life: u64) -> Self {
        let own = Card { node, life, ..Card::default() };
        Self { own, others: BTreeMap::new(), known: BTreeSet::new(), sent: 0, send_at: None }
    }

    /// The own card, as it is now.
    pub(crate) fn own(&self) -> &Card {
        &self.own
    }

    /// The links of this node.
    pub(crate) fn set_links(&mut self, now: Instant, links: &Links) {
        let links: Vec<CardLink> = links
            .by_index
            .values()
            .take(LINKS)
            .map(|link| CardLink {
                name: link.name.clone(),
                mac: link.address.mac.octets(),
                connected: link.connected,
            })
            .collect();
        if self.own.version == 0 || self.own.links != links {
            self.own.links = links;
            self.changed(now);
        }
    }

    /// This speaker is about to leave.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.own.leaving = true;
        self.changed(now);
    }

    fn changed(&mut self, now: Instant) {
        self.own.version += 1;
        self.send_from_start(now);
    }

    fn send_from_start(&mut self, now: Instant) {
        self.sent = 0;
        self.send_at = Some(now);
    }

    /// Nodes that are reached, with their lives: who is new among them is told at once.
    pub(crate) fn set_living(&mut self, now: Instant, living: BTreeSet<(String, u64)>) {
        if self.own.version > 0 && living.difference(&self.known).next().is_some() {
            self.send_from_start(now);
        }
        self.known = living;
    }

    /// A card that arrived. Says whether it told something new.
    pub(crate) fn receive(&mut self, now: Instant, card: Card) -> bool {
        let rank = |card: &Card| (card.life, card.version);
        let newer = self.others.get(&card.node).is_none_or(|(known, _)| rank(&card) > rank(known));
        let ours = card.node == self.own.node;
        if newer && !ours {
            self.others.insert(card.node.clone(), (card, now));
        }
        newer && !ours
    }

    /// Forgets nodes that nobody knows any more.
    pub(crate) fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.others.retain(|node, _| known(node));
    }

    /// Links of a node, if it told.
    pub(crate) fn links(&self, node: &str) -> Option<&[CardLink]> {
        if node == self.own.node {
            return (self.own.version > 0).then_some(&self.own.links);
        }
        self.others.get(node).map(|(card, _)| card.links.as_slice())
    }

    /// Whether the node said goodbye a moment ago, or longer ago.
    pub(crate) fn farewell(&self, now: Instant, node: &str) -> Option<Farewell> {
        let (_, at) = self.others.get(node).filter(|(card, _)| card.leaving)?;
        Some(if now < *at + LEAVING { Farewell::JustNow } else { Farewell::LongAgo })
    }

    /// Which life of a node told last; 0 where it never told.
    pub(crate) fn life(&self, node: &str) -> u64 {
        self.others.get(node).map_or(0, |(card, _)| card.life)
    }

    /// When a farewell grows old.
    pub(crate) fn next_farewell(&self, now: Instant) -> Option<Instant> {
        let leaving = self.others.values().filter(|(card, _)| card.leaving).map(|(_, at)| *at + LEAVING);
        leaving.filter(|at| *at > now).min()
    }

    /// When a card is to be sent, or a farewell grows old.
    pub(crate) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        self.next_farewell(now).into_iter().chain(self.send_at).min()
    }

    /// Whether the own card is to be sent to all now.
    pub(crate) fn due(&mut self, now: Instant) -> bool {
        let due = self.send_at.is_some_and(|at| at <= now);
        if due {
            self.sent += 1;
            let pause = match (REPEATS.get(self.sent), REPEATS.get(self.sent - 1)) {
                (Some(next), Some(last)) => next.saturating_sub(*last),
                _ => REST,
            };
            self.send_at = Some(now + pause);
        }
        due
    }
}

/// How long ago a node said goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// It may still answer for what it hands over.
    JustNow,
    /// It answers for nothing any more.
    LongAgo,
}

#[cfg(test)]
mod tests {
    use ferrolb_proto::announcer::LinkAddress;

    use super::*;
    use crate::links::Link;

    fn links(names: &[&str]) -> Links {
        let link = |(index, name): (usize, &&str)| {
            let address = LinkAddress { mac: [2, 0, 0, 0, 0, index as u8].into(), link_local: None };
            (
                index as u32,
                Link { name: (*name).to_owned(), address, connected: true, answers_for_others: false },
            )
        };
        Links { by_index: names.iter().enumerate().map(link).collect(), ..Links::default() }
    }

    /// When a card is sent, in milliseconds from `start`.
    fn sent(cards: &mut Cards, start: Instant, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        let mut now = start;
        while let Some(at) = cards.next_timeout(now).filter(|at| *at <= start + Duration::from_millis(until))
        {
            now = now.max(at);
            if cards.due(now) {
                times.push((now - start).as_millis() as u64);
            }
        }
        times
    }

    #[test]
    fn a_card_is_sent_when_it_changes_when_somebody_appears_and_at_rest() {
        let start = Instant::now();
        let mut cards = Cards::new("a".to_owned(), 1);
        cards.set_living(start, BTreeSet::from([("b".to_owned(), 1)]));
        assert_eq!(cards.next_timeout(start), None, "there is nothing to tell yet");
        cards.set_links(start, &links(&["eth0"]));
        assert_eq!(sent(&mut cards, start, 15_000), [0, 100, 400, 1500, 11_500]);
        let later = start + Duration::from_secs(20);
        cards.set_links(later, &links(&["eth0"]));
        cards.set_living(later, BTreeSet::from([("b".to_owned(), 1)]));
        assert_eq!(sent(&mut cards, later, 2000), [1500], "nothing new");
        cards.set_living(later, BTreeSet::from([("b".to_owned(), 2)]));
        assert_eq!(sent(&mut cards, later, 1600)[..3], [0, 100, 400]);
    }

    #[test]
    fn the_latest_card_counts() {
        let now = Instant::now();
        let mut cards = Cards::new("a".to_owned(), 1);
        let card =
            |life, version, leaving| Card { node: "b".to_owned(), life, version, leaving, links: Vec::new() };
        assert_eq!(cards.links("b"), None);
        assert!(cards.receive(now, card(5, 2, false)));
        assert!(!cards.receive(now, card(5, 1, true)));
        assert!(!cards.receive(now, card(4, 9, true)));
        assert!(!cards.receive(now, Card { node: "a".to_owned(), life: 9, ..Card::default() }), "our own");
        assert_eq!((cards.links("b"), cards.farewell(now, "b")), (Some(&[][..]), None));
        assert!(cards.receive(now, card(5, 3, true)));
        assert_eq!(cards.farewell(now, "b"), Some(Farewell::JustNow));
        assert_eq!(cards.next_timeout(now), Some(now + LEAVING));
        assert_eq!(cards.farewell(now + LEAVING, "b"), Some(Farewell::LongAgo));
        assert!(cards.receive(now, card(6, 1, false)));
        assert_eq!(cards.farewell(now, "b"), None);
        cards.retain(|_| false);
        assert_eq!(cards.links("b"), None);
    }
}
