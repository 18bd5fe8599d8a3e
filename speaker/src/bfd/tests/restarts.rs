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
