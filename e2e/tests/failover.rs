//! Nodes that vanish and return, and addresses that move on purpose: another node answers, without a gap
//! where it is planned, and never do two for long.
//!
//! `RUNS=20` repeats what is measured and tells the distribution; `LOSS_SECONDS=300` is the time under loss.
//! `hack/measure` does both.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolb_e2e::wire::{Exchange, Frame, exchanges, first_announcement, now};
use support::arp::{Asking, answered_by};
use support::http::Curling;
use support::{
    ADDRESS, NAMESPACE, NODES, Product, WORKERS, measured, measured_all, runs, seconds, text, until,
};

/// After this time no request has two answers any more, whatever happened before.
const SETTLED: f64 = 1.0;
/// The label that takes a node out of load balancing.
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn other(node: &str) -> &'static str {
    WORKERS.into_iter().find(|it| *it != node).unwrap()
}

#[test]
fn another_node_answers_when_the_owners_link_is_cut_and_keeps_the_address_when_it_returns() {
    let product = Product::ready();
    let lab = &product.lab;
    let mut delays = Vec::new();
    for _ in 0..runs() {
        let owner = product.owner().unwrap();
        let heir = other(&owner);
        let asking = Asking::start(lab, "client", ADDRESS);
        let curling = Curling::start(lab, "client", ADDRESS);
        let cut = now();
        lab.cut(&owner).unwrap();
        let took_over = answered_by(lab, "client", ADDRESS, Duration::from_secs(30));
        assert_eq!(took_over, heir);
        std::thread::sleep(Duration::from_secs(3));
        let healed = now();
        lab.heal(&owner).unwrap();
        std::thread::sleep(Duration::from_secs(6));
        let frames = asking.stop();
        // Pods on the node that was cut go on being chosen until Kubernetes takes their endpoints out.
        measured("HTTP requests while the link was cut for 3 s", curling.stop().told());

        let first = first_announcement(&frames, heir, ADDRESS.parse().unwrap(), cut);
        delays.push(first.expect("a gratuitous frame of the new owner").at - cut);
        no_double_answers(&frames, healed);
        let exchanges = exchanges(&frames, "client", ADDRESS.parse().unwrap());
        let moved = exchanges.iter().find(|it| it.at > healed && it.answered_by.iter().any(|by| by != heir));
        assert!(moved.is_none(), "{heir} keeps the address: {moved:?}");
        product.wait_nodes_ready();
        until("the Service answers", Duration::from_secs(60), || product.curl());
        product.wait_pods_ready();
        until("one owner is told", Duration::from_secs(30), || product.owner());
    }
    assert!(delays.iter().all(|delay| *delay < 10.0), "{delays:?}");
    measured_all("link cut to the first frame of the new owner, s", delays);
}

/// What moves the address on purpose leaves no broadcast request unanswered.
#[test]
fn planned_moves_leave_no_request_unanswered() {
    let product = Product::ready();
    for run in 0..runs() {
        let owner = product.owner().unwrap();
        let label =
            |value: &str| drop(product.kubectl(&["label", "node", &owner, &format!("{EXCLUDE}{value}")]));
        without_a_gap(&product, "node excluded", || {
            label("=");
            until("the address moves", Duration::from_secs(20), || match product.owner()? {
                now if now == owner => Err(now),
                _ => Ok(()),
            });
        });
        without_a_gap(&product, "label removed", || label("-"));
        without_a_gap(&product, "the owner's pod deleted", || {
            let owner = product.owner().unwrap();
            let field = format!("spec.nodeName={owner}");
            let pods =
                ["-n", NAMESPACE, "delete", "pods", "-l", "component=speaker", "--field-selector", &field];
            product.kubectl(&pods);
            product.wait_pods_ready();
        });
        if run == 0 {
            without_a_gap(&product, "DaemonSet rolled", || {
                product.kubectl(&["-n", NAMESPACE, "rollout", "restart", "daemonset/speaker"]);
                let status = ["-n", NAMESPACE, "rollout", "status", "daemonset/speaker", "--timeout=120s"];
                product.kubectl(&status);
            });
        }
    }
}

