//! Without an API server everything stays as it is: the wire needs none, and a node that is lost is replaced.
//!
//! `API_SECONDS=600` is the time without it.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use ferrolb_e2e::progress::Progress;
use ferrolb_e2e::wire::{first_announcement, now};
use support::arp::{Asking, answered_by};
use support::{ADDRESS, Product, WORKERS, measured, seconds, throughout, until};

/// More addresses, so that each node has some.
const OTHERS: [&str; 5] =
    ["192.168.10.201", "192.168.10.202", "192.168.10.203", "192.168.10.204", "192.168.10.205"];

fn services() -> String {
    let service = |address: &&str| {
        let name = address.replace('.', "-");
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: outage-{name}, namespace: demo, annotations: \
             {{metallb.io/loadBalancerIPs: {address}}}}}, spec: {{type: LoadBalancer, \
             selector: {{app.kubernetes.io/name: hello}}, ports: [{{name: http, port: 80, targetPort: http}}]}}}}\n---\n"
        )
    };
    OTHERS.iter().map(service).collect()
}

/// Who answers for each address.
fn owners(product: &Product) -> BTreeMap<&'static str, String> {
    let of = |address| (address, answered_by(&product.lab, "client", address, Duration::from_secs(30)));
    OTHERS.into_iter().chain([ADDRESS]).map(of).collect()
}

#[test]
fn the_service_answers_throughout_and_nothing_restarts() {
    let product = Product::ready();
    let lab = &product.lab;
    lab.apply(&services()).unwrap();
    let before = (product.restarts(), owners(&product));
    lab.api_stop().unwrap();
    throughout("the Service answers without an API server", seconds("API_SECONDS", 120), || {
        product.curl().map(drop)
    });
    assert_eq!(owners(&product), before.1, "without an API server");

    // A node is lost meanwhile.
    let owner = before.1[ADDRESS].clone();
    let heir = WORKERS.into_iter().find(|it| *it != owner).unwrap();
    let asking = Asking::start(lab, "client", ADDRESS);
    let cut = now();
    lab.cut(&owner).unwrap();
    let after = owners(&product);
    let frames = asking.stop();
    assert!(after.values().all(|it| it == heir), "{after:?}");
    let kept = before.1.iter().filter(|(_, by)| *by == heir);
    let first = first_announcement(&frames, heir, ADDRESS.parse().unwrap(), cut);
    let delay = first.expect("a gratuitous frame of the new owner").at - cut;
    measured("without an API server, link cut to the first frame of the new owner, s", format!("{delay:.2}"));
    assert!(delay < 10.0, "{delay}");
    measured("addresses that stayed where they were", format!("{} of {}", kept.count(), before.1.len()));
    lab.heal(&owner).unwrap();
    assert_eq!(owners(&product), after, "the node is back");

    lab.api_start(&Progress::quiet()).unwrap();
    // Kubernetes itself marks nodes and endpoints unready for some seconds now: what kube-proxy does not
    // forward is not ours. Afterwards everything is as before.
    let begin = std::time::Instant::now();
    let mut failed = 0;
    while begin.elapsed() < Duration::from_secs(20) {
        failed += u32::from(product.curl().is_err());
        std::thread::sleep(Duration::from_millis(100));
    }
    measured("requests that failed in 20 s after the API server's return", failed);
    product.wait_nodes_ready();
    product.wait_pods_ready();
    until("the Service answers", Duration::from_secs(30), || product.curl());
    until("its announcement is told", Duration::from_secs(30), || product.owner());
    assert_eq!(owners(&product), after, "the API server is back");
    assert_eq!(product.restarts(), before.0);
    product.wait_available(Duration::from_secs(60));
    lab.delete(&services()).unwrap();
}
