//! Who counts as a peer, and two speakers over real sockets.

use k8s_openapi::api::core::v1::{PodIP, PodStatus};

use std::collections::BTreeSet;

use super::*;

fn pod(name: &str, phase: &str, ips: &[&str]) -> Arc<Pod> {
    let pod_ips = ips.iter().map(|ip| PodIP { ip: (*ip).to_owned() }).collect();
    Arc::new(Pod {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        status: Some(PodStatus {
            phase: Some(phase.to_owned()),
            pod_ip: ips.first().map(|ip| (*ip).to_owned()),
            pod_ips: Some(pod_ips),
            ..Default::default()
        }),
        ..Default::default()
    })
}

#[test]
fn peers_are_the_other_speakers_of_the_same_family() {
    let pods = [
        pod("own", "Running", &["10.0.0.1"]),
        pod("replaced-on-this-node", "Running", &["10.0.0.1"]),
        pod("dual", "Running", &["fd00::2", "10.0.0.2"]),
        pod("starting", "Pending", &["10.0.0.3"]),
        pod("no-address-yet", "Pending", &[]),
        pod("gone", "Failed", &["10.0.0.4"]),
        pod("six", "Running", &["fd00::5"]),
        Arc::default(),
    ];
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    let four = peers(&pods, "own", at("10.0.0.1:7946"));
    assert_eq!(four.running, BTreeSet::from([at("10.0.0.2:7946")]));
    assert_eq!(four.known, BTreeSet::from([at("10.0.0.2:7946"), at("10.0.0.3:7946")]));
    let six = peers(&pods, "own", at("[fd00::1]:7947"));
    assert_eq!(six.running, BTreeSet::from([at("[fd00::2]:7947"), at("[fd00::5]:7947")]));
}

#[test]
fn the_suspect_live_and_the_dead_do_not() {
    let member = |node: &str, liveness| (node.to_owned(), Member { liveness, life: 1, links: None });
    let members = Members {
        settled: true,
        nodes: BTreeMap::from([
            member("a", Liveness::Alive),
            member("b", Liveness::Dead),
            member("c", Liveness::Suspect),
            member("d", Liveness::Left),
        ]),
    };
    assert!(members.living().eq(["a", "c"]));
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let error = StartError::PortInUse { address: "10.0.0.1:7946".parse().unwrap() };
    let text = error.to_string();
    assert!(text.contains("7946") && text.contains("--ml-bindport"), "{text}");
}
