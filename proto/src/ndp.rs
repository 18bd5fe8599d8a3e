//! Neighbor Discovery (RFC 4861) for IPv6: which solicitation gets which answer, and how a change
//! is announced. The IPv6 counterpart of [`arp`](crate::arp).
//!
//! Frames are read whole, Ethernet header first: addresses that a link announces are not the
//! kernel's own, so an ICMPv6 socket would not see every question for them; a packet socket does.
//! In: a received frame, the link's MAC and link-local address, whether the link owns an address.
//! Out: the exact bytes of the advertisement, or why there is none.

use std::net::Ipv6Addr;

use crate::answer::{Ignored, Question, Reply};
use crate::error::{DecodeError, Fault};
use crate::ethernet::{EtherType, Frame, Header, MacAddr};
use crate::reader::Reader;

mod message;
pub mod router;

pub use message::{
    ALL_NODES, IpHeader, Message, NeighborAdvertisement, NeighborSolicitation, checksum, multicast_mac,
    parse_message, solicited_node,
};

/// Next header value of ICMPv6.
const ICMPV6: u8 = 58;
/// RFC 4861 §7.1: proof that a message did not cross a router.
const HOP_LIMIT: u8 = 255;
const IPV6_HEADER_LEN: usize = 40;

/// A neighbor message in its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Frame addresses.
    pub ethernet: Header,
    /// IPv6 source.
    pub source: Ipv6Addr,
    /// IPv6 destination.
    pub destination: Ipv6Addr,
    /// The message.
    pub message: Message,
}

impl Packet {
    /// The frame, with hop limit 255 and the checksum.
    pub fn frame(&self) -> Frame {
        let mut frame = Frame::empty();
        self.ethernet.write(&mut frame);
        frame.put(&[0x60, 0, 0, 0]);
        let length_at = frame.len();
        frame.put(&[0, 0, ICMPV6, HOP_LIMIT]);
        frame.put(&self.source.octets());
        frame.put(&self.destination.octets());
        let start = frame.len();
        self.message.write(&mut frame);
        let length = frame.len() - start;
        // At most 32: the frame's capacity bounds it.
        frame.set_u16(length_at, length as u16);
        let sum = checksum(self.source, self.destination, &frame[start..]);
        frame.set_u16(start + 2, sum);
        frame
    }
}

/// Reads a whole frame and applies every check of RFC 4861 §7.1.1 and §7.1.2.
pub fn parse(frame: &[u8]) -> Result<Packet, DecodeError> {
    let mut reader = Reader::new(frame, 0);
    let ethernet = Header::read(&mut reader)?;
    if ethernet.ethertype != EtherType::IPV6 {
        return Err(DecodeError { offset: 12, fault: Fault::EtherType(ethernet.ethertype.0) });
    }
    let [first, ..] = reader.array::<4>()?;
    if first >> 4 != 6 {
        return Err(DecodeError { offset: Header::LEN, fault: Fault::IpVersion(first >> 4) });
    }
    let length = reader.u16()?;
    reader.expect_u8(ICMPV6, Fault::NextHeader)?;
    let hop_limit = reader.u8()?;
    let source = reader.array::<16>()?.into();
    let destination = reader.array::<16>()?.into();
    // What follows is padding or a trailer of the link.
    let payload = reader.bytes(length.into())?;
    let ip = IpHeader { source, destination, hop_limit };
    let message = message::parse_at(payload, ip, Header::LEN + IPV6_HEADER_LEN)?;
    Ok(Packet { ethernet, source, destination, message })
}

/// Decides about one received frame: a solicitation, to a group or to `link_mac`, for an address
/// that `owns` says yes to is answered from `link_local`.
///
/// A probe of duplicate address detection (source `::`, RFC 4862 §5.4) is answered to all nodes,
/// so that no other host takes an owned address. A solicitation without source link-layer address
/// option is answered to the MAC that sent the frame.
pub fn respond(
    frame: &[u8],
    link_mac: MacAddr,
    link_local: Ipv6Addr,
    owns: impl Fn(Ipv6Addr) -> bool,
) -> Result<Reply, Ignored> {
    let packet = parse(frame).map_err(|error| match error.fault {
        Fault::NextHeader(_) | Fault::IcmpType(_) => Ignored::NotARequest,
        _ => Ignored::Malformed(error),
    })?;
    let ethernet = packet.ethernet;
    if ethernet.source == link_mac {
        return Err(Ignored::OwnFrame);
    }
    let solicitation = match packet.message {
        Message::Solicitation(solicitation) => solicitation,
        Message::Advertisement(_) => return Err(Ignored::NotARequest),
    };
    if ethernet.destination != link_mac && !ethernet.destination.is_multicast() {
        return Err(Ignored::NotForUs(ethernet.destination));
    }
    let requester_mac = solicitation.source_mac.unwrap_or(ethernet.source);
    if requester_mac == link_mac {
        return Err(Ignored::OwnFrame);
    }
    if !requester_mac.is_unicast() {
        return Err(Ignored::SenderNotUnicast(requester_mac));
    }
    let ip = solicitation.target;
    let question = Question { ip: ip.into(), requester_ip: packet.source.into(), requester_mac };
    if !owns(ip) {
        return Err(Ignored::NotOwned(question));
    }
    let frame = if packet.source.is_unspecified() {
        unsolicited(link_mac, link_local, ip)
    } else {
        // Override stays off: a neighbour that has an entry goes on using it until it finds it
        // dead or hears an unsolicited advertisement, so an owner that hands over cannot pull
        // traffic back.
        let message = advertisement(link_mac, ip, Solicited::Yes);
        to(link_mac, link_local, requester_mac, packet.source, message)
    };
    Ok(Reply { frame, question })
}

/// Tells every host on the link that `ip` is at `mac` and that what it knew before is void
/// (RFC 4861 §7.2.6).
pub fn unsolicited(mac: MacAddr, link_local: Ipv6Addr, ip: Ipv6Addr) -> Frame {
    let message = advertisement(mac, ip, Solicited::No);
    to(mac, link_local, multicast_mac(ALL_NODES), ALL_NODES, message)
}

/// Asks whether a host on the link has `ip` without saying anything about the asker: a probe of
/// duplicate address detection (RFC 4862 §5.4.2).
pub fn probe(mac: MacAddr, ip: Ipv6Addr) -> Frame {
    let group = solicited_node(ip);
    let ethernet = Header { destination: multicast_mac(group), source: mac, ethertype: EtherType::IPV6 };
    let message = Message::Solicitation(NeighborSolicitation { target: ip, source_mac: None });
    Packet { ethernet, source: Ipv6Addr::UNSPECIFIED, destination: group, message }.frame()
}

enum Solicited {
    Yes,
    No,
}

fn advertisement(mac: MacAddr, ip: Ipv6Addr, solicited: Solicited) -> Message {
    let solicited = matches!(solicited, Solicited::Yes);
    Message::Advertisement(NeighborAdvertisement {
        router: false,
        solicited,
        overrides: !solicited,
        target: ip,
        target_mac: Some(mac),
    })
}

fn to(
    mac: MacAddr,
    link_local: Ipv6Addr,
    destination_mac: MacAddr,
    destination: Ipv6Addr,
    message: Message,
) -> Frame {
    let ethernet = Header { destination: destination_mac, source: mac, ethertype: EtherType::IPV6 };
    Packet { ethernet, source: link_local, destination, message }.frame()
}

#[cfg(test)]
mod tests;
