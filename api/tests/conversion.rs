//! `BGPPeer` between its versions: what goes round comes back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ferrolb_api::conversion::{to_v1beta1, to_v1beta2};
use ferrolb_api::v1beta1::{self, MatchExpression, NodeSelector};
use ferrolb_api::v1beta2;
use ferrolb_api::well_known::annotation::KEPT_FOR_V1BETA2;
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

fn old(spec: Value) -> v1beta1::BGPPeer {
    serde_json::from_value(json!({"apiVersion": "metallb.io/v1beta1", "kind": "BGPPeer",
        "metadata": {"name": "tor", "namespace": "metallb-system"}, "spec": spec}))
    .unwrap()
}

fn new(spec: Value) -> v1beta2::BGPPeer {
    serde_json::from_value(json!({"apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer",
        "metadata": {"name": "tor", "namespace": "metallb-system"}, "spec": spec}))
    .unwrap()
}

fn value(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

fn kept(peer: &v1beta1::BGPPeer) -> Option<Value> {
    let text = peer.metadata.annotations.as_ref()?.get(KEPT_FOR_V1BETA2)?;
    Some(serde_json::from_str(text).unwrap())
}

#[test]
fn every_shared_field_is_carried_to_v1beta2() {
    let shared = json!({
        "myASN": 42, "peerASN": 142, "peerAddress": "1.2.3.4", "sourceAddress": "10.20.30.40", "peerPort": 1179,
        "holdTime": "180s", "keepaliveTime": "1m", "routerID": "10.20.30.40", "password": "nopass",
        "bfdProfile": "default", "ebgpMultiHop": true,
        "nodeSelectors": [
            {"matchLabels": {"foo": "bar"}, "matchExpressions": [{"key": "bar", "operator": "In", "values": ["quux"]}]},
            {},
        ],
    });
    let mut wanted = shared.clone();
    wanted["disableMP"] = json!(false);
    wanted["dualStackAddressFamily"] = json!(false);
    let converted = value(&to_v1beta2(old(shared.clone())).unwrap());
    assert_eq!(converted["apiVersion"], "metallb.io/v1beta2");
    assert_eq!(converted["metadata"], json!({"name": "tor", "namespace": "metallb-system"}));
    assert_eq!(converted["spec"], wanted);
    let back = value(&to_v1beta1(new(wanted)).unwrap());
    assert_eq!((&back["apiVersion"], &back["spec"]), (&json!("metallb.io/v1beta1"), &shared));
    assert_eq!(back["metadata"].get("annotations"), None);
}

#[test]
fn absent_timers_of_v1beta1_are_zero_and_other_absences_stay() {
    let converted =
        to_v1beta2(old(json!({"myASN": 1, "peerASN": 2, "peerAddress": "1.2.3.4", "peerPort": 0})));
    let wanted = json!({
        "myASN": 1, "peerASN": 2, "peerAddress": "1.2.3.4", "holdTime": "0s", "keepaliveTime": "0s",
        "disableMP": false, "dualStackAddressFamily": false,
    });
    assert_eq!(value(&converted.unwrap())["spec"], wanted);
}

#[test]
fn what_v1beta1_has_no_room_for_is_kept_beside_it_and_the_password_is_not() {
    let full = json!({
        "myASN": 1, "dynamicASN": "external", "interface": "eth1", "localASN": 3, "connectTime": "10s",
        "passwordSecret": {"name": "tor"}, "enableGracefulRestart": true, "vrf": "red", "disableMP": true,
        "dualStackAddressFamily": true, "password": "secret",
        "nodeSelectors": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}],
    });
    let narrow = to_v1beta1(new(full.clone())).unwrap();
    let wanted = json!({
        "myASN": 1, "peerASN": 0, "peerAddress": "", "holdTime": "0s", "keepaliveTime": "0s", "password": "secret",
        "nodeSelectors": [{"matchExpressions": [{"key": "gpu", "operator": "Exists", "values": []}]}],
    });
    assert_eq!(value(&narrow.spec), wanted);
    let wanted = json!({
        "dynamicASN": "external", "interface": "eth1", "localASN": 3, "connectTime": "10s", "vrf": "red",
        "passwordSecret": {"name": "tor"}, "enableGracefulRestart": true, "disableMP": true,
        "dualStackAddressFamily": true, "holdTime": null, "keepaliveTime": null,
    });
    assert_eq!(kept(&narrow), Some(wanted));
    assert_eq!(value(&to_v1beta2(narrow).unwrap())["spec"], full);
}

