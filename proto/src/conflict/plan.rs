//! What a link is told about addresses, and about the nodes that may own them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::ethernet::MacAddr;

/// Name of a node.
pub type Node = Arc<str>;

/// How a node's speaker is believed to be. The better comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liveness {
    /// It answers.
    Alive,
    /// It did not answer lately.
    Suspect,
    /// It did not answer for long. It may live all the same, out of our reach.
    Dead,
    /// It said goodbye a few seconds ago: what it still answers for is to be taken over.
    Left,
}

/// What is known of a node's speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// How it is believed to be.
    pub liveness: Liveness,
    /// Which life of it this is: one that started anew owns nothing.
    pub life: u64,
    /// MACs of the links that it announces on, and whether each is connected; none until it told.
    pub links: Option<BTreeMap<MacAddr, bool>>,
}

/// All speakers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    own: Node,
    by_node: BTreeMap<Node, Member>,
    by_mac: BTreeMap<MacAddr, Node>,
    complete: bool,
}

impl Members {
    /// Of the node `own` and all nodes that a speaker was ever heard of, `own` among them or not.
    pub fn new(own: Node, by_node: BTreeMap<Node, Member>) -> Self {
        let macs = by_node.iter().flat_map(|(node, member)| {
            member.links.iter().flat_map(BTreeMap::keys).map(|mac| (*mac, Arc::clone(node)))
        });
        let by_mac = macs.collect();
        let speaks = |member: &Member| member.liveness != Liveness::Left && member.links.is_none();
        let complete = by_node.contains_key(&own) && !by_node.values().any(speaks);
        Self { own, by_node, by_mac, complete }
    }

    /// This node.
    pub fn own(&self) -> &Node {
        &self.own
    }

    /// Whose link has this MAC.
    pub fn node_of(&self, mac: MacAddr) -> Option<&Node> {
        self.by_mac.get(&mac)
    }

    /// Whether each speaker told its MACs, so that another MAC is a stranger's.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn is_alive(&self, node: &str) -> bool {
        self.get(node).is_some_and(|it| it.liveness == Liveness::Alive)
    }

    pub(super) fn get(&self, node: &str) -> Option<&Member> {
        self.by_node.get(node)
    }

    /// Nodes that were not alive before, or live another life.
    pub(super) fn risen<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Node> {
        let alive = self.by_node.iter().filter(|(_, it)| it.liveness == Liveness::Alive);
        alive
            .filter(|(node, it)| {
                let was = before.get(node);
                was.is_none_or(|was| was.liveness != Liveness::Alive || was.life != it.life)
            })
            .map(|(node, _)| node)
    }
}

/// A node that may own an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub node: Node,
    /// A wish of the user: who is preferred more takes the address over from a living owner.
    pub preference: u64,
}

/// What is planned for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who may own it, best first. Between two that own it at once, the better stays.
    pub candidates: Vec<Candidate>,
    /// How many living candidates other than the present owner are to try before this node; none: it
    /// must not own the address on this link.
    pub turn: Option<u32>,
    /// Whether the better takes the address over from a living owner even where no user prefers it.
    pub preempt: bool,
}

impl Claim {
    pub(super) fn place(&self, node: &str) -> Option<(usize, u64)> {
        let index = self.candidates.iter().position(|it| &*it.node == node)?;
        Some((index, self.candidates.get(index)?.preference))
    }

    /// With what a claim before it allowed: while the API's view is in doubt nothing is taken away.
    fn or_as_before(&self, before: &Self) -> Self {
        let known: BTreeSet<&str> = self.candidates.iter().map(|it| &*it.node).collect();
        let lost = before.candidates.iter().filter(|it| !known.contains(&*it.node)).cloned();
        Self {
            candidates: self.candidates.iter().cloned().chain(lost).collect(),
            turn: self.turn.or(before.turn),
            preempt: self.preempt,
        }
    }
}

/// Addresses and what is planned for them.
pub type Claims = BTreeMap<IpAddr, Arc<Claim>>;

/// What a link is told, all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// All speakers.
    pub members: Arc<Members>,
    /// The addresses of all Services that are announced on this link by any node.
    pub claims: Claims,
    /// Whether the API server has just come back: a speaker that must not own an address, as far as it says,
    /// may be one that it has lost sight of.
    pub hold: bool,
}

/// What is planned `now`, and what `before` allowed beyond it: right after the API server came back,
/// what it says is gone may only not be seen yet.
pub fn hold(now: &Claims, before: &Claims) -> Claims {
    let mut held = before.clone();
    for (ip, claim) in now {
        let merged = match before.get(ip) {
            Some(before) if before != claim => Arc::new(claim.or_as_before(before)),
            _ => Arc::clone(claim),
        };
        held.insert(*ip, merged);
    }
    held
}

impl Plan {
    /// Nothing is planned, nobody is known.
    pub(super) fn nothing() -> Self {
        let members = Arc::new(Members::new(Node::from(""), BTreeMap::new()));
        Self { members, claims: Claims::new(), hold: false }
    }
}
