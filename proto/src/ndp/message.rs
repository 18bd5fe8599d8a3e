//! The two neighbor messages: layout, validity (RFC 4861 §7.1) and checksum.

use std::net::Ipv6Addr;

use crate::error::{DecodeError, Fault};
use crate::ethernet::{Frame, MacAddr};
use crate::reader::Reader;

use super::{HOP_LIMIT, ICMPV6};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Every node on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group on which questions for `ip` arrive (RFC 4291 §2.7.1).
pub fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = ip.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

/// The Ethernet address of an IPv6 group (RFC 2464 §7).
pub fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr::new([0x33, 0x33, a, b, c, d])
}

/// What the rules for a neighbor message need to know of its IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Hop limit as received.
    pub hop_limit: u8,
}

/// Who has this address?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborSolicitation {
    /// The address asked for.
    pub target: Ipv6Addr,
    /// Source link-layer address option.
    pub source_mac: Option<MacAddr>,
}

/// I have this address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborAdvertisement {
    /// The sender is a router.
    pub router: bool,
    /// It answers a solicitation of the receiver.
    pub solicited: bool,
    /// It replaces what the receiver knew (the Override flag).
    pub overrides: bool,
    /// The address in question.
    pub target: Ipv6Addr,
    /// Target link-layer address option.
    pub target_mac: Option<MacAddr>,
}

/// A neighbor message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Type 135.
    Solicitation(NeighborSolicitation),
    /// Type 136.
    Advertisement(NeighborAdvertisement),
}

impl Message {
    /// Appends the message; its checksum is left 0.
    pub(super) fn write(&self, frame: &mut Frame) {
        let (kind, flags, target, option, mac) = match *self {
            Self::Solicitation(NeighborSolicitation { target, source_mac }) => {
                (SOLICITATION, 0, target, SOURCE_LINK_LAYER, source_mac)
            }
            Self::Advertisement(NeighborAdvertisement {
                router,
                solicited,
                overrides,
                target,
                target_mac,
            }) => {
                let flag = |set: bool, bit: u8| if set { bit } else { 0 };
                let flags = flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(overrides, OVERRIDE);
                (ADVERTISEMENT, flags, target, TARGET_LINK_LAYER, target_mac)
            }
        };
        frame.put(&[kind, 0, 0, 0, flags, 0, 0, 0]);
        frame.put(&target.octets());
        if let Some(mac) = mac {
            frame.put(&[option, 1]);
            frame.put(&mac.octets());
        }
    }
}

/// Reads an ICMPv6 message that arrived under `ip`; offsets count from its first byte.
pub fn parse_message(icmp: &[u8], ip: IpHeader) -> Result<Message, DecodeError> {
    parse_at(icmp, ip, 0)
}

pub(super) fn parse_at(icmp: &[u8], ip: IpHeader, start: usize) -> Result<Message, DecodeError> {
    let at_start = |fault| DecodeError { offset: start, fault };
    let mut reader = Reader::new(icmp, start);
    // The type comes first: the rules below are those of neighbor messages, not of all ICMPv6.
    let kind = reader.u8()?;
    if kind != SOLICITATION && kind != ADVERTISEMENT {
        return Err(at_start(Fault::IcmpType(kind)));
    }
    if ip.hop_limit != HOP_LIMIT {
        return Err(at_start(Fault::HopLimit(ip.hop_limit)));
    }
    if ip.source.is_multicast() {
        return Err(at_start(Fault::MulticastSource));
    }
    // A sum over bytes that hold their own checksum is 0.
    if checksum(ip.source, ip.destination, icmp) != 0 {
        return Err(DecodeError { offset: start + 2, fault: Fault::Checksum });
    }
    reader.expect_u8(0, Fault::IcmpCode)?;
    reader.u16()?;
    let [flags, ..] = reader.array::<4>()?;
    let target_at = reader.offset();
    let target: Ipv6Addr = reader.array::<16>()?.into();
    if target.is_multicast() {
        return Err(DecodeError { offset: target_at, fault: Fault::MulticastTarget });
    }
    if kind == SOLICITATION {
        let source_mac = link_layer_option(&mut reader, SOURCE_LINK_LAYER)?;
        if ip.source.is_unspecified() {
            if !is_solicited_node(ip.destination) {
                return Err(at_start(Fault::ProbeDestination));
            }
            if source_mac.is_some() {
                return Err(at_start(Fault::ProbeWithLinkLayer));
            }
        }
        Ok(Message::Solicitation(NeighborSolicitation { target, source_mac }))
    } else {
        let solicited = flags & SOLICITED != 0;
        if solicited && ip.destination.is_multicast() {
            return Err(at_start(Fault::SolicitedMulticast));
        }
        Ok(Message::Advertisement(NeighborAdvertisement {
            router: flags & ROUTER != 0,
            solicited,
            overrides: flags & OVERRIDE != 0,
            target,
            target_mac: link_layer_option(&mut reader, TARGET_LINK_LAYER)?,
        }))
    }
}

/// Walks all options; those of other types are skipped (RFC 4861 §4.6), the first of `wanted`
/// counts.
fn link_layer_option(reader: &mut Reader<'_>, wanted: u8) -> Result<Option<MacAddr>, DecodeError> {
    let mut found = None;
    while !reader.is_empty() {
        let kind = reader.u8()?;
        let length_at = reader.offset();
        let length = reader.u8()?;
        let impossible = DecodeError { offset: length_at, fault: Fault::OptionLength(length) };
        // The length counts units of 8 bytes and includes type and length.
        let Some(rest) = (usize::from(length) * 8).checked_sub(2) else { return Err(impossible) };
        if kind != wanted {
            reader.bytes(rest)?;
        } else if length != 1 {
            return Err(impossible);
        } else {
            let mac = reader.array::<6>()?.into();
            found = found.or(Some(mac));
        }
    }
    Ok(found)
}

fn is_solicited_node(ip: Ipv6Addr) -> bool {
    matches!(ip.segments(), [0xff02, 0, 0, 0, 0, 1, high, _] if high >> 8 == 0xff)
}

/// The ICMPv6 checksum (RFC 4443 §2.3) of `icmp` as it stands, over the pseudo-header of RFC 8200
/// §8.1: what to write if its checksum field is 0, and 0 if it holds the right checksum.
pub fn checksum(source: Ipv6Addr, destination: Ipv6Addr, icmp: &[u8]) -> u16 {
    let mut sum = u64::from(ICMPV6) + icmp.len() as u64;
    for segment in source.segments().into_iter().chain(destination.segments()) {
        sum += u64::from(segment);
    }
    let (pairs, last) = icmp.as_chunks::<2>();
    for pair in pairs {
        sum += u64::from(u16::from_be_bytes(*pair));
    }
    if let [byte] = last {
        sum += u64::from(*byte) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