#[test]
fn what_was_changed_in_v1beta1_counts_and_the_rest_is_restored() {
    let mut narrow = to_v1beta1(new(
        json!({"myASN": 1, "dynamicASN": "internal", "peerAddress": "1.2.3.4", "vrf": "red"}),
    ))
    .unwrap();
    narrow.spec.hold_time = Some("30s".into());
    narrow.spec.peer_address = "1.2.3.5".into();
    let wanted = json!({
        "myASN": 1, "dynamicASN": "internal", "peerAddress": "1.2.3.5", "holdTime": "30s", "vrf": "red",
        "disableMP": false, "dualStackAddressFamily": false,
    });
    assert_eq!(value(&to_v1beta2(narrow).unwrap())["spec"], wanted);
}

#[test]
fn an_annotation_that_is_not_ours_is_an_error_that_says_what_to_do() {
    for garbage in ["", "[]", "{\"vrf\": 3}", "{\"myASN\": null}", "{\"myASN\": -1}"] {
        let mut peer = old(json!({"myASN": 1, "peerASN": 2, "peerAddress": "1.2.3.4"}));
        let annotations = BTreeMap::from([(KEPT_FOR_V1BETA2.to_owned(), garbage.to_owned())]);
        peer.metadata.annotations = Some(annotations);
        let error = to_v1beta2(peer).expect_err(garbage).to_string();
        let wanted = "BGPPeer metallb-system/tor: annotation ferrolb.io/kept-for-v1beta2 does not hold fields of v1beta2 (remove the annotation, or write the object as v1beta2)";
        assert_eq!(error, wanted, "{garbage}");
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z0-9.:-]{1,12}"]
}

fn time() -> impl Strategy<Value = Option<String>> {
    option::of(prop_oneof![Just("0s".to_owned()), "[0-9]{1,3}(ms|s|m)"])
}

fn asn() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..70_000_u32, Just(u32::MAX)]
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("[a-z]{1,3}", "[a-z]{0,3}", 0..3)
}

fn metadata() -> impl Strategy<Value = ObjectMeta> {
    let annotations = option::of(btree_map("[a-z]{1,3}", text(), 1..3));
    (text(), option::of(labels()), annotations).prop_map(|(name, labels, annotations)| ObjectMeta {
        name: Some(name),
        namespace: Some("metallb-system".into()),
        uid: Some("u".into()),
        resource_version: Some("7".into()),
        labels,
        annotations,
        ..ObjectMeta::default()
    })
}

prop_compose! {
    fn shared()(
        my_asn in asn(), peer_asn in asn(), peer_address in text(), source_address in option::of(text()),
        peer_port in option::of(1..16_385_u16), hold_time in time(), keepalive_time in time(),
        router_id in option::of(text()), password in option::of(text()), bfd_profile in option::of(text()),
        ebgp_multi_hop in option::of(any::<bool>()), node_selectors in vec(node_selector(), 0..3),
    ) -> v1beta1::BGPPeerSpec {
        v1beta1::BGPPeerSpec {
            my_asn, peer_asn, peer_address, source_address, peer_port, hold_time, keepalive_time, router_id,
            node_selectors, password, bfd_profile, ebgp_multi_hop,
        }
    }
}

fn node_selector() -> impl Strategy<Value = NodeSelector> {
    let expression = ("[a-z]{1,3}", "[A-Z][a-z]{1,5}", vec("[a-z]{1,3}", 0..3))
        .prop_map(|(key, operator, values)| MatchExpression { key, operator, values });
    (labels(), vec(expression, 0..3))
        .prop_map(|(match_labels, match_expressions)| NodeSelector { match_labels, match_expressions })
}

fn label_selector() -> impl Strategy<Value = LabelSelector> {
    let requirement = ("[a-z]{1,3}", "[A-Z][a-z]{1,5}", option::of(vec("[a-z]{1,3}", 0..3)))
        .prop_map(|(key, operator, values)| LabelSelectorRequirement { key, operator, values });
    (option::of(labels()), option::of(vec(requirement, 0..3)))
        .prop_map(|(match_labels, match_expressions)| LabelSelector { match_labels, match_expressions })
}

