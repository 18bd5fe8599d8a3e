//! A router at the other end of a link without addresses, found by its advertisements.

use ferrolb_e2e::Cable;

use crate::router::{Bgp, SOON, V4, V6, peer};
use crate::support::{text, until};

const NODE: &str = "k8s-node-1";
/// Ends of the cable: the node's and the router's.
const NEAR: &str = "ens20";
const FAR: &str = "ptp";

/// The cable, and the session over it at the router.
struct Link<'a> {
    bgp: &'a Bgp,
    _cable: Cable,
}

impl<'a> Link<'a> {
    fn up(bgp: &'a Bgp) -> Self {
        let cable = bgp.product.lab.cable(("router", FAR), (NODE, NEAR)).unwrap();
        let neighbor = format!("neighbor {FAR} interface remote-as external");
        let activate = format!("neighbor {FAR} activate");
        bgp.vtysh(&[
            "configure terminal",
            "router bgp 64513",
            &neighbor,
            "address-family ipv4 unicast",
            &activate,
            "exit-address-family",
            "address-family ipv6 unicast",
            &activate,
        ])
        .unwrap();
        Self { bgp, _cable: cable }
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        let forget = format!("no neighbor {FAR} interface");
        let _ = self.bgp.vtysh(&["configure terminal", "router bgp 64513", &forget]);
    }
}

#[test]
fn a_peer_by_interface_has_routes_of_both_families_and_serves_the_client() {
    let bgp = Bgp::ready();
    let _link = Link::up(&bgp);
    let spec = format!(
        "peerASN: 64513, interface: {NEAR}, nodeSelectors: [{{matchLabels: {{kubernetes.io/hostname: {NODE}}}}}]"
    );
    bgp.product.lab.apply(&peer(&spec)).unwrap();
    for (family, prefix) in [("ipv4", format!("{V4}/32")), ("ipv6", format!("{V6}/128"))] {
        until(&format!("{prefix} by way of a link-local address"), SOON, || {
            let route = bgp.show(&format!("{family} unicast {prefix}"))?;
            let paths = route["paths"].as_array().cloned().unwrap_or_default();
            let hop = text(&paths.first().cloned().unwrap_or_default()["nexthops"][0]["ip"]);
            if paths.len() == 1 && hop.starts_with("fe80:") { Ok(()) } else { Err(route.to_string()) }
        });
    }
    let installed = bgp.router.run(&["ip", "route", "show", V4]).unwrap();
    assert!(installed.contains("via inet6 fe80:") && installed.contains(FAR), "RFC 8950: {installed}");
    until("the client is served over IPv4", SOON, || bgp.curl(V4));
    until("the client is served over IPv6", SOON, || bgp.curl(&format!("[{V6}]")));
    bgp.told("SessionUp", &format!("node \"{NODE}\": BGP session with {NEAR} established"));
}
