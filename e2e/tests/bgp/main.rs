//! BGP as a user and the router see it: the installed speakers talk to FRR, which sends the client's
//! requests to every node that announces.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bird;
mod leaving;
mod listening;
mod many;
mod protocols;
mod router;
mod seed;
#[path = "../support/mod.rs"]
mod support;
mod unnumbered;
mod why;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use router::{Bgp, RECOVERY, SOON, V4, V6, WORKER_ADDRESSES, peer};
use support::{NAMESPACE, NODES, WORKERS, text, throughout, until};

/// The walk through BGP: sessions, routes, traffic, attributes, policy, withdrawal.
#[test]
fn every_announcing_node_serves_the_client_through_the_router() {
    let bgp = Bgp::ready();
    // The control plane has a session but carries the exclude label.
    bgp.has_paths(&format!("{V4}/32"), &WORKER_ADDRESSES);
    bgp.has_paths(&format!("{V6}/128"), &["fd00:10::20", "fd00:10::21"]);
    until("the client is served over IPv4", SOON, || bgp.curl(V4));
    until("the client is served over IPv6", SOON, || bgp.curl(&format!("[{V6}]")));
    // Local: only the node with the pod, which answers itself.
    bgp.has_paths("192.168.20.103/32", &["192.168.10.21"]);
    until("the pod answers", SOON, || {
        let answer = bgp.curl("192.168.20.103")?;
        if answer == "alone" { Ok(()) } else { Err(answer) }
    });

    // ECMP: by ports too, so that one client's connections spread over the nodes.
    let policy = "/proc/sys/net/ipv4/fib_multipath_hash_policy";
    bgp.router.run(&["sh", "-c", &format!("echo 1 >{policy}")]).unwrap();
    let local = r#"{"spec": {"externalTrafficPolicy": "Local"}}"#;
    bgp.product.kubectl(&["-n", "demo", "patch", "service", "hello-bgp", "-p", local]);
    let pods = bgp.product.items(&["-n", "demo", "pods", "-l", "app.kubernetes.io/name=hello"]);
    let on = |node: &str| -> BTreeSet<String> {
        let there = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
        there.map(|pod| text(&pod["metadata"]["name"])).collect()
    };
    let serving: Vec<&str> = WORKERS.into_iter().filter(|node| !on(node).is_empty()).collect();
    assert!(!serving.is_empty(), "{pods:?}");
    let mut unseen: BTreeSet<&str> = serving.iter().copied().collect();
    until("every node with a pod serves", SOON, || {
        let answer = bgp.curl(V4)?;
        unseen.retain(|node| !on(node).contains(&answer));
        if unseen.is_empty() { Ok(()) } else { Err(format!("not yet {unseen:?}")) }
    });
    bgp.router.run(&["sh", "-c", &format!("echo 0 >{policy}")]).unwrap();
}

