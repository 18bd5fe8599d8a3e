//! Sessions over real sockets, with a router that is a few lines of bytes.

mod bench;
mod bird;
mod faults;
mod frr;
mod listen;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;

use ferrolb_api::v1alpha1::{BGPSessionState, BGPSessionStatus};
use ferrolb_core::config::{Neighbor, Password, RemoteAs};
use ferrolb_core::departure::Leaving;
use ferrolb_proto::bfd::session::Down;
use ferrolb_proto::bgp::{Asn, PathAttributes, Prefix};
use prometheus::{Registry, TextEncoder};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::bfd::Reachability;
use crate::sys;
use crate::testing::api::Api as Server;
use crate::testing::{PATIENCE, in_own_network, until};

/// A peer of AS 64513 seen from AS 64512.
pub(crate) fn peer(address: SocketAddr) -> Peer {
    Peer {
        name: "router".to_owned(),
        my_asn: Asn(64512),
        local_asn: None,
        remote_as: RemoteAs::Asn(Asn(64513)),
        neighbor: Neighbor::Address(address.ip()),
        port: NonZeroU16::new(address.port()).unwrap(),
        source_address: None,
        router_id: None,
        timers: None,
        connect_time: None,
        nodes: Arc::new(["node-1".to_owned()].into()),
        password: None,
        password_secret: None,
        bfd: None,
        graceful_restart: false,
        ebgp_multi_hop: false,
        vrf: None,
        dual_stack: false,
    }
}

fn routes(last: impl IntoIterator<Item = u8>) -> Arc<AdjRibOut> {
    let prefix = |last| Prefix::around(Ipv4Addr::new(192, 168, 20, last).into(), 32).unwrap();
    Arc::new(last.into_iter().map(|last| (prefix(last), Arc::new(PathAttributes::default()))).collect())
}

/// A speaker with what it says, and a router that waits for it.
struct Bench {
    server: Server,
    registry: Registry,
    sessions: watch::Receiver<Option<Sessions>>,
    desired: watch::Sender<Option<Peers>>,
    /// What BFD says.
    reach: watch::Sender<Reachable>,
    bgp: Bgp,
    router: TcpListener,
    /// Where peers are.
    address: SocketAddr,
}

impl Bench {
    async fn new() -> Self {
        Self::with(TcpListener::bind("127.0.0.1:0").await.unwrap()).await
    }

    async fn with(router: TcpListener) -> Self {
        Self::listening(router, None).await
    }

    /// With a speaker that listens on this port.
    async fn listening(router: TcpListener, listen: Option<NonZeroU16>) -> Self {
        let (server, client) = Server::serve().await;
        let registry = Registry::new();
        let (desired, receiver) = watch::channel(None);
        let (reach, reachable) = watch::channel(Reachable::new());
        let (standing, sessions) = watch::channel(None);
        let context = Context {
            namespace: "metallb-system".to_owned(),
            node: "node-1".to_owned(),
            metrics: Arc::new(Metrics::register(&registry).unwrap()),
            events: EventQueue::start(client, "metallb-speaker", "node-1"),
            reachable,
            sessions: standing,
            routers: watch::channel(Routers::new()).0,
            listen,
        };
        let address = router.local_addr().unwrap();
        let bgp = Bgp::start(receiver, context);
        Self { server, registry, sessions, desired, reach, bgp, router, address }
    }

    fn peer(&self) -> Peer {
        peer(self.address)
    }

    fn want(&self, peer: Peer, routes: Arc<AdjRibOut>) {
        let desired = DesiredPeer { peer, uid: "peer-uid".to_owned(), routes };
        self.desired.send_replace(Some(Peers::from([("router".to_owned(), desired)])));
    }

    async fn accept(&self) -> Router {
        let accepted = tokio::time::timeout(PATIENCE, self.router.accept()).await.expect("a connection");
        Router { stream: accepted.unwrap().0 }
    }

    fn metric(&self, name: &str) -> Option<String> {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("metallb_bgp_{name}{{")))?;
        line.rsplit_once(' ').map(|(_, value)| value.to_owned())
    }

    /// How the session stands.
    fn session(&self) -> Option<BGPSessionStatus> {
        self.sessions.borrow().as_ref()?.get("router").cloned()
    }

    async fn event(&self, reason: &str) -> String {
        self.server.event_of_peer(reason).await
    }
}

