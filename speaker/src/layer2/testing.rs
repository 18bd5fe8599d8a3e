//! Somebody on the LAN who asks for addresses.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use ferrolb_proto::arp::{ArpPacket, Operation};
use ferrolb_proto::decode::{Decoded, decode};
use ferrolb_proto::ethernet::MacAddr;

use crate::packet_socket::{BUFFER, PacketSocket};

/// Asks by ARP, from one interface.
pub(crate) struct Asker {
    socket: PacketSocket,
    mac: MacAddr,
}

impl Asker {
    pub(crate) fn new(interface: &str, mac: &str) -> Self {
        let index = nix::net::if_::if_nametoindex(interface).unwrap();
        Self { socket: PacketSocket::arp(index).unwrap(), mac: mac.parse().unwrap() }
    }

    /// Asks once, by broadcast; the MACs that answer within the time.
    pub(crate) async fn ask(&mut self, target_ip: Ipv4Addr, time: Duration) -> BTreeSet<String> {
        let request = ArpPacket {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender_ip: "10.9.0.254".parse().unwrap(),
            target_mac: MacAddr::ZERO,
            target_ip,
        };
        self.socket.send(&request.frame(self.mac, MacAddr::BROADCAST)).unwrap();
        let mut answers = BTreeSet::new();
        let mut buffer = [0; BUFFER];
        let end = tokio::time::Instant::now() + time;
        while let Ok(length) = tokio::time::timeout_at(end, self.socket.receive(&mut buffer)).await {
            if let Some(Decoded::Arp { ethernet, packet }) = decode(&buffer[..length.unwrap()])
                && ethernet.destination == self.mac
                && packet.sender_ip == target_ip
            {
                answers.insert(packet.sender_mac.to_string());
            }
        }
        answers
    }
}
