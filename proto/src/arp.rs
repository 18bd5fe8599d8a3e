//! ARP (RFC 826) for IPv4: which request gets which answer, and how a change is announced.
//!
//! In: a received frame, the link's MAC, whether the link owns an address. Out: the exact bytes of
//! the reply, or why there is none.

use std::net::Ipv4Addr;

use crate::answer::{Ignored, Question, Reply};
use crate::error::{DecodeError, Fault};
use crate::ethernet::{EtherType, Frame, Header, MacAddr};
use crate::reader::Reader;

const ETHERNET: u16 = 1;

/// What an ARP packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Who has this address?
    Request,
    /// I have it.
    Reply,
    /// Another operation (RARP and the like), which asks nothing of us.
    Other(u16),
}

impl From<u16> for Operation {
    fn from(code: u16) -> Self {
        match code {
            1 => Self::Request,
            2 => Self::Reply,
            other => Self::Other(other),
        }
    }
}

impl From<Operation> for u16 {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Request => 1,
            Operation::Reply => 2,
            Operation::Other(code) => code,
        }
    }
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's MAC.
    pub sender_mac: MacAddr,
    /// The sender's address; 0.0.0.0 in a probe (RFC 5227 §1.1).
    pub sender_ip: Ipv4Addr,
    /// The receiver's MAC; meaningless in a request.
    pub target_mac: MacAddr,
    /// The address asked for, or the receiver's.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// The packet in a frame of the shortest length Ethernet carries.
    pub fn frame(&self, source: MacAddr, destination: MacAddr) -> Frame {
        let mut frame = Frame::empty();
        Header { destination, source, ethertype: EtherType::ARP }.write(&mut frame);
        frame.put(&ETHERNET.to_be_bytes());
        frame.put(&EtherType::IPV4.0.to_be_bytes());
        frame.put(&[6, 4]);
        frame.put(&u16::from(self.operation).to_be_bytes());
        frame.put(&self.sender_mac.octets());
        frame.put(&self.sender_ip.octets());
        frame.put(&self.target_mac.octets());
        frame.put(&self.target_ip.octets());
        frame.pad();
        frame
    }
}

/// Reads a whole frame. Bytes after the packet are padding.
pub fn parse(frame: &[u8]) -> Result<(Header, ArpPacket), DecodeError> {
    let mut reader = Reader::new(frame, 0);
    let header = Header::read(&mut reader)?;
    if header.ethertype != EtherType::ARP {
        return Err(DecodeError { offset: 12, fault: Fault::EtherType(header.ethertype.0) });
    }
    reader.expect_u16(ETHERNET, Fault::HardwareType)?;
    reader.expect_u16(EtherType::IPV4.0, Fault::ProtocolType)?;
    reader.expect_u8(6, Fault::HardwareLength)?;
    reader.expect_u8(4, Fault::ProtocolLength)?;
    let packet = ArpPacket {
        operation: reader.u16()?.into(),
        sender_mac: reader.array::<6>()?.into(),
        sender_ip: reader.array::<4>()?.into(),
        target_mac: reader.array::<6>()?.into(),
        target_ip: reader.array::<4>()?.into(),
    };
    Ok((header, packet))
}

/// Decides about one received frame: a broadcast request, or one sent to `link_mac`, for an
/// address that `owns` says yes to is answered. Who asks does not matter, so probes are answered
/// too: that is what keeps another host from taking an owned address.
pub fn respond(frame: &[u8], link_mac: MacAddr, owns: impl Fn(Ipv4Addr) -> bool) -> Result<Reply, Ignored> {
    let (header, request) = parse(frame)?;
    if header.source == link_mac || request.sender_mac == link_mac {
        return Err(Ignored::OwnFrame);
    }
    if request.operation != Operation::Request {
        return Err(Ignored::NotARequest);
    }
    if header.destination != link_mac && header.destination != MacAddr::BROADCAST {
        return Err(Ignored::NotForUs(header.destination));
    }
    // A reply to a group would write our answer into every cache of the link on a stranger's word.
    if !request.sender_mac.is_unicast() {
        return Err(Ignored::SenderNotUnicast(request.sender_mac));
    }
    let question = Question {
        ip: request.target_ip.into(),
        requester_ip: request.sender_ip.into(),
        requester_mac: request.sender_mac,
    };
    if !owns(request.target_ip) {
        return Err(Ignored::NotOwned(question));
    }
    let answer = ArpPacket {
        operation: Operation::Reply,
        sender_mac: link_mac,
        sender_ip: request.target_ip,
        target_mac: request.sender_mac,
        target_ip: request.sender_ip,
    };
    // To the ARP sender, not to the frame's source: they differ behind some proxies, and the cache
    // that asked is the former's.
    Ok(Reply { frame: answer.frame(link_mac, request.sender_mac), question })
}

/// Tells every host on the link that `ip` is at `mac`: once as a request and once as a reply,
/// since some hosts update their cache only on one of the two (RFC 5227 §3).
pub fn gratuitous(mac: MacAddr, ip: Ipv4Addr) -> [Frame; 2] {
    [Operation::Request, Operation::Reply].map(|operation| {
        ArpPacket { operation, sender_mac: mac, sender_ip: ip, target_mac: MacAddr::BROADCAST, target_ip: ip }
            .frame(mac, MacAddr::BROADCAST)
    })
}

/// Asks every host on the link whether it has `ip` without saying anything about the asker
/// (RFC 5227 §2.1.1).
pub fn probe(mac: MacAddr, ip: Ipv4Addr) -> Frame {
    ArpPacket {
        operation: Operation::Request,
        sender_mac: mac,
        sender_ip: Ipv4Addr::UNSPECIFIED,
        target_mac: MacAddr::ZERO,
        target_ip: ip,
    }
    .frame(mac, MacAddr::BROADCAST)
}

#[cfg(test)]
mod tests;
