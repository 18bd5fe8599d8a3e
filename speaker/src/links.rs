//! Which of this node's network interfaces can announce, as the kernel tells it.
//!
//! ```text
//! netlink event ─> dump of links and addresses ─read()─> Links ─> watch ─> agent, layer2
//! ```
//!
//! An event only says that something changed; what there is now is asked for anew, so that lost or
//! conflated events do no harm. The decision is [`read`], a pure function; so is [`Links::kernel_answers`],
//! which tells of addresses that the kernel answers for besides us.

mod exclude;
mod kernel;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ferrolb_proto::announcer::LinkAddress;
use ferrolb_proto::ethernet::MacAddr;
use futures::{StreamExt, TryStreamExt};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkFlags, LinkLayerType, LinkMessage};
use rtnetlink::{Handle, MulticastGroup};
use tokio::sync::watch;

pub use exclude::{ExcludeError, Excluded};

use ferrolb_runtime::latest;

/// Where the administrator's list of excluded interfaces is mounted.
pub const EXCLUDE_FILE: &str = "/etc/metallb/excludel2.yaml";

/// Least time between two dumps: containers that come and go make many events.
const PAUSE: Duration = Duration::from_millis(50);
/// Pause before a failed netlink connection is made anew.
const RETRY: Duration = Duration::from_secs(1);
/// Longest time until a setting of the kernel that no event tells of is seen.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// An interface that can announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// What it is addressed by.
    pub address: LinkAddress,
    /// Whether something is connected. Without it nothing can be sent; when it comes back, neighbours
    /// may have forgotten or may be others.
    pub connected: bool,
    /// Whether the kernel answers ARP on it for addresses that stand on other interfaces (`arp_ignore` is 0).
    pub answers_for_others: bool,
}

/// The interfaces that can announce, by their index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// By index: names may change, indices do not.
    pub by_index: BTreeMap<u32, Link>,
    /// Addresses that stand on any interface of this node, with the name of the interface.
    pub own: BTreeMap<IpAddr, String>,
}

impl Links {
    /// Their names.
    pub fn names(&self) -> BTreeSet<String> {
        self.by_index.values().map(|link| link.name.clone()).collect()
    }
}

/// Reads what the kernel says of links and addresses. An interface can announce if it is Ethernet, up,
/// capable of broadcast, does resolve addresses, is no port of another (bond, bridge, VRF) and is not
/// excluded. `arp_ignore` gives the value of this setting for an interface.
pub fn read(
    links: &[LinkMessage],
    addresses: &[AddressMessage],
    excluded: &Excluded,
    arp_ignore: impl Fn(&str) -> u8,
) -> Links {
    let mut link_locals = BTreeMap::new();
    for message in addresses {
        if let Some(address) = link_local(message) {
            link_locals.entry(message.header.index).or_insert(address);
        }
    }
    let usable = links.iter().filter_map(|message| {
        let index = message.header.index;
        let mut link = usable(message, link_locals.get(&index).copied())?;
        link.answers_for_others = arp_ignore(&link.name) == 0;
        (!excluded.contains(&link.name)).then_some((index, link))
    });
    Links { by_index: usable.collect(), own: kernel::own(links, addresses) }
}

fn usable(message: &LinkMessage, link_local: Option<Ipv6Addr>) -> Option<Link> {
    let flags = message.header.flags;
    let wanted = LinkFlags::Up | LinkFlags::Broadcast;
    let unwanted = LinkFlags::Loopback | LinkFlags::Noarp;
    if !flags.contains(wanted)
        || flags.intersects(unwanted)
        || message.header.link_layer_type != LinkLayerType::Ether
    {
        return None;
    }
    let (mut name, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(value) => name = Some(value.clone()),
            LinkAttribute::Address(value) => mac = <[u8; 6]>::try_from(value.as_slice()).ok(),
            LinkAttribute::Controller(_) => return None,
            _ => {}
        }
    }
    let mac = mac.map(MacAddr::new).filter(|mac| mac.is_unicast())?;
    Some(Link {
        name: name?,
        address: LinkAddress { mac, link_local },
        connected: flags.contains(LinkFlags::Running),
        answers_for_others: false,
    })
}

/// An IPv6 link-local address that can be used: duplicate address detection has found it unique.
fn link_local(message: &AddressMessage) -> Option<Ipv6Addr> {
    if message.header.family != AddressFamily::Inet6 || message.header.scope != AddressScope::Link {
        return None;
    }
    let unusable = AddressFlags::Tentative | AddressFlags::Dadfailed;
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    let mut address = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Address(IpAddr::V6(ip)) => address = Some(*ip),
            AddressAttribute::Flags(all) => flags |= *all,
            _ => {}
        }
    }
    address.filter(|ip| ip.is_unicast_link_local() && !flags.intersects(unusable))
}

/// Begins to watch the interfaces; returns when they are known.
pub async fn watch(excluded: Excluded) -> io::Result<watch::Receiver<Links>> {
    let (netlink, first) = Netlink::open(&excluded).await?;
    let (publish, view) = watch::channel(first);
    tokio::spawn(follow(netlink, excluded, publish));
    Ok(view)
}

async fn follow(mut netlink: Netlink, excluded: Excluded, publish: watch::Sender<Links>) {
    loop {
        match netlink.next(&excluded).await {
            Ok(links) => {
                latest::publish(&publish, links);
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                tracing::warn!(op = "watchInterfaces", %error, "cannot follow the interfaces, trying again");
                netlink = loop {
                    tokio::time::sleep(RETRY).await;
                    if let Ok((netlink, links)) = Netlink::open(&excluded).await {
                        publish.send_replace(links);
                        break netlink;
                    }
                };
            }
        }
    }
}

type Message = rtnetlink::packet_core::NetlinkMessage<netlink_packet_route::RouteNetlinkMessage>;

struct Netlink {
    handle: Handle,
    events: futures::channel::mpsc::UnboundedReceiver<(Message, rtnetlink::sys::SocketAddr)>,
}

impl Netlink {
    /// Subscribes first and asks then, so that no change falls between.
    async fn open(excluded: &Excluded) -> io::Result<(Self, Links)> {
        let groups = [MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr];
        let (connection, handle, events) = rtnetlink::new_multicast_connection(&groups)?;
        tokio::spawn(connection);
        let netlink = Self { handle, events };
        let links = netlink.dump(excluded).await.map_err(io::Error::other)?;
        Ok((netlink, links))
    }

    /// Waits for a change, or for some time, and says what there is then.
    async fn next(&mut self, excluded: &Excluded) -> io::Result<Links> {
        if let Ok(None) = tokio::time::timeout(LOOK_AGAIN, self.events.next()).await {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        while self.events.try_recv().is_ok() {}
        self.dump(excluded).await.map_err(io::Error::other)
    }

    async fn dump(&self, excluded: &Excluded) -> Result<Links, rtnetlink::Error> {
        let lean = vec![LinkExtentMask::SkipStats];
        let request = self.handle.link().get().set_filter_mask(AddressFamily::Unspec, lean);
        let links: Vec<LinkMessage> = request.execute().try_collect().await?;
        let addresses: Vec<AddressMessage> = self.handle.address().get().execute().try_collect().await?;
        Ok(read(&links, &addresses, excluded, kernel::arp_ignore))
    }
}

#[cfg(test)]
mod tests;
