//! The same over IPv6: a Service gets an address, a client reaches it by neighbour discovery, and one node
//! answers its solicitations (RFC 4861 section 7.2).

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolb_e2e::wire::exchanges;
use support::{NAMESPACE, Product, text, until};

const ADDRESS: &str = "fd00:10::1:200";

const CONFIGURATION: &str = r"
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: six, namespace: metallb-system}
spec: {addresses: ['fd00:10::1:200-fd00:10::1:210']}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: six, namespace: metallb-system}
spec: {ipAddressPools: [six]}
";

const SERVICE: &str = r"
apiVersion: v1
kind: Service
metadata: {name: hello-six, namespace: demo, annotations: {metallb.io/address-pool: six}}
spec:
  type: LoadBalancer
  ipFamilies: [IPv6]
  selector: {app.kubernetes.io/name: hello}
  ports: [{name: http, port: 80, targetPort: http}]
";

/// One request of the client, which has to ask first who has the address.
fn curl_after_asking(product: &Product) -> Result<String, String> {
    let client = product.lab.host("client").map_err(|error| error.to_string())?;
    client
        .run(&["ip", "-6", "neighbour", "flush", "to", ADDRESS])
        .and_then(|_| client.curl(&format!("http://[{ADDRESS}]/hostname"), Duration::from_secs(2)))
        .map_err(|error| error.to_string())
}

#[test]
fn one_node_answers_the_solicitations_for_an_address() {
    let product = Product::ready();
    product.lab.apply(CONFIGURATION).unwrap_or_else(|error| panic!("{error}"));
    product.lab.apply(SERVICE).unwrap_or_else(|error| panic!("{error}"));
    until("the Service answers", Duration::from_secs(30), || curl_after_asking(&product));
    let service = product.get(&["-n", "demo", "service", "hello-six"]).unwrap_or_default();
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"],
        serde_json::json!([{"ip": ADDRESS, "ipMode": "VIP"}])
    );
    let owner = until("a ServiceL2Status", Duration::from_secs(30), || {
        let statuses = product.items(&["-n", NAMESPACE, "servicel2statuses"]);
        let of_six = |it: &&serde_json::Value| it["status"]["serviceName"] == "hello-six";
        let nodes: Vec<String> =
            statuses.iter().filter(of_six).map(|it| text(&it["status"]["node"])).collect();
        if let [node] = nodes.as_slice() { Ok(node.clone()) } else { Err(format!("{nodes:?}")) }
    });

    let wire = product.lab.record().unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..20 {
        curl_after_asking(&product).unwrap_or_else(|error| panic!("{error}"));
    }
    let address = ADDRESS.parse().unwrap_or_else(|error| panic!("{error}"));
    let asked = exchanges(&wire.stop(), "client", address);
    assert!(asked.len() >= 20, "{asked:?}");
    let expected = BTreeSet::from([owner]);
    assert!(asked.iter().all(|it| it.answered_by == expected), "{expected:?}: {asked:?}");

    product.lab.delete(SERVICE).unwrap_or_else(|error| panic!("{error}"));
    until("nobody answers", Duration::from_secs(20), || {
        curl_after_asking(&product).map_or(Ok(()), |from| Err(format!("answered by {from}")))
    });
    product.lab.delete(CONFIGURATION).unwrap_or_else(|error| panic!("{error}"));
}
