//! Who the router at the other end of a link is, and that we are at this one (RFC 4861 §6): for BGP sessions
//! with a router whose address nobody wrote down.
//!
//! ```text
//! heard(message, source) ─┐               ┌─> Send(message)
//! handle_timeout ─────────┴─> Discovery ──┴─> Found(router)
//! ```
//!
//! A solicitation brings the router's advertisement at once; our own advertisements tell the router who we
//! are, with a lifetime of 0: nobody takes us for a way out of the link. The link is one of two ends: of
//! several routers the one heard last counts.

mod message;

use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use crate::jitter::Jitter;
pub use message::{ADVERTISEMENT, ALL_ROUTERS, RouterMessage, SOLICITATION};

/// Between our advertisements: what routers do on links for BGP.
const ADVERTISE: Duration = Duration::from_secs(10);
/// RFC 4861 §10: MIN_DELAY_BETWEEN_RAS.
const LEAST_PAUSE: Duration = Duration::from_secs(3);
/// RFC 4861 §10: RTR_SOLICITATION_INTERVAL.
const SOLICIT: Duration = Duration::from_secs(4);
/// RFC 4861 §10: MAX_RTR_SOLICITATIONS. A router that comes later advertises itself.
const SOLICITATIONS: u32 = 3;

/// What to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Send this to the group it is for.
    Send(RouterMessage),
    /// This is the router now.
    Found(Ipv6Addr),
}

/// The search on one link.
#[derive(Debug)]
pub struct Discovery {
    router: Option<Ipv6Addr>,
    solicitations: u32,
    solicit_at: Instant,
    advertised_at: Option<Instant>,
    advertise_at: Instant,
    jitter: Jitter,
    outputs: VecDeque<Output>,
}

impl Discovery {
    /// Begins at `now`.
    pub fn new(now: Instant, seed: u64) -> Self {
        Self {
            router: None,
            solicitations: SOLICITATIONS,
            solicit_at: now,
            advertised_at: None,
            advertise_at: now,
            jitter: Jitter::new(seed),
            outputs: VecDeque::new(),
        }
    }

    /// A message arrived from this link-local address, or from none.
    pub fn heard(&mut self, now: Instant, message: RouterMessage, source: Ipv6Addr) {
        match message {
            RouterMessage::Advertisement => {
                if self.router.replace(source) != Some(source) {
                    self.outputs.push_back(Output::Found(source));
                }
            }
            // RFC 4861 §6.2.6: to all, but not more often than it may be.
            RouterMessage::Solicitation => {
                let earliest = self.advertised_at.map_or(now, |at| (at + LEAST_PAUSE).max(now));
                self.advertise_at = self.advertise_at.min(earliest);
            }
        }
    }

    /// Takes the time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.advertise_at <= now {
            self.outputs.push_back(Output::Send(RouterMessage::Advertisement));
            self.advertised_at = Some(now);
            self.advertise_at = now + self.jitter.apply(ADVERTISE);
        }
        if self.solicits() && self.solicit_at <= now {
            self.outputs.push_back(Output::Send(RouterMessage::Solicitation));
            self.solicitations -= 1;
            self.solicit_at = now + SOLICIT;
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn next_timeout(&self) -> Instant {
        if self.solicits() { self.advertise_at.min(self.solicit_at) } else { self.advertise_at }
    }

    /// The next effect.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn solicits(&self) -> bool {
        self.router.is_none() && self.solicitations > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    #[expect(clippy::disallowed_methods, reason = "any instant will do as the zero of a made-up clock")]
    fn begun() -> (Instant, Discovery) {
        let now = Instant::now();
        (now, Discovery::new(now, 1))
    }

    fn until(discovery: &mut Discovery, end: Instant) -> Vec<Output> {
        while discovery.next_timeout() <= end {
            discovery.handle_timeout(discovery.next_timeout());
        }
        std::iter::from_fn(|| discovery.poll_output()).collect()
    }

    #[test]
    fn a_router_is_asked_for_three_times_and_told_of_us_for_ever() {
        let (now, mut discovery) = begun();
        let sent = until(&mut discovery, now + Duration::from_secs(100));
        let count = |message| sent.iter().filter(|it| **it == Output::Send(message)).count();
        assert_eq!(count(RouterMessage::Solicitation), 3);
        assert!((11..=14).contains(&count(RouterMessage::Advertisement)), "{sent:?}");
    }

    #[test]
    fn the_router_that_is_heard_is_told_once_and_not_asked_for_any_more() {
        let (now, mut discovery) = begun();
        until(&mut discovery, now);
        discovery.heard(now, RouterMessage::Advertisement, ROUTER);
        discovery.heard(now, RouterMessage::Advertisement, ROUTER);
        let soon = now + Duration::from_secs(5);
        assert_eq!(until(&mut discovery, soon), [Output::Found(ROUTER)]);
        let other = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
        discovery.heard(soon, RouterMessage::Advertisement, other);
        assert_eq!(discovery.poll_output(), Some(Output::Found(other)));
    }

    #[test]
    fn who_asks_is_answered_soon_but_not_without_end() {
        let (now, mut discovery) = begun();
        until(&mut discovery, now);
        let mut answers = 0;
        for milliseconds in (0..6000).step_by(10) {
            let at = now + Duration::from_millis(milliseconds);
            discovery.heard(at, RouterMessage::Solicitation, ROUTER);
            let sent = until(&mut discovery, at);
            answers += sent.iter().filter(|it| **it == Output::Send(RouterMessage::Advertisement)).count();
        }
        assert_eq!(answers, 1, "after 3 s, and not again before 6 s");
    }
}
