//! The two router messages: layout and validity (RFC 4861 §4.1, §4.2, §6.1). Checksum and hop limit are the
//! socket's to check: the kernel does both for an ICMPv6 socket.

use std::net::Ipv6Addr;

use crate::error::{DecodeError, Fault};
use crate::reader::Reader;

/// Every router on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// ICMPv6 type of a Router Solicitation.
pub const SOLICITATION: u8 = 133;
/// ICMPv6 type of a Router Advertisement.
pub const ADVERTISEMENT: u8 = 134;
const SOURCE_LINK_LAYER: u8 = 1;

/// A router message. What an advertisement says of the link besides is the kernel's to take or leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterMessage {
    /// Which routers are there?
    Solicitation,
    /// I am one.
    Advertisement,
}

impl RouterMessage {
    /// Reads an ICMPv6 message from this address.
    pub fn parse(icmp: &[u8], source: Ipv6Addr) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(icmp, 0);
        let (message, fixed) = match reader.u8()? {
            SOLICITATION => (Self::Solicitation, 4),
            ADVERTISEMENT => (Self::Advertisement, 12),
            other => return Err(DecodeError { offset: 0, fault: Fault::IcmpType(other) }),
        };
        let names_nobody = match message {
            Self::Solicitation => source.is_unspecified(),
            Self::Advertisement => false,
        };
        if !names_nobody && !source.is_unicast_link_local() {
            return Err(DecodeError { offset: 0, fault: Fault::SourceNotLinkLocal });
        }
        reader.expect_u8(0, Fault::IcmpCode)?;
        reader.u16()?;
        reader.bytes(fixed)?;
        while !reader.is_empty() {
            let at = reader.offset();
            let kind = reader.u8()?;
            let length_at = reader.offset();
            let length = reader.u8()?;
            // The length counts units of 8 bytes and includes type and length.
            let impossible = DecodeError { offset: length_at, fault: Fault::OptionLength(length) };
            reader.bytes((usize::from(length) * 8).checked_sub(2).ok_or(impossible)?)?;
            if names_nobody && kind == SOURCE_LINK_LAYER {
                return Err(DecodeError { offset: at, fault: Fault::ProbeWithLinkLayer });
            }
        }
        Ok(message)
    }

    /// The message as it is sent, its checksum left to the kernel. An advertisement says nothing of the link, and
    /// that nobody is to send through us.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::Solicitation => &[SOLICITATION, 0, 0, 0, 0, 0, 0, 0],
            Self::Advertisement => &[ADVERTISEMENT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }

    /// The group it is sent to.
    pub fn group(self) -> Ipv6Addr {
        match self {
            Self::Solicitation => ALL_ROUTERS,
            Self::Advertisement => crate::ndp::ALL_NODES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unhex;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    #[test]
    fn what_we_send_is_what_others_may_read() {
        for message in [RouterMessage::Solicitation, RouterMessage::Advertisement] {
            assert_eq!(RouterMessage::parse(message.bytes(), ROUTER), Ok(message));
        }
        let asks = RouterMessage::Solicitation;
        assert_eq!(RouterMessage::parse(asks.bytes(), Ipv6Addr::UNSPECIFIED), Ok(asks));
    }

    #[test]
    fn an_advertisement_of_frr_is_read() {
        // Lifetime 1800 s, an interval option, the source link-layer address.
        let frr = unhex("8600000040000708000000000000000007010000000027100101aac1ab000001");
        assert_eq!(RouterMessage::parse(&frr, ROUTER), Ok(RouterMessage::Advertisement));
    }

    #[test]
    fn what_breaks_a_rule_is_not_read() {
        let global = "fd00::1".parse().unwrap();
        let nobody = Ipv6Addr::UNSPECIFIED;
        for (bytes, source, offset, fault) in [
            ("8500000000000000", global, 0, Fault::SourceNotLinkLocal),
            ("86000000000000000000000000000000", nobody, 0, Fault::SourceNotLinkLocal),
            ("8501000000000000", ROUTER, 1, Fault::IcmpCode(1)),
            ("85000000000000", ROUTER, 7, Fault::Truncated { missing: 1 }),
            ("860000000000000000000000000000", ROUTER, 15, Fault::Truncated { missing: 1 }),
            ("87000000", ROUTER, 0, Fault::IcmpType(0x87)),
            ("85000000000000000100", ROUTER, 9, Fault::OptionLength(0)),
            ("850000000000000001020000", ROUTER, 12, Fault::Truncated { missing: 12 }),
            ("85000000000000000101aac1ab000001", nobody, 8, Fault::ProbeWithLinkLayer),
        ] {
            let read = RouterMessage::parse(&unhex(bytes), source);
            assert_eq!(read, Err(DecodeError { offset, fault }), "{bytes}");
        }
    }
}
