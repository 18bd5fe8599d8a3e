//! For which addresses this node's kernel answers by itself: those that stand on one of its interfaces.
//!
//! Every such node answers for the address, owner or not: so kube-proxy in IPVS mode without `strictARP`,
//! which puts all addresses of Services onto `kube-ipvs0`, defeats the election.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};

use super::Links;

/// Addresses by which others could mean this node, and where they stand.
pub(super) fn own(links: &[LinkMessage], addresses: &[AddressMessage]) -> BTreeMap<IpAddr, String> {
    let names: BTreeMap<u32, &String> = links
        .iter()
        .filter_map(|message| {
            let name = message.attributes.iter().find_map(|it| match it {
                LinkAttribute::IfName(name) => Some(name),
                _ => None,
            });
            Some((message.header.index, name?))
        })
        .collect();
    let own = addresses.iter().filter(|message| message.header.scope != AddressScope::Link);
    own.filter_map(|message| Some((address(message)?, (*names.get(&message.header.index)?).clone())))
        .collect()
}

/// Of a point-to-point interface the near end.
fn address(message: &AddressMessage) -> Option<IpAddr> {
    let (mut local, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => address = Some(*ip),
            _ => {}
        }
    }
    local.or(address).filter(|ip| !ip.is_loopback())
}

/// `net.ipv4.conf.*.arp_ignore` as it is in force for an interface: the greater of its own and that of all.
pub(super) fn arp_ignore(interface: &str) -> u8 {
    let of = |name: &str| -> Option<u8> {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/arp_ignore")).ok()?;
        text.trim().parse().ok()
    };
    of("all").max(of(interface)).unwrap_or(0)
}

impl Links {
    /// The interface that an address stands on, where the kernel answers for it on a link of ours: on the
    /// interface itself, and by ARP on all others that do not ignore what is not theirs.
    pub fn kernel_answers(&self, address: IpAddr) -> Option<&str> {
        let stands_on = self.own.get(&address)?;
        let answers = |link: &super::Link| {
            link.connected && (link.name == *stands_on || (address.is_ipv4() && link.answers_for_others))
        };
        self.by_index.values().any(answers).then_some(stands_on)
    }
}
