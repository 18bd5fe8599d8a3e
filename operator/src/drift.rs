//! What to write in a pass: the difference between what must exist and what exists.
//!
//! Inputs: the rendered operands, the live objects that carry the operator's labels, and the
//! [`Memory`] of what earlier applies resulted in. Output: a [`Plan`].
//!
//! An operand is applied when it is missing, when it is to be something else than last time, or when
//! the live object is not what the last apply left: somebody edited it. What others write beside us
//! (defaults, a revision, a CA bundle, status) therefore costs one apply that changes nothing, never a
//! loop, and at rest nothing is sent.

mod fights;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use fights::Fights;

use crate::render::{Kind, Object, ObjectKey, Scope};

/// A live object: as watched, or as the answer to an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    object: Value,
}

impl Live {
    /// From an object as the API server gave it.
    pub fn new(object: Value) -> Self {
        Self { object }
    }

    /// The object.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Another object of the same name has another uid.
    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Versions of one object grow.
    pub fn version(&self) -> Option<u64> {
        self.object["metadata"]["resourceVersion"].as_str()?.parse().ok()
    }

    /// It is being deleted: what is applied now would go with it.
    fn is_terminating(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null()
    }

    /// Nobody owns it: its owner was deleted without it.
    fn is_orphan(&self) -> bool {
        self.object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
    }

    /// Whether this is an earlier state than `other`: a watch that lags behind an answer.
    fn is_before(&self, other: &Self) -> bool {
        matches!((self.version(), other.version()), (Some(this), Some(other)) if this < other)
    }

    /// Same but for what changes by itself.
    pub fn is_like(&self, other: &Self) -> bool {
        self.settled() == other.settled()
    }

    fn settled(&self) -> Value {
        let mut object = self.object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for changing in ["generation", "managedFields", "resourceVersion"] {
                metadata.remove(changing);
            }
        }
        object
    }
}

/// What the last apply of each operand sent and resulted in.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    applied: BTreeMap<ObjectKey, Applied>,
}

#[derive(Clone, Debug)]
struct Applied {
    desired: Value,
    result: Live,
    /// The watch has shown it: its absence means that somebody deleted it.
    seen: bool,
}

impl Memory {
    /// After an apply of `desired` that the API server answered with `result`; `before` is what the
    /// watch showed then.
    pub fn remember(&mut self, key: ObjectKey, desired: Value, before: Option<&Live>, result: Live) {
        let seen = before.is_some_and(|before| before.uid() == result.uid());
        self.applied.insert(key, Applied { desired, result, seen });
    }

    /// What the last apply of an operand resulted in, whether it still exists or not.
    pub fn last(&self, key: &ObjectKey) -> Option<&Live> {
        self.applied.get(key).map(|applied| &applied.result)
    }

    /// Before a pass: what the watches show by now.
    pub fn see(&mut self, live: &BTreeMap<ObjectKey, Live>) {
        for (key, applied) in &mut self.applied {
            applied.seen |= live.get(key).is_some_and(|live| !live.is_before(&applied.result));
        }
    }

    /// After a time in which others may have written: every operand is applied once more.
    pub fn forget(&mut self) {
        self.applied.clear();
    }

    /// The newest known state of an operand, of the watch's and the last apply's.
    pub fn newest<'a>(&'a self, key: &ObjectKey, live: Option<&'a Live>) -> Option<&'a Live> {
        match (live, self.applied.get(key)) {
            (Some(live), Some(applied)) if live.is_before(&applied.result) => Some(&applied.result),
            (None, Some(applied)) if !applied.seen => Some(&applied.result),
            (live, _) => live,
        }
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
    /// It is not there, as far as the watch knows.
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
        .filter(|(key, live)| !wanted.contains(key) && !live.is_terminating())
        .map(|(key, live)| (key.clone(), live.uid().to_owned()))
        .collect();
    Plan { apply, delete }
}

fn cause(desired: &Value, live: Option<&Live>, applied: Option<&Applied>) -> Option<Cause> {
    match (live, applied) {
        // Its end will be an event of its own.
        (Some(live), _) if live.is_terminating() => None,
        (Some(_), None) => Some(Cause::Changed),
        (_, Some(applied)) if applied.desired != *desired => Some(Cause::Changed),
        (None, Some(applied)) if applied.seen => Some(Cause::Deleted),
        // The watch may lag, or the object was deleted before it showed it: applying is right in both.
        (None, _) => Some(Cause::New),
        // The watch lags; what it shows next is compared.
        (Some(live), Some(applied)) if live.is_before(&applied.result) => None,
        (Some(live), Some(applied)) => (!live.is_like(&applied.result)).then_some(Cause::Edited),
    }
}

/// The plan while there is no `MetalLB` object: everything goes, last applied, first deleted, so that nobody is
/// asked who is not there, and rights go last. What the object owned is the garbage collector's, too; but it
/// never learns of an owner whose definition was there for less than half a minute. Where the owner went and was
/// told to leave its operands behind (`--cascade=orphan`), they still need the rest, and everything stays.
pub fn plan_without_owner(live: &BTreeMap<ObjectKey, Live>) -> Plan {
    let workload = |kind: Kind| matches!(kind, Kind::Deployment | Kind::DaemonSet);
    if live.iter().any(|(key, live)| workload(key.kind) && is_left_behind(key, live)) {
        return Plan::default();
    }
    let delete = live
        .iter()
        .rev()
        .filter(|(key, live)| !live.is_terminating() && !is_left_behind(key, live))
        .map(|(key, live)| (key.clone(), live.uid().to_owned()))
        .collect();
    Plan { apply: Vec::new(), delete }
}

/// Whether the object's owner was deleted without it. What no namespaced object can own never had one.
pub(crate) fn is_left_behind(key: &ObjectKey, live: &Live) -> bool {
    key.kind.scope() == Scope::Namespaced && live.is_orphan()
}

#[cfg(test)]
mod tests;
