use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;

type Cluster = BTreeMap<ObjectKey, Live>;

fn operand(data: &str) -> Object {
    ConfigMap {
        metadata: ObjectMeta { name: Some("a".into()), ..Default::default() },
        data: Some(BTreeMap::from([("key".into(), data.into())])),
        ..Default::default()
    }
    .into()
}

fn key() -> ObjectKey {
    operand("").key()
}

fn stored(data: &str, version: &str) -> Value {
    json!({
        "metadata": {"name": "a", "uid": "1", "resourceVersion": version, "ownerReferences": [{"uid": "0"}]},
        "data": {"key": data},
    })
}

fn cluster(value: Value) -> Cluster {
    BTreeMap::from([(key(), Live::new(value))])
}

/// After an apply that resulted in version 7, which the watch has shown.
fn remembered(data: &str) -> Memory {
    let mut memory = Memory::default();
    let mut answer = stored(data, "7");
    answer["metadata"]["managedFields"] = json!([{"manager": "metallb-operator"}]);
    memory.remember(key(), operand(data).to_value(), None, Live::new(answer));
    memory.see(&cluster(stored(data, "7")));
    memory
}

fn causes(desired: &Object, live: &Cluster, memory: &Memory) -> Vec<Cause> {
    let plan = plan(std::slice::from_ref(desired), live, memory);
    plan.apply.into_iter().map(|(_, _, cause)| cause).collect()
}

#[test]
fn an_operand_is_applied_for_one_of_four_causes() {
    let (none, memory) = (Cluster::new(), remembered("x"));
    assert_eq!(causes(&operand("x"), &none, &Memory::default()), [Cause::New]);
    assert_eq!(causes(&operand("x"), &none, &memory), [Cause::Deleted]);
    assert_eq!(causes(&operand("x"), &cluster(stored("x", "8")), &Memory::default()), [Cause::Changed]);
    assert_eq!(causes(&operand("y"), &cluster(stored("x", "8")), &memory), [Cause::Changed]);
    assert_eq!(causes(&operand("x"), &cluster(stored("edited", "8")), &memory), [Cause::Edited]);
    let mut relabelled = stored("x", "8");
    relabelled["metadata"]["labels"] = json!({"by": "hand"});
    assert_eq!(causes(&operand("x"), &cluster(relabelled), &memory), [Cause::Edited]);
    let mut recreated = stored("x", "8");
    recreated["metadata"]["uid"] = json!("2");
    assert_eq!(causes(&operand("x"), &cluster(recreated), &memory), [Cause::Edited]);
}

#[test]
fn status_and_versions_are_no_drift() {
    let mut written = stored("x", "9");
    written["status"] = json!({"ready": 3});
    written["metadata"]["generation"] = json!(4);
    assert_eq!(causes(&operand("x"), &cluster(written), &remembered("x")), []);
}

#[test]
fn a_watch_that_lags_behind_an_answer_is_no_drift() {
    let mut memory = Memory::default();
    memory.remember(key(), operand("x").to_value(), None, Live::new(stored("x", "10")));
    let before = cluster(stored("old", "9"));
    memory.see(&before);
    assert_eq!(causes(&operand("x"), &before, &memory), []);
    assert_eq!(memory.newest(&key(), before.get(&key())).unwrap().version(), Some(10));
    assert_eq!(
        causes(&operand("x"), &Cluster::new(), &memory),
        [Cause::New],
        "never seen: not deleted by anybody"
    );
    assert_eq!(memory.newest(&key(), None).unwrap().version(), Some(10));

    let after = cluster(stored("x", "11"));
    memory.see(&after);
    assert_eq!(memory.newest(&key(), after.get(&key())).unwrap().version(), Some(11));
    assert_eq!(memory.newest(&key(), None), None);
    assert_eq!(causes(&operand("x"), &Cluster::new(), &memory), [Cause::Deleted]);
}

#[test]
fn what_was_there_before_an_apply_needs_not_be_shown_again() {
    let (mut memory, before) = (Memory::default(), Live::new(stored("x", "7")));
    memory.remember(key(), operand("x").to_value(), Some(&before), before.clone());
    assert_eq!(causes(&operand("x"), &Cluster::new(), &memory), [Cause::Deleted]);
    assert_eq!(memory.newest(&key(), None), None);
    assert_eq!(memory.last(&key()), Some(&before));
}

#[test]
fn what_is_being_deleted_is_left_alone_until_it_is_gone() {
    let mut going = stored("edited", "9");
    going["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
    assert_eq!(causes(&operand("x"), &cluster(going.clone()), &remembered("x")), []);
    assert_eq!(plan(&[], &cluster(going), &Memory::default()).delete, []);
}

#[test]
fn what_is_not_rendered_any_more_is_deleted_by_uid() {
    let plan = plan(&[], &cluster(stored("x", "9")), &Memory::default());
    assert_eq!(plan.delete, [(key(), "1".into())]);
}

#[test]
fn without_an_owner_everything_goes_but_what_was_to_stay() {
    let key = |kind, name: &str| ObjectKey { kind, name: name.into() };
    let role = key(Kind::ClusterRole, "metallb-system:speaker");
    let registration = key(Kind::ValidatingWebhookConfiguration, "metallb-webhook-configuration");
    let speaker = key(Kind::DaemonSet, "speaker");
    let mut objects = BTreeMap::from([
        (speaker.clone(), Live::new(stored("", "1"))),
        (role.clone(), Live::new(stored("", "1"))),
        (registration.clone(), Live::new(stored("", "1"))),
    ]);
    let expected = [(registration, "1".into()), (speaker.clone(), "1".into()), (role, "1".into())];
    assert_eq!(plan_without_owner(&objects).delete, expected, "nobody is asked who is not there");

    let mut orphan = stored("", "1");
    orphan["metadata"]["ownerReferences"] = json!([]);
    objects.insert(speaker, Live::new(orphan));
    assert_eq!(plan_without_owner(&objects), Plan::default(), "the orphans still need their rights");
}
