//! The two things that the safe crates leave to us. Nothing else in the product is `unsafe`.
#![expect(unsafe_code, reason = "a link-layer address and a registered descriptor have no safe constructor")]

use std::io;
use std::mem::size_of;

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
