//! Processes that die without a word: the Service keeps its address, is reachable again, and one node
//! answers for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::arp::{answered_by, ask};
use support::{ADDRESS, NODES, Product, until};

const PROGRAMS: [&str; 4] = ["controller", "speaker", "webhook", "manager"];

fn kill(product: &Product, programs: &[&str]) {
    let pattern = programs.join("|");
    let killed: usize = NODES
        .iter()
        .map(|node| {
            let host = product.lab.host(node).unwrap();
            let output = host.output(&["pkill", "-KILL", "--echo", "--exact", &pattern]).unwrap();
            String::from_utf8_lossy(&output.stdout).lines().count()
        })
        .sum();
    assert!(killed >= programs.len(), "{killed} processes of {programs:?} were killed");
}

fn works_again(product: &Product, what: &str) {
    product.wait_pods_ready();
    until(&format!("the Service answers after {what} was killed"), Duration::from_secs(60), || {
        product.curl()
    });
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS, "after {what} was killed");
    answered_by(&product.lab, "client", ADDRESS, Duration::from_secs(60));
    let answers = ask(&product.lab, "client", ADDRESS, 20);
    let nodes: BTreeSet<_> = answers.iter().flatten().collect();
    assert_eq!(nodes.len(), 1, "answers after {what} was killed: {answers:?}");
}

#[test]
fn each_process_may_be_killed() {
    let product = Product::ready();
    for program in PROGRAMS {
        kill(&product, &[program]);
        works_again(&product, program);
    }
    product.wait_available(Duration::from_secs(60));
}

#[test]
fn all_processes_may_be_killed_at_once() {
    let product = Product::ready();
    kill(&product, &PROGRAMS);
    works_again(&product, "everything");
    product.wait_available(Duration::from_secs(120));
}
