//! One pass: observe → render → apply → prune → status. Each step is either the client's or pure.

use std::collections::BTreeMap;

use ferrolb_api::v1beta1::MetalLB;
use ferrolb_api::well_known::object;
use ferrolb_runtime::lease::Held;
use ferrolb_runtime::write::WriteError;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::drift::{self, Cause, Live, Memory, Plan};
use crate::platform::{Platform, explain, key_in, new_memberlist_key};
use crate::render::{Kind, ObjectKey, Observed, Settings, render};
use crate::status::{Problem, Workloads, status};

/// What the operator keeps from pass to pass.
pub(crate) struct Reconciler {
    platform: Platform,
    settings: Settings,
    held: Held,
    memory: Memory,
    /// Uid of the CRD, as long as the object with the first uid lives.
    crd_uid: Option<(String, String)>,
    /// The last problem that was logged.
    told: Option<Problem>,
}

/// Whether the next pass waits for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Everything is as it should be, or as it can be.
    OnChange,
    /// Something failed that may work later.
    Retry,
}

impl Reconciler {
    pub(crate) fn new(platform: Platform, settings: Settings, held: Held) -> Self {
        Self { platform, settings, held, memory: Memory::default(), crd_uid: None, told: None }
    }

    /// Before the first pass as the writer: another may have written until now.
    pub(crate) fn take_over(&mut self) {
        self.memory.forget();
    }

    /// One pass.
    pub(crate) async fn pass(&mut self) -> Next {
        let live = self.platform.live(); // client: from the watches
        self.memory.see(&live);
        match self.platform.metallb() {
            None => self.pass_without_object(&live).await,
            // The garbage collector is at work; with what it does to the operands, the end is an event.
            Some(metallb) if metallb.metadata.deletion_timestamp.is_some() => Next::OnChange,
            Some(metallb) => self.pass_for(&metallb, live).await,
        }
    }

    async fn pass_without_object(&mut self, live: &BTreeMap<ObjectKey, Live>) -> Next {
        self.memory.forget();
        let plan = drift::plan_without_owner(live); // pure
        let problem = self.write(plan, live).await; // client
        self.tell(problem.clone());
        if problem.is_some() { Next::Retry } else { Next::OnChange }
    }

    async fn pass_for(&mut self, metallb: &MetalLB, live: BTreeMap<ObjectKey, Live>) -> Next {
        let problem = match self.observe(metallb, &live).await {
            // client
            Err(problem) => Some(problem),
            Ok(observed) => match render(metallb, &self.settings, &observed) {
                // pure
                Err(refusal) => Some(Problem::Refused(refusal)),
                Ok(desired) => {
                    let plan = drift::plan(&desired, &live, &self.memory); // pure
                    self.write(plan, &live).await // client
                }
            },
        };
        let retry = problem.as_ref().is_some_and(|problem| !matches!(problem, Problem::Refused(_)));

        let newest = |kind: Kind, name: &str| {
            let key = ObjectKey { kind, name: name.into() };
            self.memory.newest(&key, live.get(&key)).map(|live| live.object().clone())
        };
        let controller: Option<Deployment> = read(newest(Kind::Deployment, object::CONTROLLER));
        let webhook: Option<Deployment> = read(newest(Kind::Deployment, object::WEBHOOK));
        let speaker: Option<DaemonSet> = read(newest(Kind::DaemonSet, object::SPEAKER));
        let workloads = Workloads {
            controller: controller.as_ref(),
            webhook: webhook.as_ref(),
            speaker: speaker.as_ref(),
        };
        let status = status(metallb, workloads, problem.as_ref(), Timestamp::now()); // pure
        self.tell(problem);
        let Some(status) = status.filter(|_| self.held.now()) else {
            return if retry { Next::Retry } else { Next::OnChange };
        };
        match self.platform.write_status(metallb, &status).await {
            // client
            Ok(()) if !retry => Next::OnChange,
            Ok(()) => Next::Retry,
            Err(error) => {
                tracing::warn!(op = "writeStatus", error = explain(&error), "status not written");
                Next::Retry
            }
        }
    }

