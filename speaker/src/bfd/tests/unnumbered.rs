//! A peer that is named by its interface: FRR's `neighbor far interface` at the other end of the link.

use super::with_bgp::Speaker;
use super::*;

/// The router learns who we are from our advertisements, as we do from its own.
const ROUTER: &str = "router bgp 64513\n bgp router-id 10.1.0.1\n no bgp ebgp-requires-policy\n \
    neighbor far interface remote-as external\n neighbor far bfd\n \
    address-family ipv6 unicast\n  neighbor far activate\n exit-address-family\n";

fn by_interface() -> Peer {
    let profile = Some(BfdProfile::named("default"));
    Peer { neighbor: Neighbor::Interface("near".to_owned()), bfd: profile, ..router("10.1.0.1", fast()) }
}

fn link_local(addresses: &str) -> String {
    let address = addresses.split_whitespace().find(|it| it.starts_with("fe80")).expect("a link-local one");
    address.split('/').next().unwrap().to_owned()
}

#[test]
fn a_router_is_found_by_its_interface_and_has_routes_of_both_families() {
    in_own_network(|| async {
        let frr = Frr::start(&[], ROUTER);
        // Nothing but link-local addresses: none of IPv4 at all.
        for address in ["10.1.0.2/24", "fd01::2/64"] {
            ip(&format!("addr del {address} dev near"));
        }
        frr.run(&["ip", "addr", "del", "10.1.0.1/24", "dev", "far"]);
        frr.run(&["ip", "addr", "del", "fd01::1/64", "dev", "far"]);
        let speaker = Speaker::with(by_interface()).await;
        let route = |family: &str, prefix: &str| {
            let table = frr.show(&format!("bgp {family} unicast {prefix}"));
            table["paths"][0].clone()
        };
        until("both routes", || {
            [("ipv4", "192.168.20.100/32"), ("ipv6", "fd00:20::100/128")]
                .iter()
                .all(|(family, prefix)| route(family, prefix)["valid"] == true)
        })
        .await;
        let ours = link_local(&ip("-6 addr show dev near scope link"));
        for (family, prefix) in [("ipv4", "192.168.20.100/32"), ("ipv6", "fd00:20::100/128")] {
            let path = route(family, prefix);
            assert_eq!(path["nexthops"][0]["ip"], ours, "RFC 8950: {path}");
        }
        let far = link_local(&frr.output(&["ip", "-6", "addr", "show", "dev", "far", "scope", "link"]));
        assert_eq!(speaker.bench.routers.borrow().get("near").map(ToString::to_string), Some(far));
        // BFD goes on the same link.
        speaker.bench.up(0).await;
        until("BFD at the router", || {
            let peers = frr.show("bfd peers");
            peers[0]["peer"] == ours && peers[0]["status"] == "up"
        })
        .await;
        // Nobody takes us for a way out: our advertisements have no lifetime.
        let ways = frr.output(&["ip", "-6", "route", "show", "default"]);
        assert_eq!(ways.trim(), "");
    });
}