prop_compose! {
    fn stored()(
        shared in shared(), peer_asn in option::of(asn()), peer_address in option::of(text()),
        local_asn in option::of(asn()), dynamic_asn in option::of(text()), interface in option::of(text()),
        connect_time in time(), secret in option::of((option::of(text()), option::of(text()))),
        enable_graceful_restart in option::of(any::<bool>()), vrf in option::of(text()),
        (disable_mp, dual_stack_address_family) in any::<(bool, bool)>(),
        node_selectors in vec(label_selector(), 0..3),
    ) -> v1beta2::BGPPeerSpec {
        v1beta2::BGPPeerSpec {
            my_asn: shared.my_asn, peer_asn, local_asn, dynamic_asn, peer_address, interface,
            source_address: shared.source_address, peer_port: shared.peer_port, hold_time: shared.hold_time,
            keepalive_time: shared.keepalive_time, connect_time, router_id: shared.router_id, node_selectors,
            password: shared.password,
            password_secret: secret.map(|(name, namespace)| SecretReference { name, namespace }),
            bfd_profile: shared.bfd_profile, enable_graceful_restart, ebgp_multi_hop: shared.ebgp_multi_hop,
            vrf, disable_mp, dual_stack_address_family,
        }
    }
}

/// What `v1beta1` says by leaving a timer or a port out.
fn spelled_out(mut spec: v1beta1::BGPPeerSpec) -> v1beta1::BGPPeerSpec {
    for time in [&mut spec.hold_time, &mut spec.keepalive_time] {
        time.get_or_insert_with(|| "0s".to_owned());
    }
    spec
}

proptest! {
    #[test]
    fn v1beta2_survives_v1beta1(metadata in metadata(), spec in stored()) {
        let peer = v1beta2::BGPPeer { metadata, spec, ..v1beta2::BGPPeer::default() };
        let narrow = to_v1beta1(peer.clone()).unwrap();
        prop_assert_eq!(to_v1beta2(narrow.clone()).unwrap(), peer.clone());
        // Also where the API server carried it as JSON.
        let carried: v1beta1::BGPPeer = serde_json::from_value(value(&narrow)).unwrap();
        prop_assert_eq!(value(&to_v1beta2(carried).unwrap()), value(&peer));
    }

    #[test]
    fn v1beta1_survives_v1beta2_without_an_annotation(metadata in metadata(), spec in shared()) {
        let peer = v1beta1::BGPPeer { metadata, spec, ..v1beta1::BGPPeer::default() };
        let back = to_v1beta1(to_v1beta2(peer.clone()).unwrap()).unwrap();
        prop_assert_eq!(&back.metadata, &peer.metadata);
        prop_assert_eq!(back.spec, spelled_out(peer.spec));
    }

    #[test]
    fn an_edit_of_v1beta1_arrives_and_costs_nothing_else(spec in stored(), edited in shared()) {
        let peer = v1beta2::BGPPeer { spec, ..v1beta2::BGPPeer::default() };
        let mut narrow = to_v1beta1(peer.clone()).unwrap();
        narrow.spec = spelled_out(edited);
        let arrived = to_v1beta2(narrow.clone()).unwrap();
        // Read back as v1beta1, it is what was written.
        prop_assert_eq!(&to_v1beta1(arrived.clone()).unwrap().spec, &narrow.spec);
        // And the fields that only v1beta2 has are those of before.
        let (before, after) = (peer.spec, arrived.spec);
        prop_assert_eq!(after.local_asn, before.local_asn);
        prop_assert_eq!(after.dynamic_asn, before.dynamic_asn);
        prop_assert_eq!(after.interface, before.interface);
        prop_assert_eq!(after.connect_time, before.connect_time);
        prop_assert_eq!(after.password_secret, before.password_secret);
        prop_assert_eq!(after.enable_graceful_restart, before.enable_graceful_restart);
        prop_assert_eq!(after.vrf, before.vrf);
        prop_assert_eq!(after.disable_mp, before.disable_mp);
        prop_assert_eq!(after.dual_stack_address_family, before.dual_stack_address_family);
    }
}
