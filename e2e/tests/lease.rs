//! Membership by Leases, where speakers cannot reach each other's ports: the field of the `MetalLB` object, one
//! Lease for each node, and who answers when a node is cut off.

mod support;

use std::time::Duration;

use ferrolb_e2e::wire::{first_announcement, now};
use support::arp::{Asking, answered_by};
use support::http::Curling;
use support::{ADDRESS, NAMESPACE, NODES, Product, WORKERS, measured, measured_all, runs, text, until};

const ON: &str = r#"{"spec":{"membership":{"mode":"lease","leaseDuration":"3s","renewDeadline":"1s","retryPeriod":"200ms"}}}"#;
const OFF: &str = r#"{"spec":{"membership":null}}"#;

fn configure(product: &Product, patch: &str) {
    product.kubectl(&["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", patch]);
    let generation = || product.get(&["-n", NAMESPACE, "daemonset", "speaker"]);
    let wanted = patch == ON;
    until("the operator changes the speakers", Duration::from_secs(30), || {
        let found = generation()?.to_string().contains("--membership=lease");
        if found == wanted { Ok(()) } else { Err(format!("--membership=lease: {found}")) }
    });
    product.kubectl(&["-n", NAMESPACE, "rollout", "status", "daemonset/speaker", "--timeout=120s"]);
    until("one owner is told", Duration::from_secs(30), || product.owner());
}

#[test]
fn another_node_answers_within_four_seconds_and_no_port_is_open() {
    let product = Product::ready();
    let lab = &product.lab;
    let curling = Curling::start(lab, "client", ADDRESS);
    configure(&product, ON);
    measured("HTTP while speakers go over to Leases", curling.stop().told());

    let leases = product.items(&["-n", NAMESPACE, "leases", "-l", "component=speaker"]);
    let holders: Vec<String> = leases.iter().map(|it| text(&it["spec"]["holderIdentity"])).collect();
    assert_eq!(holders, NODES);
    let listens = lab.host(WORKERS[0]).unwrap().run(&["ss", "-Hlun"]).unwrap();
    assert!(!listens.contains(":7946"), "{listens}");

    let mut delays = Vec::new();
    for _ in 0..runs() {
        let owner = product.owner().unwrap();
        let heir = WORKERS.into_iter().find(|it| *it != owner).unwrap();
        let asking = Asking::start(lab, "client", ADDRESS);
        let cut = now();
        lab.cut(&owner).unwrap();
        assert_eq!(answered_by(lab, "client", ADDRESS, Duration::from_secs(30)), heir);
        std::thread::sleep(Duration::from_secs(2));
        lab.heal(&owner).unwrap();
        let frames = asking.stop();
        let first = first_announcement(&frames, heir, ADDRESS.parse().unwrap(), cut);
        delays.push(first.expect("a gratuitous frame of the new owner").at - cut);
        product.wait_nodes_ready();
        product.wait_pods_ready();
        assert_eq!(until("one owner is told", Duration::from_secs(30), || product.owner()), heir);
    }
    assert!(delays.iter().all(|delay| *delay < 4.0), "{delays:?}");
    measured_all("with Leases, link cut to the first frame of the new owner, s", delays);

    let curling = Curling::start(lab, "client", ADDRESS);
    configure(&product, OFF);
    measured("HTTP while speakers go back to gossip", curling.stop().told());
    until("the right to Leases is gone", Duration::from_secs(30), || {
        let role = product.get(&["-n", NAMESPACE, "role", "speaker"])?.to_string();
        if role.contains("leases") { Err(role) } else { Ok(()) }
    });
    until("the Service answers", Duration::from_secs(60), || product.curl());
}
