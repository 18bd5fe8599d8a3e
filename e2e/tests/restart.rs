//! Processes that die without a word: the Service keeps its address, is reachable again, and one node
//! answers for it.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use support::arp::ask;
use support::{ADDRESS, NODES, Product, until};

const PROGRAMS: [&str; 4] = ["controller", "speaker", "webhook", "manager"];

fn kill(product: &Product, programs: &[&str]) {
    let killed: usize = NODES
        .iter()
        .flat_map(|node| programs.iter().map(move |program| (node, program)))
        .map(|(node, program)| product.lab.signal_containers(node, program, Signal::SIGKILL).unwrap())
        .sum();
    assert!(killed > 0, "no process of {programs:?} was found");
}

fn works_again(product: &Product, what: &str) {
    product.wait_pods_ready();
    until(&format!("the Service answers after {what} was killed"), Duration::from_secs(60), || {
        product.curl()
    });
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS, "after {what} was killed");
    let answers = ask(&product.lab.host("client").unwrap(), ADDRESS, 20);
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
