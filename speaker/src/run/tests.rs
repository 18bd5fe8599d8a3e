//! Whole speakers, each in a network namespace of its own, on a bridge with somebody who asks.

mod bgp;
mod lease;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

use clap::Parser;
use ferrolb_runtime::admin::Pages;
use ferrolb_runtime::{Readiness, Shutdown};
use nix::sched::{CloneFlags, unshare};
use prometheus::Registry;
use serde_json::json;
use tokio::sync::oneshot;

use super::*;
use crate::layer2::testing::Asker;
use crate::testing::api::Api as Server;
use crate::testing::{PATIENCE, in_own_network, ip, until};

const VIP: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 200);
const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];

#[test]
fn a_secret_that_is_named_must_be_there() {
    let directory = tempfile::tempdir().unwrap();
    let error = secret(Some(directory.path())).unwrap_err();
    assert!(error.to_string().contains("secretkey"), "{error}");
    std::fs::write(directory.path().join("secretkey"), "").unwrap();
    assert!(secret(Some(directory.path())).unwrap_err().to_string().contains("is empty"));
    std::fs::write(directory.path().join("secretkey"), "s3cret").unwrap();
    assert_eq!(secret(Some(directory.path())).unwrap(), b"s3cret");
    assert!(secret(None).unwrap().is_empty());
    assert!(secret(Some(Path::new(""))).unwrap().is_empty());
}

/// A node: its network, and the speaker in it.
struct Node {
    index: usize,
    shutdown: Shutdown,
    readiness: Readiness,
    crash: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn mac(index: usize) -> String {
    format!("02:00:00:00:01:{:02x}", index + 1)
}

fn address(index: usize) -> String {
    format!("10.9.0.{}", index + 1)
}

impl Node {
    /// Starts a speaker in a new namespace whose only link is a port of the bridge.
    fn start(index: usize, server: &Server, more: &'static [&'static str]) -> Self {
        let (say, told) = mpsc::channel();
        let (connect, connected) = mpsc::channel::<()>();
        let (crash, crashed) = oneshot::channel();
        let (shutdown, readiness) = (Shutdown::default(), Readiness::default());
        let process = (shutdown.clone(), readiness.clone(), server.clone());
        let thread = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            say.send(nix::unistd::gettid()).unwrap();
            connected.recv().unwrap();
            ip("link set lo up");
            ip(&format!("addr add {}/24 dev eth0", address(index)));
            ip("link set eth0 up");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (shutdown, readiness, server) = process;
                let client = server.attach().await;
                let (namespace, metrics) = ("metallb-system".to_owned(), Registry::new());
                let pages = Pages::default();
                let process = Process { client, namespace, readiness, metrics, pages, shutdown };
                let arguments = [
                    "speaker",
                    &format!("--node-name={}", NODES[index]),
                    &format!("--pod-name=speaker-{index}"),
                    &format!("--ml-bindaddr={}", address(index)),
                    "--ml-labels=component=speaker",
                ];
                let arguments = Args::parse_from(arguments.iter().chain(more));
                tokio::select! {
                    result = run(arguments, process) => result.unwrap(),
                    _ = crashed => {}
                }
            });
        });
        let name = told.recv().unwrap();
        ip(&format!("link add port{index} type veth peer name eth0 address {} netns {name}", mac(index)));
        ip(&format!("link set port{index} master br0 up"));
        connect.send(()).unwrap();
        Self { index, shutdown, readiness, crash: Some(crash), thread: Some(thread) }
    }

    async fn ready(&self) {
        // Before a speaker has begun it has no conditions to wait for.
        until("begin", || !self.readiness.is_empty()).await;
        tokio::time::timeout(PATIENCE, self.readiness.wait()).await.expect("speakers become ready");
    }

    fn crash(mut self) {
        drop(self.crash.take());
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        let _ =
            std::process::Command::new("ip").args(["link", "del", &format!("port{}", self.index)]).output();
    }
}

