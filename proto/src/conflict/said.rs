//! What a frame says about who has an address.

use std::net::IpAddr;

use crate::decode::{Decoded, decode};
use crate::ethernet::MacAddr;

/// A statement about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) ip: IpAddr,
    /// Who says it.
    pub(super) mac: MacAddr,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// I have it.
    Have,
    /// I am about to take it, or I ask whether somebody has it.
    Probe,
}

/// Reads a frame. A request counts as well as a reply: whoever uses an address as its own says that it
/// has it (RFC 5227 §2.4).
pub(super) fn said(frame: &[u8]) -> Option<Said> {
    let said = match decode(frame)? {
        Decoded::Arp { packet, .. } => {
            let mac = packet.sender_mac;
            if packet.sender_ip.is_unspecified() {
                let is_probe = packet.operation == crate::arp::Operation::Request;
                is_probe.then_some(Said { ip: packet.target_ip.into(), mac, what: What::Probe })?
            } else {
                Said { ip: packet.sender_ip.into(), mac, what: What::Have }
            }
        }
        Decoded::NeighborSolicitation { ethernet, source, solicitation, .. } => {
            if source.is_unspecified() {
                Said { ip: solicitation.target.into(), mac: ethernet.source, what: What::Probe }
            } else {
                let mac = solicitation.source_mac.unwrap_or(ethernet.source);
                Said { ip: source.into(), mac, what: What::Have }
            }
        }
        Decoded::NeighborAdvertisement { ethernet, advertisement, .. } => {
            let mac = advertisement.target_mac.unwrap_or(ethernet.source);
            Said { ip: advertisement.target.into(), mac, what: What::Have }
        }
    };
    said.mac.is_unicast().then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use crate::{arp, ndp};

    #[test]
    fn frames_say_who_has_an_address_or_wants_it() {
        let v4 = "10.9.0.9".parse().unwrap();
        let v6 = "fd00:10::9".parse().unwrap();
        let link_local = "fe80::b".parse().unwrap();
        for frame in arp::gratuitous(MAC_A, v4) {
            assert_eq!(said(&frame), Some(Said { ip: v4.into(), mac: MAC_A, what: What::Have }));
        }
        let [a, b]: [IpAddr; 2] = ["10.9.0.1".parse().unwrap(), "10.9.0.2".parse().unwrap()];
        let [a6, b6]: [IpAddr; 2] = ["fd00:10::a".parse().unwrap(), "fd00:10::b".parse().unwrap()];
        let c6: IpAddr = "fd00:10::c".parse().unwrap();
        for (frame, ip, mac, what) in [
            (arp::probe(MAC_B, v4).to_vec(), v4.into(), MAC_B, What::Probe),
            (unhex(ARP_REQUEST), a, MAC_A, What::Have),
            (unhex(ARP_REPLY), b, MAC_B, What::Have),
            (ndp::probe(MAC_B, v6).to_vec(), v6.into(), MAC_B, What::Probe),
            (ndp::unsolicited(MAC_B, link_local, v6).to_vec(), v6.into(), MAC_B, What::Have),
            (unhex(SOLICITATION), a6, MAC_A, What::Have),
            (unhex(ADVERTISEMENT), b6, MAC_B, What::Have),
            (unhex(DAD_PROBE), c6, MAC_A, What::Probe),
        ] {
            assert_eq!(said(&frame), Some(Said { ip, mac, what }));
        }
        assert_eq!(said(&[0; 60]), None);
        let group = crate::ethernet::MacAddr::BROADCAST;
        assert_eq!(said(&arp::probe(group, v4)), None);
    }
}
