//! Nodes that vanish and return: another node answers, and never do two for long.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use ferrolb_e2e::wire::{Exchange, Frame, exchanges, first_announcement, now};
use support::arp::{Asking, answered_by};
use support::{ADDRESS, NODES, Product, WORKERS, measured, until};

/// After this time no request has two answers any more, whatever happened before.
const SETTLED: f64 = 3.0;

fn other(node: &str) -> &'static str {
    WORKERS.into_iter().find(|it| *it != node).unwrap()
}

#[test]
fn another_node_answers_when_the_owners_link_is_cut_and_one_when_it_returns() {
    let product = Product::ready();
    let lab = &product.lab;
    let owner = product.owner().unwrap();
    let heir = other(&owner);

    let asking = Asking::start(lab, "client", ADDRESS);
    let cut = now();
    lab.cut(&owner).unwrap();
    let took_over = answered_by(lab, "client", ADDRESS, Duration::from_secs(30));
    assert_eq!(took_over, heir);
    std::thread::sleep(Duration::from_secs(3));
    let healed = now();
    lab.heal(&owner).unwrap();
    std::thread::sleep(Duration::from_secs(8));
    let frames = asking.stop();

    let first = first_announcement(&frames, heir, ADDRESS.parse().unwrap(), cut);
    let first = first.expect("a gratuitous frame of the new owner").at - cut;
    measured("link cut to the first frame of the new owner, s", format!("{first:.2}"));
    assert!(first < 30.0);
    no_double_answers(&frames, healed);
    product.wait_nodes_ready();
    until("the Service answers", Duration::from_secs(60), || product.curl());
    product.wait_pods_ready();
}

#[test]
fn one_node_answers_after_frames_were_dropped_both_ways_with_the_carrier_up() {
    let product = Product::ready();
    let lab = &product.lab;
    let owner = product.owner().unwrap();

    let asking = Asking::start(lab, "client", ADDRESS);
    // The owner hears no other node, and none hears it; the client hears both.
    let peers: Vec<&str> = NODES.into_iter().filter(|node| *node != owner).collect();
    for peer in &peers {
        lab.loss(&owner, peer, 100).unwrap();
    }
    std::thread::sleep(Duration::from_secs(20));
    let healed = now();
    for peer in &peers {
        lab.loss(&owner, peer, 0).unwrap();
    }
    std::thread::sleep(Duration::from_secs(8));
    let frames = asking.stop();
    no_double_answers(&frames, healed);
    product.wait_nodes_ready();
    until("the Service answers", Duration::from_secs(60), || product.curl());
    until("one owner is told", Duration::from_secs(30), || product.owner());
    product.wait_pods_ready();
}

/// From three seconds after the healing on, each request has one answer at most; and there are answers.
fn no_double_answers(frames: &[Frame], healed: f64) {
    let exchanges = exchanges(frames, "client", ADDRESS.parse().unwrap());
    let doubled = |exchange: &&Exchange| exchange.answered_by.len() > 1;
    let last = exchanges.iter().filter(doubled).map(|exchange| exchange.at - healed).next_back();
    measured("last doubled answer after the healing, s", format!("{:.2}", last.unwrap_or(0.0).max(0.0)));
    let settled: Vec<_> = exchanges.iter().filter(|exchange| exchange.at > healed + SETTLED).collect();
    let late: Vec<_> = settled.iter().copied().filter(doubled).collect();
    assert!(late.is_empty(), "doubled answers later than {SETTLED} s after the healing: {late:?}");
    let answered = settled.iter().filter(|exchange| exchange.answered_by.len() == 1).count();
    assert!(answered > 10, "{answered} of {} requests were answered", settled.len());
}
