//! Where the pods are, and which node answers: an address of a Service with `externalTrafficPolicy: Local` is
//! where its pods are, and Services that share an address have one node.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::arp::ask;
use support::{NAMESPACE, Product, WORKERS, text, until};

const LIMIT: Duration = Duration::from_secs(40);
const LOCAL: &str = "192.168.10.233";
const SHARED: [&str; 2] = ["192.168.10.234", "fd00:10::1:234"];

/// Pods that run on one node, and Services of theirs.
fn objects() -> String {
    let deployment = |name: &str, node: &str, replicas: u8| {
        format!(
            "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: demo}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      nodeSelector: {{kubernetes.io/hostname: {node}}}
      terminationGracePeriodSeconds: 0
      containers:
      - {{name: hello, image: 'docker.io/lab/agnhost:1', args: [netexec, --http-port=8080], ports: [{{name: http, containerPort: 8080}}]}}
---
"
        )
    };
    let service = |name: &str, app: &str, address: &str, port: u16, more: &str| {
        let family = if address.contains(':') { "IPv6" } else { "IPv4" };
        format!(
            "apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: demo
  annotations: {{metallb.io/loadBalancerIPs: '{address}', metallb.io/allow-shared-ip: '{address}'}}
spec:
  type: LoadBalancer
  ipFamilies: [{family}]
  selector: {{app: {app}}}
  ports: [{{name: http, port: {port}, targetPort: http}}]
{more}---
"
        )
    };
    let [first, second] = WORKERS;
    let [four, six] = SHARED;
    [
        "{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: where, namespace: metallb-system}, \
         spec: {addresses: [192.168.10.233-192.168.10.234, 'fd00:10::1:234/128'], autoAssign: false}}\n---\n"
            .to_owned(),
        "{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: where, namespace: metallb-system}, \
         spec: {ipAddressPools: [where]}}\n---\n"
            .to_owned(),
        deployment("where-first", first, 5),
        deployment("where-second", second, 1),
        service("where-local", "where-first", LOCAL, 80, "  externalTrafficPolicy: Local\n"),
        service("where-a", "where-first", four, 80, ""),
        service("where-b", "where-second", four, 81, ""),
        service("where-a6", "where-first", six, 80, ""),
        service("where-b6", "where-second", six, 81, ""),
    ]
    .concat()
}

/// Nodes that say they announce a Service.
fn told(product: &Product, service: &str) -> BTreeSet<String> {
    let statuses = product.items(&["-n", NAMESPACE, "servicel2statuses"]);
    let of_it = statuses.iter().filter(|it| it["status"]["serviceName"] == service);
    of_it.map(|it| text(&it["status"]["node"])).collect()
}

fn curl(product: &Product, address: &str, port: u16) -> Result<String, String> {
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let url = format!("http://{host}:{port}/hostname");
    product.lab.host("client").unwrap().curl(&url, Duration::from_secs(2)).map_err(|error| error.to_string())
}

#[test]
fn local_traffic_goes_to_a_node_with_pods_and_services_that_share_an_address_have_one_node() {
    let product = Product::ready();
    let objects = objects();
    product.lab.apply(&objects).unwrap();

    for (node, moves) in [(WORKERS[0], false), (WORKERS[1], true)] {
        if moves {
            // The pods go to another node, and the address follows them.
            let selector = format!(
                r#"{{"spec":{{"template":{{"spec":{{"nodeSelector":{{"kubernetes.io/hostname":"{node}"}}}}}}}}}}"#
            );
            product.kubectl(&["-n", "demo", "patch", "deployment", "where-first", "-p", &selector]);
            product.kubectl(&["-n", "demo", "rollout", "status", "deployment/where-first", "--timeout=60s"]);
        }
        let expected = BTreeSet::from([node.to_owned()]);
        until("the node with the pods answers", LIMIT, || {
            let answered: BTreeSet<String> =
                ask(&product.lab, "client", LOCAL, 2).into_iter().flatten().collect();
            let told = told(&product, "where-local");
            if (&told, &answered) == (&expected, &expected) {
                Ok(())
            } else {
                Err(format!("{told:?}, {answered:?}"))
            }
        });
        until("five requests are answered", LIMIT, || {
            (0..5).try_for_each(|_| curl(&product, LOCAL, 80).map(drop))
        });
        let pods = product.items(&["-n", "demo", "pods", "-l", "app=where-first"]);
        let there: BTreeSet<String> = pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == node)
            .map(|pod| text(&pod["metadata"]["name"]))
            .collect();
        for _ in 0..5 {
            let pod = curl(&product, LOCAL, 80).unwrap();
            assert!(there.contains(&pod), "{pod} answered, on {node} are {there:?}");
        }
    }

    for (address, a, b) in [(SHARED[0], "where-a", "where-b"), (SHARED[1], "where-a6", "where-b6")] {
        let node = until("both Services have one node", LIMIT, || {
            let (of_a, of_b) = (told(&product, a), told(&product, b));
            match of_a.first() {
                Some(node) if of_a.len() == 1 && of_a == of_b => Ok(node.clone()),
                _ => Err(format!("{a}: {of_a:?}, {b}: {of_b:?}")),
            }
        });
        until("both are reached", LIMIT, || {
            curl(&product, address, 80).and_then(|_| curl(&product, address, 81)).map(drop)
        });
        let message = format!("announcing from node \"{node}\" with protocol \"layer2\"");
        for service in [a, b] {
            until("the Event nodeAssigned", LIMIT, || {
                let selector = format!("involvedObject.name={service},reason=nodeAssigned");
                let events = product.items(&["-n", "demo", "events", "--field-selector", &selector]);
                let seen: Vec<String> = events.iter().map(|it| text(&it["message"])).collect();
                if seen.contains(&message) { Ok(()) } else { Err(format!("{seen:?}")) }
            });
        }
    }
    product.lab.delete(&objects).unwrap();
}
