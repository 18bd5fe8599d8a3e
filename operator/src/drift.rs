//! What to write in a pass: the difference between what must exist and what exists.
//!
//! Inputs: the rendered operands, the live objects that carry the operator's labels, and the
//! [`Memory`] of what earlier applies resulted in. Output: a [`Plan`].
//!
//! An operand is applied when it is missing, when it is to be something else than last time, or when
//! the live object is not what the last apply left: somebody edited it. What others write beside us
//! (defaults, a revision, a CA bundle, status) therefore costs one apply that changes nothing, never a
//! loop, and at rest nothing is sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::render::{Kind, Object, ObjectKey, Scope};

/// A live object, as far as drift goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// Its uid: another object of the same name is another object.
    pub uid: String,
    /// It is being deleted: what is applied now would go with it.
    pub terminating: bool,
    /// Nobody owns it: its owner was deleted without it.
    pub orphaned: bool,
    fingerprint: Fingerprint,
}

/// The object without what changes by itself.
#[derive(Clone, Debug, PartialEq)]
struct Fingerprint(Value);

impl Live {
    /// From an object as the API server returned it.
    pub fn of(mut object: Value) -> Self {
        let metadata = &object["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        let terminating = !metadata["deletionTimestamp"].is_null();
        let orphaned = metadata["ownerReferences"].as_array().is_none_or(Vec::is_empty);
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
            // Lists from a watch leave these two out, answers to writes do not.
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for changing in ["generation", "managedFields", "resourceVersion"] {
                metadata.remove(changing);
            }
        }
        Self { uid, terminating, orphaned, fingerprint: Fingerprint(object) }
    }
}

/// What the last apply of each operand sent and resulted in.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    applied: BTreeMap<ObjectKey, (Value, Fingerprint)>,
}

impl Memory {
    /// After an apply of `desired` that the API server answered with `result`.
    pub fn remember(&mut self, key: ObjectKey, desired: Value, result: Value) {
        self.applied.insert(key, (desired, Live::of(result).fingerprint));
    }

    /// After a time in which others may have written: every operand is applied once more.
    pub fn forget(&mut self) {
        self.applied.clear();
    }
}

/// What to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Operands to apply, in the order of the rendering, each with why.
    pub apply: Vec<(ObjectKey, Value, Cause)>,
    /// Objects of ours that are not wanted (any more), with their uid.
    pub delete: Vec<(ObjectKey, String)>,
}

/// Why an operand is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is not there and never was.
    New,
    /// It is to be different, or this process has not applied it yet.
    Changed,
    /// Somebody deleted it.
    Deleted,
    /// Somebody edited it.
    Edited,
}

/// The plan that makes `live` what `desired` says.
pub fn plan(desired: &[Object], live: &BTreeMap<ObjectKey, Live>, memory: &Memory) -> Plan {
    let wanted: BTreeSet<ObjectKey> = desired.iter().map(Object::key).collect();
    let apply = desired
        .iter()
        .filter_map(|object| {
            let (key, value) = (object.key(), object.to_value());
            let cause = cause(&value, live.get(&key), memory.applied.get(&key))?;
            Some((key, value, cause))
        })
        .collect();
    let delete = live
        .iter()
        .filter(|(key, live)| !wanted.contains(key) && !live.terminating)
        .map(|(key, live)| (key.clone(), live.uid.clone()))
        .collect();
    Plan { apply, delete }
}

fn cause(desired: &Value, live: Option<&Live>, applied: Option<&(Value, Fingerprint)>) -> Option<Cause> {
    match (live, applied) {
        (Some(live), _) if live.terminating => None,
        (None, None) => Some(Cause::New),
        (None, Some(_)) => Some(Cause::Deleted),
        (Some(_), None) => Some(Cause::Changed),
        (Some(_), Some((before, _))) if before != desired => Some(Cause::Changed),
        (Some(live), Some((_, result))) if live.fingerprint != *result => Some(Cause::Edited),
        (Some(_), Some(_)) => None,
    }
}

