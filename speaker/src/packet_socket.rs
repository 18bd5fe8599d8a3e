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

    /// What the kernel found out about a frame: who it is for.
    const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
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

    /// Goes on unless the frame is for another host (a promiscuous link) or one of our own.
    pub(crate) const fn ours() -> [SockFilter; 3] {
        const GREATER_OR_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
        const { assert!(libc::PACKET_OUTGOING > libc::PACKET_OTHERHOST) }
        [load_byte(PACKET_TYPE), SockFilter::new(GREATER_OR_EQUAL, 0, 1, OTHER_HOST), end(false)]
    }
}

/// The socket.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: AsyncFd<Socket>,
}

impl PacketSocket {
    /// Opens a socket for frames of one EtherType that pass the filter. Bound to a type, it costs the
    /// rest of the node's traffic nothing.
    pub(crate) fn open(interface: u32, ethertype: EtherType, filter: &[SockFilter]) -> io::Result<Self> {
        // Without a protocol nothing arrives yet: the filter is in place before the first frame.
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking().cloexec(), None)?;
        socket.attach_filter(filter)?;
        socket.bind(&sys::link_address(interface, ethertype.0)?)?;
        Ok(Self { socket: sys::register(socket)? })
    }

    /// For ARP.
    pub(crate) fn arp(interface: u32) -> io::Result<Self> {
        let [a, b, c] = filter::ours();
        Self::open(interface, EtherType::ARP, &[a, b, c, filter::end(true)])
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