/// The router's end of a connection.
struct Router {
    stream: TcpStream,
}

impl Router {
    /// The next message: its type and body. None at the end of the stream.
    async fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 19];
        let read = tokio::time::timeout(PATIENCE, self.stream.read_exact(&mut header));
        read.await.expect("a message or the end").ok()?;
        let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
        let mut body = vec![0; length - 19];
        self.stream.read_exact(&mut body).await.unwrap();
        Some((header[18], body))
    }

    async fn write(&mut self, kind: u8, body: &[u8]) {
        let length = u16::try_from(19 + body.len()).unwrap().to_be_bytes();
        let message = [&[0xff; 16][..], &length, &[kind], body].concat();
        self.stream.write_all(&message).await.unwrap();
    }

    /// Says who it is, in an OPEN without capabilities, and that it agrees.
    async fn open(&mut self, asn: u16) {
        let [high, low] = asn.to_be_bytes();
        self.write(1, &[4, high, low, 0, 180, 192, 168, 10, 1, 0]).await;
        self.write(4, &[]).await;
    }

    /// From the start to the end of the first table; the UPDATEs before that.
    async fn establish(&mut self) -> Vec<Vec<u8>> {
        let (kind, open) = self.read().await.unwrap();
        assert_eq!((kind, &open[..5]), (1, &[4, 0xfc, 0, 0, 90][..]), "version 4, AS 64512, 90 s");
        self.open(64513).await;
        assert_eq!(self.read().await, Some((4, vec![])));
        let mut updates = Vec::new();
        loop {
            match self.read().await.unwrap() {
                (2, end) if end == [0; 4] => return updates,
                (2, update) => updates.push(update),
                other => panic!("{other:?}"),
            }
        }
    }
}

const fn withdrawing(last: u8) -> [u8; 9] {
    [0, 5, 32, 192, 168, 20, last, 0, 0]
}

#[tokio::test]
async fn routes_follow_the_plan_over_one_session() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100, 101]));
    let mut router = bench.accept().await;
    let updates = router.establish().await;
    assert_eq!(updates.len(), 1, "both routes in one message");
    assert!(updates[0].ends_with(&[32, 192, 168, 20, 100, 32, 192, 168, 20, 101]));
    let next_hop = [0x40, 3, 4, 127, 0, 0, 1];
    assert!(updates[0].windows(next_hop.len()).any(|it| it == next_hop));
    until("up", || bench.metric("session_up").as_deref() == Some("1")).await;
    assert!(bench.event("SessionUp").await.contains("AS 64513"));

    bench.want(bench.peer(), routes([101]));
    assert_eq!(router.read().await, Some((2, withdrawing(100).to_vec())));
    // What the session is not made of does not disturb it.
    let mut other_nodes = bench.peer();
    other_nodes.nodes = Arc::new(["node-1", "node-2"].map(str::to_owned).into());
    bench.want(other_nodes, routes([]));
    assert_eq!(router.read().await, Some((2, withdrawing(101).to_vec())));
    until("metrics", || bench.metric("announced_prefixes_total").as_deref() == Some("0")).await;
    assert_eq!(bench.metric("updates_total").as_deref(), Some("3"));

    bench.desired.send_replace(Some(Peers::new()));
    assert_eq!(router.read().await, Some((3, vec![6, 3])), "Cease: Peer De-configured");
    assert_eq!(router.read().await, None);
    drop(router);
    until("no series", || bench.metric("session_up").is_none()).await;
}

