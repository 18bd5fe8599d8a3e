//! Carrying out a plan: applies first, then deletes, each told once.

use std::collections::BTreeMap;
use std::time::Instant;

use ferrolb_api::v1beta1::MetalLB;
use ferrolb_runtime::event::EventType;
use ferrolb_runtime::write::WriteError;
use serde_json::Value;

use crate::drift::{Cause, Live, Plan, is_left_behind};
use crate::managers;
use crate::platform::explain;
use crate::reconcile::Reconciler;
use crate::render::{Kind, ObjectKey};
use crate::status::Problem;

impl Reconciler {
    /// Writes the plan. The first problem is returned; objects after one that the API server refused are
    /// still written, but not after one that got no answer. Where rights are refused, what runs is left as it
    /// is: the next version might not do without them.
    pub(crate) async fn write(
        &mut self,
        plan: Plan,
        live: &BTreeMap<ObjectKey, Live>,
        metallb: Option<&MetalLB>,
    ) -> Option<Problem> {
        let mut first = None;
        let mut rights_lack = false;
        for (key, desired, cause) in plan.apply {
            if !self.held.now() {
                return first;
            }
            if rights_lack && runs_pods(key.kind) && live.contains_key(&key) {
                continue;
            }
            match self.apply(&key, desired, cause, live.get(&key), metallb).await {
                Ok(()) => {}
                Err(Failure { problem, answered }) => {
                    rights_lack |= gives_rights(key.kind);
                    first.get_or_insert(problem);
                    if !answered {
                        return first;
                    }
                }
            }
        }
        for (key, uid) in plan.delete {
            if first.is_some() || !self.held.now() {
                return first;
            }
            first = self.prune(&key, &uid, metallb.is_some()).await;
        }
        first
    }

    async fn apply(
        &mut self,
        key: &ObjectKey,
        desired: Value,
        cause: Cause,
        before: Option<&Live>,
        metallb: Option<&MetalLB>,
    ) -> Result<(), Failure> {
        let kind = format!("{:?}", key.kind);
        let other = match cause {
            Cause::New => self.adopt(key, metallb).await.map_err(|error| Failure::of(key, &error))?,
            Cause::Edited => self.rival(key).await.map_err(|error| Failure::of(key, &error))?,
            Cause::Changed | Cause::Deleted => None,
        };
        if cause == Cause::Edited && self.fights.must_wait(key, Instant::now()) {
            return Err(Failure::answered(Problem::Contested { object: key.clone(), other }));
        }
        let mut answer = self.platform.apply(key, &desired).await;
        if let Err(error) = &answer
            && is_immutable(error)
        {
            if !can_be_made_anew(key) {
                return Err(Failure::answered(Problem::Immutable {
                    object: key.clone(),
                    namespace: self.namespace().to_owned(),
                    error: explain(error),
                }));
            }
            self.remove(key).await.map_err(|error| Failure::of(key, &error))?;
            let text = format!("{key} differed in a field that cannot change, made anew");
            tracing::info!(event = "operandRecreated", object = %key, "{text}");
            self.event(metallb, EventType::Normal, "OperandRecreated", text);
            answer = self.platform.apply(key, &desired).await;
        }
        self.metrics.write("apply", &kind, answer.is_ok());
        let result = answer.map_err(|error| Failure::of(key, &error))?;
        match cause {
            Cause::New | Cause::Changed if before.is_some_and(|before| before.is_like(&result)) => {
                tracing::debug!(op = "apply", object = %key, "as it should be already");
            }
            Cause::New | Cause::Changed => tracing::info!(event = "operandApplied", object = %key, "applied"),
            Cause::Deleted => {
                self.metrics.repair(&kind, "deleted");
                tracing::info!(event = "operandRepaired", object = %key, "somebody deleted it, made again");
                let text = format!("{key} was deleted, made again");
                self.event(metallb, EventType::Normal, "OperandRepaired", text);
            }
            Cause::Edited if before.is_some_and(|before| before.is_like(&result)) => {
                tracing::debug!(op = "apply", object = %key, "what others wrote does not concern us");
            }
            Cause::Edited => {
                self.fights.repaired(key, Instant::now());
                self.metrics.repair(&kind, "edited");
                let other = other.unwrap_or_else(|| "somebody".into());
                tracing::info!(event = "operandRepaired", object = %key, by = other, "{other} edited it, restored");
                let text = format!("{key} was edited by {other}, restored");
                self.event(metallb, EventType::Normal, "OperandRepaired", text);
            }
        }
        self.memory.remember(key.clone(), desired, before, result);
        Ok(())
    }

