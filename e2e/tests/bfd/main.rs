//! BFD as the router sees it: it notices a node that is cut off in a fraction of a second, and takes neither
//! an edit nor the restart of a speaker for a failure.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kinds;
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ferrolb_e2e::host::Host;
use ferrolb_e2e::wire::now;
use serde_json::Value;
use support::{NAMESPACE, Product, measured, text, until};

/// The node that announces, and what it announces.
const NODE: &str = "k8s-node-2";
const NODE_ADDRESS: &str = "192.168.10.21";
const ROUTE: &str = "192.168.20.200";
const NODE_ADDRESSES: [&str; 3] = ["192.168.10.17", "192.168.10.20", NODE_ADDRESS];
const SOON: Duration = Duration::from_secs(60);

const OBJECTS: &str = r"
apiVersion: metallb.io/v1beta1
kind: BFDProfile
metadata: {name: fast, namespace: metallb-system}
spec: {receiveInterval: 50, transmitInterval: 50, detectMultiplier: 3}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: router, namespace: metallb-system}
spec:
  myASN: 64512
  peerASN: 64513
  peerAddress: 192.168.10.1
  bfdProfile: fast
  enableGracefulRestart: true
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: bfd, namespace: metallb-system}
spec: {addresses: [192.168.20.200/32], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: bfd, namespace: metallb-system}
spec:
  ipAddressPools: [bfd]
  nodeSelectors: [{matchLabels: {kubernetes.io/hostname: k8s-node-2}}]
---
apiVersion: v1
kind: Service
metadata:
  name: hello-bfd
  namespace: demo
  annotations: {metallb.io/address-pool: bfd}
spec:
  type: LoadBalancer
  selector: {app.kubernetes.io/name: hello}
  ports: [{name: http, port: 80, targetPort: http}]
";

/// The product with BFD, and the router that asks for it. Takes its objects away at the end.
struct Bfd {
    product: Product,
    router: Host,
}

impl Bfd {
    /// `over_restarts`: the router takes the end of BFD alone for a restart. FRR then does so always, also where the
    /// node is gone.
    fn ready(over_restarts: bool) -> Self {
        let product = Product::ready();
        let router = product.lab.host("router").unwrap();
        let bfd = Self { product, router };
        bfd.configure(&[
            "bfd",
            "profile fast",
            "receive-interval 50",
            "transmit-interval 50",
            "exit",
            "exit",
            "router bgp 64513",
            "bgp graceful-restart",
            "neighbor nodes graceful-restart-helper",
            "neighbor nodes bfd profile fast",
        ]);
        if over_restarts {
            // The speaker's BFD ends with the speaker: its end is not that of its node (RFC 5882 §4.3).
            bfd.configure(&["router bgp 64513", "neighbor nodes bfd check-control-plane-failure"]);
        }
        bfd.product.lab.apply(OBJECTS).unwrap();
        for node in NODE_ADDRESSES {
            until(&format!("a BFD session with {node}"), SOON, || {
                let seen = bfd.session(node)?;
                let agreed = seen["remote-transmit-interval"] == 50 && seen["remote-receive-interval"] == 50;
                if seen["status"] == "up" && agreed { Ok(()) } else { Err(seen.to_string()) }
            });
        }
        bfd.has_route();
        bfd
    }

    fn vtysh(&self, commands: &[&str]) -> Result<String, String> {
        let flags = commands.iter().flat_map(|command| ["-c", command]);
        let command: Vec<&str> = ["vtysh"].into_iter().chain(flags).collect();
        self.router.run(&command).map_err(|error| error.to_string())
    }

    fn configure(&self, commands: &[&str]) {
        let begin = ["configure terminal"];
        self.vtysh(&begin.iter().chain(commands).copied().collect::<Vec<_>>()).unwrap();
    }

    fn show(&self, what: &str) -> Result<Value, String> {
        let text = self.vtysh(&[&format!("show {what} json")])?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    fn of_peer(&self, what: &str, node: &str) -> Result<Value, String> {
        let all = self.show(what)?;
        let found = all.as_array().and_then(|all| all.iter().find(|it| it["peer"] == node));
        found.cloned().ok_or_else(|| format!("nothing about {node} in {all}"))
    }

    fn session(&self, node: &str) -> Result<Value, String> {
        self.of_peer("bfd peers", node)
    }

    /// How often the router saw the sessions with a node go: BFD's down and BGP's up.
    fn flaps(&self) -> Result<(Value, Value), String> {
        let counters = self.of_peer("bfd peers counters", NODE_ADDRESS)?;
        let neighbor = self.show(&format!("bgp neighbors {NODE_ADDRESS}"))?;
        Ok((counters["session-down"].clone(), neighbor[NODE_ADDRESS]["connectionsEstablished"].clone()))
    }

    fn has_route(&self) {
        until("the route at the router", SOON, || {
            let route =
                self.router.run(&["ip", "route", "show", ROUTE]).map_err(|error| error.to_string())?;
            if route.contains(NODE_ADDRESS) { Ok(()) } else { Err(route) }
        });
    }
}

impl Drop for Bfd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for what in ["show bfd peers", "show bgp summary", "show bgp ipv4 unicast"] {
                eprintln!("{}", self.vtysh(&[what]).unwrap_or_else(|error| error));
            }
        }
        let _ = self.vtysh(&[
            "configure terminal",
            "router bgp 64513",
            "no neighbor nodes bfd check-control-plane-failure",
            "no neighbor nodes bfd profile fast",
            "no neighbor nodes bfd",
            "no neighbor nodes graceful-restart-helper",
            "no bgp graceful-restart",
            "exit",
            "bfd",
            "no profile fast",
        ]);
        let _ = self.product.lab.delete(OBJECTS);
    }
}

