//! Two peers that are the same router: a conflict on the nodes that get both, and nowhere else.

use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::config::{Compiled, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{bgp_peer, expression, match_labels, node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::{findings, messages};

/// A peer on these nodes (all if there are none), in this VRF (none if empty).
fn peer(name: &str, address: &str, nodes: &[&str], vrf: &str) -> BGPPeer {
    let mut peer = bgp_peer(name, address);
    if !nodes.is_empty() {
        peer.spec.node_selectors = vec![expression("name", "In", nodes)];
    }
    peer.spec.vrf = (!vrf.is_empty()).then(|| vrf.to_owned());
    peer
}

fn on_four_nodes(peers: Vec<BGPPeer>) -> Compiled {
    let nodes = ["node1", "node2", "node3", "node4"].map(|name| node(name, &[("name", name)]));
    compile(&Resources::default().with_nodes(nodes).with_bgp_peers(peers))
}

fn nodes(compiled: &Compiled, peer: &str) -> String {
    let nodes = compiled.config.peers().get(peer).map(|it| it.nodes.iter().cloned().collect::<Vec<_>>());
    nodes.unwrap_or_default().join(" ")
}

#[test]
fn only_where_a_node_gets_both() {
    let a = "1.2.3.4";
    for (peers, conflicts) in [
        // The same address in different VRFs is another router.
        (vec![peer("a", a, &[], ""), peer("b", a, &[], "red"), peer("c", a, &[], "green")], vec![]),
        (vec![peer("a", a, &[], ""), peer("b", a, &[], "red"), peer("c", a, &[], "red")], vec!["c"]),
        (vec![peer("a", a, &["node1"], ""), peer("b", a, &["node2"], "")], vec![]),
        (vec![peer("a", a, &["node1"], ""), peer("b", a, &["node1"], "")], vec!["b"]),
        (vec![peer("a", a, &[], ""), peer("b", a, &["node1"], "")], vec!["b"]),
        (
            vec![peer("a", a, &["node1"], ""), peer("b", a, &["node2"], ""), peer("c", a, &["node3"], "")],
            vec![],
        ),
        (
            vec![
                peer("a", a, &["node1"], ""),
                peer("b", a, &["node2"], ""),
                peer("c", a, &["node1", "node3"], ""),
            ],
            vec!["c"],
        ),
        (vec![peer("a", a, &["node1", "node2"], ""), peer("b", a, &["node3", "node4"], "")], vec![]),
        (vec![peer("a", a, &[], ""), peer("b", "1.2.3.5", &[], "")], vec![]),
    ] {
        let compiled = on_four_nodes(peers);
        let blamed: Vec<&str> = findings(&compiled).iter().map(|it| it.object.name.as_str()).collect();
        assert_eq!(blamed, conflicts);
    }
}

#[test]
fn the_later_one_is_left_out_on_the_nodes_that_have_both() {
    let created = |mut peer: BGPPeer, second| {
        peer.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
        peer
    };
    let compiled = on_four_nodes(vec![
        created(peer("a", "1.2.3.4", &["node1", "node2", "node3"], "red"), 20),
        created(peer("b", "1.2.3.4", &["node3", "node4"], "red"), 10),
    ]);
    let expected = r#"peer 1.2.3.4-red already exists: BGPPeer "a" and BGPPeer "b" select the same node"#;
    assert_eq!(messages(&compiled), [expected]);
    let finding = findings(&compiled)[0];
    assert_eq!((finding.object.name.as_str(), finding.leaves_out()), ("a", true));
    let concerned = ["node1", "node2", "node3", "node4"].map(|node| finding.concerns(node));
    assert_eq!(concerned, [false, false, true, false]);
    assert_eq!(nodes(&compiled, "a"), "node1 node2");
    assert_eq!(nodes(&compiled, "b"), "node3 node4");
}

#[test]
fn different_ports_interfaces_ids_and_systems_exclude_nobody() {
    let mut port = bgp_peer("b", "1.2.3.4");
    port.spec.peer_port = Some(1179);
    let mut id = bgp_peer("c", "1.2.3.5");
    id.spec.router_id = Some("10.0.0.1".to_owned());
    id.spec.my_asn = 101;
    let interface = |name: &str, interface: &str| {
        let mut peer = bgp_peer(name, "");
        peer.spec.interface = Some(interface.to_owned());
        peer
    };
    let compiled = on_four_nodes(vec![
        bgp_peer("a", "1.2.3.4"),
        port,
        id,
        interface("d", "eth0"),
        interface("e", "eth1"),
        interface("f", "eth1"),
    ]);
    assert_eq!(
        messages(&compiled),
        [r#"peer eth1 already exists: BGPPeer "f" and BGPPeer "e" select the same node"#]
    );
    assert_eq!(compiled.config.peers().len(), 5);
}

#[test]
fn without_any_node_known_only_what_is_certain_is_said() {
    let compile = |peers: [BGPPeer; 2]| messages(&compile(&Resources::default().with_bgp_peers(peers))).len();
    let a = "1.2.3.4";
    assert_eq!(compile([peer("a", a, &[], ""), peer("b", a, &["node1"], "")]), 1);
    assert_eq!(compile([peer("a", a, &["node1"], ""), peer("b", a, &["node1"], "")]), 1);
    assert_eq!(compile([peer("a", a, &["node1"], ""), peer("b", a, &["node2"], "")]), 0);
}

#[test]
fn a_peer_concerns_its_own_nodes() {
    let mut bad = peer("bad", "1.2.3.4", &["node2"], "");
    bad.spec.my_asn = 0;
    let mut nowhere = bgp_peer("nowhere", "1.2.3.5");
    nowhere.spec.node_selectors = vec![match_labels(&[("name", "gone")])];
    let compiled = on_four_nodes(vec![bad, nowhere]);
    let found = findings(&compiled);
    let concerned = |index: usize| ["node1", "node2"].map(|node| found[index].concerns(node));
    assert_eq!(found[0].message.to_string(), "parsing peer bad missing local ASN");
    assert_eq!(concerned(0), [false, true]);
    assert_eq!(found[1].message.to_string(), r#"nodeSelectors of BGPPeer "nowhere" match no Node"#);
    assert_eq!(concerned(1), [false, false]);
}