/// The cluster: what the API server holds, and the LAN.
struct Cluster {
    server: Server,
    nodes: Vec<Node>,
    asker: Asker,
    /// Who claimed the address first.
    owner: usize,
}

impl Cluster {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With more arguments for all speakers.
    async fn start_with(more: &'static [&'static str]) -> Self {
        ip("link add br0 address 02:00:00:00:00:ff type bridge forward_delay 0");
        ip("link set br0 up");
        let (server, _) = Server::serve().await;
        for (index, node) in NODES.iter().enumerate() {
            server.put("nodes", json!({"metadata": {"name": node}}));
            let labels = json!({"component": "speaker"});
            let metadata =
                json!({"name": format!("speaker-{index}"), "namespace": "metallb-system", "labels": labels});
            let status = json!({"phase": "Running", "podIP": address(index)});
            let spec = json!({"nodeName": node, "containers": []});
            server.put("pods", json!({"metadata": metadata, "spec": spec, "status": status}));
        }
        let configure = |plural: &str, kind: &str, spec: serde_json::Value| {
            let metadata = json!({"name": "lan", "namespace": "metallb-system"});
            let object =
                json!({"apiVersion": "metallb.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec});
            server.put(plural, object);
        };
        configure("ipaddresspools", "IPAddressPool", json!({"addresses": ["10.9.0.200/30"]}));
        configure("l2advertisements", "L2Advertisement", json!({"ipAddressPools": ["lan"]}));
        server.put(
            "endpointslices",
            json!({
                "metadata": {
                    "name": "hello-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "hello"}
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.244.0.2"], "conditions": {"ready": true}, "nodeName": "node-a"}],
            }),
        );
        server.put(
            "services",
            json!({
                "metadata": {"name": "hello", "namespace": "default"},
                "spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.9"]},
                "status": {"loadBalancer": {"ingress": [{"ip": VIP.to_string(), "ipMode": "VIP"}]}},
            }),
        );
        let nodes = (0..NODES.len()).map(|index| Node::start(index, &server, more)).collect();
        let mut cluster = Self { server, nodes, asker: Asker::new("br0", "02:00:00:00:00:ff"), owner: 0 };
        for node in &cluster.nodes {
            node.ready().await;
        }
        cluster.owner = cluster.answers(&[0, 1, 2]).await;
        cluster
    }

    /// Waits until the address is answered by one of these nodes, and by nobody else in many requests.
    async fn answers(&mut self, nodes: &[usize]) -> usize {
        let end = Instant::now() + PATIENCE;
        let mut quiet = 0;
        let mut last = BTreeSet::new();
        while quiet < 15 {
            assert!(Instant::now() < end, "{nodes:?} should answer alone, last answered {last:?}");
            let answered = self.asker.ask(VIP, Duration::from_millis(40)).await;
            let good = answered.len() == 1 && (quiet == 0 || answered == last);
            quiet = if good && nodes.iter().any(|it| answered.contains(&mac(*it))) { quiet + 1 } else { 0 };
            last = answered;
        }
        nodes.iter().copied().find(|it| last.contains(&mac(*it))).unwrap()
    }

    fn take(&mut self, index: usize) -> Node {
        let position = self.nodes.iter().position(|node| node.index == index).unwrap();
        self.nodes.remove(position)
    }

    /// A node ends in order, and no request meanwhile is left unanswered.
    async fn end_without_a_gap(&mut self, index: usize) -> Node {
        let node = self.take(index);
        node.shutdown.begin();
        let (mut asked, mut unanswered) = (0, 0);
        while !node.thread.as_ref().unwrap().is_finished() || asked < 20 {
            asked += 1;
            unanswered += usize::from(self.asker.ask(VIP, Duration::from_millis(200)).await.is_empty());
        }
        assert_eq!(unanswered, 0, "of {asked} requests");
        node
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &self.nodes {
            node.shutdown.begin();
        }
        for mut node in self.nodes.drain(..) {
            node.join();
        }
    }
}