/// What the kernel of the router does with the route, and when.
struct RouteChanges {
    monitor: Child,
    deleted: Receiver<f64>,
}

impl RouteChanges {
    fn watch(router: &Host) -> Self {
        let mut monitor = router.spawn(&["ip", "monitor", "route"]).unwrap();
        let lines = BufReader::new(monitor.stdout.take().unwrap()).lines();
        let (sender, deleted) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line.starts_with("Deleted") && line.contains(ROUTE) && sender.send(now()).is_err() {
                    return;
                }
            }
        });
        Self { monitor, deleted }
    }
}

impl Drop for RouteChanges {
    fn drop(&mut self) {
        let _ = self.monitor.kill();
        let _ = self.monitor.wait();
    }
}

#[test]
fn the_route_of_a_node_that_is_cut_off_is_gone_at_once_and_comes_back() {
    let bfd = Bfd::ready(false);
    let lab = &bfd.product.lab;
    let changes = RouteChanges::watch(&bfd.router);
    let cut = now();
    lab.cut(NODE).unwrap();
    let gone = changes.deleted.recv_timeout(Duration::from_secs(30)).expect("the route goes");
    measured("link cut until the router has no route by the node, ms", format!("{:.0}", (gone - cut) * 1e3));
    // The router's hold timer would need up to 90 s. What the design wants is 0.3 s.
    assert!(gone - cut < 5.0);
    lab.heal(NODE).unwrap();
    let healed = Instant::now();
    bfd.has_route();
    measured("link back until the route is, s", format!("{:.1}", healed.elapsed().as_secs_f64()));
    bfd.product.wait_nodes_ready();
    bfd.product.wait_pods_ready();
    let selector = "involvedObject.name=router,reason=BFDDown";
    until("an Event", SOON, || {
        let events = bfd.product.items(&["-n", NAMESPACE, "events", "--field-selector", selector]);
        let told = events.iter().map(|event| text(&event["message"]));
        let of_node = format!("node \"{NODE}\": BFD session with 192.168.10.1 down: nothing was heard for");
        if told.clone().any(|it| it.starts_with(&of_node)) { Ok(()) } else { Err(told.collect::<String>()) }
    });
}

#[test]
fn neither_an_edit_nor_a_restart_of_the_speaker_is_a_failure() {
    let bfd = Bfd::ready(true);
    let before = bfd.flaps().unwrap();
    let edit = |spec: &str| {
        bfd.product.kubectl(&["-n", NAMESPACE, "patch", "bfdprofile", "fast", "--type=merge", "-p", spec]);
    };
    edit(r#"{"spec": {"transmitInterval": 120, "detectMultiplier": 5}}"#);
    until("the edit at the router", SOON, || {
        let seen = bfd.session(NODE_ADDRESS)?;
        let edited = seen["remote-transmit-interval"] == 120 && seen["remote-detect-multiplier"] == 5;
        if edited { Ok(()) } else { Err(seen.to_string()) }
    });
    assert_eq!(bfd.flaps().unwrap(), before, "an edit resets nothing");

    let changes = RouteChanges::watch(&bfd.router);
    let ends =
        ["delete", "pod", "-l", "component=speaker", "--field-selector", &format!("spec.nodeName={NODE}")];
    bfd.product.kubectl(&[&["-n", NAMESPACE][..], &ends].concat());
    until("a session of the next speaker", SOON, || {
        let (_, established) = bfd.flaps()?;
        if established != before.1 { Ok(()) } else { Err(format!("{established}")) }
    });
    until("BFD of the next speaker", SOON, || {
        let seen = bfd.session(NODE_ADDRESS)?;
        if seen["status"] == "up" { Ok(()) } else { Err(seen.to_string()) }
    });
    bfd.has_route();
    let deleted = changes.deleted.try_iter().count();
    assert_eq!(deleted, 0, "the router kept the route all the time");
}