fn without_a_gap(product: &Product, what: &str, act: impl FnOnce()) {
    let asking = Asking::start(&product.lab, "client", ADDRESS);
    let curling = Curling::start(&product.lab, "client", ADDRESS);
    act();
    std::thread::sleep(Duration::from_secs(3));
    let frames = asking.stop();
    let requests = curling.stop();
    let mut exchanges = exchanges(&frames, "client", ADDRESS.parse().unwrap());
    // The answer to the last may have come after the end of the record.
    exchanges.pop();
    let unanswered: Vec<_> =
        exchanges.iter().filter(|it| it.answered_by.is_empty()).map(|it| it.at).collect();
    let doubled = exchanges.iter().filter(|it| it.answered_by.len() > 1).count();
    let asked = exchanges.len();
    let arp = format!("{} of {asked} unanswered, {doubled} doubled", unanswered.len());
    measured(what, format!("{arp}; HTTP: {}", requests.told()));
    assert!(asked > 10 && unanswered.is_empty(), "{what}: unanswered at {unanswered:?}");
    until("one owner is told", Duration::from_secs(30), || product.owner());
}

#[test]
fn one_node_answers_while_membership_is_blocked_between_two() {
    let product = Product::ready();
    let lab = &product.lab;
    let owner = product.owner().unwrap();
    let asking = Asking::start(lab, "client", ADDRESS);
    let blocked = now();
    lab.block(&owner, other(&owner), 7946).unwrap();
    lab.block(&owner, NODES[0], 7946).unwrap();
    std::thread::sleep(Duration::from_secs(10));
    lab.unblock(&owner, other(&owner), 7946).unwrap();
    lab.unblock(&owner, NODES[0], 7946).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let frames = asking.stop();
    let exchanges = exchanges(&frames, "client", ADDRESS.parse().unwrap());
    let since: Vec<_> = exchanges.iter().filter(|it| it.at > blocked).collect();
    let others = since.iter().filter(|it| it.answered_by.iter().any(|by| *by != owner)).count();
    assert_eq!(others, 0, "of {} requests were answered by another node than {owner}", since.len());
}

