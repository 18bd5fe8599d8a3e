//! A bounds-checked walk over received bytes that knows its offset.

use crate::error::{DecodeError, Fault};

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, whose first byte is at `offset` of what the caller was given.
    pub(crate) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The offset of the next byte.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.truncated(count));
        };
        self.rest = rest;
        self.offset += count;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(N));
        };
        self.rest = rest;
        self.offset += N;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a byte that can only have one value.
    pub(crate) fn expect_u8(&mut self, wanted: u8, fault: fn(u8) -> Fault) -> Result<(), DecodeError> {
        let offset = self.offset;
        match self.u8()? {
            found if found == wanted => Ok(()),
            found => Err(DecodeError { offset, fault: fault(found) }),
        }
    }

    /// Reads two bytes that can only have one value.
    pub(crate) fn expect_u16(&mut self, wanted: u16, fault: fn(u16) -> Fault) -> Result<(), DecodeError> {
        let offset = self.offset;
        match self.u16()? {
            found if found == wanted => Ok(()),
            found => Err(DecodeError { offset, fault: fault(found) }),
        }
    }

    fn truncated(&self, wanted: usize) -> DecodeError {
        let present = self.rest.len();
        DecodeError {
            offset: self.offset + present,
            fault: Fault::Truncated { missing: wanted.saturating_sub(present) },
        }
    }
}
