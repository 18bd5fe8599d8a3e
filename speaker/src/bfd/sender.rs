//! The socket that a session sends from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ferrolb_proto::bfd::demux::Path;
use ferrolb_proto::bfd::{MULTIHOP_PORT, SINGLE_HOP_PORT, TTL};
use socket2::{Domain, SockAddr, Socket, Type};

/// RFC 5881 §4: a session sends from one of these all its life, and no other does.
const FIRST_PORT: u16 = 49152;
/// Ports tried before it is given up.
const TRIES: usize = 32;
/// Routers and queues know it as traffic that keeps the network together (CS6).
const TRAFFIC_CLASS: u32 = 0xc0;

#[derive(Debug)]
pub(super) struct Sender {
    socket: Socket,
    to: SockAddr,
}

impl Sender {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let port = if path.multihop { MULTIHOP_PORT } else { SINGLE_HOP_PORT };
        let to = SocketAddr::new(path.remote, port);
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM.nonblocking().cloexec(), None)?;
        match path.remote {
            IpAddr::V4(_) => {
                socket.set_ttl_v4(TTL.into())?;
                socket.set_tos_v4(TRAFFIC_CLASS)?;
            }
            IpAddr::V6(_) => {
                socket.set_only_v6(true)?;
                socket.set_unicast_hops_v6(TTL.into())?;
                socket.set_tclass_v6(TRAFFIC_CLASS)?;
            }
        }
        if let Some(device) = &path.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        let any: IpAddr = match path.remote {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let from = path.local.unwrap_or(any);
        let mut tries = 0;
        loop {
            let port = rand::random_range(FIRST_PORT..=u16::MAX);
            match socket.bind(&SocketAddr::new(from, port).into()) {
                Ok(()) => return Ok(Self { socket, to: to.into() }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends; what finds no room or no way is lost like any packet.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.socket.send_to(packet, &self.to).map(|_| ())
    }
}
