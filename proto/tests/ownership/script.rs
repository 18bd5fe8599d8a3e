//! What happens in a trace, decided beforehand: faults by time, as a schedule that people can read.

use std::fmt;

use crate::random::Random;

/// Microseconds.
pub(crate) type Time = u64;
pub(crate) const MS: Time = 1000;
pub(crate) const SECOND: Time = 1000 * MS;
/// Length of a trace.
pub(crate) const END: Time = 62 * SECOND;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process ends without a word; it starts again later.
    Crash(usize),
    /// The process says goodbye, hands over, and ends.
    Leave(usize),
    Start(usize),
    /// The cable is pulled: no carrier.
    Unplug(usize),
    Plug(usize),
    /// Nodes with a bit set hear only each other, the others too; the carrier stays.
    Partition(u8),
    Heal,
    /// Two nodes take each other's membership for dead, though the wire is whole.
    Deafen(usize, usize),
    Listen,
    /// Of 100 frames so many are lost.
    Loss(u64),
    /// The API server is away.
    ApiAway,
    /// It is back, and takes this node for unusable for a while.
    ApiBack(usize),
    ApiSettled,
    /// The user changes what a node may own: (node, address).
    Toggle(usize, usize),
    /// The user prefers a node for an address.
    Prefer(usize, usize),
    /// A node is suspected though it is well.
    Suspect(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(node) => write!(f, "node {node} crashes"),
            Self::Leave(node) => write!(f, "node {node} ends in order"),
            Self::Start(node) => write!(f, "node {node} starts"),
            Self::Unplug(node) => write!(f, "the cable of node {node} is pulled"),
            Self::Plug(node) => write!(f, "the cable of node {node} is plugged in"),
            Self::Partition(mask) => write!(f, "nodes {mask:08b} and the others hear each other no more"),
            Self::Heal => write!(f, "all hear each other again"),
            Self::Deafen(a, b) => write!(f, "membership between nodes {a} and {b} is blocked"),
            Self::Listen => write!(f, "membership is whole again"),
            Self::Loss(percent) => write!(f, "{percent} % of the frames are lost from now on"),
            Self::ApiAway => write!(f, "the API server is away"),
            Self::ApiBack(node) => write!(f, "the API server is back and takes node {node} for unusable"),
            Self::ApiSettled => write!(f, "the API server says what is"),
            Self::Toggle(node, address) => write!(f, "node {node} may (not) own address {address}"),
            Self::Prefer(node, address) => write!(f, "node {node} is preferred for address {address}"),
            Self::Suspect(node) => write!(f, "all suspect node {node} for a moment"),
        }
    }
}

/// The schedule for a number of nodes and addresses.
pub(crate) fn write(random: &mut Random, nodes: usize, addresses: usize) -> Vec<(Time, Fault)> {
    let mut script = Vec::new();
    let mut at = random.range(4, 8) * SECOND;
    while at < END - 14 * SECOND {
        let node = random.below(nodes);
        let mut lasting = random.range(300 * MS, 6 * SECOND);
        let pair = |script: &mut Vec<_>, begin: Fault, end: Fault| {
            script.push((at, begin));
            script.push((at + lasting, end));
        };
        match random.below(12) {
            0 => pair(&mut script, Fault::Crash(node), Fault::Start(node)),
            1 => pair(&mut script, Fault::Leave(node), Fault::Start(node)),
            2 => pair(&mut script, Fault::Unplug(node), Fault::Plug(node)),
            3 | 4 => {
                let mask = random.range(1, (1 << nodes) - 1) as u8;
                pair(&mut script, Fault::Partition(mask), Fault::Heal);
            }
            5 => pair(&mut script, Fault::Deafen(node, (node + 1) % nodes), Fault::Listen),
            6 => {
                let share = random.range(5, 31);
                pair(&mut script, Fault::Loss(share), Fault::Loss(0));
            }
            7 | 8 => {
                pair(&mut script, Fault::ApiAway, Fault::ApiBack(node));
                lasting += random.range(4 * SECOND, 8 * SECOND);
                script.push((at + lasting, Fault::ApiSettled));
            }
            9 => script.push((at, Fault::Toggle(node, random.below(addresses)))),
            10 => script.push((at, Fault::Prefer(node, random.below(addresses)))),
            _ => script.push((at, Fault::Suspect(node))),
        }
        // Now and then faults fall together; mostly there is time to come to rest between them.
        let pause = if random.percent(20) {
            random.range(50 * MS, 3 * SECOND)
        } else {
            random.range(4 * SECOND, 9 * SECOND)
        };
        at += if random.percent(85) { lasting + pause } else { pause };
    }
    script.sort_by_key(|(at, _)| *at);
    script
}
