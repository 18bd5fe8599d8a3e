//! Nodes that vanish and return: another node answers, and never do two for long.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use support::arp::{Asking, Frame, answered_by, mac_of, now};
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
    let client = lab.host("client").unwrap();
    let owner = product.owner().unwrap();
    let heir_mac = mac_of(&lab.host(other(&owner)).unwrap());

    let asking = Asking::start(&client, ADDRESS);
    let cut = now();
    lab.cut(&owner).unwrap();
    let took_over = answered_by(lab, &client, ADDRESS, Duration::from_secs(30));
    assert_eq!(took_over, other(&owner));
    std::thread::sleep(Duration::from_secs(3));
    let healed = now();
    lab.heal(&owner).unwrap();
    std::thread::sleep(Duration::from_secs(8));
    let (frames, own) = asking.stop();

    let first = frames.iter().find(|it| it.at > cut && it.gratuitous && it.source == heir_mac);
    let first = first.expect("a gratuitous frame of the new owner").at - cut;
    measured("link cut to the first frame of the new owner, s", format!("{first:.2}"));
    assert!(first < 30.0);
    no_double_answers(&frames, &own, healed);
    product.wait_nodes_ready();
    until("the Service answers", Duration::from_secs(60), || product.curl());
    product.wait_pods_ready();
}

#[test]
fn one_node_answers_after_frames_were_dropped_both_ways_with_the_carrier_up() {
    let product = Product::ready();
    let lab = &product.lab;
    let client = lab.host("client").unwrap();
    let owner = product.owner().unwrap();

    let asking = Asking::start(&client, ADDRESS);
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
    let (frames, own) = asking.stop();
    no_double_answers(&frames, &own, healed);
    product.wait_nodes_ready();
    until("the Service answers", Duration::from_secs(60), || product.curl());
    until("one owner is told", Duration::from_secs(30), || product.owner());
    product.wait_pods_ready();
}

/// From three seconds after the healing on, each request has one answer at most; and there are answers.
fn no_double_answers(frames: &[Frame], own: &str, healed: f64) {
    let mut answers: Vec<(f64, BTreeSet<&str>)> = Vec::new();
    for frame in frames {
        if frame.source == own && !frame.reply {
            answers.push((frame.at, BTreeSet::new()));
        } else if frame.reply && !frame.broadcast {
            if let Some((_, macs)) = answers.last_mut() {
                macs.insert(&frame.source);
            }
        }
    }
    let doubled = |(_, macs): &&(f64, BTreeSet<&str>)| macs.len() > 1;
    let last = answers.iter().filter(doubled).map(|(at, _)| at - healed).next_back();
    measured("last doubled answer after the healing, s", format!("{:.2}", last.unwrap_or(0.0).max(0.0)));
    let settled: Vec<_> = answers.iter().filter(|(at, _)| *at > healed + SETTLED).collect();
    let late: Vec<_> = settled.iter().filter(|(_, macs)| macs.len() > 1).collect();
    assert!(late.is_empty(), "doubled answers later than {SETTLED} s after the healing: {late:?}");
    let answered = settled.iter().filter(|(_, macs)| macs.len() == 1).count();
    assert!(answered > 10, "{answered} of {} requests were answered", settled.len());
}
