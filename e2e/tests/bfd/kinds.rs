//! Every kind of session that a profile or a peer may ask for, with FRR: over IPv6, over several hops, with echo
//! packets, and passive.

use serde_json::Value;

use crate::support::{NAMESPACE, measured, until};
use crate::{Bfd, NODE, NODE_ADDRESS, SOON};

const NODE_V6: &str = "fd00:10::21";
/// The router's address that is no neighbour of the nodes.
const FAR: &str = "10.255.0.1";

/// A peer over IPv6, and one that is two hops away; of one node.
const PEERS: &str = r"
apiVersion: metallb.io/v1beta1
kind: BFDProfile
metadata: {name: kinds, namespace: metallb-system}
spec: {receiveInterval: 200, transmitInterval: 200, minimumTtl: 254}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: over-ipv6, namespace: metallb-system}
spec:
  myASN: 64512
  peerASN: 64513
  peerAddress: fd00:10::1
  bfdProfile: kinds
  nodeSelectors: [{matchLabels: {kubernetes.io/hostname: k8s-node-2}}]
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: far, namespace: metallb-system}
spec:
  myASN: 64512
  peerASN: 64513
  peerAddress: 10.255.0.1
  ebgpMultiHop: true
  bfdProfile: kinds
  nodeSelectors: [{matchLabels: {kubernetes.io/hostname: k8s-node-2}}]
";

/// Takes it all away at the end.
struct Kinds<'a>(&'a Bfd);

impl<'a> Kinds<'a> {
    fn ready(bfd: &'a Bfd) -> Self {
        bfd.router.run(&["ip", "addr", "add", &format!("{FAR}/32"), "dev", "lo"]).unwrap();
        let kinds = Self(bfd);
        bfd.configure(&[
            "bfd",
            "profile fast",
            "echo-mode",
            "echo transmit-interval 100",
            "echo receive-interval 100",
            "exit",
            &format!("peer {NODE_V6} local-address fd00:10::1"),
            "exit",
            &format!("peer {NODE_ADDRESS} multihop local-address {FAR}"),
            "minimum-ttl 254",
        ]);
        let profile = r#"{"spec": {"echoMode": true, "echoInterval": 100}}"#;
        bfd.product.kubectl(&["-n", NAMESPACE, "patch", "bfdprofile", "fast", "--type=merge", "-p", profile]);
        bfd.product.lab.apply(PEERS).unwrap();
        kinds
    }
}

impl Drop for Kinds<'_> {
    fn drop(&mut self) {
        let _ = self.0.vtysh(&[
            "configure terminal",
            "bfd",
            &format!("no peer {NODE_V6} local-address fd00:10::1"),
            &format!("no peer {NODE_ADDRESS} multihop local-address {FAR}"),
        ]);
        let _ = self.0.router.run(&["ip", "addr", "del", &format!("{FAR}/32"), "dev", "lo"]);
        let _ = self.0.product.lab.delete(PEERS);
    }
}

/// What FRR says of a session, over one hop or several.
fn session(bfd: &Bfd, what: &str, node: &str, multihop: bool) -> Result<Value, String> {
    let all = bfd.show(what)?;
    let is_it = |it: &&Value| it["peer"] == node && it["multihop"] == multihop;
    let found = all.as_array().and_then(|all| all.iter().find(is_it));
    found.cloned().ok_or_else(|| format!("nothing about {node} in {all}"))
}

#[test]
fn every_kind_of_session_comes_up() {
    let bfd = Bfd::ready(false);
    let _kinds = Kinds::ready(&bfd);
    for (name, node, multihop) in [("over IPv6", NODE_V6, false), ("over several hops", NODE_ADDRESS, true)] {
        until(&format!("a session {name}"), SOON, || {
            let seen = session(&bfd, "bfd peers", node, multihop)?;
            if seen["status"] == "up" { Ok(()) } else { Err(seen.to_string()) }
        });
    }
    let echoes = || {
        session(&bfd, "bfd peers counters", NODE_ADDRESS, false).map(|it| it["echo-packet-input"].as_u64())
    };
    let before = echoes().unwrap();
    until("echo packets come back", SOON, || {
        let now = echoes()?;
        if now > before.map(|it| it + 10) { Ok(()) } else { Err(format!("{before:?} and then {now:?}")) }
    });
    let pods = bfd.product.items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"]);
    measured("kinds of BFD sessions up with FRR", format!("4 on {NODE}, of {} speakers", pods.len()));

    // A passive end is silent until it is spoken to.
    let profile = r#"{"spec": {"echoMode": false, "passiveMode": true}}"#;
    bfd.product.kubectl(&["-n", NAMESPACE, "patch", "bfdprofile", "fast", "--type=merge", "-p", profile]);
    bfd.configure(&["bfd", "profile fast", "no echo-mode", "shutdown"]);
    until("the router's end is shut down", SOON, || {
        let seen = session(&bfd, "bfd peers", NODE_ADDRESS, false)?;
        if seen["status"] == "shutdown" { Ok(()) } else { Err(seen.to_string()) }
    });
    bfd.configure(&["bfd", "profile fast", "no shutdown"]);
    until("the router speaks, and is answered", SOON, || {
        let seen = session(&bfd, "bfd peers", NODE_ADDRESS, false)?;
        if seen["status"] == "up" { Ok(()) } else { Err(seen.to_string()) }
    });
}
