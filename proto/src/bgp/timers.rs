//! Times of a session: what was agreed in the OPENs, how long to wait before the next try.

use std::time::Duration;

/// RFC 4271 §8.2.2: the hold timer while the peer's OPEN is awaited.
pub(super) const OPEN_HOLD: Duration = Duration::from_secs(240);
/// How long a TCP connection may take to open.
pub(super) const DIAL: Duration = Duration::from_secs(10);
/// A session that was up for this long ended for a new reason: the next try is not late.
pub(super) const STABLE: Duration = Duration::from_secs(30);
/// The pause after the first failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// RFC 8326: how long a peer has to lead traffic elsewhere before the routes go. It is less than the pod of
/// a speaker has to end.
pub(super) const EASE: Duration = Duration::from_secs(1);
/// RFC 9687 §3: how long a peer may fail to read, at least.
const SEND_HOLD: Duration = Duration::from_secs(480);

/// Times that both sides agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Silence of the peer for this long ends the session; none: it never does.
    pub hold: Option<Duration>,
    /// How often we say that we are there.
    pub keepalive: Option<Duration>,
}

impl Agreed {
    /// RFC 4271 §4.2: the smaller hold time, in seconds; §4.4: a third of it between KEEPALIVEs, or
    /// less where so configured.
    pub(super) fn new(ours: u16, theirs: u16, keepalive: Option<Duration>) -> Self {
        let hold = Duration::from_secs(u64::from(ours.min(theirs)));
        if hold.is_zero() {
            return Self { hold: None, keepalive: None };
        }
        let third = hold / 3;
        let keepalive = keepalive.filter(|it| !it.is_zero()).map_or(third, |it| it.min(third));
        Self { hold: Some(hold), keepalive: Some(keepalive) }
    }

    /// How long the peer may leave what we send unread.
    pub(super) fn send_hold(self) -> Option<Duration> {
        self.hold.map(|hold| SEND_HOLD.max(2 * hold))
    }
}

/// The pause after so many failures in a row, doubled each time.
pub(super) fn retry(failures: u32, longest: Duration) -> Duration {
    let doubled = FIRST_RETRY.saturating_mul(1u32.checked_shl(failures.min(31)).unwrap_or(u32::MAX));
    doubled.min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_negotiated() {
        let seconds = Duration::from_secs;
        for (ours, theirs, configured, hold, keepalive) in [
            (90, 180, None, Some(90), Some(30)),
            (90, 9, None, Some(9), Some(3)),
            (90, 180, Some(10), Some(90), Some(10)),
            (90, 9, Some(10), Some(9), Some(3)),
            (90, 180, Some(0), Some(90), Some(30)),
            (0, 180, Some(10), None, None),
            (90, 0, None, None, None),
        ] {
            let agreed = Agreed::new(ours, theirs, configured.map(seconds));
            let expected = Agreed { hold: hold.map(seconds), keepalive: keepalive.map(seconds) };
            assert_eq!(agreed, expected, "{ours} {theirs} {configured:?}");
        }
        assert_eq!(Agreed::new(90, 90, None).send_hold(), Some(seconds(480)));
        assert_eq!(Agreed::new(3600, 3600, None).send_hold(), Some(seconds(7200)));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<u64> = (0..7).map(|it| retry(it, Duration::from_secs(30)).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(retry(u32::MAX, Duration::from_secs(5)), Duration::from_secs(5));
    }
}
