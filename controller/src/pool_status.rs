//! When the status of a pool is written: on a change, at most once a second for each pool. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferrolb_api::v1beta1::IPAddressPoolStatus;

/// Shortest time between two writes of one pool's status.
const PACE: Duration = Duration::from_secs(1);

/// What was written, pool by pool.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pools: BTreeMap<String, Last>,
}

#[derive(Debug)]
struct Last {
    at: Instant,
    status: IPAddressPoolStatus,
    /// Of the pool after that.
    version: u128,
}

/// Whether to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing has changed.
    No,
    /// Yes.
    Now,
    /// Yes, but not before this time has passed.
    In(Duration),
}

impl Written {
    /// Whether a pool that shows `shown` in this version is to be written `status`.
    pub(crate) fn due(
        &self,
        pool: &str,
        shown: Option<&IPAddressPoolStatus>,
        version: u128,
        status: &IPAddressPoolStatus,
        now: Instant,
    ) -> Due {
        let last = self.pools.get(pool);
        // What was just written may not be seen yet.
        let unseen = last.filter(|last| version < last.version).map(|last| &last.status);
        if unseen.or(shown) == Some(status) {
            return Due::No;
        }
        let wait = last.map(|last| (last.at + PACE).saturating_duration_since(now));
        match wait.filter(|wait| !wait.is_zero()) {
            Some(wait) => Due::In(wait),
            None => Due::Now,
        }
    }

    /// A status was written.
    pub(crate) fn note(&mut self, pool: String, status: IPAddressPoolStatus, version: u128, now: Instant) {
        self.pools.insert(pool, Last { at: now, status, version });
    }

    /// Forgets pools that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.pools.retain(|pool, _| exists(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_and_not_too_often() {
        let status = |assigned_ipv4| IPAddressPoolStatus { assigned_ipv4, ..Default::default() };
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut written = Written::default();
        assert_eq!(written.due("p", None, 1, &status(0), at(0)), Due::Now);
        written.note("p".into(), status(0), 5, at(0));
        // Not seen yet, and seen.
        assert_eq!(written.due("p", None, 1, &status(0), at(2000)), Due::No);
        assert_eq!(written.due("p", Some(&status(0)), 5, &status(0), at(2000)), Due::No);
        assert_eq!(written.due("p", None, 1, &status(1), at(400)), Due::In(Duration::from_millis(600)));
        assert_eq!(written.due("p", None, 1, &status(1), at(1000)), Due::Now);
        // Somebody else wrote it: put right.
        assert_eq!(written.due("p", Some(&status(7)), 6, &status(0), at(1000)), Due::Now);
        assert_eq!(written.due("q", Some(&status(7)), 6, &status(0), at(0)), Due::Now);
        written.retain(|_| false);
        assert_eq!(written.due("p", None, 1, &status(1), at(400)), Due::Now);
    }
}
