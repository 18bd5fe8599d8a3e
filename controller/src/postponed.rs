//! Writes that failed and wait for their next try.
//!
//! Decided here: one that is refused is tried again after a second, then two, up to half a minute, and at once when
//! the Service has changed; the others do not wait for it. Pure: the time is an argument.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_core::service::ServiceKey;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(32);

/// What failed.
#[derive(Debug, Default)]
pub(crate) struct Postponed {
    failed: BTreeMap<Arc<ServiceKey>, Failure>,
}

#[derive(Debug)]
struct Failure {
    /// Of the Service that the write was for.
    version: u128,
    at: Instant,
    pause: Duration,
}

impl Failure {
    fn left(&self, now: Instant) -> Duration {
        (self.at + self.pause).saturating_duration_since(now)
    }
}

impl Postponed {
    /// A write failed; not for the first time in a row, if it did before.
    pub(crate) fn failed(&mut self, service: &Arc<ServiceKey>, version: u128, now: Instant) {
        let before = self.failed.get(service).filter(|it| it.version == version);
        let pause = before.map_or(SHORTEST, |it| LONGEST.min(it.pause * 2));
        self.failed.insert(Arc::clone(service), Failure { version, at: now, pause });
    }

    /// It was done, or there is nothing to do any more.
    pub(crate) fn over(&mut self, service: &ServiceKey) {
        self.failed.remove(service);
    }

    /// Whether a write of this version of a Service may be tried.
    pub(crate) fn is_due(&self, service: &ServiceKey, version: u128, now: Instant) -> bool {
        self.failed.get(service).is_none_or(|it| it.version != version || it.left(now).is_zero())
    }

    /// How long until the first of them may be tried again.
    pub(crate) fn next(&self, now: Instant) -> Option<Duration> {
        self.failed.values().map(|it| it.left(now)).min()
    }

    /// Forgets Services for which nothing is to be written.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&ServiceKey) -> bool) {
        self.failed.retain(|service, _| wanted(service));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_with_a_change() {
        let key = Arc::new(ServiceKey { namespace: "ns".into(), name: "s".into() });
        let start = Instant::now();
        let mut postponed = Postponed::default();
        assert!(postponed.is_due(&key, 1, start) && postponed.next(start).is_none());
        let mut now = start;
        for pause in [1, 2, 4, 8, 16, 32, 32] {
            postponed.failed(&key, 1, now);
            let pause = Duration::from_secs(pause);
            assert_eq!(postponed.next(now), Some(pause));
            assert!(!postponed.is_due(&key, 1, now + pause / 2) && postponed.is_due(&key, 2, now));
            now += pause;
            assert!(postponed.is_due(&key, 1, now));
        }
        postponed.failed(&key, 2, now);
        assert_eq!(postponed.next(now), Some(SHORTEST), "another version begins anew");
        postponed.retain(|_| true);
        postponed.over(&key);
        assert_eq!(postponed.next(now), None);
    }
}
