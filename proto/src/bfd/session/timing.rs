//! Intervals that both sides must know of before they count (RFC 5880 §6.5, §6.8.3).

use std::time::Duration;

/// An interval as it is said and as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) advertised: Duration,
    pub(super) in_force: Duration,
}

impl Interval {
    pub(super) fn new(interval: Duration) -> Self {
        Self { advertised: interval, in_force: interval }
    }

    /// Says it from now on; whether that is a change.
    pub(super) fn want(&mut self, interval: Duration) -> bool {
        std::mem::replace(&mut self.advertised, interval) != interval
    }

    /// The other side knows.
    pub(super) fn agreed(&mut self) {
        self.in_force = self.advertised;
    }

    pub(super) fn at_once_if_shorter(&mut self) {
        self.in_force = self.in_force.min(self.advertised);
    }

    pub(super) fn at_once_if_longer(&mut self) {
        self.in_force = self.in_force.max(self.advertised);
    }
}

/// A Poll Sequence (RFC 5880 §6.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Poll {
    /// None.
    Idle,
    /// The next packet asks.
    Due,
    /// An answer is awaited.
    Sent,
    /// An answer is awaited, but what was asked about has changed meanwhile: another one is needed.
    Outdated,
}

impl Poll {
    pub(super) fn begin(&mut self) {
        *self = match self {
            Self::Idle | Self::Due => Self::Due,
            Self::Sent | Self::Outdated => Self::Outdated,
        };
    }

    pub(super) fn sent(&mut self) {
        if *self == Self::Due {
            *self = Self::Sent;
        }
    }

    /// An answer came. Whether the other side knows all now.
    pub(super) fn answered(&mut self) -> bool {
        let (next, all) = match self {
            Self::Sent => (Self::Idle, true),
            Self::Outdated => (Self::Due, false),
            Self::Idle => (Self::Idle, false),
            // To something that was never asked.
            Self::Due => (Self::Due, false),
        };
        *self = next;
        all
    }

    pub(super) fn is_running(self) -> bool {
        self != Self::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_during_a_poll_is_polled_again() {
        let mut poll = Poll::Idle;
        assert!(!poll.answered(), "nothing was asked");
        poll.begin();
        assert!(!poll.answered() && poll.is_running(), "nothing was sent");
        poll.sent();
        poll.begin();
        poll.sent();
        assert!(!poll.answered() && poll.is_running(), "the answer may be to the first");
        poll.sent();
        assert!(poll.answered() && !poll.is_running());
    }
}
