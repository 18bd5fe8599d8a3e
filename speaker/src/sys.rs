//! The things that the safe crates leave to us. Nothing else in the product is `unsafe`.
#![expect(
    unsafe_code,
    reason = "a link-layer address, a registered descriptor, a TCP MD5 key and the slices of a thread have no safe interface"
)]

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use socket2::{SockAddr, Socket};
use tokio::io::unix::AsyncFd;

/// The address that binds a packet socket to one interface and one EtherType.
pub(crate) fn link_address(interface: u32, ethertype: u16) -> io::Result<SockAddr> {
    let index = i32::try_from(interface).map_err(io::Error::other)?;
    let set = |storage: *mut socket2::SockAddrStorage, length: *mut libc::socklen_t| {
        // SAFETY: `try_init` hands over valid, zeroed, aligned storage, which is larger than a
        // `sockaddr_ll`, and a valid pointer to its length.
        unsafe {
            let address = &mut *storage.cast::<libc::sockaddr_ll>();
            address.sll_family = libc::AF_PACKET as libc::sa_family_t;
            address.sll_protocol = ethertype.to_be();
            address.sll_ifindex = index;
            *length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        }
        Ok(())
    };
    // SAFETY: `set` writes a whole `sockaddr_ll` (the rest of it is zero, which is valid) and its length.
    unsafe { SockAddr::try_init(set) }.map(|((), address)| address)
}

/// Registers a non-blocking socket with the runtime. Call within one.
pub(crate) fn register(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: a `Socket` owns its descriptor: it is open, always the same, and closed only when the
    // `AsyncFd` that owns the `Socket` drops it, after deregistration.
    unsafe { AsyncFd::register(socket) }.map_err(io::Error::from)
}

/// Longest key that the kernel takes.
const TCP_MD5SIG_MAXKEYLEN: usize = 80;

/// `struct tcp_md5sig` of linux/tcp.h.
#[repr(C)]
struct TcpMd5Sig {
    address: libc::sockaddr_storage,
    flags: u8,
    prefix_length: u8,
    key_length: u16,
    interface: i32,
    key: [u8; TCP_MD5SIG_MAXKEYLEN],
}

const _: () = assert!(size_of::<TcpMd5Sig>() == 216);

/// Signs all that is sent to a peer, and demands it of what it sends (RFC 2385). On a socket that listens, for
/// connections of this peer.
pub(crate) fn set_tcp_md5(socket: &Socket, peer: IpAddr, password: &str) -> io::Result<()> {
    if password.is_empty() || password.len() > TCP_MD5SIG_MAXKEYLEN {
        let text = format!("it has {} bytes, TCP MD5 takes 1 to {TCP_MD5SIG_MAXKEYLEN}", password.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    tcp_md5(socket, peer, password.as_bytes())
}

/// Takes the password of a peer from a socket that listens.
pub(crate) fn clear_tcp_md5(socket: &Socket, peer: IpAddr) -> io::Result<()> {
    tcp_md5(socket, peer, &[])
}

fn tcp_md5(socket: &Socket, peer: IpAddr, bytes: &[u8]) -> io::Result<()> {
    let mut key = [0; TCP_MD5SIG_MAXKEYLEN];
    let key_length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    key.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
    let address = SockAddr::from(SocketAddr::new(peer, 0));
    // SAFETY: `SockAddr` holds a whole, initialised `sockaddr_storage`, which is plain data.
    let address = unsafe { address.as_ptr().cast::<libc::sockaddr_storage>().read_unaligned() };
    let option = TcpMd5Sig { address, flags: 0, prefix_length: 0, key_length, interface: 0, key };
    let length = size_of::<TcpMd5Sig>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `socket` lives; the kernel reads `length` bytes of
    // `option`, which is that long.
    let result = unsafe {
        let option = (&raw const option).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MD5SIG, option, length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `struct sched_attr` of linux/sched/types.h, first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48);

/// The shortest slice that the kernel grants, in nanoseconds.
const SLICE: u64 = 100_000;

/// Asks for short slices for this thread, which lets it run soon after it wakes. Takes no share of others and needs no
/// right. Kernels before Linux 6.12 take no notice.
pub(crate) fn take_short_slices() -> io::Result<()> {
    // SAFETY: takes no pointer; 0 is the calling thread.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let size = size_of::<SchedAttr>() as u32;
    let policy = libc::SCHED_OTHER as u32;
    let attr =
        SchedAttr { size, policy, flags: 0, nice, priority: 0, runtime: SLICE, deadline: 0, period: 0 };
    // SAFETY: the kernel reads `size` bytes of `attr`, which is that long; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
