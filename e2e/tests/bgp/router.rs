//! The router of the lab, and what the tests announce to it.

#![expect(unreachable_pub, reason = "a part of one test file")]

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolb_e2e::host::Host;
use serde_json::Value;

use crate::support::{NAMESPACE, Product, text, until};

pub const V4: &str = "192.168.20.100";
pub const V6: &str = "fd00:20::100";
pub const NODE_ADDRESSES: [&str; 3] = ["192.168.10.17", "192.168.10.20", "192.168.10.21"];
pub const WORKER_ADDRESSES: [&str; 2] = ["192.168.10.20", "192.168.10.21"];
pub const SOON: Duration = Duration::from_secs(30);
/// Longer than the pauses between tries, and than a try that nobody answers.
pub const RECOVERY: Duration = Duration::from_secs(90);

/// A pool outside the LAN, a dual-stack Service of it, and another with one pod on the second worker.
pub const OBJECTS: &str = r"
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

pub fn peer(spec: &str) -> String {
    format!(
        "apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {{name: router, namespace: {NAMESPACE}}}\nspec: {{myASN: 64512, dualStackAddressFamily: true, {spec}}}\n"
    )
}

/// The product with BGP, and the router that it talks to. Takes its objects away at the end.
pub struct Bgp {
    pub product: Product,
    pub router: Host,
}

impl Bgp {
    pub fn ready() -> Self {
        let product = Product::ready();
        let router = product.lab.host("router").unwrap();
        let bgp = Self { product, router };
        // Client, router and nodes share a LAN: a redirect would take the router out of the way.
        for interface in ["all", "eth0"] {
            let redirects = format!("echo 0 >/proc/sys/net/ipv4/conf/{interface}/send_redirects");
            bgp.router.run(&["sh", "-c", &redirects]).unwrap();
        }
        bgp.product.lab.host("client").unwrap().run(&["ip", "route", "flush", "cache"]).unwrap();
        bgp.product.lab.apply(&peer("peerASN: 64513, peerAddress: 192.168.10.1")).unwrap();
        bgp.product.lab.apply(OBJECTS).unwrap();
        bgp.established(SOON);
        bgp
    }

    pub fn vtysh(&self, commands: &[&str]) -> Result<String, String> {
        let flags = commands.iter().flat_map(|command| ["-c", command]);
        let command: Vec<&str> = ["vtysh"].into_iter().chain(flags).collect();
        self.router.run(&command).map_err(|error| error.to_string())
    }

    pub fn show(&self, what: &str) -> Result<Value, String> {
        let text = self.vtysh(&[&format!("show bgp {what} json")])?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// State of the session with each node, as the router sees it.
    pub fn states(&self) -> Result<Vec<(String, String)>, String> {
        let summary = self.show("ipv4 unicast summary")?;
        let state = |node: &&str| ((*node).to_owned(), text(&summary["peers"][*node]["state"]));
        Ok(NODE_ADDRESSES.iter().map(state).collect())
    }

    pub fn established(&self, limit: Duration) {
        until("a session with every node", limit, || {
            let states = self.states()?;
            let all = states.iter().all(|(_, state)| state == "Established");
            if all { Ok(()) } else { Err(format!("{states:?}")) }
        });
    }

    /// Next hops of a prefix in the router's table.
    pub fn paths(&self, prefix: &str) -> Result<BTreeSet<String>, String> {
        let family = if prefix.contains(':') { "ipv6" } else { "ipv4" };
        let table = self.show(&format!("{family} unicast"))?;
        let paths = table["routes"][prefix].as_array().cloned().unwrap_or_default();
        let next_hops = |path: &Value| path["nexthops"].as_array().cloned().unwrap_or_default();
        let global = |hop: &Value| hop["scope"] != "link-local";
        Ok(paths.iter().flat_map(next_hops).filter(global).map(|hop| text(&hop["ip"])).collect())
    }

    pub fn has_paths(&self, prefix: &str, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        until(&format!("{prefix} by way of {expected:?}"), SOON, || {
            let seen = self.paths(prefix)?;
            if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
        });
    }

    /// How often the session with each node came up since the router started.
    pub fn sessions(&self) -> Result<Vec<Value>, String> {
        let neighbors = self.show("neighbors")?;
        Ok(NODE_ADDRESSES.iter().map(|node| neighbors[*node]["connectionsEstablished"].clone()).collect())
    }

    pub fn curl(&self, address: &str) -> Result<String, String> {
        let client = self.product.lab.host("client").map_err(|error| error.to_string())?;
        let url = format!("http://{address}/hostname");
        client.curl(&url, Duration::from_secs(2)).map_err(|error| error.to_string())
    }

    /// Messages of Events about an object.
    pub fn events(&self, namespace: &str, name: &str, reason: &str) -> Vec<String> {
        let selector = format!("involvedObject.name={name},reason={reason}");
        let events = self.product.items(&["-n", namespace, "events", "--field-selector", &selector]);
        events.iter().map(|event| text(&event["message"])).collect()
    }

    pub fn told(&self, reason: &str, part: &str) {
        until(&format!("an Event {reason} with: {part}"), RECOVERY, || {
            let seen = self.events(NAMESPACE, "router", reason);
            if seen.iter().any(|it| it.contains(part)) { Ok(()) } else { Err(format!("{seen:?}")) }
        });
    }

    pub fn statuses(&self) -> Vec<(String, String, Value)> {
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
