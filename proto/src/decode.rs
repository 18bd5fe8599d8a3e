//! What a captured frame says, for recorders: the same parsers, without a decision.

use std::net::Ipv6Addr;

use crate::arp::{self, ArpPacket};
use crate::ethernet::{EtherType, Header};
use crate::ndp::{self, Message, NeighborAdvertisement, NeighborSolicitation};

/// A well-formed layer 2 resolution frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// ARP for IPv4.
    Arp {
        /// Frame addresses.
        ethernet: Header,
        /// The packet.
        packet: ArpPacket,
    },
    /// Who has this IPv6 address?
    NeighborSolicitation {
        /// Frame addresses.
        ethernet: Header,
        /// IPv6 source; unspecified in a probe.
        source: Ipv6Addr,
        /// IPv6 destination.
        destination: Ipv6Addr,
        /// The message.
        solicitation: NeighborSolicitation,
    },
    /// I have this IPv6 address.
    NeighborAdvertisement {
        /// Frame addresses.
        ethernet: Header,
        /// IPv6 source.
        source: Ipv6Addr,
        /// IPv6 destination.
        destination: Ipv6Addr,
        /// The message.
        advertisement: NeighborAdvertisement,
    },
}

/// Reads a whole Ethernet frame; `None` for other traffic and for frames a receiver must discard.
pub fn decode(frame: &[u8]) -> Option<Decoded> {
    match Header::parse(frame).ok()?.ethertype {
        EtherType::ARP => {
            let (ethernet, packet) = arp::parse(frame).ok()?;
            Some(Decoded::Arp { ethernet, packet })
        }
        EtherType::IPV6 => {
            let ndp::Packet { ethernet, source, destination, message } = ndp::parse(frame).ok()?;
            Some(match message {
                Message::Solicitation(solicitation) => {
                    Decoded::NeighborSolicitation { ethernet, source, destination, solicitation }
                }
                Message::Advertisement(advertisement) => {
                    Decoded::NeighborAdvertisement { ethernet, source, destination, advertisement }
                }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ethernet::MacAddr;

    const MAC: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 9]);

    #[test]
    fn announcements_are_recognised() {
        let ip = "192.168.10.200".parse().unwrap();
        for frame in arp::gratuitous(MAC, ip) {
            let Some(Decoded::Arp { ethernet, packet }) = decode(&frame) else { panic!("{frame:?}") };
            assert_eq!((ethernet.source, packet.sender_mac, packet.sender_ip), (MAC, MAC, ip));
        }
        let ip = "fd00:10::200".parse().unwrap();
        let frame = ndp::unsolicited(MAC, "fe80::9".parse().unwrap(), ip);
        let Some(Decoded::NeighborAdvertisement { advertisement, .. }) = decode(&frame) else {
            panic!("{frame:?}")
        };
        assert_eq!((advertisement.target, advertisement.target_mac), (ip, Some(MAC)));
    }

    #[test]
    fn other_traffic_is_nothing() {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
        assert_eq!(decode(&frame), None);
        assert_eq!(decode(&[]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(frame in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = decode(&frame);
        }
    }
}
