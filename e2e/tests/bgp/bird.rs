//! The installed speakers and BIRD, beside FRR: another router's reading of the same messages.

use std::process::Child;

use ferrolb_e2e::host::Host;

use crate::router::{Bgp, SOON, V4, V6, WORKER_ADDRESSES};
use crate::support::{NAMESPACE, text, until};

/// BIRD is where the client is.
const ADDRESS: &str = "192.168.10.50";
const OBJECTS: &str = r"
apiVersion: v1
kind: Secret
metadata: {name: bird-password, namespace: metallb-system}
type: kubernetes.io/basic-auth
stringData: {password: s3cret-bird}
---
apiVersion: metallb.io/v1beta1
kind: BFDProfile
metadata: {name: bird, namespace: metallb-system}
spec: {}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: bird, namespace: metallb-system}
spec:
  myASN: 64512
  peerASN: 64520
  peerAddress: 192.168.10.50
  dualStackAddressFamily: true
  bfdProfile: bird
  passwordSecret: {name: bird-password}
  nodeSelectors: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [k8s-node-1, k8s-node-2]}]}]
";

struct Bird<'a> {
    bgp: &'a Bgp,
    host: Host,
    daemon: Child,
}

impl<'a> Bird<'a> {
    fn start(bgp: &'a Bgp) -> Self {
        let host = bgp.product.lab.host("client").unwrap();
        let mut config = format!(
            "router id {ADDRESS};\nprotocol device {{ scan time 1; }}\nprotocol direct {{ ipv4; ipv6; }}\nprotocol bfd {{ }}\n"
        );
        for (number, node) in WORKER_ADDRESSES.iter().enumerate() {
            config.push_str(&format!(
                "protocol bgp node{number} {{ local {ADDRESS} as 64520; neighbor {node} as 64512; passive on; \
                 password \"s3cret-bird\"; ttl security on; bfd on; error wait time 1, 2; ipv4 {{ import all; export none; }}; \
                 ipv6 {{ import all; export none; }}; }}\n"
            ));
        }
        host.run(&["sh", "-c", &format!("cat >/run/bird.conf <<'END'\n{config}END")]).unwrap();
        let daemon = host.spawn(&["bird", "-f", "-c", "/run/bird.conf", "-s", "/run/bird.ctl"]).unwrap();
        bgp.product.lab.apply(OBJECTS).unwrap();
        Self { bgp, host, daemon }
    }

    fn birdc(&self, command: &str) -> Result<String, String> {
        let command: Vec<&str> =
            ["birdc", "-s", "/run/bird.ctl"].into_iter().chain(command.split(' ')).collect();
        self.host.run(&command).map_err(|error| error.to_string())
    }

    fn route_has(&self, prefix: &str, parts: &[&str]) {
        until(&format!("{prefix} with {parts:?}"), SOON, || {
            let route = self.birdc(&format!("show route all for {prefix}"))?;
            if parts.iter().all(|part| route.contains(part)) { Ok(()) } else { Err(route) }
        });
    }
}

impl Drop for Bird<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for what in ["show protocols all", "show route all", "show bfd sessions"] {
                eprintln!("{}", self.birdc(what).unwrap_or_else(|error| error));
            }
        }
        let _ = self.birdc("down");
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = self.bgp.product.lab.delete(OBJECTS);
    }
}

#[test]
fn bird_has_the_routes_of_every_node_edits_reset_nothing_and_the_end_has_a_reason() {
    let bgp = Bgp::ready();
    let bird = Bird::start(&bgp);
    let (v4, v6) = (format!("{V4}/32"), format!("{V6}/128"));
    bird.route_has(
        &v4,
        &["BGP.next_hop: 192.168.10.20", "BGP.next_hop: 192.168.10.21", "BGP.as_path: 64512"],
    );
    bird.route_has(&v6, &["BGP.next_hop: fd00:10::20", "BGP.next_hop: fd00:10::21"]);
    until("BFD with both nodes", SOON, || {
        let sessions = bird.birdc("show bfd sessions")?;
        let up = |node: &&str| sessions.lines().any(|line| line.starts_with(*node) && line.contains("Up"));
        if WORKER_ADDRESSES.iter().all(up) { Ok(()) } else { Err(sessions) }
    });
    let edit = r#"{"spec": {"communities": ["64512:100", "large:64512:1:100", "65535:65281"]}}"#;
    bgp.product.kubectl(&["-n", NAMESPACE, "patch", "bgpadvertisement", "bgp", "--type=merge", "-p", edit]);
    bird.route_has(&v4, &["(64512,100)", "(65535,65281)", "BGP.large_community: (64512, 1, 100)"]);
    bgp.product.kubectl(&["-n", "demo", "delete", "service", "hello-bgp"]);
    until("no route of a Service that is gone", SOON, || {
        let routes = bird.birdc("show route")?;
        if routes.contains(&v4) || routes.contains(&v6) { Err(routes) } else { Ok(()) }
    });
    until("the sessions of before, established once", SOON, || {
        let sessions = bgp.product.items(&["-n", NAMESPACE, "bgpsessions"]);
        let with_bird = sessions.iter().map(|it| &it["status"]).filter(|it| it["peer"] == "bird");
        let told: Vec<_> = with_bird.map(|it| (text(&it["state"]), it["established"].clone())).collect();
        if told == vec![("Established".to_owned(), 1.into()); 2] { Ok(()) } else { Err(format!("{told:?}")) }
    });
    // BIRD takes AdminDown for a failure of the path, and may come to it before our last words.
    let without = r#"{"spec": {"bfdProfile": null}}"#;
    bgp.product.kubectl(&["-n", NAMESPACE, "patch", "bgppeer", "bird", "--type=merge", "-p", without]);
    until("no BFD, and a session", SOON, || {
        let (bfd, session) = (bird.birdc("show bfd sessions")?, bird.birdc("show protocols node0")?);
        if !bfd.contains(" Up ") && session.contains("Established") { Ok(()) } else { Err(bfd + &session) }
    });
    bgp.product.kubectl(&["-n", NAMESPACE, "delete", "bgppeer", "bird"]);
    until("why it ended", SOON, || {
        let told = bird.birdc("show protocols all node0")?;
        if told.contains("Received: Peer de-configured") { Ok(()) } else { Err(told) }
    });
}
