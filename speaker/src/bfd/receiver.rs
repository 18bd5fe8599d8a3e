//! The socket through which the packets of all sessions of a kind arrive.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::task::{Context, Poll};

use ferrolb_proto::bfd::demux::{Arrival, Path};
use ferrolb_proto::bfd::{MULTIHOP_PORT, SINGLE_HOP_PORT, TTL};
use nix::net::if_::if_indextoname;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use socket2::{Domain, SockFilter, Socket, Type};
use tokio::io::unix::AsyncFd;

use crate::packet_socket::filter;
use crate::sys;

/// Longer than any control packet; what follows one is not looked at.
const LONGEST: usize = 128;

/// What sessions have in common that share a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    is_v6: bool,
    multihop: bool,
    device: Option<String>,
}

impl Kind {
    pub(super) fn of(path: &Path) -> Self {
        let Path { remote, device, multihop, .. } = path;
        // What comes from a link-local address is told apart by where it came from.
        let device = device.clone().filter(|_| !is_link_local(*remote));
        Self { is_v6: remote.is_ipv6(), multihop: *multihop, device }
    }

    pub(super) fn port(&self) -> u16 {
        if self.multihop { MULTIHOP_PORT } else { SINGLE_HOP_PORT }
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    socket: AsyncFd<Socket>,
    kind: Kind,
    buffer: [u8; LONGEST],
    control: Vec<u8>,
    /// Where the last packet from a link-local address came from.
    link: String,
}

impl Receiver {
    pub(super) fn open(kind: &Kind) -> io::Result<Self> {
        let (domain, any): (_, IpAddr) = if kind.is_v6 {
            (Domain::IPV6, Ipv6Addr::UNSPECIFIED.into())
        } else {
            (Domain::IPV4, Ipv4Addr::UNSPECIFIED.into())
        };
        let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), None)?;
        if kind.is_v6 {
            socket.set_only_v6(true)?;
            setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true)?;
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        } else {
            setsockopt(&socket, sockopt::Ipv4RecvTtl, &true)?;
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        }
        if let Some(device) = &kind.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if !kind.multihop {
            socket.attach_filter(&only_neighbors(kind.is_v6))?;
        }
        socket.bind(&SocketAddr::new(any, kind.port()).into())?;
        let control = nix::cmsg_space!(libc::c_int, libc::in6_pktinfo);
        Ok(Self {
            socket: sys::register(socket)?,
            kind: kind.clone(),
            buffer: [0; LONGEST],
            control,
            link: String::new(),
        })
    }

    /// Whether something may have arrived.
    pub(super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        poll_ready(&self.socket, context)
    }

    /// The next packet, if one has arrived, how it came, and over which interface.
    pub(super) fn receive(&mut self) -> io::Result<Option<(&[u8], Arrival<'_>, u32)>> {
        let mut buffers = [IoSliceMut::new(&mut self.buffer)];
        let descriptor = self.socket.get_ref().as_raw_fd();
        let (length, source, ttl, destination, interface) = {
            let flags = MsgFlags::MSG_DONTWAIT;
            let control = Some(self.control.as_mut_slice());
            let message = match recvmsg::<SockaddrStorage>(descriptor, &mut buffers, control, flags) {
                Ok(message) => message,
                Err(nix::Error::EAGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let (mut ttl, mut destination, mut interface) = (0, None, 0);
            for control in message.cmsgs()? {
                match control {
                    ControlMessageOwned::Ipv4Ttl(it) | ControlMessageOwned::Ipv6HopLimit(it) => {
                        ttl = u8::try_from(it).unwrap_or_default();
                    }
                    ControlMessageOwned::Ipv4PacketInfo(it) => {
                        let address = Ipv4Addr::from(u32::from_be(it.ipi_addr.s_addr));
                        destination = Some(IpAddr::V4(address));
                        interface = u32::try_from(it.ipi_ifindex).unwrap_or_default();
                    }
                    ControlMessageOwned::Ipv6PacketInfo(it) => {
                        destination = Some(IpAddr::V6(it.ipi6_addr.s6_addr.into()));
                        interface = it.ipi6_ifindex;
                    }
                    _ => {}
                }
            }
            (message.bytes, message.address.as_ref().and_then(address), ttl, destination, interface)
        };
        let (Some(source), Some(destination)) = (source, destination) else {
            return Err(io::Error::other("a packet without addresses"));
        };
        let device = if is_link_local(source) {
            self.link = interface_name(interface)?;
            Some(self.link.as_str())
        } else {
            self.kind.device.as_deref()
        };
        let arrival = Arrival { source, destination, ttl, device, multihop: self.kind.multihop };
        Ok(Some((self.buffer.get(..length).unwrap_or_default(), arrival, interface)))
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn interface_name(index: u32) -> io::Result<String> {
    Ok(if_indextoname(index)?.to_string_lossy().into_owned())
}

/// Whether something may have arrived; whoever asks empties the socket then.
pub(super) fn poll_ready(socket: &AsyncFd<Socket>, context: &mut Context<'_>) -> Poll<()> {
    socket.poll_read_ready(context).map(|ready| {
        if let Ok(mut ready) = ready {
            // What comes later is news.
            ready.clear_ready();
        }
    })
}

fn address(storage: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = storage.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

/// GTSM (RFC 5082) before anything waits in the socket's queue: what crossed a router cannot fill it.
fn only_neighbors(is_v6: bool) -> [SockFilter; 4] {
    let offset = libc::SKF_NET_OFF + if is_v6 { 7 } else { 8 };
    [
        filter::load_byte(offset as u32),
        filter::jump_equal(TTL.into(), 0, 1),
        filter::end(true),
        filter::end(false),
    ]
}
