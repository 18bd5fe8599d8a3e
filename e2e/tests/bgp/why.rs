//! `kubectl ferrolb why` of a Service that only BGP announces: line one names what to change, and whoever changes
//! it is served.

use std::time::Duration;

use crate::router::{Bgp, SOON, V4};
use crate::support::{NAMESPACE, until};

fn says(bgp: &Bgp, line: &str) {
    until(line, Duration::from_secs(40), || {
        let (_, text) = bgp.product.plugin(&["why", "demo/hello-bgp"]);
        let said = text.lines().next().unwrap_or_default();
        if said.starts_with(line) { Ok(()) } else { Err(said.to_owned()) }
    });
}

#[test]
fn line_one_names_what_bgp_lacks() {
    let bgp = Bgp::ready();
    let advertisement = |spec: &str| {
        let patch = format!(r#"{{"spec":{spec}}}"#);
        let object = ["-n", NAMESPACE, "patch", "bgpadvertisement", "bgp", "--type=merge", "-p", &patch];
        bgp.product.kubectl(&object);
    };
    let served = || until("the client is served", SOON, || bgp.curl(V4));

    advertisement(r#"{"nodeSelectors":[{"matchLabels":{"why":"bgp"}}]}"#);
    says(&bgp, "BGPAdvertisement bgp, spec.nodeSelectors: ");
    bgp.product.kubectl(&["label", "node", "k8s-node-1", "why=bgp"]);
    served();
    advertisement(r#"{"nodeSelectors":null}"#);
    bgp.product.kubectl(&["label", "node", "k8s-node-1", "why-"]);

    advertisement(r#"{"serviceSelectors":[{"matchLabels":{"why":"bgp"}}]}"#);
    says(&bgp, "BGPAdvertisement bgp, spec.serviceSelectors: ");
    bgp.product.kubectl(&["-n", "demo", "label", "service", "hello-bgp", "why=bgp"]);
    served();

    // Another preference for the same Service.
    let other = format!(
        "{{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {{name: why, namespace: {NAMESPACE}}}, \
         spec: {{ipAddressPools: [bgp], localPref: 200}}}}"
    );
    bgp.product.lab.apply(&other).unwrap();
    says(&bgp, "BGPAdvertisement why, spec.localPref: ");
    bgp.product.lab.delete(&other).unwrap();
    served();

    advertisement(r#"{"serviceSelectors":null,"peers":["nobody"]}"#);
    says(&bgp, "BGPPeer, spec.nodeSelectors: ");
    advertisement(r#"{"peers":null}"#);
    served();
}
