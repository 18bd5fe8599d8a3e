//! Sessions with FRR's bfdd over a link, each side in a network of its own.

mod alarms;
mod cost;
mod frr;
mod restarts;
mod unnumbered;
mod with_bgp;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_core::config::{BfdProfile, Neighbor, Peer};
use prometheus::{Registry, TextEncoder};
use serde_json::Value;

use super::*;
use crate::bgp::DesiredPeer;
use crate::bgp::tests::peer;
use crate::testing::api::Api as Server;
use crate::testing::{PATIENCE, in_own_network, ip, until};
use frr::Frr;

const MS: Duration = Duration::from_millis(1);

/// 50 ms, three times.
/// Not faster: what ends is counted, and no pause of a busy machine may end it.
fn fast() -> BfdProfile {
    let interval = 200 * MS;
    BfdProfile {
        receive_interval: interval,
        transmit_interval: interval,
        echo_interval: interval,
        ..BfdProfile::named("fast")
    }
}

fn router(address: &str, profile: BfdProfile) -> Peer {
    let address = address.parse().unwrap();
    Peer { neighbor: Neighbor::Address(address), bfd: Some(profile), ..peer((address, 179).into()) }
}

/// A speaker's BFD, and what it says.
struct Bench {
    server: Server,
    registry: Registry,
    desired: watch::Sender<Option<Peers>>,
    routers: watch::Sender<Routers>,
    reachable: watch::Receiver<Reachable>,
    bfd: Bfd,
}

impl Bench {
    async fn new() -> Self {
        let (server, client) = Server::serve().await;
        let registry = Registry::new();
        let (desired, receiver) = watch::channel(None);
        let (reach, reachable) = watch::channel(Reachable::new());
        let context = Context {
            namespace: "metallb-system".to_owned(),
            node: "node-1".to_owned(),
            metrics: BfdMetrics::register(&registry).unwrap(),
            events: EventQueue::start(client, "metallb-speaker", "node-1"),
        };
        let (routers, found) = watch::channel(Routers::new());
        let bfd = Bfd::start(receiver, found, reach, context).unwrap();
        Self { server, registry, desired, routers, reachable, bfd }
    }

    fn want(&self, peers: impl IntoIterator<Item = Peer>) {
        let desired = |(index, peer)| {
            let desired = DesiredPeer { peer, uid: "peer-uid".to_owned(), routes: Arc::default() };
            (format!("router-{index}"), desired)
        };
        self.desired.send_replace(Some(peers.into_iter().enumerate().map(desired).collect()));
    }

    fn reachability(&self, index: usize) -> Reachability {
        self.reachable.borrow().get(&format!("router-{index}")).copied().unwrap_or_default()
    }

    async fn up(&self, index: usize) {
        until("the session is up", || self.reachability(index).up).await;
    }

