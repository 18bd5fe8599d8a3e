//! BFD and BGP together, as FRR's bgpd and bfdd see them.

use std::net::IpAddr;

use ferrolb_core::departure::Departure;
use ferrolb_proto::bgp::{PathAttributes, Prefix};

use super::*;
use crate::bgp::{self, Bgp};
use crate::metrics::Metrics;

/// The router peers with 10.1.0.2, wants BFD, and says so; with this besides.
pub(super) fn router_config(besides: &str) -> String {
    format!(
        "router bgp 64513\n bgp router-id 10.1.0.1\n no bgp ebgp-requires-policy\n bgp graceful-restart\n \
         neighbor 10.1.0.2 remote-as 64512\n neighbor 10.1.0.2 passive\n \
         neighbor 10.1.0.2 graceful-restart-helper\n neighbor 10.1.0.2 bfd\n{besides}"
    )
}

pub(super) struct Speaker {
    pub(super) bench: Bench,
    bgp: Bgp,
}

impl Speaker {
    /// That announces 192.168.20.100/32, and whose routes are to be kept over a restart.
    async fn new() -> Self {
        // Counts what ends, so no pause of a busy machine may end it.
        let peer = Peer { graceful_restart: true, ..router("10.1.0.1", BfdProfile::named("default")) };
        Self::with(peer).await
    }

    /// That announces 192.168.20.100/32 and fd00:20::100/128 to this peer.
    pub(super) async fn with(peer: Peer) -> Self {
        let bench = Bench::new().await;
        let client = Server::serve().await.1;
        let context = bgp::Context {
            namespace: "metallb-system".to_owned(),
            node: "node-1".to_owned(),
            metrics: Arc::new(Metrics::register(&bench.registry).unwrap()),
            events: EventQueue::start(client, "metallb-speaker", "node-1"),
            reachable: bench.reachable.clone(),
            sessions: watch::channel(None).0,
            routers: bench.routers.clone(),
            listen: None,
        };
        let bgp = Bgp::start(bench.desired.subscribe(), context);
        let route = |address: &str, length| {
            let address: IpAddr = address.parse().unwrap();
            (Prefix::around(address, length).unwrap(), Arc::new(PathAttributes::default()))
        };
        let routes = Arc::new([route("192.168.20.100", 32), route("fd00:20::100", 128)].into());
        let desired = DesiredPeer { peer, uid: "peer-uid".to_owned(), routes };
        bench.desired.send_replace(Some([("router-0".to_owned(), desired)].into()));
        Self { bench, bgp }
    }

    pub(super) async fn ready(&self, frr: &Frr) {
        self.bench.up(0).await;
        until("the route", || has_route(frr)).await;
        until("BFD at the router", || frr.bfd("10.1.0.2")["status"] == "up").await;
    }
}

fn state(frr: &Frr) -> Value {
    frr.show("bgp neighbors 10.1.0.2")["10.1.0.2"]["bgpState"].clone()
}

fn has_route(frr: &Frr) -> bool {
    !frr.show("bgp ipv4 unicast")["routes"]["192.168.20.100/32"].is_null()
}

#[test]
fn a_restart_keeps_the_routes_where_the_router_tells_it_from_a_failure() {
    in_own_network(|| async {
        let besides = " neighbor 10.1.0.2 bfd check-control-plane-failure\n";
        let frr = Frr::start(&[], &router_config(besides));
        let Speaker { mut bench, bgp } = {
            let speaker = Speaker::new().await;
            speaker.ready(&frr).await;
            speaker
        };
        bench.bfd.admin_down().await;
        bgp.leave(Departure::Restarting, PATIENCE).await;
        bench.bfd.ended(PATIENCE).await;
        until("the end of both sessions", || {
            state(&frr) != "Established" && frr.bfd("10.1.0.2")["status"] == "down"
        })
        .await;
        assert!(has_route(&frr), "kept, although there is neither BGP nor BFD");
        // The next one.
        let speaker = Speaker::new().await;
        speaker.ready(&frr).await;
        assert!(has_route(&frr));
    });
}

#[test]
fn a_cut_ends_bgp_on_both_sides_and_takes_the_route_away() {
    in_own_network(|| async {
        let frr = Frr::start(&[("10.1.0.2", "")], &router_config(""));
        let speaker = Speaker::new().await;
        speaker.ready(&frr).await;
        // FRR may have ended its first session itself: with the address of the connection it asks for another
        // session of BFD, and takes the end of the one before for a failure.
        until("a session that stays", || state(&frr) == "Established").await;
        let dropped =
            || frr.show("bgp neighbors 10.1.0.2")["10.1.0.2"]["connectionsDropped"].as_u64().unwrap();
        let before = dropped();
        ip("link set near down");
        until("the route goes", || !has_route(&frr)).await;
        let text = || TextEncoder::new().encode_to_string(&speaker.bench.registry.gather()).unwrap();
        until("our end too", || text().contains("metallb_bgp_session_up{peer=\"10.1.0.1:179\"} 0")).await;
        ip("link set near up");
        speaker.ready(&frr).await;
        assert_eq!(dropped() - before, 1);
    });
}