fn others(index: usize) -> Vec<usize> {
    (0..NODES.len()).filter(|other| *other != index).collect()
}

#[test]
fn one_node_answers_and_says_so() {
    in_own_network(|| async {
        let cluster = Cluster::start().await;
        let owner = cluster.owner;
        let says = || {
            let statuses = cluster.server.list("servicel2statuses");
            statuses.len() == 1 && statuses[0]["status"]["node"] == NODES[owner]
        };
        until("one status", says).await;
        let states = || cluster.server.list("configurationstates").len();
        until("states", || states() == NODES.len()).await;
    });
}

#[test]
fn a_crashed_owner_is_replaced() {
    in_own_network(|| async {
        let mut cluster = Cluster::start().await;
        let owner = cluster.owner;
        cluster.take(owner).crash();
        let next = cluster.answers(&others(owner)).await;
        // The dead node's status object goes, its successor's is there.
        until("status", || {
            let statuses = cluster.server.list("servicel2statuses");
            statuses.len() == 1 && statuses[0]["status"]["node"] == NODES[next]
        })
        .await;
    });
}

#[test]
fn an_owner_that_ends_hands_over_without_a_gap() {
    in_own_network(|| async {
        let mut cluster = Cluster::start().await;
        let owner = cluster.owner;
        let mut node = cluster.end_without_a_gap(owner).await;
        cluster.answers(&others(owner)).await;
        node.join();
    });
}

#[test]
fn an_excluded_owner_hands_over_without_a_gap_and_does_not_take_back() {
    in_own_network(|| async {
        let mut cluster = Cluster::start().await;
        let owner = cluster.owner;
        let label = |labels: serde_json::Value| {
            let metadata = json!({"name": NODES[owner], "labels": labels});
            cluster.server.put("nodes", json!({"metadata": metadata}));
        };
        label(json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""}));
        let mut moved = false;
        let end = Instant::now() + PATIENCE;
        while !moved {
            assert!(Instant::now() < end, "the address does not move");
            let answered = cluster.asker.ask(VIP, Duration::from_millis(200)).await;
            assert!(!answered.is_empty(), "a request was not answered");
            moved = !answered.contains(&mac(owner));
        }
        label(json!({}));
        cluster.answers(&others(owner)).await;
    });
}

#[test]
fn nodes_that_cannot_hear_each_other_agree_once_they_can() {
    in_own_network(|| async {
        let mut cluster = Cluster::start().await;
        // A port that is isolated reaches the bridge, where the asker is, but no other isolated port.
        let isolate = |flag: &str| {
            for index in 0..NODES.len() {
                ip(&format!("link set port{index} type bridge_slave isolated {flag}"));
            }
        };
        isolate("on");
        let end = Instant::now() + PATIENCE;
        while cluster.asker.ask(VIP, Duration::from_millis(40)).await.len() < 2 {
            assert!(Instant::now() < end, "each part should have an owner");
        }
        isolate("off");
        cluster.answers(&[0, 1, 2]).await;
    });
}

#[test]
fn a_cut_link_moves_the_address_and_a_healed_one_does_not() {
    in_own_network(|| async {
        let mut cluster = Cluster::start().await;
        let owner = cluster.owner;
        ip(&format!("link set port{owner} down"));
        let heir = cluster.answers(&others(owner)).await;
        ip(&format!("link set port{owner} up"));
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            let answered = cluster.asker.ask(VIP, Duration::from_millis(40)).await;
            assert!(answered.len() <= 1 && !answered.contains(&mac(owner)), "{heir} keeps it: {answered:?}");
        }
        cluster.answers(&[heir]).await;
    });
}

#[test]
fn an_api_server_that_is_not_there_changes_nothing() {
    in_own_network(|| async {
        let mut cluster = Cluster::start().await;
        let owner = cluster.owner;
        cluster.server.close();
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.answers(&[owner]).await;
        // Membership works without it.
        cluster.take(owner).crash();
        cluster.answers(&others(owner)).await;
    });
}
