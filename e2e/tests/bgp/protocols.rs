//! Layer 2 and BGP side by side: what the one does not announce the other one does; and what the metrics of BGP say.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::router::{Bgp, NODE_ADDRESSES, SOON, V4, WORKER_ADDRESSES};
use crate::support::metrics::{READER, request, token};
use crate::support::{NODES, WORKERS, arp, until};

const LAYER2: &str = r"
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: bgp, namespace: metallb-system}
spec: {ipAddressPools: [bgp]}
";

#[test]
fn arp_is_answered_only_while_layer_2_is_asked_for_too() {
    let bgp = Bgp::ready();
    let prefix = format!("{V4}/32");
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);
    let before = bgp.sessions().unwrap();
    let lab = &bgp.product.lab;
    let answers = || arp::ask(lab, "client", V4, 10);
    assert_eq!(answers(), vec![BTreeSet::new(); 10], "only BGP announces it");
    lab.apply(LAYER2).unwrap();
    let owner = arp::answered_by(lab, "client", V4, SOON);
    assert!(WORKERS.contains(&owner.as_str()), "{owner}");
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);
    lab.delete(LAYER2).unwrap();
    until("ARP is not answered any more", SOON, || {
        let seen = answers();
        if seen.iter().all(BTreeSet::is_empty) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    bgp.has_paths(&prefix, &WORKER_ADDRESSES);
    assert_eq!(bgp.sessions().unwrap(), before, "the sessions of before");
}

#[test]
fn every_speaker_counts_its_sessions_and_prefixes() {
    let bgp = Bgp::ready();
    bgp.product.lab.apply(READER).unwrap();
    let reader = token(&bgp.product, "metrics-reader");
    let has = |node: usize, series: &[String]| {
        until(&format!("metrics of {}", NODES[node]), Duration::from_secs(60), || {
            let (body, status) = request(&bgp.product, NODE_ADDRESSES[node], "/metrics", Some(&reader), &[]);
            let missing: Vec<_> = series.iter().filter(|it| !body.lines().any(|line| line == **it)).collect();
            let lines = body.lines().filter(|it| it.contains("bgp"));
            let seen = lines.collect::<Vec<_>>().join("\n");
            if missing.is_empty() {
                Ok(body)
            } else {
                Err(format!("{status}, without {missing:?} in\n{seen}"))
            }
        })
    };
    let peer = "{peer=\"192.168.10.1:179\"}";
    // The control plane announces nothing: it carries the exclude label.
    for (node, prefixes) in [0, 2, 3].into_iter().enumerate() {
        let mut series = vec![
            format!("metallb_bgp_session_up{peer} 1"),
            format!("metallb_bgp_announced_prefixes_total{peer} {prefixes}"),
            format!("metallb_bgp_pending_prefixes_total{peer} {prefixes}"),
        ];
        let name = NODES[node];
        series.extend((prefixes > 0).then(|| {
            format!("metallb_speaker_announced{{ip=\"{V4}\",node=\"{name}\",protocol=\"bgp\",service=\"demo/hello-bgp\"}} 1")
        }));
        let body = has(node, &series);
        let updates = format!("metallb_bgp_updates_total{peer} ");
        let updates = body.lines().find_map(|line| line.strip_prefix(&updates)?.parse::<u64>().ok());
        assert!(updates.is_some_and(|it| (prefixes > 0) == (it > 0)), "{name}: {updates:?}");
    }
    bgp.product.kubectl(&["-n", "demo", "delete", "services", "hello-bgp", "alone-bgp"]);
    for node in 0..NODES.len() {
        let zero = format!("metallb_bgp_announced_prefixes_total{peer} 0");
        let body = has(node, &[format!("metallb_bgp_session_up{peer} 1"), zero]);
        assert!(!body.contains("service=\"demo/hello-bgp\""), "{body}");
    }
    bgp.product.lab.delete(READER).unwrap();
}
