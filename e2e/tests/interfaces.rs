//! Nodes with two interfaces: an address is answered for on those that its advertisements name, on the network of
//! each, and nowhere else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::{NAMESPACE, Product, WORKERS, text, until};

const ADDRESS: &str = "192.168.10.235";
const LIMIT: Duration = Duration::from_secs(30);
const FIRST: &str = "ens18";
const SECOND: &str = "ens19";

const OBJECTS: &str = r"
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: nics, namespace: metallb-system}
spec: {addresses: [192.168.10.235/32], autoAssign: false}
---
apiVersion: v1
kind: Service
metadata: {name: nics, namespace: demo, annotations: {metallb.io/address-pool: nics}}
spec:
  type: LoadBalancer
  selector: {app.kubernetes.io/name: hello}
  ports: [{name: http, port: 80, targetPort: http}]
";

/// A second network: a bridge on the client, and a cable to it from each worker.
struct SecondNetwork<'a>(&'a Product);

impl<'a> SecondNetwork<'a> {
    fn new(product: &'a Product) -> Self {
        let client = product.lab.host("client").unwrap();
        let ip = |arguments: &str| {
            let words: Vec<&str> = ["ip"].into_iter().chain(arguments.split_whitespace()).collect();
            client.run(&words).unwrap();
        };
        // What is made is removed whatever fails.
        let network = Self(product);
        ip("link add second type bridge forward_delay 0");
        ip("address add 192.168.30.50/24 dev second");
        ip("link set second up");
        for (number, node) in WORKERS.into_iter().enumerate() {
            let cable = format!("cable{number}");
            client.cable(&cable, &product.lab.host(node).unwrap(), SECOND).unwrap();
            ip(&format!("link set {cable} master second"));
        }
        network
    }

    /// MACs that answer on it, by the node whose interface has them.
    fn answered(&self) -> BTreeSet<String> {
        let product = self.0;
        let client = product.lab.host("client").unwrap();
        let output = client.output(&["arping", "-b", "-c", "2", "-w", "2", "-I", "second", ADDRESS]).unwrap();
        let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
        let has = |node: &&&str| {
            let host = product.lab.host(node).unwrap();
            let link = host.run(&["ip", "-o", "link", "show", "dev", SECOND]).unwrap();
            let mac = link.split_whitespace().skip_while(|it| *it != "link/ether").nth(1).unwrap();
            said.contains(mac)
        };
        WORKERS.iter().filter(has).map(|node| (*node).to_owned()).collect()
    }
}

impl Drop for SecondNetwork<'_> {
    fn drop(&mut self) {
        // The other end of each cable goes with it.
        for device in ["cable0", "cable1", "second"] {
            let _ = self.0.lab.host("client").and_then(|client| client.run(&["ip", "link", "del", device]));
        }
    }
}

fn advertise(product: &Product, name: &str, interface: &str) {
    let advertisement = format!(
        "{{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {{name: {name}, namespace: {NAMESPACE}}}, \
         spec: {{ipAddressPools: [nics], interfaces: [{interface}]}}}}"
    );
    product.lab.apply(&advertisement).unwrap();
}

/// Waits until the status names these interfaces, and one node answers on each of their networks.
fn answered_on(network: &SecondNetwork<'_>, interfaces: &[&str]) {
    let product = network.0;
    until(&format!("answers on {interfaces:?}"), LIMIT, || {
        let statuses = product.items(&["-n", NAMESPACE, "servicel2statuses"]);
        let ours: Vec<_> = statuses.iter().filter(|it| it["status"]["serviceName"] == "nics").collect();
        let told: BTreeSet<String> = ours
            .iter()
            .flat_map(|it| it["status"]["interfaces"].as_array().into_iter().flatten())
            .map(|it| text(&it["name"]))
            .collect();
        let on_first: BTreeSet<String> =
            support::arp::ask(&product.lab, "client", ADDRESS, 2).into_iter().flatten().collect();
        let on_second = network.answered();
        let expected: BTreeSet<String> = interfaces.iter().map(|it| (*it).to_owned()).collect();
        let count = |interface| usize::from(interfaces.contains(&interface));
        if told == expected && on_first.len() == count(FIRST) && on_second.len() == count(SECOND) {
            Ok(())
        } else {
            Err(format!("told {told:?}; {FIRST}: {on_first:?}; {SECOND}: {on_second:?}"))
        }
    });
}

#[test]
fn an_address_is_answered_for_on_the_interfaces_that_are_named() {
    let product = Product::ready();
    let network = SecondNetwork::new(&product);
    product.lab.apply(OBJECTS).unwrap();
    for interface in [FIRST, SECOND, FIRST] {
        advertise(&product, "nics", interface);
        answered_on(&network, &[interface]);
    }
    advertise(&product, "nics-too", SECOND);
    answered_on(&network, &[FIRST, SECOND]);
    product.kubectl(&["-n", NAMESPACE, "delete", "l2advertisement", "nics-too"]);
    answered_on(&network, &[FIRST]);
    advertise(&product, "nics", "eth9");
    answered_on(&network, &[]);
    product.lab.delete(OBJECTS).unwrap();
    product.kubectl(&["-n", NAMESPACE, "delete", "l2advertisement", "nics"]);
}
