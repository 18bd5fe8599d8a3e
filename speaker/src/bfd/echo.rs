//! Echo packets on the wire (RFC 5881 §4): addressed to this node, handed to the router, which returns
//! them like any packet for somebody else. IPv4 only.
//!
//! The kernel takes no packet from outside that comes from its own address, so they are read from the link
//! itself, and only those that the filter knows.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};

use ferrolb_proto::bfd::session::EchoPayload;
use ferrolb_proto::bfd::{ECHO_PORT, TTL};
use ferrolb_proto::ethernet::EtherType;
use socket2::{Domain, Protocol, Socket, Type};

use super::receiver::poll_ready;
use crate::packet_socket::{BUFFER, PacketSocket, filter};

const IP: usize = 14;
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const PAYLOAD: usize = 16;
const PACKET: usize = IP_HEADER + UDP_HEADER + PAYLOAD;

/// The way to a router over its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Near {
    /// The address of this node that the router speaks to.
    pub(super) own: Ipv4Addr,
    /// The router.
    pub(super) router: Ipv4Addr,
    /// The link.
    pub(super) interface: u32,
}

/// The sockets of all sessions that send echo packets; none as long as none does.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    sender: Option<Socket>,
    links: BTreeMap<u32, PacketSocket>,
}

impl Echoes {
    /// Sends an echo packet by way of the router. Its return is listened for before.
    pub(super) fn send(&mut self, near: Near, payload: &EchoPayload) -> io::Result<()> {
        if let Entry::Vacant(link) = self.links.entry(near.interface) {
            link.insert(listen(near.interface)?);
        }
        let sender = match self.sender.take() {
            Some(sender) => sender,
            // With this protocol the header is ours too, and the route is that to the router.
            None => Socket::new(
                Domain::IPV4,
                Type::RAW.nonblocking().cloexec(),
                Some(Protocol::from(libc::IPPROTO_RAW)),
            )?,
        };
        let router = SocketAddr::new(near.router.into(), 0).into();
        self.sender.insert(sender).send_to(&packet(near.own, payload), &router).map(|_| ())
    }

    /// Listens on no other links than these.
    pub(super) fn retain(&mut self, interfaces: &BTreeSet<u32>) {
        self.links.retain(|interface, _| interfaces.contains(interface));
        if interfaces.is_empty() {
            self.sender = None;
        }
    }

    pub(super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let ready: Vec<Poll<()>> =
            self.links.values().map(|link| poll_ready(link.socket(), context)).collect();
        if ready.iter().any(Poll::is_ready) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Payloads that came back, no more than `most` from a link.
    pub(super) fn receive(&self, most: usize, mut take: impl FnMut(&[u8])) {
        let mut buffer = [0; BUFFER];
        for link in self.links.values() {
            for _ in 0..most {
                let Ok(length) = link.socket().get_ref().read(&mut buffer) else { break };
                let end = (IP + PACKET).min(length);
                take(buffer.get(IP + PACKET - PAYLOAD..end).unwrap_or_default());
            }
        }
    }
}

/// UDP without IP options to the port of echo packets, for this host.
fn listen(interface: u32) -> io::Result<PacketSocket> {
    const VERSION_AND_LENGTH: u32 = 0x45;
    const PORT: [u8; 2] = ECHO_PORT.to_be_bytes();
    let at = |offset: usize| filter::load_byte((IP + offset) as u32);
    let program = [
        at(0),
        filter::jump_equal(VERSION_AND_LENGTH, 0, 7),
        at(9),
        filter::jump_equal(libc::IPPROTO_UDP as u32, 0, 5),
        at(IP_HEADER + 2),
        filter::jump_equal(PORT[0] as u32, 0, 3),
        at(IP_HEADER + 3),
        filter::jump_equal(PORT[1] as u32, 0, 1),
        filter::end(true),
        filter::end(false),
    ];
    PacketSocket::open(interface, EtherType::IPV4, program)
}

/// A packet from this node to this node. The kernel fills in the checksum of the header; UDP has none.
fn packet(own: Ipv4Addr, payload: &EchoPayload) -> Vec<u8> {
    const CLASS: u8 = 0xc0;
    let [high, low] = (PACKET as u16).to_be_bytes();
    let [udp_high, udp_low] = ((UDP_HEADER + PAYLOAD) as u16).to_be_bytes();
    let [port_high, port_low] = ECHO_PORT.to_be_bytes();
    let own = own.octets();
    let header = [0x45, CLASS, high, low, 0, 0, 0, 0, TTL, libc::IPPROTO_UDP as u8, 0, 0];
    let udp = [port_high, port_low, port_high, port_low, udp_high, udp_low, 0, 0];
    [&header[..], &own, &own, &udp, payload].concat()
}
