//! The keys of the membership while they change: for a time the old one and the new one are both used.
//!
//! A changed Secret reaches the nodes one after another, within a minute or two. Until all have it, each
//! datagram is sent under both keys and taken under either, so nobody is cut off: neither who has the new
//! key only (a speaker that just started) nor who has the old one only.

use std::time::{Duration, Instant};

use super::seal::{CryptoError, Rejected, Seal};

/// How long both keys are used.
pub(crate) const OVERLAP: Duration = Duration::from_secs(600);

/// The keys.
#[derive(Debug)]
pub(crate) struct Keyring {
    secret: Vec<u8>,
    current: Seal,
    /// The key before, and until when it counts.
    former: Option<(Seal, Instant)>,
}

impl Keyring {
    /// With one key, derived of the secret.
    pub(crate) fn new(secret: &[u8]) -> Result<Self, CryptoError> {
        Ok(Self { secret: secret.to_vec(), current: Seal::new(secret)?, former: None })
    }

    /// Changes the key if the secret is another one. Says whether it is.
    pub(crate) fn renew(&mut self, now: Instant, secret: &[u8]) -> Result<bool, CryptoError> {
        if self.secret == secret {
            return Ok(false);
        }
        let former = std::mem::replace(&mut self.current, Seal::new(secret)?);
        self.former = Some((former, now + OVERLAP));
        self.secret = secret.to_vec();
        Ok(true)
    }

    fn former(&self, now: Instant) -> Option<&Seal> {
        self.former.as_ref().filter(|(_, until)| now < *until).map(|(seal, _)| seal)
    }

    /// The datagrams for a packet: one for each key.
    pub(crate) fn seal(&self, now: Instant, packet: &[u8]) -> Result<Vec<Vec<u8>>, CryptoError> {
        std::iter::once(&self.current).chain(self.former(now)).map(|seal| seal.seal(packet)).collect()
    }

    /// The packet of a datagram.
    pub(crate) fn open(&self, now: Instant, datagram: &mut [u8]) -> Result<Vec<u8>, Rejected> {
        let Some(former) = self.former(now) else {
            return self.current.open(datagram).map(<[u8]>::to_vec);
        };
        // A failed attempt spoils what it was made on.
        let mut copy = datagram.to_vec();
        self.current.open(&mut copy).or_else(|_| former.open(datagram)).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_keys_are_used_for_a_time() {
        let now = Instant::now();
        let one = |ring: &Keyring, now| ring.seal(now, b"packet").unwrap();
        let opens = |ring: &Keyring, now, datagrams: &[Vec<u8>]| {
            datagrams.iter().filter(|it| ring.open(now, &mut it.to_vec()) == Ok(b"packet".to_vec())).count()
        };
        let (old, new) = (Keyring::new(b"old").unwrap(), Keyring::new(b"new").unwrap());
        let mut both = Keyring::new(b"old").unwrap();
        assert!(!both.renew(now, b"old").unwrap());
        assert!(both.renew(now, b"new").unwrap());
        let sent = one(&both, now);
        assert_eq!((opens(&old, now, &sent), opens(&new, now, &sent), opens(&both, now, &sent)), (1, 1, 2));
        assert_eq!((opens(&both, now, &one(&old, now)), opens(&both, now, &one(&new, now))), (1, 1));
        let later = now + OVERLAP;
        assert_eq!(opens(&old, later, &one(&both, later)), 0);
        assert_eq!((opens(&both, later, &one(&old, later)), opens(&both, later, &one(&new, later))), (0, 1));
    }
}
