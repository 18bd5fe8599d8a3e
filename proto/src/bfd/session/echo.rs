//! The echo function (RFC 5880 §6.4, §6.8.8-9): packets that the other side's forwarding returns.

use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use super::EchoPayload;
use crate::bfd::packet::Discriminator;
use crate::jitter::Jitter;

/// The echo function at work.
#[derive(Debug)]
pub(super) struct Echo {
    pub(super) interval: Duration,
    pub(super) next: Instant,
    /// Packets sent; the last one has this number.
    sent: u32,
    /// The last one that came back.
    returned: u32,
    /// Since when a packet is missed. Reckoned from what was sent: who is kept from sending misses nothing.
    missed_since: Option<Instant>,
}

impl Echo {
    pub(super) fn new(now: Instant, interval: Duration) -> Self {
        Self { interval, next: now, sent: 0, returned: 0, missed_since: None }
    }

    /// The payload of the next packet.
    pub(super) fn send(
        &mut self,
        now: Instant,
        discriminator: Discriminator,
        nonce: u64,
        jitter: &mut Jitter,
    ) -> EchoPayload {
        self.sent = self.sent.wrapping_add(1);
        self.next = now + jitter.apply(self.interval);
        self.missed_since.get_or_insert(now);
        payload(discriminator, self.sent, nonce)
    }

    /// A packet came back, or somebody made one up.
    pub(super) fn returned(&mut self, now: Instant, discriminator: Discriminator, nonce: u64, bytes: &[u8]) {
        let Some(number) = bytes.get(4..8).and_then(|it| it.try_into().ok()).map(u32::from_be_bytes) else {
            return;
        };
        let is_ours = bytes == payload(discriminator, number, nonce);
        let outstanding = self.sent.wrapping_sub(self.returned);
        if is_ours && self.sent.wrapping_sub(number) < outstanding {
            self.returned = number;
            self.missed_since = (number != self.sent).then_some(now);
        }
    }

    pub(super) fn fails_at(&self, detect_mult: NonZeroU8) -> Option<Instant> {
        Some(self.missed_since? + self.interval * u32::from(detect_mult.get()))
    }

    /// How long nothing came back, if that is too long.
    pub(super) fn failed(&self, now: Instant, detect_mult: NonZeroU8) -> Option<Duration> {
        let too_long = self.fails_at(detect_mult).is_some_and(|at| at <= now);
        self.missed_since.filter(|_| too_long).map(|since| now.saturating_duration_since(since))
    }
}

fn payload(discriminator: Discriminator, number: u32, nonce: u64) -> EchoPayload {
    let number = u128::from(discriminator.get()) << 96 | u128::from(number) << 64 | u128::from(nonce);
    number.to_be_bytes()
}

/// The end of the session that an echo packet seems to be of.
pub fn discriminator(payload: &[u8]) -> Option<Discriminator> {
    Discriminator::new(u32::from_be_bytes(*payload.first_chunk()?))
}
