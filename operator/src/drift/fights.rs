//! Repairs that somebody undoes again and again.
//!
//! Inputs: which operand was repaired, and when. Output: whether its next repair has to wait. The first
//! few are done at once, for a person who tries something; then each waits twice as long as the one
//! before, so that two programs that disagree do not fill the API server with their quarrel.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::render::ObjectKey;

/// Repairs that are done at once.
const PATIENCE: u32 = 5;
/// After so long in peace a quarrel is over.
const PEACE: Duration = Duration::from_secs(600);
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Repairs by operand.
#[derive(Clone, Debug, Default)]
pub struct Fights {
    by_operand: BTreeMap<ObjectKey, Fight>,
}

#[derive(Clone, Copy, Debug)]
struct Fight {
    repairs: u32,
    last: Instant,
}

impl Fight {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= PEACE
    }

    fn pause(&self) -> Duration {
        match self.repairs.checked_sub(PATIENCE) {
            None => Duration::ZERO,
            Some(beyond) => FIRST_PAUSE.saturating_mul(1 << beyond.min(8)).min(LONGEST_PAUSE),
        }
    }
}

impl Fights {
    /// An operand that somebody changed was put right.
    pub fn repaired(&mut self, key: &ObjectKey, now: Instant) {
        self.by_operand.retain(|_, fight| !fight.is_over(now));
        let fight = self.by_operand.entry(key.clone()).or_insert(Fight { repairs: 0, last: now });
        fight.repairs = fight.repairs.saturating_add(1);
        fight.last = now;
    }

    /// Whether the next repair of an operand is not due yet.
    pub fn must_wait(&self, key: &ObjectKey, now: Instant) -> bool {
        let pause = self.by_operand.get(key).filter(|fight| !fight.is_over(now)).map(Fight::pause);
        let since = self.by_operand.get(key).map(|fight| now.saturating_duration_since(fight.last));
        matches!((pause, since), (Some(pause), Some(since)) if since < pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Kind;

    #[test]
    fn repairs_come_slower_and_peace_ends_the_quarrel() {
        let key = ObjectKey { kind: Kind::DaemonSet, name: "speaker".into() };
        let other = ObjectKey { kind: Kind::Deployment, name: "controller".into() };
        let (mut fights, mut now) = (Fights::default(), Instant::now());
        for _ in 0..PATIENCE {
            assert!(!fights.must_wait(&key, now));
            fights.repaired(&key, now);
        }
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let begin = now;
            while fights.must_wait(&key, now) {
                now += Duration::from_secs(1);
            }
            pauses.push((now - begin).as_secs());
            fights.repaired(&key, now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
        assert!(!fights.must_wait(&other, now), "others are repaired at once");
        now += PEACE;
        assert!(!fights.must_wait(&key, now));
        fights.repaired(&key, now);
        assert!(!fights.must_wait(&key, now), "counted from the beginning");
    }
}
