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
    let read = read(&links, &[], &excluded);
    assert_eq!(read.names(), BTreeSet::from(["bond0".to_owned(), "ens18".to_owned()]));
    assert_eq!(
        read.by_index[&2],
        Link {
            name: "ens18".to_owned(),
            address: LinkAddress { mac: MAC.into(), link_local: None },
            connected: true
        }
    );
}

#[test]
fn a_link_without_carrier_stays_known_but_is_not_connected() {
    let read = read(&[link(2, "ens18", GOOD.difference(LinkFlags::Running))], &[], &Excluded::default());
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
        let read = read(&[link(2, "ens18", GOOD)], &addresses, &Excluded::default());
        let expected = expected.map(|text| text.parse::<Ipv6Addr>().unwrap());
        assert_eq!(read.by_index[&2].address.link_local, expected, "{addresses:?}");
    }
}