    /// Before the first apply of an operand that the watch does not show: an object of its name that
    /// somebody else made becomes the operator's. Says whose it was.
    async fn adopt(&self, key: &ObjectKey, metallb: Option<&MetalLB>) -> Result<Option<String>, WriteError> {
        let Some(object) = self.platform.get(key).await? else { return Ok(None) };
        let other = managers::rival(&object);
        if let Some(patch) = managers::take_over(key.kind, &object) {
            self.platform.take_over(key, &patch).await?;
        }
        if let Some(other) = &other {
            let text = format!("{key} was there before, written by {other}: taken over");
            tracing::info!(event = "operandTakenOver", object = %key, from = other, "{text}");
            self.event(metallb, EventType::Normal, "OperandTakenOver", text);
        }
        Ok(other)
    }

    async fn rival(&self, key: &ObjectKey) -> Result<Option<String>, WriteError> {
        Ok(self.platform.get(key).await?.as_ref().and_then(managers::rival))
    }

    /// Deletes what is not wanted any more and was applied by the operator; labels alone can be a copy.
    async fn prune(&self, key: &ObjectKey, uid: &str, has_owner: bool) -> Option<Problem> {
        let failed =
            |error: WriteError| Some(Problem::Delete { object: key.clone(), error: explain(&error) });
        match self.platform.get(key).await {
            Err(error) => return failed(error),
            Ok(object) if !object.as_ref().is_some_and(managers::is_ours) => {
                tracing::debug!(op = "prune", object = %key, "it has the operator's labels only, left alone");
                return None;
            }
            // The watch may not show yet that it was to stay.
            Ok(Some(object)) if !has_owner && is_left_behind(key, &Live::new(object.clone())) => return None,
            Ok(_) => {}
        }
        let answer = self.platform.delete(key, uid).await;
        self.metrics.write("delete", &format!("{:?}", key.kind), answer.is_ok());
        match answer {
            Ok(()) => {
                tracing::info!(event = "operandDeleted", object = %key, "not wanted, deleted");
                None
            }
            Err(error) => failed(error),
        }
    }

    async fn remove(&self, key: &ObjectKey) -> Result<(), WriteError> {
        let Some(object) = self.platform.get(key).await? else { return Ok(()) };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.platform.delete(key, uid).await
    }
}

/// An operand that was not written.
struct Failure {
    problem: Problem,
    /// The API server said no; otherwise it said nothing, and would say nothing of the next one.
    answered: bool,
}

impl Failure {
    fn of(key: &ObjectKey, error: &WriteError) -> Self {
        let problem = Problem::Apply { object: key.clone(), error: explain(error) };
        Self { problem, answered: error.code().is_some() }
    }

    fn answered(problem: Problem) -> Self {
        Self { problem, answered: true }
    }
}

fn runs_pods(kind: Kind) -> bool {
    matches!(kind, Kind::Deployment | Kind::DaemonSet)
}

fn gives_rights(kind: Kind) -> bool {
    use Kind::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, ServiceAccount};
    matches!(kind, ServiceAccount | Role | RoleBinding | ClusterRole | ClusterRoleBinding)
}

/// The API server never changes this field of an existing object.
fn is_immutable(error: &WriteError) -> bool {
    let text = explain(error);
    error.code() == Some(422) && (text.contains("immutable") || text.contains("cannot change roleRef"))
}

/// Nobody misses it for a moment: bindings are back at once, and addresses are given and checked a few
/// seconds later. Without speakers nothing is announced.
fn can_be_made_anew(key: &ObjectKey) -> bool {
    matches!(key.kind, Kind::RoleBinding | Kind::ClusterRoleBinding | Kind::Deployment)
}
