//! A raw socket on one interface that sees one kind of frame.

use std::io::{self, Read, Write};

use ferrolb_proto::ethernet::EtherType;
use socket2::{Domain, SockFilter, Socket, Type};
use tokio::io::unix::AsyncFd;

use crate::sys;

/// Room for the longest frame of an ordinary link; a longer one comes cut and is malformed.
pub(crate) const BUFFER: usize = 1514;

/// Instructions of the kernel's packet filter (classic BPF).
pub(crate) mod filter {
    use socket2::SockFilter;

    /// What the kernel found out about a frame: who it is for, and which link took it.
    const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    const INTERFACE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX) as u32;
    const OTHER_HOST: u32 = libc::PACKET_OTHERHOST as u32;

    /// Loads the byte at `offset`, or metadata.
    pub(crate) const fn load_byte(offset: u32) -> SockFilter {
        SockFilter::new((libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16, 0, 0, offset)
    }

    /// Skips as many instructions as said when the loaded value is equal, or not.
    pub(crate) const fn jump_equal(value: u32, equal: u8, other: u8) -> SockFilter {
        SockFilter::new((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, equal, other, value)
    }

    /// Ends with the whole frame, or with none of it.
    pub(crate) const fn end(keep: bool) -> SockFilter {
        SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, if keep { u32::MAX } else { 0 })
    }

    /// Goes on unless the frame is for another host (a promiscuous link) or one of our own, or belongs to
    /// another link: the kernel shows a tagged frame at the link that it came in by, though its VLAN took it.
    pub(crate) const fn ours(interface: u32) -> [SockFilter; 5] {
        const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const GREATER_OR_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
        const { assert!(libc::PACKET_OUTGOING > libc::PACKET_OTHERHOST) }
        [
            SockFilter::new(LOAD_WORD, 0, 0, INTERFACE),
            jump_equal(interface, 0, 2),
            load_byte(PACKET_TYPE),
            SockFilter::new(GREATER_OR_EQUAL, 0, 1, OTHER_HOST),
            end(false),
        ]
    }
}

/// The socket.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: AsyncFd<Socket>,
}

impl PacketSocket {
    /// Opens a socket for frames to this host of one EtherType that pass the filter. Bound to a type, it costs
    /// the rest of the node's traffic nothing.
    pub(crate) fn open<const N: usize>(
        interface: u32,
        ethertype: EtherType,
        filter: [SockFilter; N],
    ) -> io::Result<Self> {
        Self::filtered(interface, ethertype, filter::ours(interface).into_iter().chain(filter))
    }

    fn filtered(
        interface: u32,
        ethertype: EtherType,
        filter: impl Iterator<Item = SockFilter>,
    ) -> io::Result<Self> {
        let filter: Vec<SockFilter> = filter.collect();
        // Without a protocol nothing arrives yet: the filter is in place before the first frame.
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking().cloexec(), None)?;
        socket.attach_filter(&filter)?;
        socket.bind(&sys::link_address(interface, ethertype.0)?)?;
        Ok(Self { socket: sys::register(socket)? })
    }

    /// For ARP.
    pub(crate) fn arp(interface: u32) -> io::Result<Self> {
        Self::open(interface, EtherType::ARP, [filter::end(true)])
    }

    /// The socket itself, for who waits for several.
    pub(crate) fn socket(&self) -> &AsyncFd<Socket> {
        &self.socket
    }

    /// The next frame.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut guard = self.socket.readable().await?;
            if let Ok(result) = guard.try_io(|socket| socket.get_ref().read(buffer)) {
                return result;
            }
        }
    }

    /// Puts a frame on the link; one that finds no room is lost like any frame.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.get_ref().write(frame).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrolb_proto::arp;
    use ferrolb_proto::ethernet::MacAddr;

    use super::*;
    use crate::testing::{PATIENCE, in_own_network, ip};

    fn index(name: &str) -> u32 {
        nix::net::if_::if_nametoindex(name).unwrap()
    }

    /// Kernels show frames that a VLAN or a bond took to who listens at the link below, too.
    #[test]
    fn a_frame_that_another_link_took_is_not_seen() {
        in_own_network(|| async {
            ip("link add lan type veth peer name far");
            ip("link set lan up");
            ip("link set far up");
            let open = |taken_by| {
                let filter = filter::ours(taken_by).into_iter().chain([filter::end(true)]);
                PacketSocket::filtered(index("lan"), EtherType::ARP, filter).unwrap()
            };
            let (own, other) = (open(index("lan")), open(index("far")));
            let far = PacketSocket::arp(index("far")).unwrap();
            far.send(&arp::probe(MacAddr::new([2, 0, 0, 0, 0, 9]), "10.9.0.1".parse().unwrap())).unwrap();
            let mut buffer = [0; BUFFER];
            tokio::time::timeout(PATIENCE, own.receive(&mut buffer)).await.expect("its own").unwrap();
            let unseen = tokio::time::timeout(Duration::from_millis(50), other.receive(&mut buffer)).await;
            assert!(unseen.is_err(), "{unseen:?}");
        });
    }
}
