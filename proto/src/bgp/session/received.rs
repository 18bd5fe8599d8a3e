//! Which routes a peer announces. None is used; people want to know how many there are.

use std::collections::BTreeSet;

use crate::bgp::Prefix;
use crate::bgp::update::Update;

/// More are not told apart: what a peer may send without end must not be kept without end.
pub const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Received {
    prefixes: BTreeSet<Prefix>,
    /// There were more once; how many there are now is not known.
    more: bool,
}

impl Received {
    pub(super) fn take(&mut self, update: &Update) {
        for prefix in &update.withdrawn {
            self.prefixes.remove(prefix);
        }
        for prefix in &update.announced {
            if self.prefixes.len() < MOST || self.prefixes.contains(prefix) {
                self.prefixes.insert(*prefix);
            } else {
                self.more = true;
            }
        }
        if self.more {
            self.prefixes.clear();
        }
    }

    pub(super) fn count(&self) -> usize {
        if self.more { MOST } else { self.prefixes.len() }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn routes(range: std::ops::Range<u32>) -> Vec<Prefix> {
        range.map(|it| Prefix::around(Ipv4Addr::from(it << 8).into(), 24).unwrap()).collect()
    }

    #[test]
    fn routes_are_counted_once_and_not_without_end() {
        let mut received = Received::default();
        let announce = |range| Update { announced: routes(range), ..Update::default() };
        let withdraw = |range| Update { withdrawn: routes(range), ..Update::default() };
        for (update, expected) in [
            (announce(0..10), 10),
            (announce(5..15), 15),
            (withdraw(0..3), 12),
            (withdraw(0..3), 12),
            (announce(0..10_000), 10_000),
            (withdraw(0..1), 9_999),
            (announce(20_000..20_002), MOST),
            (withdraw(0..5_000), MOST),
        ] {
            received.take(&update);
            assert_eq!(received.count(), expected);
        }
        assert!(received.prefixes.is_empty(), "what is not told is not kept");
    }
}