#[test]
fn kubernetes_tells_who_announces_to_whom() {
    let bgp = Bgp::ready();
    let peers = serde_json::json!(["router"]);
    let status = |service: &str, node: &str| (service.to_owned(), node.to_owned(), peers.clone());
    let expected = [
        status("alone-bgp", "k8s-node-2"),
        status("hello-bgp", "k8s-node-1"),
        status("hello-bgp", "k8s-node-2"),
    ];
    until("ServiceBGPStatus of each announcing node", SOON, || {
        let seen = bgp.statuses();
        if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    until("Events of the Service", SOON, || {
        let seen = bgp.events("demo", "hello-bgp", "nodeAssigned");
        let announces =
            |node: &&str| seen.contains(&format!("announcing from node \"{node}\" with protocol \"bgp\""));
        if WORKERS.iter().all(announces) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    for node in NODES {
        bgp.told(
            "SessionUp",
            &format!("node \"{node}\": BGP session with 192.168.10.1 established (AS 64513"),
        );
    }
}

/// What `kubectl get bgpsessions` shows: of each node, and nothing any more once the peer is gone.
#[test]
fn kubernetes_tells_how_each_session_stands() {
    let bgp = Bgp::ready();
    let sessions = || bgp.product.items(&["-n", NAMESPACE, "bgpsessions"]);
    // Of all that nodes send, the router sends every node one path.
    let received = 3;
    until("a BGPSession of each node", SOON, || {
        let mut seen: Vec<(String, String, Value, Value)> = sessions()
            .iter()
            .map(|it| &it["status"])
            .map(|it| {
                let (sent, received) = (it["prefixesSent"].clone(), it["prefixesReceived"].clone());
                (text(&it["node"]), text(&it["state"]), sent, received)
            })
            .collect();
        seen.sort_by(|a, b| a.0.cmp(&b.0));
        let stands = |node: &str, sent: u8| {
            (node.to_owned(), "Established".to_owned(), Value::from(sent), Value::from(received))
        };
        let expected = [stands(NODES[0], 0), stands(NODES[1], 2), stands(NODES[2], 3)];
        if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    let versions = |all: Vec<Value>| -> Vec<Value> {
        all.iter().map(|it| it["metadata"]["resourceVersion"].clone()).collect()
    };
    let before = versions(sessions());
    throughout("nothing is written at rest", Duration::from_secs(4), || {
        let now = versions(sessions());
        if now == before { Ok(()) } else { Err(format!("{before:?} became {now:?}")) }
    });
    bgp.vtysh(&["clear bgp *"]).unwrap();
    until("why the sessions ended", SOON, || {
        let told = |it: &Value| {
            it["status"]["lastNotificationReceived"].as_str().unwrap_or_default().starts_with("Cease")
        };
        let seen = sessions();
        if seen.iter().all(told) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    bgp.product.kubectl(&["-n", NAMESPACE, "delete", "bgppeer", "router"]);
    until("no BGPSession without its BGPPeer", SOON, || {
        let seen = sessions();
        if seen.is_empty() { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

/// Changes send what differs; the sessions stay.
#[test]
fn edits_reach_the_router_without_a_reset() {
    let bgp = Bgp::ready();
    let prefix = format!("{V4}/32");
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);
    let before = bgp.sessions().unwrap();
    let edit = |spec: &str| {
        bgp.product.kubectl(&[
            "-n",
            NAMESPACE,
            "patch",
            "bgpadvertisement",
            "bgp",
            "--type=merge",
            "-p",
            spec,
        ]);
    };
    edit(r#"{"spec": {"communities": ["64512:100", "large:64512:1:100"], "localPref": 200}}"#);
    until("the communities", SOON, || {
        let route = bgp.show(&format!("ipv4 unicast {prefix}"))?;
        let paths = route["paths"].as_array().cloned().unwrap_or_default();
        let right = |path: &Value| {
            path["community"]["string"] == "64512:100"
                && path["largeCommunity"]["string"] == "64512:1:100"
                // A preference is nothing for another AS.
                && path["locPrf"].is_null()
        };
        if paths.len() == 2 && paths.iter().all(right) { Ok(()) } else { Err(route.to_string()) }
    });
    edit(r#"{"spec": {"aggregationLength": 30, "communities": null, "localPref": null}}"#);
    bgp.has_paths("192.168.20.100/30", &WORKER_ADDRESSES);
    bgp.has_paths(&prefix, &[]);
    edit(r#"{"spec": {"aggregationLength": 32}}"#);
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);

    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    bgp.product.kubectl(&["label", "node", "k8s-node-2", &format!("{label}=")]);
    bgp.has_paths(&prefix, &["192.168.10.20"]);
    bgp.product.kubectl(&["label", "node", "k8s-node-2", &format!("{label}-")]);
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);

    bgp.product.kubectl(&["-n", "demo", "delete", "service", "hello-bgp"]);
    bgp.has_paths(&prefix, &[]);
    bgp.has_paths(&format!("{V6}/128"), &[]);
    until("no status of it", SOON, || {
        let seen = bgp.statuses();
        if seen.iter().all(|(service, _, _)| service != "hello-bgp") {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    });
    throughout("the sessions stay up", Duration::from_secs(2), || {
        let now = bgp.sessions()?;
        if now == before { Ok(()) } else { Err(format!("{before:?} became {now:?}")) }
    });
}

#[test]
fn a_wrong_as_and_a_wrong_password_are_named_and_mended() {
    let bgp = Bgp::ready();
    let prefix = format!("{V4}/32");
    bgp.product.lab.apply(&peer("peerASN: 64999, peerAddress: 192.168.10.1")).unwrap();
    bgp.told("SessionFailed", "unexpected peer ASN 64513, want 64999");
    bgp.has_paths(&prefix, &[]);
    bgp.product.lab.apply(&peer("peerASN: 64513, peerAddress: 192.168.10.1")).unwrap();
    bgp.established(RECOVERY);
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);

    let secret = |password: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: bgp-password, namespace: {NAMESPACE}}}\ntype: kubernetes.io/basic-auth\nstringData: {{password: {password}}}\n"
        )
    };
    let with_secret = peer("peerASN: 64513, peerAddress: 192.168.10.1, passwordSecret: {name: bgp-password}");
    bgp.product.lab.apply(&with_secret).unwrap();
    bgp.told("SessionFailed", "Secret bgp-password with the password is missing");
    bgp.product.lab.apply(&secret("s3cret-wrong")).unwrap();
    let configure = ["configure terminal", "router bgp 64513", "neighbor nodes password s3cret-right"];
    bgp.vtysh(&configure).unwrap();
    bgp.told("SessionFailed", "another TCP MD5 password");
    bgp.product.lab.apply(&secret("s3cret-right")).unwrap();
    bgp.established(RECOVERY);
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);
    let logs = bgp.product.kubectl(&["-n", NAMESPACE, "logs", "-l", "component=speaker", "--tail=-1"]);
    assert!(!logs.contains("s3cret"), "a password is in the log");
}

/// A session over IPv6, for IPv6.
#[test]
fn a_session_over_ipv6_carries_ipv6() {
    let bgp = Bgp::ready();
    bgp.vtysh(&[
        "configure terminal",
        "router bgp 64513",
        "neighbor fd00:10::20 remote-as 64512",
        "address-family ipv6 unicast",
        "neighbor fd00:10::20 activate",
    ])
    .unwrap();
    let over_ipv6 = format!(
        "apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {{name: router, namespace: {NAMESPACE}}}\nspec: {{myASN: 64512, peerASN: 64513, peerAddress: 'fd00:10::1', nodeSelectors: [{{matchLabels: {{kubernetes.io/hostname: k8s-node-1}}}}]}}\n"
    );
    // Applying leaves dualStackAddressFamily to its default again.
    bgp.product.lab.apply(&over_ipv6).unwrap();
    until("the session over IPv6", SOON, || {
        let summary = bgp.show("ipv6 unicast summary")?;
        let state = text(&summary["peers"]["fd00:10::20"]["state"]);
        if state == "Established" { Ok(()) } else { Err(summary.to_string()) }
    });
    bgp.has_paths(&format!("{V6}/128"), &["fd00:10::20"]);
    bgp.has_paths(&format!("{V4}/32"), &[]);
    until("the client is served over IPv6", SOON, || bgp.curl(&format!("[{V6}]")));
}
