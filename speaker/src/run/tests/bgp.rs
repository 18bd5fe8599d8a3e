//! A whole speaker between an API server and FRR.

use serde_json::Value;

use super::*;
use crate::bgp::testing::{Frr, ROUTER};

/// What an API server has when a Service is to be announced by BGP.
fn configure(server: &Server) {
    server.put("nodes", json!({"metadata": {"name": "node-a"}}));
    server
        .put("pods", json!({"metadata": {"name": "speaker-a", "namespace": "metallb-system", "uid": "pod"}}));
    put(server, "ipaddresspools", "v1beta1", "IPAddressPool", json!({"addresses": ["192.168.20.100/30"]}));
    put(server, "bgpadvertisements", "v1beta1", "BGPAdvertisement", json!({"communities": ["ours"]}));
    let aliases = json!({"communities": [{"name": "ours", "value": "64512:7"}]});
    put(server, "communities", "v1beta1", "Community", aliases);
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
            "status": {"loadBalancer": {"ingress": [{"ip": "192.168.20.100", "ipMode": "VIP"}]}},
        }),
    );
}

fn put(server: &Server, plural: &str, version: &str, kind: &str, spec: Value) {
    let metadata = json!({"name": "it", "namespace": "metallb-system"});
    let api_version = format!("metallb.io/{version}");
    server.put(plural, json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}));
}

fn peer(server: &Server, more: Value) {
    let mut spec = json!({
        "myASN": 64512, "peerASN": 64513, "peerAddress": ROUTER, "sourceAddress": "10.0.0.2", "peerPort": 179,
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    put(server, "bgppeers", "v1beta2", "BGPPeer", spec);
}

fn start(server: &Server, client: kube::Client) -> (Shutdown, tokio::task::JoinHandle<anyhow::Result<()>>) {
    let shutdown = Shutdown::default();
    let process = Process {
        client,
        namespace: "metallb-system".to_owned(),
        readiness: Readiness::default(),
        metrics: Registry::new(),
        pages: Pages::default(),
        shutdown: shutdown.clone(),
    };
    assert!(!server.list("nodes").is_empty());
    let args = Args::parse_from(["speaker", "--node-name=node-a", "--pod-name=speaker-a"]);
    (shutdown, tokio::spawn(run(args, process)))
}

#[test]
fn what_the_api_server_holds_is_what_the_router_has() {
    in_own_network(|| async {
        let frr = Frr::start(" neighbor 10.0.0.2 remote-as 64512");
        let (server, client) = Server::serve().await;
        configure(&server);
        peer(&server, json!({}));
        let (shutdown, speaker) = start(&server, client);
        frr.has(&["192.168.20.100/32"]).await;
        let path = frr.show("ipv4 unicast 192.168.20.100/32")["paths"][0].clone();
        assert_eq!(path["community"]["string"], "64512:7");
        until("a status", || {
            let statuses = server.list("servicebgpstatuses");
            statuses.len() == 1 && statuses[0]["status"]["peers"] == json!(["it"])
        })
        .await;
        let status = &server.list("servicebgpstatuses")[0];
        assert!(status["metadata"]["name"].as_str().unwrap().starts_with("bgp-"));
        assert_eq!(status["status"]["node"], "node-a");
        let has_event = |reason: &str, message: &str| {
            let events = server.list("events");
            events
                .iter()
                .any(|it| it["reason"] == reason && it["message"].as_str().unwrap().contains(message))
        };
        until("Events", || {
            has_event("nodeAssigned", "announcing from node \"node-a\" with protocol \"bgp\"")
                && has_event("SessionUp", "BGP session with 10.0.0.1 established (AS 64513")
        })
        .await;

        let mut slice = server.list("endpointslices").remove(0);
        slice["endpoints"][0]["conditions"]["ready"] = json!(false);
        server.put("endpointslices", slice.clone());
        frr.has(&[]).await;
        until("no status", || server.list("servicebgpstatuses").is_empty()).await;
        slice["endpoints"][0]["conditions"]["ready"] = json!(true);
        server.put("endpointslices", slice);
        frr.has(&["192.168.20.100/32"]).await;
        assert_eq!(frr.neighbor()["connectionsEstablished"], 1);

        shutdown.begin();
        speaker.await.unwrap().unwrap();
        frr.has(&[]).await;
        let reason = frr.neighbor()["lastNotificationReason"].clone();
        assert_eq!(reason, "Cease/Administrative Shutdown");
    });
}

#[test]
fn a_password_is_read_from_the_secret_that_the_peer_names() {
    in_own_network(|| async {
        let frr = Frr::start(" neighbor 10.0.0.2 remote-as 64512\n neighbor 10.0.0.2 password right");
        let (server, client) = Server::serve().await;
        configure(&server);
        peer(&server, json!({"passwordSecret": {"name": "bgp"}}));
        let (shutdown, speaker) = start(&server, client);
        let told = |part: &str| {
            server.list("events").iter().any(|it| it["message"].as_str().unwrap().contains(part))
        };
        until("a missing Secret", || told("Secret bgp with the password is missing")).await;
        assert_ne!(frr.neighbor()["bgpState"], "Established", "never without the password");
        server.put(
            "secrets",
            json!({
                "metadata": {"name": "bgp", "namespace": "metallb-system"},
                "type": "kubernetes.io/basic-auth", "data": {"password": "cmlnaHQ="},
            }),
        );
        frr.has(&["192.168.20.100/32"]).await;
        shutdown.begin();
        speaker.await.unwrap().unwrap();
    });
}