/// Another key for the membership while it is in use: speakers take both for a time, and nothing moves.
#[test]
#[ignore = "the kubelet takes a minute to bring a Secret to a pod; hack/measure runs it"]
fn the_key_of_the_membership_changes_and_nothing_moves() {
    let product = Product::ready();
    let owner = product.owner().unwrap();
    let asking = Asking::start(&product.lab, "client", ADDRESS);
    let curling = Curling::start(&product.lab, "client", ADDRESS);
    let key: String = format!("{:032x}", now().to_bits()).repeat(4);
    let patch = format!(r#"{{"stringData":{{"secretkey":"{key}"}}}}"#);
    product.kubectl(&["-n", NAMESPACE, "patch", "secret", "metallb-memberlist", "-p", &patch]);
    // The kubelet brings the change to the pods; each speaker logs it.
    until("every speaker has the key", Duration::from_secs(150), || {
        let speakers = ["-n", NAMESPACE, "logs", "-l", "component=speaker", "--tail=-1", "--prefix"];
        let log = product.lab.kubectl(&speakers).map_err(|error| error.to_string())?;
        let told = log.lines().filter(|line| line.contains("membershipKeyChanged"));
        let pods: BTreeSet<&str> = told.filter_map(|line| line.split_whitespace().next()).collect();
        if pods.len() == NODES.len() { Ok(()) } else { Err(format!("{pods:?}")) }
    });
    std::thread::sleep(Duration::from_secs(3));
    let exchanges = exchanges(&asking.stop(), "client", ADDRESS.parse().unwrap());
    let others = exchanges.iter().filter(|it| it.answered_by.iter().any(|by| *by != owner)).count();
    let asked = exchanges.len();
    let http = curling.stop().told();
    measured("key changed", format!("{others} of {asked} requests answered by another node; HTTP: {http}"));
    assert!(exchanges.len() > 10 && others == 0, "{others} of {}", exchanges.len());
    assert_eq!(product.owner().unwrap(), owner);
}

/// Of all frames between the nodes, and between them and the client, 30 of 100 are lost.
#[test]
fn under_loss_nobody_answers_twice_for_long_and_hardly_anything_moves() {
    let product = Product::ready();
    let lab = &product.lab;
    let time = seconds("LOSS_SECONDS", 10);
    let asking = Asking::start(lab, "client", ADDRESS);
    let hosts: Vec<&str> = NODES.into_iter().chain(["client"]).collect();
    let pairs =
        || hosts.iter().enumerate().flat_map(|(index, a)| hosts[..index].iter().map(move |b| (*a, *b)));
    for (a, b) in pairs() {
        lab.loss(a, b, 30).unwrap();
    }
    std::thread::sleep(time);
    for (a, b) in pairs() {
        lab.loss(a, b, 0).unwrap();
    }
    std::thread::sleep(Duration::from_secs(2));
    let exchanges = exchanges(&asking.stop(), "client", ADDRESS.parse().unwrap());
    let mut doubled_since = None;
    let (mut longest, mut moves, mut last): (f64, usize, Option<String>) = (0.0, 0, None);
    for exchange in exchanges.iter().filter(|it| !it.answered_by.is_empty()) {
        if exchange.answered_by.len() > 1 {
            longest = longest.max(exchange.at - *doubled_since.get_or_insert(exchange.at));
            continue;
        }
        doubled_since = None;
        let by = exchange.answered_by.first().cloned();
        moves += usize::from(last.is_some() && last != by);
        last = by;
    }
    measured(
        "30 % loss",
        format!("{} s, {moves} moves, doubled answers for {longest:.2} s at most", time.as_secs()),
    );
    assert!(longest <= 1.0 && moves <= 1, "{moves} moves, doubled for {longest} s");
    product.wait_nodes_ready();
    product.wait_pods_ready();
    until("the Service answers", Duration::from_secs(60), || product.curl());
    until("one owner is told", Duration::from_secs(30), || product.owner());
}

/// A host of the LAN takes the address for itself.
#[test]
fn a_foreign_host_with_the_address_is_named_and_replaced_when_it_leaves() {
    let product = Product::ready();
    let router = product.lab.host("router").unwrap();
    let address = format!("{ADDRESS}/32");
    router.output(&["ip", "addr", "add", &address, "dev", router.spec.nic()]).unwrap();
    let mac = router.spec.mac().map(|byte| format!("{byte:02x}")).join(":");
    until("the Event AddressConflict", Duration::from_secs(40), || {
        let selector = "involvedObject.name=hello-lb,reason=AddressConflict,type=Warning";
        let events = product.items(&["-n", "demo", "events", "--field-selector", selector]);
        let seen: Vec<String> = events.iter().map(|event| text(&event["message"])).collect();
        if seen.iter().any(|message| message.contains(&mac)) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    router.output(&["ip", "addr", "del", &address, "dev", router.spec.nic()]).unwrap();
    let left = now();
    until("a node answers again", Duration::from_secs(20), || {
        match answered_by(&product.lab, "client", ADDRESS, Duration::from_secs(20)) {
            node if NODES.contains(&node.as_str()) => Ok(()),
            other => Err(other),
        }
    });
    measured("a stranger leaves to a node answers again, s", format!("{:.2}", now() - left));
    until("the Service answers", Duration::from_secs(60), || product.curl());
    until("one owner is told", Duration::from_secs(30), || product.owner());
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
