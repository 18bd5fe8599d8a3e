//! Whoever restarts, and whatever is edited: everything is back by itself.

use super::with_bgp::{Speaker, router_config};
use super::*;

fn default_peer() -> Peer {
    router("10.1.0.1", BfdProfile::named("default"))
}

/// A speaker, a router and the link between them end and come back one after the other and in each other's midst.
#[test]
fn after_restarts_in_any_order_bfd_bgp_and_the_route_are_back() {
    in_own_network(|| async {
        let frr = Frr::start(&[("10.1.0.2", "")], &router_config(""));
        let mut speaker = Speaker::with(default_peer()).await;
        for step in ["bgp", "speaker", "link", "bfd", "speaker", "link and speaker", "bgp", "bfd and speaker"]
        {
            speaker.ready(&frr).await;
            if step.contains("link") {
                ip("link set near down");
                until("it is noticed", || !speaker.bench.reachability(0).up).await;
            }
            if step.contains("bfd") {
                frr.configure(&["bfd", "peer 10.1.0.2", "shutdown"]);
                until("it is noticed", || !speaker.bench.reachability(0).up).await;
            }
            if step.contains("bgp") {
                frr.vtysh(&["clear bgp *"]);
            }
            if step.contains("speaker") {
                // The new one begins while the old one still ends.
                drop(speaker);
                speaker = Speaker::with(default_peer()).await;
            }
            frr.configure(&["bfd", "peer 10.1.0.2", "no shutdown"]);
            ip("link set near up");
        }
        speaker.ready(&frr).await;
    });
}

/// RFC 5883 §5: sessions over several hops have a port of their own.
#[test]
fn a_peer_that_may_be_farther_away_from_now_on_has_another_session() {
    in_own_network(|| async {
        let frr = Frr::start(&[("10.1.0.2", "")], "");
        frr.configure(&["bfd", "peer 10.1.0.2 multihop local-address 10.1.0.1"]);
        let bench = Bench::new().await;
        let status = |multihop: bool| {
            let all = frr.show("bfd peers");
            let all = all.as_array().cloned().unwrap_or_default();
            all.iter()
                .find(|it| it["multihop"] == multihop)
                .map(|it| it["status"].clone())
                .unwrap_or_default()
        };
        for multihop in [false, true, false] {
            bench.want([Peer { ebgp_multi_hop: multihop, ..default_peer() }]);
            until("a session of this kind, and none of the other", || {
                status(multihop) == "up" && status(!multihop) == "down"
            })
            .await;
            bench.up(0).await;
        }
    });
}
