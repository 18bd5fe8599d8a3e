//! Who lives, judged by the renewals of Leases, as a machine: what the API server shows and time in, liveness
//! out.
//!
//! Clocks of two nodes are never compared, and an API server that is away is nobody's silence: the clock by
//! which others are judged is the own Lease. Who is not seen renewed while this speaker sees its own renewals
//! come back, over the same watch, is silent; while they do not come, nobody grows older.

use std::collections::BTreeMap;
use std::time::Instant;

use ferrolb_api::v1beta1::LeaseTimes;
use ferrolb_proto::conflict::Liveness;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// What a renewal changes: only whether it is another one counts.
pub(super) type Stamp = Option<MicroTime>;

/// The machine.
#[derive(Debug)]
pub(super) struct Renewals {
    own: String,
    times: LeaseTimes,
    others: BTreeMap<String, Other>,
    own_stamp: Stamp,
    /// When the own Lease was last seen renewed.
    clock: Option<Instant>,
}

/// Another node.
#[derive(Debug)]
pub(super) struct Other {
    stamp: Stamp,
    /// When it was last seen renewed.
    seen: Instant,
    /// Whether its Lease is there.
    is_there: bool,
    /// How it is believed to be.
    pub(super) liveness: Liveness,
    /// How often it came back from the dead.
    pub(super) returns: u64,
}

impl Renewals {
    pub(super) fn new(own: String, times: LeaseTimes) -> Self {
        Self { own, times, others: BTreeMap::new(), own_stamp: None, clock: None }
    }

    /// Whether this speaker's own Lease was seen, and so those of the others.
    pub(super) fn settled(&self) -> bool {
        self.clock.is_some()
    }

    /// The other nodes.
    pub(super) fn others(&self) -> &BTreeMap<String, Other> {
        &self.others
    }

    /// What the API server shows now, by node. The own Lease only where this process renewed it.
    pub(super) fn see(&mut self, now: Instant, leases: &BTreeMap<String, Stamp>) {
        for (node, other) in &mut self.others {
            other.is_there = leases.contains_key(node);
        }
        for (node, stamp) in leases.iter().filter(|(node, _)| **node != self.own) {
            let other = self.others.entry(node.clone()).or_insert_with(|| Other {
                stamp: stamp.clone(),
                seen: now,
                is_there: true,
                liveness: Liveness::Alive,
                returns: 0,
            });
            if other.stamp != *stamp {
                other.stamp.clone_from(stamp);
                other.seen = now;
            }
        }
        if let Some(own) = leases.get(&self.own)
            && (self.clock.is_none() || self.own_stamp != *own)
        {
            self.own_stamp.clone_from(own);
            self.tick(now);
        }
        self.judge();
    }

    /// The own Lease is seen renewed.
    fn tick(&mut self, now: Instant) {
        let before = self.clock.replace(now);
        let deadline = self.times.renew_deadline();
        let was_away = before.is_some_and(|before| now.saturating_duration_since(before) > deadline);
        if was_away {
            for other in self.others.values_mut() {
                other.seen = now;
            }
        }
    }

    fn judge(&mut self) {
        let Some(clock) = self.clock else { return };
        for other in self.others.values_mut() {
            let silence = clock.saturating_duration_since(other.seen);
            let liveness = if silence >= self.times.duration() {
                Liveness::Dead
            } else if silence >= self.times.renew_deadline() {
                Liveness::Suspect
            } else {
                Liveness::Alive
            };
            other.returns += u64::from(other.liveness == Liveness::Dead && liveness == Liveness::Alive);
            other.liveness = liveness;
        }
        // A Lease that somebody deletes is written again by who lives.
        self.others.retain(|_, other| other.is_there || other.liveness < Liveness::Dead);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::jiff::Timestamp;

    use super::*;

    /// Speaker `a`, and what it sees in tenths of seconds.
    struct Seen {
        renewals: Renewals,
        start: Instant,
        leases: BTreeMap<String, Stamp>,
    }

    impl Seen {
        fn new() -> Self {
            let times = LeaseTimes::new(Some("3s"), Some("1s"), Some("200ms")).unwrap();
            let renewals = Renewals::new("a".to_owned(), times);
            Self { renewals, start: Instant::now(), leases: BTreeMap::new() }
        }

        /// These renewed at a time.
        fn renewed(&mut self, tenths: u64, nodes: &[&str]) -> &mut Self {
            for node in nodes {
                let stamp = MicroTime(Timestamp::from_millisecond(tenths as i64 * 100).unwrap());
                self.leases.insert((*node).to_owned(), Some(stamp));
            }
            self.renewals.see(self.start + Duration::from_millis(tenths * 100), &self.leases);
            self
        }

        fn liveness(&self, node: &str) -> Option<Liveness> {
            self.renewals.others().get(node).map(|it| it.liveness)
        }
    }

    #[test]
    fn who_is_not_renewed_is_suspected_then_dead_and_comes_back() {
        let mut seen = Seen::new();
        seen.renewed(0, &["b", "c"]);
        assert!(!seen.renewals.settled(), "the own Lease is not seen yet");
        seen.renewed(1, &["a"]);
        assert!(seen.renewals.settled());
        for tenths in (2..10).step_by(2) {
            seen.renewed(tenths, &["a", "c"]);
        }
        assert_eq!(seen.liveness("b"), Some(Liveness::Alive));
        seen.renewed(10, &["a", "c"]);
        assert_eq!(seen.liveness("b"), Some(Liveness::Suspect));
        for tenths in (12..=30).step_by(2) {
            seen.renewed(tenths, &["a", "c"]);
        }
        assert_eq!((seen.liveness("b"), seen.liveness("c")), (Some(Liveness::Dead), Some(Liveness::Alive)));
        seen.renewed(31, &["b"]);
        assert_eq!(seen.liveness("b"), Some(Liveness::Alive));
        assert_eq!(seen.renewals.others()["b"].returns, 1, "another life");
    }

    #[test]
    fn an_api_server_that_is_away_is_nobodys_silence() {
        let mut seen = Seen::new();
        seen.renewed(0, &["a", "b"]);
        // Its watch goes on and its own renewals do not come back, or nothing comes at all.
        seen.renewed(20, &["c"]).renewed(500, &["c"]);
        assert_eq!(seen.liveness("b"), Some(Liveness::Alive));
        // Back: who is not there at once has the whole time.
        seen.renewed(600, &["a"]);
        for tenths in (602..610).step_by(2) {
            seen.renewed(tenths, &["a"]);
        }
        assert_eq!(seen.liveness("b"), Some(Liveness::Alive));
        for tenths in (610..=630).step_by(2) {
            seen.renewed(tenths, &["a"]);
        }
        assert_eq!(seen.liveness("b"), Some(Liveness::Dead));
    }

    #[test]
    fn a_lease_that_is_deleted_is_forgotten_when_its_node_is_silent() {
        let mut seen = Seen::new();
        seen.renewed(0, &["a", "b", "c"]);
        seen.leases.remove("b");
        seen.leases.remove("c");
        seen.renewed(2, &["a"]);
        assert_eq!(seen.liveness("b"), Some(Liveness::Alive));
        for tenths in (4..=30).step_by(2) {
            seen.renewed(tenths, &["a", "c"]);
        }
        assert_eq!((seen.liveness("b"), seen.liveness("c")), (None, Some(Liveness::Alive)));
    }
}