#[tokio::test]
async fn how_a_session_stands_is_told_and_why_the_last_one_ended() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100, 101]));
    let mut router = bench.accept().await;
    router.establish().await;
    let stands =
        |expected: &dyn Fn(&BGPSessionStatus) -> bool| bench.session().is_some_and(|it| expected(&it));
    let up = |it: &BGPSessionStatus| it.state == BGPSessionState::Established;
    until("established", || stands(&|it| up(it) && it.prefixes_sent == 2)).await;
    let session = bench.session().unwrap();
    assert_eq!((session.local_asn, session.peer_asn, session.established), (64512, Some(64513), 1));
    assert_eq!((session.node.as_str(), session.peer.as_str()), ("node-1", "router"));
    let agreed = session.negotiated.unwrap();
    assert_eq!((agreed.hold_time_seconds, agreed.keepalive_seconds), (90, 30));
    assert_eq!((agreed.peer_identifier.as_str(), agreed.families.len()), ("192.168.10.1", 1));
    let attributes = [0x40, 1, 1, 0, 0x40, 2, 4, 2, 1, 0xfc, 1, 0x40, 3, 4, 127, 0, 0, 1];
    let update = [&[0, 0, 0, 18][..], &attributes, &[24, 10, 1, 2, 24, 10, 1, 3]].concat();
    router.write(2, &update).await;
    until("two routes received", || stands(&|it| it.prefixes_received == 2)).await;
    router.write(3, &[6, 4]).await;
    until("down", || stands(&|it| !up(it) && it.negotiated.is_none() && it.prefixes_sent == 0)).await;
    let session = bench.session().unwrap();
    assert_eq!(session.last_notification_received.as_deref(), Some("Cease: Administrative Reset"));
    assert!(session.last_error.unwrap().starts_with("the peer sent NOTIFICATION Cease"));
    drop(router);
    let mut router = bench.accept().await;
    router.read().await.unwrap();
    router.open(64999).await;
    until("refused", || stands(&|it| it.last_notification_sent.is_some())).await;
    let session = bench.session().unwrap();
    assert_eq!(session.last_notification_sent.as_deref(), Some("OPEN Message Error: Bad Peer AS"));
    assert!(session.last_error.unwrap().starts_with("unexpected peer ASN 64999"));
    bench.desired.send_replace(Some(Peers::new()));
    until("gone", || bench.session().is_none()).await;
}

#[tokio::test]
async fn another_peer_configuration_is_another_session() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    router.establish().await;
    let mut changed = bench.peer();
    changed.router_id = Some(Ipv4Addr::new(1, 2, 3, 4));
    bench.want(changed, routes([100]));
    assert_eq!(router.read().await, Some((3, vec![6, 6])), "Cease: Other Configuration Change");
    drop(router);
    let mut router = bench.accept().await;
    let (_, open) = router.read().await.unwrap();
    assert_eq!(open[5..9], [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_session_that_breaks_comes_back_with_all_routes() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    router.establish().await;
    drop(router);
    assert!(bench.event("SessionDown").await.contains("connection closed"));
    bench.want(bench.peer(), routes([100, 101]));
    let mut router = bench.accept().await;
    assert!(router.establish().await[0].ends_with(&[32, 192, 168, 20, 100, 32, 192, 168, 20, 101]));
}

#[tokio::test]
async fn a_router_of_another_as_is_refused_by_name() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    assert_eq!(router.read().await.unwrap().0, 1);
    router.open(64999).await;
    assert_eq!(router.read().await, Some((3, vec![2, 2])), "OPEN Message Error: Bad Peer AS");
    let message = bench.event("SessionFailed").await;
    assert!(message.contains("unexpected peer ASN 64999, want 64513"), "{message}");
}

#[tokio::test]
async fn bfd_ends_the_session_at_once_and_brings_it_back() {
    let bench = Bench::new().await;
    let path = |up, failures| {
        let last = Some(Down::Expired(Duration::from_millis(150)));
        bench.reach.send_replace([("router".to_owned(), Reachability { up, failures, last })].into());
    };
    path(true, 0);
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    router.establish().await;
    path(false, 1);
    assert_eq!(router.read().await, Some((3, vec![6, 10])), "Cease: BFD Down");
    drop(router);
    let told = bench.event("SessionDown").await;
    assert!(told.contains("BFD session down: nothing was heard for 150 ms"), "{told}");
    path(true, 1);
    bench.accept().await.establish().await;
}

