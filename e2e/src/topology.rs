//! What the lab looks like: hosts, addresses, interface names and hardware addresses.
//!
//! Decided here: everything about the LAN that has a number. Input: nothing. Output: constants and
//! plain values; nothing here touches the machine. The figures are those of the walk that the demo
//! replays, down to hardware addresses whose last octet reads like the last number of the address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The name of the network namespace that holds the bridge: the switch of the LAN.
pub const LAN: &str = "lan";
/// The bridge in that namespace.
pub const BRIDGE: &str = "br0";
/// This machine's own leg in the LAN.
pub const MACHINE_NIC: &str = "flb0";
/// The bridge port behind that leg.
pub const MACHINE_PORT: &str = "machine";
/// Last number of this machine's addresses.
pub const MACHINE_OCTET: u8 = 254;
/// The IPv4 network of the LAN.
pub const LAN_V4: &str = "192.168.10.0/24";
/// The IPv6 network of the LAN.
pub const LAN_V6: &str = "fd00:10::/64";
/// Addresses of Services.
pub const SERVICE_CIDRS: &str = "10.96.0.0/16,fd00:96::/112";
/// Addresses of pods, all nodes together.
pub const POD_CIDRS: &str = "10.244.0.0/16,fd00:244::/56";
/// The address of Service `kubernetes`, named in the API server's certificate.
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Where pods would ask for names. Nobody answers there.
pub const CLUSTER_DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Where the API server listens.
pub const API_PORT: u16 = 6443;
/// Where the registry listens.
pub const REGISTRY_PORT: u16 = 5000;
/// The autonomous system of the router.
pub const ROUTER_AS: u32 = 64_513;
/// The autonomous system of the nodes.
pub const NODE_AS: u32 = 64_512;

/// What a host of the lab does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A node that also runs etcd, the API server, the controller manager and the scheduler.
    ControlPlane,
    /// A node.
    Worker,
    /// The router (FRR), default gateway of everybody.
    Router,
    /// Somebody on the LAN who wants to reach Services.
    Client,
    /// The image registry.
    Registry,
}

/// One host of the lab: one set of namespaces, one cable into the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name, also that of its bridge port.
    pub name: &'static str,
    /// What it does.
    pub role: Role,
    /// Last number of its addresses.
    pub octet: u8,
}

/// Every host, the control plane first.
pub const HOSTS: [HostSpec; 6] = [
    HostSpec { name: "k8s-master-1", role: Role::ControlPlane, octet: 17 },
    HostSpec { name: "k8s-node-1", role: Role::Worker, octet: 20 },
    HostSpec { name: "k8s-node-2", role: Role::Worker, octet: 21 },
    HostSpec { name: "router", role: Role::Router, octet: 1 },
    HostSpec { name: "client", role: Role::Client, octet: 50 },
    HostSpec { name: "registry", role: Role::Registry, octet: 5 },
];

impl HostSpec {
    /// Whether Kubernetes runs pods here.
    #[must_use]
    pub fn is_node(&self) -> bool {
        matches!(self.role, Role::ControlPlane | Role::Worker)
    }

    /// Whether packets pass through.
    #[must_use]
    pub fn forwards(&self) -> bool {
        self.is_node() || self.role == Role::Router
    }

    /// The name of its interface on the LAN.
    #[must_use]
    pub fn nic(&self) -> &'static str {
        if self.is_node() { "ens18" } else { "eth0" }
    }

    /// Its IPv4 address.
    #[must_use]
    pub fn ipv4(&self) -> Ipv4Addr {
        lan_v4(self.octet)
    }

    /// Its IPv6 address.
    #[must_use]
    pub fn ipv6(&self) -> Ipv6Addr {
        lan_v6(self.octet)
    }

    /// Its hardware address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        mac(self.octet)
    }

    /// Its place among the nodes, from 1: the number in its pod networks.
    #[must_use]
    pub fn node_index(&self) -> Option<usize> {
        nodes().position(|node| node.name == self.name).map(|position| position + 1)
    }

    /// The IPv4 and the IPv6 network of its pods; empty for what is no node.
    #[must_use]
    pub fn pod_networks(&self) -> Vec<String> {
        self.node_index()
            .map(|n| vec![format!("10.244.{n}.0/24"), format!("fd00:244:0:{n}::/64")])
            .unwrap_or_default()
    }
}

