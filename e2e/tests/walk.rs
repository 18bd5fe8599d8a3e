//! The walk of MetalLB Operator's documentation: the operator's Deployment, the object with node selector and
//! tolerations, the one Deployment and the DaemonSet that come of it, the line in the controller's log, the
//! single object, and its end.
//!
//! What is not as there, and why: `oc` is kubectl; pools are `IPAddressPool` (`AddressPool` is not served by
//! MetalLB any more); a Service may have an address of each family, so that the log has a list of them; the node that announces need not have an
//! endpoint of a Service with the traffic policy `Cluster`; a second object is refused when it is applied and
//! not in its status.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::{ADDRESS, NAMESPACE, NODES, Product, text, until};

const SOON: Duration = Duration::from_secs(60);

/// Takes back what the walk does to nodes, whatever becomes of it.
struct Nodes<'a>(&'a Product);

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        for arguments in [["label", "nodes", "--all", "walk-"], ["taint", "nodes", "--all", "walk-"]] {
            // What was not done yet need not be taken back.
            let _ = self.0.lab.kubectl(&arguments);
        }
    }
}

fn set(product: &Product, spec: &str) {
    let patch = format!("{{\"spec\": {spec}}}");
    product.kubectl(&["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", &patch]);
}

/// Waits until there are ready speakers on these nodes, and on no other.
fn speakers_on(product: &Product, nodes: &[&str]) {
    let wanted: BTreeSet<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
    until(&format!("speakers on {nodes:?}"), SOON, || {
        let daemon_set = product.get(&["-n", NAMESPACE, "daemonset", "speaker"])?;
        let status = &daemon_set["status"];
        let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"]);
        let on: BTreeSet<String> = pods.iter().map(|pod| text(&pod["spec"]["nodeName"])).collect();
        let count = nodes.len();
        let complete = ["desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled"]
            .iter()
            .all(|field| status[*field] == count);
        if on == wanted && complete { Ok(()) } else { Err(format!("{on:?}, {status}")) }
    });
}

#[test]
fn the_walk_of_the_documentation() {
    let product = Product::ready();
    let nodes = Nodes(&product);
    let ready = |name: &str| {
        until(&format!("Deployment {name} is ready"), SOON, || {
            let deployment = product.get(&["-n", NAMESPACE, "deployment", name])?;
            let status = &deployment["status"];
            if status["readyReplicas"] == 1 { Ok(()) } else { Err(status.to_string()) }
        });
    };
    ready("metallb-operator-controller-manager");
    ready("controller");
    speakers_on(&product, &NODES);

    // Selected nodes only; a tainted one of them with a toleration only.
    product.kubectl(&["label", "node", "k8s-node-1", "walk=worker"]);
    set(&product, r#"{"nodeSelector": {"walk": "worker"}}"#);
    speakers_on(&product, &["k8s-node-1"]);
    product.kubectl(&["taint", "node", "k8s-node-2", "walk=infra:NoSchedule"]);
    product.kubectl(&["label", "node", "k8s-node-2", "walk=worker"]);
    speakers_on(&product, &["k8s-node-1"]);
    set(
        &product,
        r#"{"speakerTolerations": [{"key": "walk", "operator": "Equal", "value": "infra", "effect": "NoSchedule"}]}"#,
    );
    speakers_on(&product, &["k8s-node-1", "k8s-node-2"]);
    until("the Service answers", SOON, || product.curl());
    set(&product, r#"{"nodeSelector": null, "speakerTolerations": null}"#);
    drop(nodes);
    speakers_on(&product, &NODES);

    // A new address is in the controller's log as the documentation shows it.
    product.kubectl(&["-n", "demo", "delete", "service", "hello-lb"]);
    product.apply_sample("hello-lb.yaml");
    until("the controller's line", SOON, || {
        let log = product.kubectl(&["-n", NAMESPACE, "logs", "deployment/controller", "--tail=200"]);
        let ip = format!("\"ip\":[\"{ADDRESS}\"]");
        let parts = ["\"event\":\"ipAllocated\"", &ip, "\"msg\":\"IP address assigned by controller\""];
        let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
        if log.lines().any(is_it) { Ok(()) } else { Err(log) }
    });
    until("the Service answers", SOON, || product.curl());

    let second = format!(
        "apiVersion: metallb.io/v1beta1\nkind: MetalLB\nmetadata: {{name: second, namespace: {NAMESPACE}}}\n"
    );
    let refusal = product.lab.apply(&second).unwrap_err().to_string();
    assert!(refusal.contains("name it metallb"), "{refusal}");

    product.kubectl(&["-n", NAMESPACE, "delete", "metallb", "metallb", "--timeout=60s"]);
    until("everything is removed", SOON, || {
        let pods = [
            "-n",
            NAMESPACE,
            "get",
            "pods,deployments,daemonsets",
            "-l",
            "component!=operator",
            "-o",
            "name",
        ];
        let left = product.kubectl(&pods);
        let others = |line: &&str| !line.contains("controller-manager");
        let left: Vec<&str> = left.lines().filter(others).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    });
    product.apply_sample("metallb.yaml");
    product.wait_available(SOON);
    product.wait_admitting();
}