/// The plan while there is no `MetalLB` object: the garbage collector takes what the object owned, the
/// operator what no namespaced object can own. Where the owner went and was told to leave its operands
/// behind (`--cascade=orphan`), they still need the rest, and everything stays.
pub fn plan_without_owner(live: &BTreeMap<ObjectKey, Live>) -> Plan {
    let workload = |kind: Kind| matches!(kind, Kind::Deployment | Kind::DaemonSet);
    if live.iter().any(|(key, live)| workload(key.kind) && live.orphaned) {
        return Plan::default();
    }
    let delete = live
        .iter()
        .filter(|(key, live)| key.kind.scope() == Scope::Cluster && !live.terminating)
        .map(|(key, live)| (key.clone(), live.uid.clone()))
        .collect();
    Plan { apply: Vec::new(), delete }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn operand(data: &str) -> Object {
        ConfigMap {
            metadata: ObjectMeta { name: Some("a".into()), ..Default::default() },
            data: Some(BTreeMap::from([("key".into(), data.into())])),
            ..Default::default()
        }
        .into()
    }

    fn stored(data: &str, version: &str) -> Value {
        json!({
            "metadata": {"name": "a", "uid": "1", "resourceVersion": version, "ownerReferences": [{"uid": "0"}]},
            "data": {"key": data},
        })
    }

    fn live(value: Value) -> BTreeMap<ObjectKey, Live> {
        BTreeMap::from([(operand("").key(), Live::of(value))])
    }

    fn remembered(data: &str) -> Memory {
        let mut memory = Memory::default();
        let mut answer = stored(data, "7");
        answer["kind"] = json!("ConfigMap");
        answer["metadata"]["managedFields"] = json!([{"manager": "metallb-operator"}]);
        memory.remember(operand("").key(), operand(data).to_value(), answer);
        memory
    }

    fn causes(desired: &Object, live: &BTreeMap<ObjectKey, Live>, memory: &Memory) -> Vec<Cause> {
        let plan = plan(std::slice::from_ref(desired), live, memory);
        plan.apply.into_iter().map(|(_, _, cause)| cause).collect()
    }

    #[test]
    fn an_operand_is_applied_for_one_of_four_causes() {
        let (none, memory) = (BTreeMap::new(), remembered("x"));
        assert_eq!(causes(&operand("x"), &none, &Memory::default()), [Cause::New]);
        assert_eq!(causes(&operand("x"), &none, &memory), [Cause::Deleted]);
        assert_eq!(causes(&operand("x"), &live(stored("x", "8")), &Memory::default()), [Cause::Changed]);
        assert_eq!(causes(&operand("y"), &live(stored("x", "8")), &memory), [Cause::Changed]);
        assert_eq!(causes(&operand("x"), &live(stored("edited", "8")), &memory), [Cause::Edited]);
        let mut relabelled = stored("x", "8");
        relabelled["metadata"]["labels"] = json!({"by": "hand"});
        assert_eq!(causes(&operand("x"), &live(relabelled), &memory), [Cause::Edited]);
        let mut recreated = stored("x", "8");
        recreated["metadata"]["uid"] = json!("2");
        assert_eq!(causes(&operand("x"), &live(recreated), &memory), [Cause::Edited]);
    }

    #[test]
    fn status_and_versions_are_no_drift() {
        let mut written = stored("x", "9");
        written["status"] = json!({"ready": 3});
        written["metadata"]["generation"] = json!(4);
        assert_eq!(causes(&operand("x"), &live(written), &remembered("x")), []);
    }

    #[test]
    fn what_is_being_deleted_is_left_alone_until_it_is_gone() {
        let mut going = stored("edited", "9");
        going["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
        assert_eq!(causes(&operand("x"), &live(going.clone()), &remembered("x")), []);
        assert_eq!(plan(&[], &live(going), &Memory::default()).delete, []);
    }

    #[test]
    fn what_is_not_rendered_any_more_is_deleted_by_uid() {
        let plan = plan(&[], &live(stored("x", "9")), &Memory::default());
        assert_eq!(plan.delete, [(operand("").key(), "1".into())]);
    }

    #[test]
    fn without_an_owner_only_cluster_scoped_objects_are_deleted() {
        let key = |kind, name: &str| ObjectKey { kind, name: name.into() };
        let role = key(Kind::ClusterRole, "metallb-system:speaker");
        let mut objects = BTreeMap::from([
            (key(Kind::DaemonSet, "speaker"), Live::of(stored("", "1"))),
            (role.clone(), Live::of(stored("", "1"))),
        ]);
        assert_eq!(plan_without_owner(&objects).delete, [(role, "1".into())]);

        let mut orphan = stored("", "1");
        orphan["metadata"]["ownerReferences"] = json!([]);
        objects.insert(key(Kind::DaemonSet, "speaker"), Live::of(orphan));
        assert_eq!(plan_without_owner(&objects), Plan::default(), "the orphans still need their rights");
    }
}
