//! Which node announces: advertisements by node, interface, Service and preference, and the state of nodes. Each
//! step changes one thing, and the wire and `ServiceL2Status` show the node that is expected.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::arp::ask;
use support::{NAMESPACE, Product, WORKERS, text, throughout, until};

const ADDRESS: &str = "192.168.10.232";
const LIMIT: Duration = Duration::from_secs(30);
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

const OBJECTS: &str = r"
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: select, namespace: metallb-system}
spec: {addresses: [192.168.10.232/32], autoAssign: false}
---
apiVersion: v1
kind: Service
metadata: {name: select, namespace: demo, labels: {expose: 'true'}, annotations: {metallb.io/address-pool: select}}
spec:
  type: LoadBalancer
  selector: {app.kubernetes.io/name: hello}
  ports: [{name: http, port: 80, targetPort: http}]
";

/// The advertisement with these fields beside its pool.
fn advertise(product: &Product, fields: &str) {
    let advertisement = format!(
        "{{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {{name: select, namespace: {NAMESPACE}}}, \
         spec: {{ipAddressPools: [select], {fields}}}}}"
    );
    product.lab.apply(&advertisement).unwrap();
}

fn on(node: &str) -> String {
    format!("nodeSelectors: [{{matchLabels: {{kubernetes.io/hostname: {node}}}}}]")
}

fn preferring(node: &str) -> String {
    format!(
        "preferredNodeSelectors: [{{weight: 100, preference: {{matchLabels: {{kubernetes.io/hostname: {node}}}}}}}]"
    )
}

/// Nodes that say they announce, and nodes that answer.
fn announcers(product: &Product) -> (BTreeSet<String>, BTreeSet<String>) {
    let statuses = product.items(&["-n", NAMESPACE, "servicel2statuses"]);
    let of_ours = statuses.iter().filter(|it| it["status"]["serviceName"] == "select");
    let told = of_ours.map(|it| text(&it["status"]["node"])).collect();
    (told, ask(&product.lab, "client", ADDRESS, 2).into_iter().flatten().collect())
}

fn announced_by(product: &Product, why: &str, nodes: &[&str]) {
    let expected: BTreeSet<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
    until(why, LIMIT, || match announcers(product) {
        (told, answered) if told == expected && answered == expected => Ok(()),
        (told, answered) => Err(format!("told {told:?}, answered {answered:?}, expected {expected:?}")),
    });
}

fn told(product: &Product, reason: &str) {
    until(reason, LIMIT, || {
        let selector = format!("involvedObject.name=select,reason={reason}");
        let events = product.items(&["-n", "demo", "events", "--field-selector", &selector]);
        if events.is_empty() { Err("no such Event".to_owned()) } else { Ok(()) }
    });
}

fn network_unavailable(product: &Product, node: &str, status: &str) {
    let patch = format!(
        r#"{{"status":{{"conditions":[{{"type":"NetworkUnavailable","status":"{status}","reason":"Test"}}]}}}}"#
    );
    product.kubectl(&["patch", "node", node, "--subresource=status", "-p", &patch]);
}

/// It is the one, and stays it.
fn settled_on(product: &Product, why: &str, node: &str) {
    throughout(why, Duration::from_secs(3), || match announcers(product) {
        (told, answered) if told.iter().chain(&answered).all(|it| it == node) => Ok(()),
        seen => Err(format!("{seen:?}")),
    });
}

/// What several advertisements prefer adds up.
fn two_advertisements_that_prefer(product: &Product) {
    let [first, second] = WORKERS;
    let prefer = |name: &str, weight: u32, label: &str| {
        let advertisement = format!(
            "{{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {{name: {name}, namespace: {NAMESPACE}}}, \
             spec: {{ipAddressPools: [select], preferredNodeSelectors: [{{weight: {weight}, preference: \
             {{matchLabels: {{{label}: here}}}}}}]}}}}"
        );
        product.lab.apply(&advertisement).unwrap();
    };
    product.kubectl(&["label", "node", first, "select-zone=here", "select-role=here"]);
    product.kubectl(&["label", "node", second, "select-zone=here"]);
    prefer("select", 60, "select-zone");
    prefer("select-too", 50, "select-role");
    announced_by(product, "110 is more than 60", &[first]);
    product.kubectl(&["label", "node", first, "select-zone-"]);
    announced_by(product, "60 is more than 50", &[second]);
    product.kubectl(&["label", "node", first, "select-role-"]);
    product.kubectl(&["label", "node", second, "select-zone-"]);
    product.kubectl(&["-n", NAMESPACE, "delete", "l2advertisement", "select-too"]);
}

#[test]
fn the_selected_node_announces() {
    let product = Product::ready();
    let [first, second] = WORKERS;
    product.lab.apply(OBJECTS).unwrap();

    for node in WORKERS {
        advertise(&product, &on(node));
        announced_by(&product, "the advertisement is for one node", &[node]);
    }
    advertise(&product, "nodeSelectors: [{matchLabels: {select: here}}]");
    announced_by(&product, "no node has the label", &[]);
    product.kubectl(&["label", "node", first, "select=here"]);
    announced_by(&product, "a node got the label", &[first]);
    product.kubectl(&["label", "node", first, "select-"]);

    advertise(&product, "interfaces: [eth9]");
    told(&product, "announceFailed");
    announced_by(&product, "no node has the interface", &[]);

    advertise(&product, &preferring(second));
    announced_by(&product, "a node is preferred", &[second]);
    product.kubectl(&["label", "node", second, &format!("{EXCLUDE}=")]);
    announced_by(&product, "the preferred node is excluded", &[first]);
    product.kubectl(&["label", "node", second, &format!("{EXCLUDE}-")]);
    announced_by(&product, "the preferred node is back", &[second]);
    advertise(&product, &format!("{}, {}", on(first), preferring(second)));
    announced_by(&product, "a preference does not select", &[first]);

    network_unavailable(&product, first, "True");
    advertise(&product, "nodeSelectors: []");
    announced_by(&product, "the node has no network", &[second]);
    network_unavailable(&product, first, "False");
    settled_on(&product, "an address that works does not move back", second);
    two_advertisements_that_prefer(&product);

    advertise(&product, &on(first));
    announced_by(&product, "for the next step", &[first]);
    advertise(&product, "serviceSelectors: [{matchLabels: {expose: 'true'}}, {matchLabels: {expose: also}}]");
    announced_by(&product, "the Service is selected, and nothing moves", &[first]);
    product.kubectl(&["-n", "demo", "label", "--overwrite", "service", "select", "expose=false"]);
    announced_by(&product, "the Service is not selected any more", &[]);
    product.kubectl(&["-n", "demo", "label", "--overwrite", "service", "select", "expose=also"]);
    until("it is again", LIMIT, || match announcers(&product) {
        (told, answered) if told.len() == 1 && told == answered => Ok(()),
        seen => Err(format!("{seen:?}")),
    });

    product.lab.delete(OBJECTS).unwrap();
    product.kubectl(&["-n", NAMESPACE, "delete", "l2advertisement", "select"]);
}
