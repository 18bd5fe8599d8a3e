//! Connections that peers open, where the speaker is told to listen. Off by default: it dials.
//!
//! ```text
//! reconcile ─ watch<Callers> ─> listener (IPv4)  ─accept─┬─ a peer ─> its task
//!             watch<Callers> ─> listener (IPv6)  ─accept─┴─ anybody else: reset
//! ```
//!
//! There is a socket for each family, and for each VRF, that a peer is in. Only addresses of peers are
//! answered; the kernel drops what does not bear their password's signature (RFC 2385), and what is sent has
//! TTL 255 from the SYN-ACK on, for routers that check it (RFC 5082). What is half open is bounded: by the
//! socket's queue before the handshake, by one connection for each peer after it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use ferrolb_core::config::Password;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use super::dial::{TTL, opened};
use super::settings::{Dial, Target};
use super::wire::Opened;
use crate::sys;
use ferrolb_runtime::latest::publish;

/// Connections that wait to be accepted, and so many again in the middle of their handshake.
const QUEUE: i32 = 32;
/// Pause before a socket that could not be opened, or that fails, is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Where peers connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Interface of a VRF.
    device: Option<String>,
    is_ipv4: bool,
}

/// Whoever may connect, by address.
type Callers = BTreeMap<IpAddr, Caller>;

/// A peer, as connections of it are known and where they go.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    source: Option<IpAddr>,
    password: Option<Password>,
    calls: mpsc::Sender<Opened>,
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        (self.source, &self.password) == (other.source, &other.password)
            && self.calls.same_channel(&other.calls)
    }
}

impl Caller {
    pub(super) fn new(dial: &Dial, calls: mpsc::Sender<Opened>) -> Self {
        Self { source: dial.source, password: dial.password.clone(), calls }
    }
}

/// The sockets.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    port: Option<NonZeroU16>,
    /// A listener ends when its channel does.
    open: BTreeMap<Place, watch::Sender<Arc<Callers>>>,
}

impl Listeners {
    pub(super) fn new(port: Option<NonZeroU16>) -> Self {
        Self { port, open: BTreeMap::new() }
    }

    /// From now on these peers may connect.
    pub(super) fn follow<'a>(&mut self, peers: impl Iterator<Item = (&'a Dial, &'a Caller)>) {
        let Some(port) = self.port else { return };
        let mut wanted: BTreeMap<Place, Callers> = BTreeMap::new();
        for (dial, caller) in peers {
            // Never without the password that is to be there.
            if let (Target::Address(address), None) = (&dial.target, &dial.missing_secret) {
                let place = Place { device: dial.device.clone(), is_ipv4: address.is_ipv4() };
                wanted.entry(place).or_default().entry(address.ip()).or_insert_with(|| caller.clone());
            }
        }
        self.open.retain(|place, _| wanted.contains_key(place));
        for (place, callers) in wanted {
            let callers = Arc::new(callers);
            if let Some(known) = self.open.get(&place) {
                publish(known, callers);
            } else {
                let (sender, receiver) = watch::channel(callers);
                tokio::spawn(listen(place.clone(), port, receiver));
                self.open.insert(place, sender);
            }
        }
    }
}

/// Listens until nobody is left who may connect.
async fn listen(place: Place, port: NonZeroU16, mut callers: watch::Receiver<Arc<Callers>>) {
    let mut told = false;
    loop {
        let failure = match open(&place, port) {
            Ok(listener) => {
                tracing::info!(event = "listening", %port, family = place.family(), "peers may connect");
                told = false;
                match serve(&listener, &mut callers).await {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if !std::mem::replace(&mut told, true) {
            tracing::error!(
                op = "listen",
                %port,
                family = place.family(),
                error = %failure,
                "cannot listen for BGP peers, trying again: is the port free, and is NET_BIND_SERVICE granted \
                 for one below 1024?"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            changed = callers.changed() => if changed.is_err() { return },
        }
    }
}

impl Place {
    fn family(&self) -> &'static str {
        if self.is_ipv4 { "IPv4" } else { "IPv6" }
    }
}

fn open(place: &Place, port: NonZeroU16) -> io::Result<TcpListener> {
    let any: IpAddr = if place.is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let address = SocketAddr::new(any, port.get());
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Connections of before, in TIME_WAIT, are no reason to wait.
    socket.set_reuse_address(true)?;
    if place.is_ipv4 {
        socket.set_ttl_v4(TTL)?;
    } else {
        socket.set_only_v6(true)?;
        socket.set_unicast_hops_v6(TTL)?;
    }
    if let Some(device) = &place.device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    socket.bind(&SockAddr::from(address))?;
    socket.listen(QUEUE)?;
    TcpListener::from_std(socket.into())
}

/// Accepts until nobody is left who may connect.
async fn serve(listener: &TcpListener, callers: &mut watch::Receiver<Arc<Callers>>) -> io::Result<()> {
    let mut keys = BTreeMap::new();
    let mut known = follow(listener, &mut keys, &callers.borrow_and_update().clone());
    loop {
        tokio::select! {
            changed = callers.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                known = follow(listener, &mut keys, &callers.borrow_and_update().clone());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => take(stream, from, &known),
                // It ended before it was looked at.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Gives the kernel the passwords of those who may connect. Whose password it does not take may not.
fn follow(listener: &TcpListener, keys: &mut BTreeMap<IpAddr, Password>, callers: &Callers) -> Callers {
    let socket = SockRef::from(listener);
    keys.retain(|address, _| {
        let stays = callers.get(address).is_some_and(|it| it.password.is_some());
        // A key that the kernel does not have is no key either.
        if !stays && let Err(error) = sys::clear_tcp_md5(&socket, *address) {
            tracing::debug!(op = "listen", peer = %address, %error, "no password to take away");
        }
        stays
    });
    let mut known = callers.clone();
    known.retain(|address, caller| {
        let Some(password) = &caller.password else { return true };
        if keys.get(address) == Some(password) {
            return true;
        }
        match sys::set_tcp_md5(&socket, *address, password.expose()) {
            Ok(()) => {
                keys.insert(*address, password.clone());
                true
            }
            Err(error) => {
                tracing::error!(op = "listen", peer = %address, %error, "the password cannot be set");
                false
            }
        }
    });
    known
}

/// Hands a connection to the peer that it is of.
fn take(stream: TcpStream, from: SocketAddr, known: &Callers) {
    let caller = known.get(&from.ip());
    let Some(caller) = caller else { return refuse(&stream, from, "no peer has this address") };
    match opened(stream, caller.source) {
        Ok(Some(opened)) => {
            if let Err(mpsc::error::TrySendError::Full((stream, _))) = caller.calls.try_send(opened) {
                refuse(&stream, from, "another connection of this peer waits already");
            }
        }
        Ok(None) => tracing::debug!(event = "refused", peer = %from, "it did not connect to sourceAddress"),
        Err(error) => tracing::debug!(event = "refused", peer = %from, %error, "the connection has gone"),
    }
}

/// Ends a connection without keeping anything of it.
fn refuse(stream: &TcpStream, from: SocketAddr, why: &str) {
    tracing::debug!(event = "refused", peer = %from, "refused a BGP connection: {why}");
    // Where this fails, the connection ends in the usual way.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
