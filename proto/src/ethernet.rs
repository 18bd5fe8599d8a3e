//! Ethernet: addresses, the frame header, and a frame buffer that needs no allocation.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use crate::error::DecodeError;
use crate::reader::Reader;

/// Shortest Ethernet frame without its check sequence (IEEE 802.3): shorter payloads are padded.
pub const MIN_FRAME: usize = 60;

/// A 48-bit Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr([u8; 6]);

impl MacAddr {
    /// Every host on the link.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// No address; ARP requests carry it for "unknown".
    pub const ZERO: Self = Self([0; 6]);

    /// An address from its six bytes.
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// The six bytes, in the order of the wire.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Whether the address names a group (broadcast is one).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether the address can belong to exactly one host.
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not six two-digit hexadecimal numbers separated by colons")]
pub struct ParseMacAddrError;

impl FromStr for MacAddr {
    type Err = ParseMacAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut octets = [0; 6];
        let mut groups = text.split(':');
        for octet in &mut octets {
            let group = groups.next().ok_or(ParseMacAddrError)?;
            // from_str_radix alone would take "+a".
            if group.len() != 2 || !group.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(ParseMacAddrError);
            }
            *octet = u8::from_str_radix(group, 16).map_err(|_| ParseMacAddrError)?;
        }
        match groups.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(ParseMacAddrError),
        }
    }
}

/// Which protocol a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
}

/// The header of an Ethernet II frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Whom the frame is for.
    pub destination: MacAddr,
    /// Who sent it.
    pub source: MacAddr,
    /// What it carries.
    pub ethertype: EtherType,
}

impl Header {
    /// Bytes on the wire.
    pub const LEN: usize = 14;

    /// Reads the header at the start of `frame`. VLAN tags are the kernel's business: a packet
    /// socket delivers frames without them.
    pub fn parse(frame: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Reader::new(frame, 0))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            destination: MacAddr(reader.array()?),
            source: MacAddr(reader.array()?),
            ethertype: EtherType(reader.u16()?),
        })
    }

    pub(crate) fn write(&self, frame: &mut Frame) {
        frame.put(&self.destination.0);
        frame.put(&self.source.0);
        frame.put(&self.ethertype.0.to_be_bytes());
    }
}

/// A frame to send. It lives in place, so answering a request allocates nothing.
#[derive(Clone, Copy)]
pub struct Frame {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl Frame {
    /// Room for the longest frame built here: a neighbor message with one link-layer address
    /// option (86 bytes).
    pub const CAPACITY: usize = 96;

    pub(crate) const fn empty() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    /// Appends. The layouts of this crate are fixed and fit; the tests build each of them.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.bytes[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Overwrites two bytes written before.
    pub(crate) fn set_u16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Fills with zeros up to the shortest length that Ethernet carries.
    pub(crate) fn pad(&mut self) {
        self.len = self.len.max(MIN_FRAME);
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Frame {}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Fault;

    #[test]
    fn mac_addresses_read_and_print() {
        for (text, octets) in [
            ("52:54:00:3a:10:14", [0x52, 0x54, 0x00, 0x3a, 0x10, 0x14]),
            ("FF:ff:Ff:fF:00:01", [0xff, 0xff, 0xff, 0xff, 0x00, 0x01]),
        ] {
            let mac: MacAddr = text.parse().unwrap();
            assert_eq!(mac, MacAddr::new(octets));
            assert_eq!(mac.to_string(), text.to_lowercase());
        }
        for bad in [
            "",
            "52:54:00:3a:10",
            "52:54:00:3a:10:14:15",
            "5:54:00:3a:10:14",
            "52-54-00-3a-10-14",
            "+2:54:00:3a:10:14",
            "gg:54:00:3a:10:14",
            "52:54:00:3a:10:14:",
            "ä:54:00:3a:10:14",
        ] {
            assert_eq!(bad.parse::<MacAddr>(), Err(ParseMacAddrError), "{bad}");
        }
    }

    #[test]
    fn groups_and_hosts_are_told_apart() {
        let cases = [
            (MacAddr::BROADCAST, true, false),
            (MacAddr::new([0x33, 0x33, 0, 0, 0, 1]), true, false),
            (MacAddr::ZERO, false, false),
            (MacAddr::new([0x52, 0x54, 0, 0, 0, 1]), false, true),
        ];
        for (mac, multicast, unicast) in cases {
            assert_eq!((mac.is_multicast(), mac.is_unicast()), (multicast, unicast), "{mac}");
        }
    }

    #[test]
    fn a_short_header_is_refused_at_its_end() {
        let error = Header::parse(&[0xff; 13]).unwrap_err();
        assert_eq!(error, DecodeError { offset: 13, fault: Fault::Truncated { missing: 1 } });
        assert_eq!(error.to_string(), "byte 13: input ends, 1 more bytes needed");
    }

    proptest! {
        #[test]
        fn mac_text_round_trips(octets: [u8; 6]) {
            let mac = MacAddr::new(octets);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
        }

        #[test]
        fn header_round_trips(destination: [u8; 6], source: [u8; 6], ethertype: u16) {
            let header = Header {
                destination: destination.into(), source: source.into(), ethertype: EtherType(ethertype),
            };
            let mut frame = Frame::empty();
            header.write(&mut frame);
            prop_assert_eq!(frame.len(), Header::LEN);
            prop_assert_eq!(Header::parse(&frame), Ok(header));
        }
    }
}
