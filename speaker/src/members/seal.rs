//! What protects membership datagrams: AES-256-GCM under a key that all speakers derive from one Secret.
//!
//! ```text
//! version (1) ‖ nonce (12, random) ‖ ciphertext ‖ tag (16)        the version is authenticated too
//! ```
//!
//! In: the Secret's bytes, a packet or a datagram. Out: a datagram, or the packet or why it is dropped.
//! Datagrams may be replayed; the membership protocol orders what it hears by incarnation.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf;

/// The first byte of every datagram. A change of format gets another.
const VERSION: u8 = 1;
/// Keeps this key apart from others that may be derived of the same Secret.
const CONTEXT: &[u8] = b"ferrolb membership v1";
const TAG_LEN: usize = 16;
const KEY_LEN: usize = 32;
/// What sealing adds to a packet.
pub(crate) const OVERHEAD: usize = 1 + NONCE_LEN + TAG_LEN;

/// Why a datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejected {
    /// Too short to be ours, or of another version.
    #[error("not of version {VERSION}")]
    Foreign,
    /// Made without our key, or changed on the way.
    #[error("not sealed with our key")]
    Forged,
}

/// The cryptography failed though its inputs were right.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the cryptographic library refused")]
pub(crate) struct CryptoError;

impl From<aws_lc_rs::error::Unspecified> for CryptoError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self
    }
}

/// Seals and opens.
#[derive(Debug)]
pub(crate) struct Seal {
    key: RandomizedNonceKey,
}

struct KeyLength;

impl hkdf::KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_LEN
    }
}

impl Seal {
    /// Derives the key. An empty secret gives a key that everybody knows.
    pub(crate) fn new(secret: &[u8]) -> Result<Self, CryptoError> {
        let mut bytes = [0; KEY_LEN];
        hkdf::Salt::new(hkdf::HKDF_SHA256, CONTEXT)
            .extract(secret)
            .expand(&[b"aes-256-gcm"], KeyLength)?
            .fill(&mut bytes)?;
        Ok(Self { key: RandomizedNonceKey::new(&AES_256_GCM, &bytes)? })
    }

    /// The datagram for a packet.
    pub(crate) fn seal(&self, packet: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let mut sealed = packet.to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from([VERSION]), &mut sealed)?;
        let mut datagram = Vec::with_capacity(packet.len() + OVERHEAD);
        datagram.push(VERSION);
        datagram.extend_from_slice(nonce.as_ref());
        datagram.append(&mut sealed);
        Ok(datagram)
    }

    /// The packet of a datagram, decrypted where it lies.
    pub(crate) fn open<'a>(&self, datagram: &'a mut [u8]) -> Result<&'a [u8], Rejected> {
        let Some((&mut [VERSION], rest)) = datagram.split_first_chunk_mut::<1>() else {
            return Err(Rejected::Foreign);
        };
        let Some((nonce, sealed)) = rest.split_first_chunk_mut::<NONCE_LEN>() else {
            return Err(Rejected::Foreign);
        };
        let nonce = Nonce::assume_unique_for_key(*nonce);
        match self.key.open_in_place(nonce, Aad::from([VERSION]), sealed) {
            Ok(packet) => Ok(packet),
            Err(_) => Err(Rejected::Forged),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_same_secret_opens() {
        let ours = Seal::new(b"secret").unwrap();
        let mut datagram = ours.seal(b"packet").unwrap();
        assert_eq!(datagram.len(), b"packet".len() + OVERHEAD);
        assert_eq!(Seal::new(b"Secret").unwrap().open(&mut datagram.clone()), Err(Rejected::Forged));
        assert_eq!(Seal::new(b"").unwrap().open(&mut datagram.clone()), Err(Rejected::Forged));
        assert_eq!(ours.open(&mut datagram), Ok(b"packet".as_slice()));
    }

    #[test]
    fn equal_packets_do_not_look_alike() {
        let seal = Seal::new(b"secret").unwrap();
        assert_ne!(seal.seal(b"packet").unwrap(), seal.seal(b"packet").unwrap());
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Seal::new(b"secret").unwrap().open(&mut bytes).is_err());
        }

        #[test]
        fn any_changed_byte_is_noticed(at in 0..6 + OVERHEAD, flip in 1u8..) {
            let seal = Seal::new(b"secret").unwrap();
            let mut datagram = seal.seal(b"packet").unwrap();
            datagram[at] ^= flip;
            prop_assert!(seal.open(&mut datagram).is_err());
        }
    }
}