#[tokio::test]
async fn restarting_says_goodbye_unless_the_routes_are_to_stay() {
    for (graceful_restart, last_words) in [(false, true), (true, false)] {
        let bench = Bench::new().await;
        let mut peer = bench.peer();
        peer.graceful_restart = graceful_restart;
        bench.want(peer, routes([100]));
        let mut router = bench.accept().await;
        router.establish().await;
        let leaving = tokio::spawn(bench.bgp.leave(Departure::Restarting, PATIENCE));
        let said = router.read().await;
        assert_eq!(said.is_some(), last_words);
        assert!(said.is_none_or(|(kind, body)| kind == 3 && body.starts_with(&[6, 2])));
        drop(router);
        leaving.await.unwrap();
    }
}

#[tokio::test]
async fn leaving_asks_withdraws_and_says_why_whether_or_not_restarts_are_graceful() {
    for graceful_restart in [false, true] {
        let bench = Bench::new().await;
        let mut peer = bench.peer();
        peer.graceful_restart = graceful_restart;
        bench.want(peer, routes([100]));
        let mut router = bench.accept().await;
        router.establish().await;
        let why = Departure::Leaving(Leaving::NodeShutsDown);
        let leaving = tokio::spawn(bench.bgp.leave(why, PATIENCE));
        let (kind, update) = router.read().await.unwrap();
        let graceful_shutdown = [0xc0, 8, 4, 0xff, 0xff, 0, 0];
        assert!(kind == 2 && update.windows(7).any(|it| it == graceful_shutdown), "{update:02x?}");
        assert_eq!(router.read().await, Some((2, withdrawing(100).to_vec())));
        let (kind, body) = router.read().await.unwrap();
        assert_eq!((kind, &body[..2]), (3, &[6, 2][..]));
        assert!(body.ends_with(b"the node is shutting down"));
        drop(router);
        leaving.await.unwrap();
    }
}

#[tokio::test]
async fn what_keeps_a_session_from_being_dialled_is_said() {
    let bench = Bench::new().await;
    let attempt = async |change: &dyn Fn(&mut Peer)| {
        let mut peer = bench.peer();
        change(&mut peer);
        let blueprint = Blueprint::new(&peer, "node-1");
        let routers = watch::channel(Routers::new()).1;
        dial::dial(blueprint.dial, routers).await.unwrap_err().to_string()
    };
    let missing = attempt(&|peer| peer.password_secret = Some("bgp".to_owned())).await;
    assert!(missing.contains("Secret bgp"), "never without the password: {missing}");
    let source = attempt(&|peer| peer.source_address = "192.0.2.1".parse().ok()).await;
    assert!(source.contains("address \"192.0.2.1\" doesn't exist on this host"), "{source}");
    let long = attempt(&|peer| peer.password = Some(Password::new("x".repeat(81)))).await;
    assert!(long.contains("81 bytes"), "{long}");
    let interface = attempt(&|peer| peer.neighbor = Neighbor::Interface("no-such".to_owned())).await;
    assert!(interface.contains("there is no interface no-such"), "{interface}");
    let silent = attempt(&|peer| peer.neighbor = Neighbor::Interface("lo".to_owned())).await;
    assert!(silent.contains("no router advertises itself on interface lo"), "{silent}");
    let vrf = attempt(&|peer| peer.vrf = Some("red".to_owned())).await;
    assert!(vrf.contains("VRF red"), "{vrf}");
}

#[test]
fn a_password_opens_the_session_and_no_other_does() {
    in_own_network(|| async {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let speaker: IpAddr = Ipv4Addr::LOCALHOST.into();
        sys::set_tcp_md5(&listener, speaker, "secret").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener.bind(&SockAddr::from(SocketAddr::new(speaker, 1790))).unwrap();
        listener.listen(8).unwrap();
        let bench = Bench::with(TcpListener::from_std(listener.into()).unwrap()).await;
        let with = |password: &str| {
            let mut peer = bench.peer();
            peer.password = Some(Password::new(password));
            peer
        };
        let wrong = Blueprint::new(&with("other"), "node-1");
        let routers = watch::channel(Routers::new()).1;
        let dialled = dial::dial(wrong.dial, routers);
        let answered = tokio::time::timeout(Duration::from_millis(500), dialled).await;
        assert!(answered.is_err(), "nobody answers a wrong signature");
        bench.want(with("secret"), routes([100]));
        let mut router = bench.accept().await;
        assert_eq!(router.establish().await.len(), 1);
        router.write(2, &[0, 0, 0, 0]).await;
    });
}
