//! Which writes bring the cluster to what is announced.

use ferrolb_api::v1beta1::{
    ServiceBGPStatus, ServiceBGPStatusStatus, ServiceL2Status, ServiceL2StatusStatus,
};

use super::super::ServiceReport;
use super::*;

const NODE: &str = "node-1";

fn owner(uid: &str) -> OwnerReference {
    OwnerReference { uid: uid.to_owned(), ..OwnerReference::default() }
}

fn key() -> ServiceKey {
    ServiceKey { namespace: "default".to_owned(), name: "hello".to_owned() }
}

fn status(node: &str, service: &str, interfaces: &[&str]) -> ServiceL2StatusStatus {
    ServiceL2StatusStatus {
        node: Some(node.to_owned()),
        service_name: Some(service.to_owned()),
        service_namespace: Some("default".to_owned()),
        interfaces: interfaces
            .iter()
            .map(|name| ferrolb_api::v1beta1::ServiceL2InterfaceStatus { name: Some((*name).to_owned()) })
            .collect(),
    }
}

fn stored(name: &str, node: &str, status: Option<ServiceL2StatusStatus>) -> ServiceL2Status {
    let mut stored: ServiceL2Status = object(&key(), node, &owner("pod"));
    stored.metadata.name = Some(name.to_owned());
    stored.status = status;
    stored
}

fn actions(announced: Option<ServiceL2StatusStatus>, existing: Vec<ServiceL2Status>) -> Vec<String> {
    in_short(layer2(announced), existing)
}

fn layer2(announced: Option<ServiceL2StatusStatus>) -> ServiceReport {
    ServiceReport { uid: "1".to_owned(), layer2: announced, bgp: None, events: BTreeSet::new() }
}

fn in_short<K: ServiceStatus>(report: ServiceReport, existing: Vec<K>) -> Vec<String> {
    let existing: Vec<_> = existing.into_iter().map(Arc::new).collect();
    let living = BTreeSet::from([NODE.to_owned(), "node-2".to_owned()]);
    diff(&BTreeMap::from([(key(), Arc::new(report))]), &existing, NODE, &owner("pod"), &living)
        .iter()
        .map(|action| match action {
            Action::Create { service, .. } => format!("create {service}"),
            Action::SetStatus { object, .. } => format!("set {}", object.meta().name.as_deref().unwrap()),
            Action::Delete { object } => format!("delete {}", object.meta().name.as_deref().unwrap()),
        })
        .collect()
}

#[test]
fn one_right_object_for_what_is_announced_and_none_else() {
    let ours = || Some(status(NODE, "hello", &["ens18"]));
    let without_labels = || {
        let mut object = stored("l2-x", NODE, ours());
        object.metadata.labels = None;
        object
    };
    let of_another_pod = || {
        let mut object = stored("l2-x", NODE, ours());
        object.metadata.owner_references = Some(vec![owner("earlier pod")]);
        object
    };
    let elsewhere = |node: &str| stored("l2-y", node, Some(status(node, "hello", &[])));
    let create = "create default/hello";
    for (what, announced, existing, expected) in [
        ("nothing", None, vec![], vec![]),
        ("new", ours(), vec![], vec![create]),
        ("at rest", ours(), vec![stored("l2-x", NODE, ours())], vec![]),
        ("created, not told yet", ours(), vec![stored("l2-x", NODE, None)], vec!["set l2-x"]),
        (
            "other interfaces",
            ours(),
            vec![stored("l2-x", NODE, Some(status(NODE, "hello", &[])))],
            vec!["set l2-x"],
        ),
        (
            "an immutable name is wrong",
            ours(),
            vec![stored("l2-x", NODE, Some(status(NODE, "other", &["ens18"])))],
            vec!["delete l2-x", create],
        ),
        ("labels were removed", ours(), vec![without_labels()], vec!["delete l2-x", create]),
        ("of an earlier pod", ours(), vec![of_another_pod()], vec!["delete l2-x", create]),
        (
            "twice",
            ours(),
            vec![stored("l2-b", NODE, ours()), stored("l2-a", NODE, ours())],
            vec!["delete l2-b"],
        ),
        ("withdrawn", None, vec![stored("l2-x", NODE, ours())], vec!["delete l2-x"]),
        (
            "of the dead node before us",
            ours(),
            vec![stored("l2-x", NODE, ours()), elsewhere("dead")],
            vec!["delete l2-y"],
        ),
        ("of a living node", ours(), vec![stored("l2-x", NODE, ours()), elsewhere("node-2")], vec![]),
        ("of a dead node, not ours", None, vec![elsewhere("dead")], vec![]),
    ] {
        assert_eq!(actions(announced, existing), expected, "{what}");
    }
}

#[test]
fn each_node_has_its_own_object_about_bgp() {
    let status = |node: &str, peers: &[&str]| ServiceBGPStatusStatus {
        node: Some(node.to_owned()),
        service_name: Some("hello".to_owned()),
        service_namespace: Some("default".to_owned()),
        peers: peers.iter().map(|it| (*it).to_owned()).collect(),
    };
    let stored = |name: &str, node: &str, peers: &[&str]| {
        let mut stored: ServiceBGPStatus = object(&key(), node, &owner("pod"));
        stored.metadata.name = Some(name.to_owned());
        stored.status = Some(status(node, peers));
        stored
    };
    let announced = |peers: &[&str]| ServiceReport { bgp: Some(status(NODE, peers)), ..layer2(None) };
    let ours = || stored("bgp-x", NODE, &["a", "b"]);
    for (what, report, existing, expected) in [
        ("at rest", announced(&["a", "b"]), vec![ours()], vec![]),
        ("other peers", announced(&["a"]), vec![ours()], vec!["set bgp-x"]),
        ("withdrawn", layer2(None), vec![ours()], vec!["delete bgp-x"]),
        ("of a dead node", announced(&["a", "b"]), vec![ours(), stored("bgp-y", "dead", &["a"])], vec![]),
        ("only layer 2", layer2(Some(super::tests::status(NODE, "hello", &[]))), vec![], vec![]),
    ] {
        assert_eq!(in_short(report, existing), expected, "{what}");
    }
    let patch = status_patch::<ServiceBGPStatus>(Some("1"), &status(NODE, &["a"]));
    assert_eq!(patch["status"]["peers"], json!(["a"]));
}

#[test]
fn the_patch_removes_interfaces_that_are_not_meant_any_more() {
    let status_patch = status_patch::<ServiceL2Status>;
    let patch = status_patch(Some("1"), &status(NODE, "hello", &[]));
    assert!(patch["status"]["interfaces"].is_null() && patch["status"].get("interfaces").is_some());
    let patch = status_patch(Some("1"), &status(NODE, "hello", &["ens18"]));
    assert_eq!(patch["status"]["interfaces"], json!([{"name": "ens18"}]));
}

#[test]
fn conditions_of_others_do_not_matter() {
    let now: Time = serde_json::from_value(json!("2026-11-30T04:00:00Z")).unwrap();
    let desired = desired_state(&[], now.clone(), None);
    let mut stored = desired.clone();
    assert!(is_current(&stored, &desired));
    let mut other = desired.conditions[0].clone();
    other.type_ = "poolReconcilerValid".to_owned();
    stored.conditions.push(other);
    assert!(is_current(&stored, &desired));
    stored.conditions[0].status = "False".to_owned();
    assert!(!is_current(&stored, &desired));
}
