//! BGP as a user and the router see it: the installed speakers talk to FRR, which sends the client's
//! requests to every node that announces.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolb_e2e::host::Host;
use serde_json::Value;
use support::{NAMESPACE, NODES, Product, WORKERS, text, throughout, until};

const V4: &str = "192.168.20.100";
const V6: &str = "fd00:20::100";
const NODE_ADDRESSES: [&str; 3] = ["192.168.10.17", "192.168.10.20", "192.168.10.21"];
const WORKER_ADDRESSES: [&str; 2] = ["192.168.10.20", "192.168.10.21"];
const SOON: Duration = Duration::from_secs(30);
/// Longer than the pauses between tries, and than a try that nobody answers.
const RECOVERY: Duration = Duration::from_secs(90);

/// A pool outside the LAN, a dual-stack Service of it, and another with one pod on the second worker.
const OBJECTS: &str = r"
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: bgp, namespace: metallb-system}
spec: {addresses: [192.168.20.100-192.168.20.103, 'fd00:20::100-fd00:20::103'], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: bgp, namespace: metallb-system}
spec: {ipAddressPools: [bgp]}
---
apiVersion: v1
kind: Service
metadata:
  name: hello-bgp
  namespace: demo
  annotations: {metallb.io/address-pool: bgp}
spec:
  type: LoadBalancer
  ipFamilyPolicy: RequireDualStack
  selector: {app.kubernetes.io/name: hello}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: demo, labels: {app.kubernetes.io/name: alone}}
spec:
  nodeName: k8s-node-2
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65534}
  containers:
  - name: hello
    image: docker.io/lab/agnhost:1
    args: [netexec, --http-port=8080]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /hostname, port: http}, periodSeconds: 1}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata:
  name: alone-bgp
  namespace: demo
  annotations: {metallb.io/loadBalancerIPs: 192.168.20.103}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {app.kubernetes.io/name: alone}
  ports: [{name: http, port: 80, targetPort: http}]
";

fn peer(spec: &str) -> String {
    format!(
        "apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {{name: router, namespace: {NAMESPACE}}}\nspec: {{myASN: 64512, dualStackAddressFamily: true, {spec}}}\n"
    )
}

/// The product with BGP, and the router that it talks to. Takes its objects away at the end.
struct Bgp {
    product: Product,
    router: Host,
}

impl Bgp {
    fn ready() -> Self {
        let product = Product::ready();
        let router = product.lab.host("router").unwrap();
        let bgp = Self { product, router };
        bgp.product.lab.apply(&peer("peerASN: 64513, peerAddress: 192.168.10.1")).unwrap();
        bgp.product.lab.apply(OBJECTS).unwrap();
        bgp.established(SOON);
        bgp
    }

    fn vtysh(&self, commands: &[&str]) -> Result<String, String> {
        let flags = commands.iter().flat_map(|command| ["-c", command]);
        let command: Vec<&str> = ["vtysh"].into_iter().chain(flags).collect();
        self.router.run(&command).map_err(|error| error.to_string())
    }

    fn show(&self, what: &str) -> Result<Value, String> {
        let text = self.vtysh(&[&format!("show bgp {what} json")])?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// State of the session with each node, as the router sees it.
    fn states(&self) -> Result<Vec<(String, String)>, String> {
        let summary = self.show("ipv4 unicast summary")?;
        let state = |node: &&str| ((*node).to_owned(), text(&summary["peers"][*node]["state"]));
        Ok(NODE_ADDRESSES.iter().map(state).collect())
    }

    fn established(&self, limit: Duration) {
        until("a session with every node", limit, || {
            let states = self.states()?;
            let all = states.iter().all(|(_, state)| state == "Established");
            if all { Ok(()) } else { Err(format!("{states:?}")) }
        });
    }

    /// Next hops of a prefix in the router's table.
    fn paths(&self, prefix: &str) -> Result<BTreeSet<String>, String> {
        let family = if prefix.contains(':') { "ipv6" } else { "ipv4" };
        let table = self.show(&format!("{family} unicast"))?;
        let paths = table["routes"][prefix].as_array().cloned().unwrap_or_default();
        let next_hops = |path: &Value| path["nexthops"].as_array().cloned().unwrap_or_default();
        let global = |hop: &Value| hop["scope"] != "link-local";
        Ok(paths.iter().flat_map(next_hops).filter(global).map(|hop| text(&hop["ip"])).collect())
    }

    fn has_paths(&self, prefix: &str, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        until(&format!("{prefix} by way of {expected:?}"), SOON, || {
            let seen = self.paths(prefix)?;
            if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
        });
    }

    /// How often the session with each node came up since the router started.
    fn sessions(&self) -> Result<Vec<Value>, String> {
        let neighbors = self.show("neighbors")?;
        Ok(NODE_ADDRESSES.iter().map(|node| neighbors[*node]["connectionsEstablished"].clone()).collect())
    }

    fn curl(&self, address: &str) -> Result<String, String> {
        let client = self.product.lab.host("client").map_err(|error| error.to_string())?;
        let url = format!("http://{address}/hostname");
        client.curl(&url, Duration::from_secs(2)).map_err(|error| error.to_string())
    }

    /// Messages of Events about an object.
    fn events(&self, namespace: &str, name: &str, reason: &str) -> Vec<String> {
        let selector = format!("involvedObject.name={name},reason={reason}");
        let events = self.product.items(&["-n", namespace, "events", "--field-selector", &selector]);
        events.iter().map(|event| text(&event["message"])).collect()
    }

    fn told(&self, reason: &str, part: &str) {
        until(&format!("an Event {reason} with: {part}"), RECOVERY, || {
            let seen = self.events(NAMESPACE, "router", reason);
            if seen.iter().any(|it| it.contains(part)) { Ok(()) } else { Err(format!("{seen:?}")) }
        });
    }

    fn statuses(&self) -> Vec<(String, String, Value)> {
        let statuses = self.product.items(&["-n", NAMESPACE, "servicebgpstatuses"]);
        let mut seen: Vec<_> = statuses
            .iter()
            .map(|it| &it["status"])
            .map(|it| (text(&it["serviceName"]), text(&it["node"]), it["peers"].clone()))
            .collect();
        seen.sort_by_key(|(service, node, _)| (service.clone(), node.clone()));
        seen
    }
}

impl Drop for Bgp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for what in ["summary", "ipv4 unicast", "ipv6 unicast"] {
                eprintln!("{}", self.vtysh(&[&format!("show bgp {what}")]).unwrap_or_else(|error| error));
            }
        }
        let _ = self.vtysh(&[
            "configure terminal",
            "router bgp 64513",
            "no neighbor nodes password",
            "no neighbor fd00:10::20",
        ]);
        let _ = self.product.lab.delete(OBJECTS);
        let _ = self.product.lab.delete(&peer("peerASN: 64513, peerAddress: 192.168.10.1"));
        let _ = self.product.lab.kubectl(&["-n", NAMESPACE, "delete", "secret", "bgp-password"]);
    }
}

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
