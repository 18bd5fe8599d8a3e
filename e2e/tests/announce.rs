//! What a user sees when a Service gets an address: one node answers for it, Kubernetes says which, and
//! the texts are those that people know from MetalLB.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::arp::ask;
use support::{ADDRESS, NAMESPACE, Product, UNUSED, text, until};

/// Over a hundred broadcast requests from two hosts: the same one node answers each, once.
#[test]
fn exactly_one_node_answers_for_an_address() {
    let product = Product::ready();
    let expected: BTreeSet<String> = [product.owner().unwrap()].into();
    for host in ["client", "router"] {
        let answers = ask(&product.lab, host, ADDRESS, 50);
        assert_eq!(answers.len(), 50, "requests seen from {host}");
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(*answer, expected, "request {number} from {host}");
        }
    }
}

#[test]
fn an_address_that_no_service_has_is_answered_by_none() {
    let product = Product::ready();
    let answers = ask(&product.lab, "client", UNUSED, 20);
    assert!(answers.len() >= 20, "{} requests seen", answers.len());
    assert!(answers.iter().all(BTreeSet::is_empty), "{answers:?}");
}

/// Status, Events, annotation and status object as in the walk through MetalLB.
#[test]
fn kubernetes_tells_who_gave_and_who_announces() {
    let product = Product::ready();
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"],
        serde_json::json!([{"ip": ADDRESS, "ipMode": "VIP"}])
    );
    assert_eq!(service["metadata"]["annotations"]["metallb.io/ip-allocated-from-pool"], "default");
    let owner = product.owner().unwrap();
    let wanted = [
        ("IPAllocated", "metallb-controller", format!("Assigned IP [\"{ADDRESS}\"]")),
        (
            "nodeAssigned",
            "metallb-speaker",
            format!("announcing from node \"{owner}\" with protocol \"layer2\""),
        ),
    ];
    until("the Events of the Service", Duration::from_secs(20), || {
        let selector = "involvedObject.name=hello-lb";
        let events = product.items(&["-n", "demo", "events", "--field-selector", selector]);
        let seen: Vec<_> = events
            .iter()
            .map(|it| (text(&it["reason"]), text(&it["source"]["component"]), text(&it["message"])))
            .collect();
        let has = |(reason, from, message): &(&str, &str, String)| {
            seen.iter().any(|(a, b, c)| a == reason && b == from && c == message)
        };
        if wanted.iter().all(has) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    let status = product.items(&["-n", NAMESPACE, "servicel2statuses"]).remove(0);
    assert_eq!(status["status"]["interfaces"], serde_json::json!([{"name": "ens18"}]));
    assert_eq!(status["metadata"]["labels"]["metallb.io/service-name"], "hello-lb");
    assert_eq!(status["metadata"]["ownerReferences"][0]["kind"], "Pod");
    let pool = until("the pool's counters", Duration::from_secs(20), || {
        let pool = product.get(&["-n", NAMESPACE, "ipaddresspool", "default"])?;
        if pool["status"]["assignedIPv4"] == 1 { Ok(pool) } else { Err(pool["status"].to_string()) }
    });
    assert_eq!(pool["status"]["availableIPv4"], 20);
}
