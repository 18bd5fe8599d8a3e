//! Addresses that have another meaning than that of a host, or one on a single link only.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::diagnostic::Reserved;
use super::ranges::IpRange;

/// Blocks (RFC 6890, RFC 4291), what they are for, and whether a host on the link may still use them.
const BLOCKS: [(IpNet, Reserved, bool); 9] = [
    (v4(Ipv4Addr::UNSPECIFIED, 8), Reserved::ThisNetwork, false),
    (v4(Ipv4Addr::new(127, 0, 0, 0), 8), Reserved::Loopback, false),
    (v4(Ipv4Addr::new(169, 254, 0, 0), 16), Reserved::LinkLocal, true),
    (v4(Ipv4Addr::new(224, 0, 0, 0), 4), Reserved::Multicast, false),
    (v4(Ipv4Addr::BROADCAST, 32), Reserved::Broadcast, false),
    (v6(Ipv6Addr::UNSPECIFIED, 128), Reserved::ThisNetwork, false),
    (v6(Ipv6Addr::LOCALHOST, 128), Reserved::Loopback, false),
    (v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), Reserved::LinkLocal, true),
    (v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8), Reserved::Multicast, false),
];

const fn v4(address: Ipv4Addr, length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(address, length))
}

const fn v6(address: Ipv6Addr, length: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(address, length))
}

/// The first block that a range shares an address with, and whether any address of the range is usable.
pub(super) fn reserved(range: &IpRange) -> Option<(Reserved, bool)> {
    BLOCKS.iter().find_map(|(block, reserved, on_link)| {
        if block.addr().is_ipv4() != range.first().is_ipv4() {
            return None;
        }
        let (first, last) = (block.network(), block.broadcast());
        let shares = first <= range.last() && range.first() <= last;
        let within = block.contains(&range.first()) && block.contains(&range.last());
        shares.then_some((*reserved, *on_link || !within))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_no_service_can_have() {
        for (entry, expected) in [
            ("192.168.0.0/16", None),
            ("2001:db8::/32", None),
            ("0.0.0.0/32", Some((Reserved::ThisNetwork, false))),
            ("127.0.0.1-127.0.0.9", Some((Reserved::Loopback, false))),
            ("126.0.0.0-127.0.0.9", Some((Reserved::Loopback, true))),
            ("169.254.7.0/24", Some((Reserved::LinkLocal, true))),
            ("224.0.0.0/4", Some((Reserved::Multicast, false))),
            ("239.255.255.255-240.0.0.0", Some((Reserved::Multicast, true))),
            ("255.255.255.255/32", Some((Reserved::Broadcast, false))),
            ("0.0.0.0/0", Some((Reserved::ThisNetwork, true))),
            ("::/128", Some((Reserved::ThisNetwork, false))),
            ("::1/128", Some((Reserved::Loopback, false))),
            ("fe80::/64", Some((Reserved::LinkLocal, true))),
            ("ff02::1/128", Some((Reserved::Multicast, false))),
        ] {
            assert_eq!(reserved(&entry.parse().unwrap()), expected, "{entry}");
        }
    }
}