    /// The facts that operands are made from.
    async fn observe(
        &mut self,
        metallb: &MetalLB,
        live: &BTreeMap<ObjectKey, Live>,
    ) -> Result<Observed, Problem> {
        let failed = |what| move |error: WriteError| Problem::Read { what, error: explain(&error) };
        let owner = metallb.metadata.uid.clone().unwrap_or_default();
        let crd_uid = match &self.crd_uid {
            Some((of, crd_uid)) if *of == owner => Some(crd_uid.clone()),
            _ => self.platform.crd_uid().await.map_err(failed("the CRD metallbs.metallb.io"))?,
        };
        self.crd_uid = crd_uid.clone().map(|crd_uid| (owner, crd_uid));

        let key = ObjectKey { kind: Kind::Secret, name: object::MEMBERLIST_SECRET.into() };
        // A deleted Secret comes back with the key that the running speakers have: with another, those
        // that start from now on would not find them.
        let secret = self.memory.newest(&key, live.get(&key)).or_else(|| self.memory.last(&key));
        let secret = secret.map(|live| live.object().clone());
        let memberlist_key = match read(secret).and_then(key_in) {
            Some(known) => known,
            None => {
                let stored = self.platform.memberlist_key().await;
                stored.map_err(failed("the Secret metallb-memberlist"))?.unwrap_or_else(new_memberlist_key)
            }
        };
        let peer_secrets = self.platform.peer_secrets();
        Ok(Observed { crd_uid, memberlist_key: Some(memberlist_key), peer_secrets })
    }

    /// Writes the plan: applies first, then deletes. The first problem is returned; objects after one
    /// that the API server refused are still written, but not after one that got no answer.
    async fn write(&mut self, plan: Plan, live: &BTreeMap<ObjectKey, Live>) -> Option<Problem> {
        let mut first = None;
        for (key, desired, cause) in plan.apply {
            if !self.held.now() {
                return first;
            }
            match self.platform.apply(&key, &desired).await {
                Ok(result) => {
                    let before = live.get(&key);
                    tell_applied(&key, cause, before, &result);
                    self.memory.remember(key, desired, before, result);
                }
                Err(error) => {
                    let unanswered = error.code().is_none();
                    first.get_or_insert(Problem::Apply { object: key, error: explain(&error) });
                    if unanswered {
                        return first;
                    }
                }
            }
        }
        for (key, uid) in plan.delete {
            if first.is_some() || !self.held.now() {
                return first;
            }
            match self.platform.delete(&key, &uid).await {
                Ok(()) => tracing::info!(event = "operandDeleted", object = %key, "not wanted, deleted"),
                Err(error) => first = Some(Problem::Delete { object: key, error: explain(&error) }),
            }
        }
        first
    }

    /// Logs a problem once, and that it is over.
    fn tell(&mut self, problem: Option<Problem>) {
        if self.told == problem {
            return;
        }
        match &problem {
            Some(problem @ Problem::Refused(_)) => {
                tracing::warn!(op = "render", error = %problem, "the MetalLB object asks for what cannot be done");
            }
            Some(problem) => tracing::warn!(op = "reconcile", error = %problem, "not done, retrying"),
            None => tracing::info!(op = "reconcile", "the problem is over"),
        }
        self.told = problem;
    }
}

fn tell_applied(key: &ObjectKey, cause: Cause, before: Option<&Live>, after: &Live) {
    if before.is_some_and(|before| before.is_like(after)) {
        tracing::debug!(op = "apply", object = %key, "as it should be already");
        return;
    }
    match cause {
        Cause::New | Cause::Changed => tracing::info!(event = "operandApplied", object = %key, "applied"),
        Cause::Deleted => {
            tracing::info!(event = "operandRepaired", object = %key, "somebody deleted it, made again");
        }
        Cause::Edited => {
            tracing::info!(event = "operandRepaired", object = %key, "somebody edited it, restored");
        }
    }
}

fn read<K: DeserializeOwned>(object: Option<Value>) -> Option<K> {
    object.and_then(|object| serde_json::from_value(object).ok())
}