    fn metric(&self, name: &str, peer: &str) -> Option<u64> {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let series = format!("metallb_bfd_{name}{{peer=\"{peer}\",vrf=\"default\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)).and_then(|value| value.parse().ok())
    }

    async fn event(&self, reason: &str) -> String {
        self.server.event_of_peer(reason).await
    }
}

#[test]
fn frr_and_we_see_each_other_and_the_cut_of_the_link() {
    in_own_network(|| async {
        let frr =
            Frr::start(&[("10.1.0.2", "receive-interval 200\n  transmit-interval 200"), ("fd01::2", "")], "");
        let bench = Bench::new().await;
        bench.want([router("10.1.0.1", fast()), router("fd01::1", BfdProfile::named("default"))]);
        bench.up(0).await;
        bench.up(1).await;
        let agreed = |peer: &str, interval: u64| {
            let seen = frr.bfd(peer);
            seen["status"] == "up"
                && seen["remote-transmit-interval"] == interval
                && seen["remote-receive-interval"] == interval
                && seen["remote-detect-multiplier"] == 3
        };
        until("the fast profile at the router", || agreed("10.1.0.2", 200)).await;
        until("the default profile at the router", || agreed("fd01::2", 300)).await;
        assert_eq!(bench.metric("session_up", "10.1.0.1"), Some(1));
        until("packets", || bench.metric("control_packet_input", "10.1.0.1") > Some(10)).await;
        assert!(bench.metric("control_packet_output", "10.1.0.1") > Some(5));
        assert!(bench.event("BFDUp").await.contains("node \"node-1\": BFD session with "));

        // An edit of the profile: other intervals, same session.
        let edited = BfdProfile { transmit_interval: 250 * MS, detect_multiplier: 4, ..fast() };
        bench.want([router("10.1.0.1", edited), router("fd01::1", BfdProfile::named("default"))]);
        until("the edit at the router", || {
            let seen = frr.bfd("10.1.0.2");
            seen["remote-transmit-interval"] == 250 && seen["remote-detect-multiplier"] == 4
        })
        .await;
        bench.want([router("10.1.0.1", fast()), router("fd01::1", BfdProfile::named("default"))]);
        until("the edit is taken back", || agreed("10.1.0.2", 200)).await;
        assert_eq!(frr.counters("10.1.0.2")["session-down"], 0);
        assert_eq!((bench.reachability(0).failures, bench.reachability(1).failures), (0, 0));

        ip("link set near down");
        let mut reachable = bench.reachable.clone();
        let down = reachable.wait_for(|it| !it["router-0"].up);
        assert!(tokio::time::timeout(PATIENCE, down).await.is_ok());
        assert_eq!(bench.reachability(0).failures, 1);
        until("down at the router", || frr.bfd("10.1.0.2")["status"] == "down").await;
        until("the slow one too", || !bench.reachability(1).up).await;
        let told = bench.event("BFDDown").await;
        assert!(told.contains("nothing was heard for"), "{told}");
        assert_eq!(bench.metric("session_down_events", "10.1.0.1"), Some(1));
        ip("link set near up");
        bench.up(0).await;
        bench.want([]);
        until("no series", || bench.metric("session_up", "10.1.0.1").is_none()).await;
    });
}

#[test]
fn over_several_hops_it_is_another_port_and_the_profiles_ttl() {
    in_own_network(|| async {
        let frr = Frr::start(&[("10.1.0.2 multihop local-address 10.1.0.1", "")], "");
        let bench = Bench::new().await;
        let far = |minimum_ttl| {
            let profile = BfdProfile { minimum_ttl: Some(minimum_ttl), ..fast() };
            Peer { ebgp_multi_hop: true, ..router("10.1.0.1", profile) }
        };
        bench.want([far(254)]);
        bench.up(0).await;
        until("up at the router", || frr.bfd("10.1.0.2")["status"] == "up").await;
        // Not several hops any more: the router waits at the other port in vain, and was told.
        bench.want([Peer { ebgp_multi_hop: false, ..far(254) }]);
        until("taken down at the router", || {
            let seen = frr.bfd("10.1.0.2");
            seen["status"] == "down" && seen["remote-diagnostic"] == "administratively down"
        })
        .await;
        assert!(!bench.reachability(0).up);
    });
}

#[test]
fn who_waits_for_the_other_side_is_found_by_it() {
    in_own_network(|| async {
        let frr = Frr::start(&[("10.1.0.2", "")], "");
        let bench = Bench::new().await;
        bench.want([router("10.1.0.1", BfdProfile { passive_mode: true, ..fast() })]);
        bench.up(0).await;
        // The other way round.
        bench.want([]);
        until("taken down", || frr.bfd("10.1.0.2")["status"] == "down").await;
        frr.configure(&["bfd", "peer 10.1.0.2", "passive-mode"]);
        bench.want([router("10.1.0.1", fast())]);
        bench.up(0).await;
    });
}

#[test]
fn the_end_of_the_speaker_is_no_failure_to_the_router() {
    in_own_network(|| async {
        let frr = Frr::start(&[("10.1.0.2", "")], "");
        let mut bench = Bench::new().await;
        bench.want([router("10.1.0.1", fast())]);
        bench.up(0).await;
        bench.bfd.admin_down().await;
        until("AdminDown at the router", || {
            let seen = frr.bfd("10.1.0.2");
            seen["status"] == "down" && seen["remote-diagnostic"] == "administratively down"
        })
        .await;
        assert_eq!(frr.bfd("10.1.0.2")["diagnostic"], "neighbor signaled session down");
        bench.bfd.ended(PATIENCE).await;
        assert!(bench.reachable.borrow().is_empty());
    });
}

#[test]
fn what_the_router_takes_down_is_no_failure_and_comes_back() {
    in_own_network(|| async {
        let frr = Frr::start(&[("10.1.0.2", "")], "");
        let bench = Bench::new().await;
        bench.want([router("10.1.0.1", fast())]);
        bench.up(0).await;
        frr.configure(&["bfd", "peer 10.1.0.2", "shutdown"]);
        until("down", || !bench.reachability(0).up).await;
        assert_eq!(bench.reachability(0).failures, 0, "RFC 5882 §3.2");
        frr.configure(&["bfd", "peer 10.1.0.2", "no shutdown"]);
        bench.up(0).await;
    });
}

/// Both forward what is not for them, so each returns the other's echo packets.
#[test]
fn echo_packets_come_back_and_their_absence_is_noticed() {
    in_own_network(|| async {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let echo = "echo-mode\n  echo transmit-interval 200\n  echo receive-interval 200";
        let frr = Frr::start(&[("10.1.0.2", echo)], "");
        frr.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        let bench = Bench::new().await;
        let echo = BfdProfile { echo_mode: true, ..fast() };
        bench.want([router("10.1.0.1", echo)]);
        bench.up(0).await;
        until("echo packets", || bench.metric("echo_packet_input", "10.1.0.1") > Some(8)).await;
        until("the router's echo packets", || {
            frr.counters("10.1.0.2")["echo-packet-input"].as_u64() > Some(5)
        })
        .await;
        assert_eq!(
            (bench.reachability(0).failures, &frr.counters("10.1.0.2")["session-down"]),
            (0, &0.into())
        );
        // The router speaks on but forwards no more.
        frr.run(&["sysctl", "-qw", "net.ipv4.ip_forward=0"]);
        until("down", || bench.reachability(0).failures > 0).await;
        assert!(bench.event("BFDDown").await.contains("no echo packet came back"));
    });
}

#[test]
fn a_port_that_is_taken_is_named_and_tried_again() {
    in_own_network(|| async {
        ip("addr add 10.1.0.2/24 dev lo");
        let taken = std::net::UdpSocket::bind("0.0.0.0:3784").unwrap();
        let bench = Bench::new().await;
        bench.want([router("10.1.0.1", fast())]);
        let told = bench.event("BFDFailed").await;
        assert!(told.contains("UDP port 3784 of this node is taken"), "{told}");
        drop(taken);
        until("the port is used", || std::net::UdpSocket::bind("0.0.0.0:3784").is_err()).await;
    });
}
