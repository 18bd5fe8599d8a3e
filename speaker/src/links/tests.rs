//! Which interfaces can announce.

use super::*;

const MAC: [u8; 6] = [0x52, 0x54, 0, 0x3a, 0x10, 0x20];

fn link(index: u32, name: &str, flags: LinkFlags) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.link_layer_type = LinkLayerType::Ether;
    message.header.flags = flags;
    message.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::Address(MAC.to_vec())];
    message
}

fn with(mut message: LinkMessage, attribute: LinkAttribute) -> LinkMessage {
    message.attributes.push(attribute);
    message
}

fn address(index: u32, ip: &str, scope: AddressScope, flags: AddressFlags) -> AddressMessage {
    let ip: IpAddr = ip.parse().unwrap();
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.family = if ip.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.scope = scope;
    message.attributes = vec![AddressAttribute::Address(ip), AddressAttribute::Flags(flags)];
    message
}

const GOOD: LinkFlags = LinkFlags::Up.union(LinkFlags::Broadcast).union(LinkFlags::Running);

#[test]
fn only_ethernet_that_is_up_on_its_own_can_announce() {
    let mut tunnel = link(8, "tun0", GOOD);
    tunnel.header.link_layer_type = LinkLayerType::None;
    let mut infiniband = link(9, "ib0", GOOD);
    infiniband.attributes[1] = LinkAttribute::Address(vec![0x80; 20]);
    let links = [
        link(2, "ens18", GOOD),
        link(3, "down", GOOD.difference(LinkFlags::Up)),
        link(4, "no-broadcast", GOOD.difference(LinkFlags::Broadcast)),
        link(1, "lo", GOOD | LinkFlags::Loopback),
        link(5, "noarp", GOOD | LinkFlags::Noarp),
        with(link(6, "port-of-bond0", GOOD), LinkAttribute::Controller(7)),
        link(7, "bond0", GOOD | LinkFlags::Controller),
        tunnel,
        infiniband,
        link(10, "docker0", GOOD),
        with(link(11, "nobody", GOOD), LinkAttribute::Address(vec![0; 6])),
    ];
    let excluded = Excluded::parse("announcedInterfacesToExclude: [^docker.*]").unwrap();
    let read = read(&links, &[], &excluded, |_| 0);
    assert_eq!(read.names(), BTreeSet::from(["bond0".to_owned(), "ens18".to_owned()]));
    assert_eq!(
        read.by_index[&2],
        Link {
            name: "ens18".to_owned(),
            address: LinkAddress { mac: MAC.into(), link_local: None },
            connected: true,
            answers_for_others: true,
        }
    );
}

#[test]
fn a_link_without_carrier_stays_known_but_is_not_connected() {
    let read =
        read(&[link(2, "ens18", GOOD.difference(LinkFlags::Running))], &[], &Excluded::default(), |_| 0);
    assert!(!read.by_index[&2].connected);
}

#[test]
fn the_link_local_address_counts_once_it_is_unique() {
    let none = AddressFlags::empty();
    for (addresses, expected) in [
        (vec![address(2, "fe80::1", AddressScope::Link, AddressFlags::Permanent)], Some("fe80::1")),
        (vec![address(2, "fe80::1", AddressScope::Link, AddressFlags::Tentative)], None),
        (vec![address(2, "fe80::1", AddressScope::Link, AddressFlags::Dadfailed)], None),
        (vec![address(3, "fe80::1", AddressScope::Link, none)], None),
        (vec![address(2, "169.254.0.1", AddressScope::Link, none)], None),
        (
            vec![
                address(2, "fd00::1", AddressScope::Universe, none),
                address(2, "fe80::1", AddressScope::Link, AddressFlags::Tentative),
                address(2, "fe80::2", AddressScope::Link, none),
                address(2, "fe80::3", AddressScope::Link, none),
            ],
            Some("fe80::2"),
        ),
    ] {
        let read = read(&[link(2, "ens18", GOOD)], &addresses, &Excluded::default(), |_| 0);
        let expected = expected.map(|text| text.parse::<Ipv6Addr>().unwrap());
        assert_eq!(read.by_index[&2].address.link_local, expected, "{addresses:?}");
    }
}

/// kube-proxy in IPVS mode puts addresses onto `kube-ipvs0`; with `strictARP` it sets `arp_ignore` to 1.
#[test]
fn the_kernel_answers_for_what_stands_on_an_interface_of_the_node() {
    let none = AddressFlags::empty();
    let links = [
        link(2, "ens18", GOOD),
        link(3, "kube-ipvs0", LinkFlags::Broadcast | LinkFlags::Noarp),
        link(1, "lo", GOOD | LinkFlags::Loopback),
    ];
    let addresses = [
        address(1, "127.0.0.1", AddressScope::Host, none),
        address(2, "10.9.0.1", AddressScope::Universe, none),
        address(2, "fd00:9::1", AddressScope::Universe, none),
        address(2, "fe80::1", AddressScope::Link, none),
        address(3, "10.9.0.200", AddressScope::Universe, none),
        address(3, "fd00:9::200", AddressScope::Universe, none),
    ];
    let answers = |links: &[LinkMessage], strict: u8, ip: &str| {
        let links = read(links, &addresses, &Excluded::default(), |_| strict);
        links.kernel_answers(ip.parse().unwrap()).map(ToOwned::to_owned)
    };
    for (ip, lax, strict) in [
        ("10.9.0.200", Some("kube-ipvs0"), None),
        ("10.9.0.1", Some("ens18"), Some("ens18")),
        ("fd00:9::1", Some("ens18"), Some("ens18")),
        // IPv6 answers where the address stands, and nowhere else.
        ("fd00:9::200", None, None),
        ("10.9.0.201", None, None),
        ("127.0.0.1", None, None),
        ("fe80::1", None, None),
    ] {
        assert_eq!(answers(&links, 0, ip).as_deref(), lax, "{ip}");
        assert_eq!(answers(&links, 1, ip).as_deref(), strict, "{ip}, arp_ignore 1");
    }
    let unplugged = [link(2, "ens18", GOOD.difference(LinkFlags::Running)), links[1].clone()];
    assert_eq!(answers(&unplugged, 0, "10.9.0.200"), None);
}
