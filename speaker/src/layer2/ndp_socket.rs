//! The IPv6 counterpart of a packet socket: it also listens to the groups in which its addresses are
//! asked for.
//!
//! A Neighbor Solicitation goes to a group made of the low 24 bits of the address asked for. An
//! ordinary IPv6 socket joins it: the kernel then sets the filter of the network card and reports the
//! membership (MLD), so that switches which snoop forward to this port.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use ferrolb_proto::ethernet::EtherType;
use ferrolb_proto::ndp::solicited_node;
use socket2::{Domain, Socket, Type};

use crate::packet_socket::{PacketSocket, filter};

/// Offsets in a frame.
const NEXT_HEADER: u32 = 14 + 6;
const ICMP_TYPE: u32 = 14 + 40;
const ICMPV6: u32 = 58;
const NEIGHBOR_SOLICITATION: u32 = 135;
const NEIGHBOR_ADVERTISEMENT: u32 = 136;
/// The kernel bounds the memory of one socket's memberships.
const GROUPS_OF_A_SOCKET: usize = 128;

/// The socket and its memberships.
#[derive(Debug)]
pub(super) struct NdpSocket {
    packets: PacketSocket,
    interface: u32,
    /// Sockets that exist only to be members, with how many groups each is in.
    members: Vec<(Socket, usize)>,
    /// Groups joined, and by which socket.
    groups: BTreeMap<Ipv6Addr, usize>,
}

impl NdpSocket {
    /// Opens a socket for neighbor messages.
    pub(super) fn open(interface: u32) -> io::Result<Self> {
        let program = [
            filter::load_byte(NEXT_HEADER),
            filter::jump_equal(ICMPV6, 0, 3),
            filter::load_byte(ICMP_TYPE),
            filter::jump_equal(NEIGHBOR_SOLICITATION, 2, 0),
            filter::jump_equal(NEIGHBOR_ADVERTISEMENT, 1, 0),
            filter::end(false),
            filter::end(true),
        ];
        let packets = PacketSocket::open(interface, EtherType::IPV6, program)?;
        Ok(Self { packets, interface, members: Vec::new(), groups: BTreeMap::new() })
    }

    /// The next frame.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.packets.receive(buffer).await
    }

    /// Puts a frame on the link.
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.packets.send(frame)
    }

    /// Is a member of exactly the groups in which these addresses are asked for. A group that could not
    /// be joined is tried again at the next call.
    pub(super) fn listen_for(&mut self, addresses: &BTreeSet<IpAddr>) -> io::Result<()> {
        let wanted: BTreeSet<Ipv6Addr> = addresses
            .iter()
            .filter_map(|ip| match ip {
                IpAddr::V6(ip) => Some(solicited_node(*ip)),
                IpAddr::V4(_) => None,
            })
            .collect();
        let (interface, members) = (self.interface, &mut self.members);
        self.groups.retain(|group, socket| {
            let keep = wanted.contains(group);
            if !keep && let Some((socket, count)) = members.get_mut(*socket) {
                // A membership that went with its interface is left already.
                let _ = socket.leave_multicast_v6(group, interface);
                *count -= 1;
            }
            keep
        });
        let missing: Vec<Ipv6Addr> =
            wanted.into_iter().filter(|group| !self.groups.contains_key(group)).collect();
        // One failure must not keep the others from being heard; the last one is reported.
        let mut outcome = Ok(());
        for group in missing {
            match self.join(&group) {
                Ok(socket) => drop(self.groups.insert(group, socket)),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn join(&mut self, group: &Ipv6Addr) -> io::Result<usize> {
        let free = self.members.iter().position(|(_, count)| *count < GROUPS_OF_A_SOCKET);
        let index = match free {
            Some(index) => index,
            None => {
                self.members.push((Socket::new(Domain::IPV6, Type::DGRAM.cloexec(), None)?, 0));
                self.members.len() - 1
            }
        };
        let (socket, count) = &mut self.members[index];
        socket.join_multicast_v6(group, self.interface)?;
        *count += 1;
        Ok(index)
    }
}