/// The hosts that Kubernetes runs pods on.
pub fn nodes() -> impl Iterator<Item = &'static HostSpec> {
    HOSTS.iter().filter(|host| host.is_node())
}

/// The host of that name.
#[must_use]
pub fn host(name: &str) -> Option<&'static HostSpec> {
    HOSTS.iter().find(|host| host.name == name)
}

/// The first host with that role; each role that anybody asks for has one.
#[must_use]
pub fn with_role(role: Role) -> &'static HostSpec {
    HOSTS.iter().find(|host| host.role == role).unwrap_or(&HOSTS[0])
}

/// The host behind a hardware address.
#[must_use]
pub fn host_of_mac(address: [u8; 6]) -> Option<&'static str> {
    HOSTS
        .iter()
        .map(|host| (host.name, host.octet))
        .chain([(MACHINE_PORT, MACHINE_OCTET)])
        .find(|(_, octet)| mac(*octet) == address)
        .map(|(name, _)| name)
}

/// The host behind an address of the LAN.
#[must_use]
pub fn host_of_ip(address: IpAddr) -> Option<&'static str> {
    HOSTS
        .iter()
        .find(|host| IpAddr::V4(host.ipv4()) == address || IpAddr::V6(host.ipv6()) == address)
        .map(|host| host.name)
}

/// An IPv4 address of the LAN.
#[must_use]
pub fn lan_v4(octet: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 10, octet)
}

/// An IPv6 address of the LAN, written with the same digits: `fd00:10::21` beside `192.168.10.21`.
#[must_use]
pub fn lan_v6(octet: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x10, 0, 0, 0, 0, 0, digits_as_hex(octet))
}

/// The hardware address that belongs to a last number, written with the same digits where two are
/// enough: `52:54:00:3a:10:21` is 192.168.10.21.
#[must_use]
pub fn mac(octet: u8) -> [u8; 6] {
    let last = u8::try_from(digits_as_hex(octet)).unwrap_or(octet);
    [0x52, 0x54, 0x00, 0x3a, 0x10, last]
}

/// A hardware address as people write it.
#[must_use]
pub fn mac_text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// 21 becomes 0x21.
fn digits_as_hex(octet: u8) -> u16 {
    let n = u16::from(octet);
    ((n / 100) << 8) | ((n / 10 % 10) << 4) | (n % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_read_alike() {
        let node = host("k8s-node-2").unwrap();
        assert_eq!(node.ipv4().to_string(), "192.168.10.21");
        assert_eq!(node.ipv6().to_string(), "fd00:10::21");
        assert_eq!(mac_text(node.mac()), "52:54:00:3a:10:21");
        assert_eq!(node.pod_networks(), ["10.244.3.0/24", "fd00:244:0:3::/64"]);
        assert_eq!(lan_v6(MACHINE_OCTET).to_string(), "fd00:10::254");
        assert_eq!(mac_text(mac(MACHINE_OCTET)), "52:54:00:3a:10:fe");
    }

    #[test]
    fn nothing_is_given_twice() {
        let macs: BTreeSet<_> = HOSTS.iter().map(HostSpec::mac).chain([mac(MACHINE_OCTET)]).collect();
        assert_eq!(macs.len(), HOSTS.len() + 1);
        for spec in HOSTS {
            assert_eq!(host_of_mac(spec.mac()), Some(spec.name));
            assert_eq!(host_of_ip(spec.ipv4().into()), Some(spec.name));
            // A bridge port carries the host's name; the kernel takes 15 characters.
            assert!(spec.name.len() <= 15);
        }
    }
}
