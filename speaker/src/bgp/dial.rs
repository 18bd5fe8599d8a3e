//! Opening the connection to a peer.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use ferrolb_proto::bgp::NextHops;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

use super::settings::{Dial, Target};
use super::unnumbered::Routers;
use super::wire::Opened;
use crate::sys;

/// RFC 5082 §3: a router that checks the TTL (GTSM) takes only this one; others take any. So it is also
/// right for peers that are several hops away.
pub(super) const TTL: u32 = 255;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error(
        "no router advertises itself on interface {0}: correct interface, or enable router advertisements \
         (RFC 4861) on the router's end of the link"
    )]
    NoRouter(String),
    #[error("there is no interface {interface}: {source}")]
    NoInterface { interface: String, source: nix::Error },
    #[error(
        "Secret {0} with the password is missing or not usable: create it with type \
         kubernetes.io/basic-auth and key password"
    )]
    NoSecret(String),
    #[error("cannot bind to the interface of VRF {device}: {source}")]
    Device { device: String, source: io::Error },
    #[error("the password cannot be set: {0}")]
    Password(io::Error),
    #[error("address \"{0}\" doesn't exist on this host: correct sourceAddress")]
    NoSuchSource(IpAddr),
    #[error("cannot bind to sourceAddress {address}: {source}")]
    Source { address: IpAddr, source: io::Error },
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("cannot open a socket: {0}")]
    Socket(io::Error),
}

/// How long a router may take to advertise itself: less than a session waits for its connection.
const FIND: Duration = Duration::from_secs(8);

/// Opens a connection. Says which addresses of this node lead traffic to it from there.
pub(super) async fn dial(dial: Dial, routers: watch::Receiver<Routers>) -> Result<Opened, DialError> {
    if let Some(secret) = &dial.missing_secret {
        return Err(DialError::NoSecret(secret.clone()));
    }
    let address = match &dial.target {
        Target::Address(address) => *address,
        Target::Interface { interface, port } => find(interface, *port, routers).await?,
    };
    let socket = socket(&dial, address)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    let connected = socket.connect(address).await;
    let stream = connected.map_err(|source| DialError::Connect { address, source })?;
    ready(stream).map_err(DialError::Socket)
}

/// The router at the other end of a link, once it has advertised itself.
async fn find(
    interface: &str,
    port: u16,
    mut routers: watch::Receiver<Routers>,
) -> Result<SocketAddr, DialError> {
    let scope = if_nametoindex(interface)
        .map_err(|source| DialError::NoInterface { interface: interface.to_owned(), source })?;
    let found = tokio::time::timeout(FIND, routers.wait_for(|all| all.contains_key(interface))).await;
    let router = found.ok().and_then(Result::ok).and_then(|all| all.get(interface).copied());
    let router = router.ok_or_else(|| DialError::NoRouter(interface.to_owned()))?;
    Ok(SocketAddrV6::new(router, port, 0, scope).into())
}

/// The connection that a peer opened, unless it is not to the one address that it may be to.
pub(super) fn opened(stream: TcpStream, source: Option<IpAddr>) -> io::Result<Option<Opened>> {
    let local = stream.local_addr()?.ip();
    if source.is_some_and(|source| source != local) {
        return Ok(None);
    }
    ready(stream).map(Some)
}

fn ready(stream: TcpStream) -> io::Result<Opened> {
    // A KEEPALIVE is not to wait for more to come.
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?.ip();
    Ok((stream, next_hops(local, &own_addresses())))
}

fn socket(dial: &Dial, address: SocketAddr) -> Result<Socket, DialError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP));
    let socket = socket.map_err(DialError::Socket)?;
    socket.set_nonblocking(true).map_err(DialError::Socket)?;
    let ttl = if address.is_ipv4() { socket.set_ttl_v4(TTL) } else { socket.set_unicast_hops_v6(TTL) };
    ttl.map_err(DialError::Socket)?;
    if let Some(device) = &dial.device {
        let bound = socket.bind_device(Some(device.as_bytes()));
        bound.map_err(|source| DialError::Device { device: device.clone(), source })?;
    }
    if let Some(password) = &dial.password {
        sys::set_tcp_md5(&socket, address.ip(), password.expose()).map_err(DialError::Password)?;
    }
    if let Some(source) = dial.source {
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0))).map_err(|error| match error.kind() {
            io::ErrorKind::AddrNotAvailable => DialError::NoSuchSource(source),
            _ => DialError::Source { address: source, source: error },
        })?;
    }
    Ok(socket)
}

/// The addresses of this node's interfaces.
fn own_addresses() -> Vec<(String, IpAddr)> {
    let interfaces = getifaddrs().into_iter().flatten();
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        let v6 = || address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip()));
        Some((interface.interface_name, v4.or_else(v6)?))
    });
    addresses.collect()
}

/// For the family of the session its own address; for the other one the first usable address of the
/// same interface. Over a link-local session that address is the one of both families (RFC 8950): the link
/// need have no other.
fn next_hops(local: IpAddr, addresses: &[(String, IpAddr)]) -> NextHops {
    if let IpAddr::V6(v6) = local
        && v6.is_unicast_link_local()
    {
        return NextHops { v4: None, v6: Some(v6) };
    }
    let interface = addresses.iter().find(|(_, address)| *address == local).map(|(name, _)| name);
    let mut beside: Vec<IpAddr> =
        addresses.iter().filter(|(name, _)| Some(name) == interface).map(|(_, address)| *address).collect();
    beside.sort_unstable();
    let v4 = beside.iter().find_map(|address| match address {
        IpAddr::V4(v4) if !v4.is_link_local() && !v4.is_loopback() => Some(*v4),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    let v6 = beside.iter().find_map(|address| match address {
        IpAddr::V6(v6) if is_global(v6) => Some(*v6),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    });
    match local {
        IpAddr::V4(local) => NextHops { v4: Some(local), v6 },
        IpAddr::V6(local) => NextHops { v4, v6: Some(local) },
    }
}

fn is_global(address: &Ipv6Addr) -> bool {
    !address.is_unicast_link_local() && !address.is_loopback() && address.to_ipv4_mapped().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_hop_of_the_other_family_is_on_the_same_interface() {
        let of = |name: &str, address: &str| (name.to_owned(), address.parse::<IpAddr>().unwrap());
        let addresses = [
            of("lo", "127.0.0.1"),
            of("ens18", "192.168.10.20"),
            of("ens18", "fe80::5054:ff:fe3a:1014"),
            of("ens18", "fd00:10::21"),
            of("ens18", "fd00:10::20"),
            of("ens19", "192.168.30.20"),
        ];
        let hops = |local: &str| {
            let NextHops { v4, v6 } = next_hops(local.parse().unwrap(), &addresses);
            (v4.map(|it| it.to_string()), v6.map(|it| it.to_string()))
        };
        let text = |it: &str| Some(it.to_owned());
        assert_eq!(hops("192.168.10.20"), (text("192.168.10.20"), text("fd00:10::20")));
        assert_eq!(hops("fd00:10::21"), (text("192.168.10.20"), text("fd00:10::21")));
        assert_eq!(hops("192.168.30.20"), (text("192.168.30.20"), None));
        let link_local = "fe80::5054:ff:fe3a:1014";
        assert_eq!(hops(link_local), (None, text(link_local)));
        assert_eq!(hops("10.1.1.1"), (text("10.1.1.1"), None), "gone meanwhile");
    }
}
