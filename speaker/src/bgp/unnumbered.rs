//! Routers at the other end of links, found by router advertisements (RFC 4861 §6): for peers that are named by
//! interface. There is a task for each such interface; what it finds is there for BGP and for BFD.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use ferrolb_proto::ndp::router::{
    ADVERTISEMENT, ALL_ROUTERS, Discovery, Output, RouterMessage, SOLICITATION,
};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{SockaddrIn6, recvfrom};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::packet_socket::filter;
use crate::sys;

/// The routers that were found, by interface.
pub type Routers = BTreeMap<String, Ipv6Addr>;

/// RFC 4861 §6.1: proof that a message did not cross a router.
const HOP_LIMIT: u32 = 255;
/// Longer than any router message of use; what follows is not looked at.
const LONGEST: usize = 1500;
/// Pause before a link that is not there, or a socket that fails, is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// The searches that are running, by interface. Each ends when it is not wanted any more.
#[derive(Debug)]
pub(super) struct Searches {
    routers: watch::Sender<Routers>,
    running: BTreeMap<String, JoinHandle<()>>,
}

impl Searches {
    pub(super) fn new(routers: watch::Sender<Routers>) -> Self {
        Self { routers, running: BTreeMap::new() }
    }

    /// From now on these are the interfaces with routers to be found.
    pub(super) fn follow(&mut self, interfaces: &BTreeSet<String>) {
        self.running.retain(|interface, task| {
            let stays = interfaces.contains(interface);
            if !stays {
                task.abort();
                self.routers.send_if_modified(|routers| routers.remove(interface).is_some());
            }
            stays
        });
        for interface in interfaces {
            self.running
                .entry(interface.clone())
                .or_insert_with(|| tokio::spawn(search(interface.clone(), self.routers.clone())));
        }
    }
}

impl Drop for Searches {
    fn drop(&mut self) {
        for task in self.running.values() {
            task.abort();
        }
    }
}

async fn search(interface: String, routers: watch::Sender<Routers>) {
    let mut told = false;
    loop {
        let Err(error) = follow(&interface, &routers).await;
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(op = "findRouter", interface, %error, "cannot look for the router, trying again");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Looks for the router, and tells it of us, until something fails.
async fn follow(interface: &str, routers: &watch::Sender<Routers>) -> io::Result<std::convert::Infallible> {
    let index = if_nametoindex(interface)?;
    let socket = open(interface, index)?;
    let mut discovery = Discovery::new(Instant::now(), rand::random());
    loop {
        while let Some(output) = discovery.poll_output() {
            match output {
                Output::Send(message) => {
                    let to = SocketAddrV6::new(message.group(), 0, 0, index);
                    // A link without an address yet, or without a cable: the next one may get through.
                    if let Err(error) = socket.get_ref().send_to(message.bytes(), &to.into()) {
                        tracing::debug!(op = "findRouter", interface, %error, "a message could not be sent");
                    }
                }
                Output::Found(router) => {
                    tracing::info!(event = "routerFound", interface, %router, "router found");
                    routers.send_modify(|all| {
                        all.insert(interface.to_owned(), router);
                    });
                }
            }
        }
        tokio::select! {
            heard = receive(&socket) => {
                let (message, source) = heard?;
                match RouterMessage::parse(&message, source) {
                    Ok(message) => discovery.heard(Instant::now(), message, source),
                    Err(error) => tracing::debug!(op = "findRouter", interface, %source, %error, "not read"),
                }
            }
            () = tokio::time::sleep_until(discovery.next_timeout().into()) => {
                discovery.handle_timeout(Instant::now());
            }
        }
    }
}

/// A socket for router messages of one link. The kernel checks and fills in their checksums.
fn open(interface: &str, index: u32) -> io::Result<AsyncFd<Socket>> {
    let kind = Type::RAW.nonblocking().cloexec();
    let socket = Socket::new(Domain::IPV6, kind, Some(Protocol::ICMPV6))?;
    socket.attach_filter(&[
        filter::load_byte((libc::SKF_NET_OFF + 7) as u32),
        filter::jump_equal(HOP_LIMIT, 0, 4),
        filter::load_byte(0),
        filter::jump_equal(SOLICITATION.into(), 1, 0),
        filter::jump_equal(ADVERTISEMENT.into(), 0, 1),
        filter::end(true),
        filter::end(false),
    ])?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_multicast_hops_v6(HOP_LIMIT)?;
    socket.set_multicast_loop_v6(false)?;
    socket.join_multicast_v6(&ALL_ROUTERS, index)?;
    sys::register(socket)
}

async fn receive(socket: &AsyncFd<Socket>) -> io::Result<(Vec<u8>, Ipv6Addr)> {
    loop {
        let mut guard = socket.readable().await?;
        let mut buffer = [0; LONGEST];
        let received =
            guard.try_io(|socket| Ok(recvfrom::<SockaddrIn6>(socket.get_ref().as_raw_fd(), &mut buffer)?));
        let Ok(received) = received else { continue };
        let (length, from) = received?;
        let Some(from) = from else { continue };
        return Ok((buffer.get(..length).unwrap_or_default().to_vec(), from.ip()));
    }
}
