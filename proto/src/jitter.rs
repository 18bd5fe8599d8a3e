//! Jitter: times shortened by up to a quarter, so that the sessions of many nodes do not move in step.

use std::time::Duration;

/// A sequence of numbers that its seed determines (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 75 % to 100 % of a time (RFC 4271 §10, RFC 5880 §6.8.7).
    pub(crate) fn apply(&mut self, time: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let permille = u32::try_from((mixed >> 32) % 251).unwrap_or_default();
        time - time * permille / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_takes_up_to_a_quarter_and_comes_from_the_seed() {
        let times = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..1000).map(|_| jitter.apply(Duration::from_secs(100)).as_millis()).collect::<Vec<_>>()
        };
        let (a, b) = (times(1), times(2));
        assert!(a.iter().all(|it| (75_000..=100_000).contains(it)));
        assert!(a.iter().max() > Some(&99_000) && a.iter().min() < Some(&76_000));
        assert!(a == times(1) && a != b);
    }
}
