//! One pass: observe → render → apply → prune → status. Each step is either the client's or pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use ferrolb_api::v1beta1::{MetalLB, MetalLBStatus, NetworkPolicies};
use ferrolb_api::well_known::{component, condition, object};
use ferrolb_runtime::event::{EventQueue, EventType};
use ferrolb_runtime::lease::Held;
use ferrolb_runtime::write::WriteError;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::drift::{self, Fights, Live, Memory};
use crate::gate::{Announcement, Gate, ServiceName};
use crate::memberlist::{key_in, new_key};
use crate::metrics::Metrics;
use crate::platform::{Platform, explain};
use crate::reach::{Behind, Reach};
use crate::render::{Kind, ObjectKey, Observed, Settings, manager, render, renews_lease};
use crate::status::{Problem, Rollout, Workloads, misplaced, refusal, rollouts, status, transition};

/// What the operator keeps from pass to pass.
pub(crate) struct Reconciler {
    pub(crate) platform: Platform,
    settings: Settings,
    pub(crate) held: Held,
    pub(crate) memory: Memory,
    /// Uid of the CRD, as long as the object with the first uid lives.
    crd_uid: Option<(String, String)>,
    /// The last problem that was logged.
    told: Option<Problem>,
    pub(crate) fights: Fights,
    gate: Gate,
    /// Known once it was asked for.
    is_openshift: Option<bool>,
    reach: Reach,
    events: EventQueue,
    pub(crate) metrics: Metrics,
}

/// How many Services are looked at in a pass.
const LOOKED_AT: usize = 16;

/// Whether the next pass waits for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Everything is as it should be, or as it can be.
    OnChange,
    /// Something failed that may work later.
    Retry,
}

impl Reconciler {
    pub(crate) fn new(
        platform: Platform,
        settings: Settings,
        held: Held,
        events: EventQueue,
        metrics: Metrics,
    ) -> Self {
        Self {
            platform,
            settings,
            held,
            memory: Memory::default(),
            crd_uid: None,
            told: None,
            fights: Fights::default(),
            gate: Gate::default(),
            is_openshift: None,
            reach: Reach::default(),
            events,
            metrics,
        }
    }

    /// Before the first pass as the writer: another may have written until now.
    pub(crate) fn take_over(&mut self) {
        self.memory.forget();
    }

    /// One pass.
    pub(crate) async fn pass(&mut self) -> Next {
        let live = self.platform.live(); // client: from the watches
        self.memory.see(&live);
        let next = match self.platform.metallb() {
            None => self.pass_without_object(&live).await,
            // The garbage collector is at work; with what it does to the operands, the end is an event.
            Some(metallb) if metallb.metadata.deletion_timestamp.is_some() => Next::OnChange,
            Some(metallb) => self.pass_for(&metallb, live).await,
        };
        if self.tell_misplaced().await { next } else { Next::Retry }
    }

    /// Tells objects in other namespaces that they count for nothing; says whether that worked.
    async fn tell_misplaced(&self) -> bool {
        let mut worked = true;
        for metallb in self.platform.metallbs() {
            let status = misplaced(&metallb, &self.settings.namespace, Timestamp::now()); // pure
            let Some(status) = status.filter(|_| self.held.now()) else { continue };
            let object = format!("{}/{}", metallb.namespace().unwrap_or_default(), metallb.name_any());
            match self.platform.write_status(&metallb, &status).await {
                // client
                Ok(()) => {
                    tracing::warn!(event = "misplaced", object, "a MetalLB object in another namespace")
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let error = explain(&error);
                    tracing::warn!(op = "writeStatus", object, error, "status not written");
                    worked = false;
                }
            }
        }
        worked
    }

    async fn pass_without_object(&mut self, live: &BTreeMap<ObjectKey, Live>) -> Next {
        self.memory.forget();
        self.gate = Gate::default();
        let plan = drift::plan_without_owner(live); // pure
        let mut problem = self.write(plan, live, None).await; // client
        let webhook = ObjectKey { kind: Kind::Deployment, name: object::WEBHOOK.into() };
        if problem.is_none() && !live.contains_key(&webhook) && self.held.now() {
            problem = self.release_conversion().await; // client
        }
        self.metrics.nothing();
        self.metrics.pass(problem.is_none());
        self.tell(problem.clone());
        if problem.is_some() { Next::Retry } else { Next::OnChange }
    }

    async fn release_conversion(&self) -> Option<Problem> {
        match self.platform.release_conversion().await {
            Ok(false) => None,
            Ok(true) => {
                tracing::info!(
                    event = "conversionReleased",
                    "the webhook is gone, BGPPeers convert without it"
                );
                None
            }
            Err(error) => Some(Problem::Conversion { error: explain(&error) }),
        }
    }

    async fn pass_for(&mut self, metallb: &MetalLB, live: BTreeMap<ObjectKey, Live>) -> Next {
        let problem =
            if metallb.spec.paused == Some(true) { None } else { self.install(metallb, &live).await };
        let mut rollouts = self.rollouts(&live);
        let unproven = self.prove_webhook(&live, &mut rollouts).await; // client
        let problem = match problem {
            None => self.refused_pods(&rollouts).await, // client
            some => some,
        };
        let (waits, gate) = self.gates(&rollouts).await; // client
        let problem = problem.or(gate);
        // Why pods are missing is not watched, nor is the time.
        let retry = waits
            || unproven
            || problem.as_ref().is_some_and(|problem| !matches!(problem, Problem::Refused(_)))
            || rollouts.iter().any(|rollout| rollout.lacks_pods);
        let absent = self.platform.absent();
        let status = status(metallb, &rollouts, problem.as_ref(), &absent, Timestamp::now()); // pure
        self.metrics.pass(problem.is_none());
        self.metrics.state(&rollouts, degraded(status.as_ref().or(metallb.status.as_ref())));
        self.tell(problem);
        let Some(status) = status.filter(|_| self.held.now()) else {
            return if retry { Next::Retry } else { Next::OnChange };
        };
        match self.platform.write_status(metallb, &status).await {
            // client
            Ok(()) => {
                for told in transition::events(metallb.status.as_ref(), &status) {
                    self.events.send(metallb.object_ref(&()), told.type_, told.reason, told.message);
                }
                if retry { Next::Retry } else { Next::OnChange }
            }
            Err(error) => {
                tracing::warn!(op = "writeStatus", error = explain(&error), "status not written");
                Next::Retry
            }
        }
    }

    /// Makes what is there what the object asks for.
    async fn install(&mut self, metallb: &MetalLB, live: &BTreeMap<ObjectKey, Live>) -> Option<Problem> {
        let observed = match self.observe(metallb, live).await {
            // client
            Ok(observed) => observed,
            Err(problem) => return Some(problem),
        };
        match render(metallb, &self.settings, &observed) {
            // pure
            Err(refusal) => Some(Problem::Refused(refusal)),
            Ok(desired) => {
                let mut plan = drift::plan(&desired, live, &self.memory); // pure
                let speakers = |key: &ObjectKey| key.kind == Kind::DaemonSet;
                let mut forbidden = None;
                if plan.apply.iter().any(|(key, ..)| speakers(key)) {
                    forbidden = self.pod_security().await; // client
                }
                if forbidden.is_some() {
                    // A speaker that runs is better than one that may not come.
                    plan.apply.retain(|(key, ..)| !speakers(key));
                }
                self.write(plan, live, Some(metallb)).await.or(forbidden) // client
            }
        }
    }

    /// How far the workloads are, by the newest that is known of each.
    fn rollouts(&self, live: &BTreeMap<ObjectKey, Live>) -> [Rollout; 3] {
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
        rollouts(workloads, &self.platform.pods()) // pure
    }

    /// Lets speakers that just came count as ready. Says whether one has to wait, and what is wrong with that.
    async fn gates(&mut self, rollouts: &[Rollout]) -> (bool, Option<Problem>) {
        let settled = rollouts.iter().any(|it| it.name() == object::SPEAKER && it.is_ready());
        let (pods, announced) = (self.platform.pods(), self.platform.announced());
        let mut look = self.gate.look(&pods, settled, announced.clone(), Instant::now()); // pure
        if !look.missing.is_empty() {
            let gone = self.not_to_be_announced(&look.missing).await; // client
            self.gate.forget(|announcement| gone.contains(announcement));
            look = self.gate.look(&pods, settled, announced, Instant::now()); // pure
        }
        for (pod, uid) in &look.open {
            if !self.held.now() {
                return (true, None);
            }
            if let Err(error) = self.platform.open_gate(pod, uid).await
                && !error.is_not_found()
            {
                return (true, Some(Problem::Gate { pod: pod.clone(), error: explain(&error) }));
            }
            tracing::info!(event = "speakerReady", pod, "everything is announced as before");
        }
        let problem = look.missing.first().filter(|_| look.stalled).map(|first| Problem::NotAnnounced {
            what: first.to_string(),
            more: look.missing.len() - 1,
            namespace: self.settings.namespace.clone(),
        });
        (!look.missing.is_empty(), problem)
    }

    /// Which of these nobody is to announce any more: the Service has no address, or the peer is gone.
    async fn not_to_be_announced(&self, missing: &[Announcement]) -> BTreeSet<Announcement> {
        let peers = self.platform.peer_names();
        let services: BTreeSet<&ServiceName> = missing.iter().map(Announcement::service).collect();
        let mut without = BTreeSet::new();
        for service in services.into_iter().take(LOOKED_AT) {
            // What cannot be read is taken for what it was.
            if let Ok(false) = self.platform.has_address(service).await {
                without.insert(service.clone());
            }
        }
        let is_gone = |it: &&Announcement| {
            without.contains(it.service())
                || matches!(it, Announcement::Bgp { peer, .. } if !peers.contains(peer))
        };
        missing.iter().filter(is_gone).cloned().collect()
    }

    /// Whether the namespace refuses speakers.
    async fn pod_security(&self) -> Option<Problem> {
        match self.platform.pod_security().await {
            Ok(level) => {
                let level = level.filter(|level| level != manager::POD_SECURITY_LEVEL)?;
                Some(Problem::PodSecurity { namespace: self.settings.namespace.clone(), level })
            }
            Err(error) => {
                Some(Problem::Read { what: "the namespace of the operator", error: explain(&error) })
            }
        }
    }

    /// The webhook is ready when the API server has its word.
    async fn prove_webhook(&mut self, live: &BTreeMap<ObjectKey, Live>, rollouts: &mut [Rollout]) -> bool {
        let registration = Reach::registration();
        let registration = self.memory.newest(&registration, live.get(&registration));
        let behind = Behind::of(registration, &self.platform.pods());
        self.reach.prove(&self.platform, behind, rollouts).await
    }

    /// Where pods of the speakers are missing: why. A DaemonSet itself does not say.
    async fn refused_pods(&self, rollouts: &[Rollout]) -> Option<Problem> {
        let speaker =
            rollouts.iter().find(|rollout| rollout.name() == object::SPEAKER && rollout.lacks_pods)?;
        if let Some(problem) = self.pod_security().await {
            return Some(problem);
        }
        let failed = |what| move |error: WriteError| Problem::Read { what, error: explain(&error) };
        match self.platform.events_of(speaker.name()).await.map_err(failed("the Events of the speakers")) {
            Ok(events) => {
                refusal(&events, &self.platform.pods(), component::SPEAKER).map(|error| Problem::Pods {
                    object: ObjectKey { kind: Kind::DaemonSet, name: object::SPEAKER.into() },
                    error,
                })
            }
            Err(problem) => Some(problem),
        }
    }

    /// Namespace of the operator and its operands.
    pub(crate) fn namespace(&self) -> &str {
        &self.settings.namespace
    }

    /// Tells something of the operator's work where people look for it.
    pub(crate) fn event(
        &self,
        metallb: Option<&MetalLB>,
        type_: EventType,
        reason: &'static str,
        text: String,
    ) {
        if let Some(metallb) = metallb {
            self.events.send(metallb.object_ref(&()), type_, reason, text);
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
                stored.map_err(failed("the Secret metallb-memberlist"))?.unwrap_or_else(new_key)
            }
        };
        let api_ports = match &metallb.spec.network_policies {
            Some(NetworkPolicies { enabled: Some(true), api_port: None }) => {
                self.platform.api_ports().await.map_err(failed("the endpoints of the API server"))?
            }
            _ => BTreeSet::new(),
        };
        let is_openshift = match self.is_openshift {
            Some(known) => known,
            None => self.platform.is_openshift().await.map_err(failed("the groups of the API"))?,
        };
        self.is_openshift = Some(is_openshift);
        let openshift = match is_openshift {
            true => Some(self.platform.openshift().await.map_err(failed("the TLS profile of the cluster"))?),
            false => None,
        };
        let pods = self.platform.pods();
        Ok(Observed {
            crd_uid,
            memberlist_key: Some(memberlist_key),
            peer_secrets: self.platform.peer_secrets(),
            api_ports,
            openshift,
            leases_are_used: pods.iter().any(|pod| renews_lease(pod)),
            absent: self.platform.absent(),
        })
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

/// The reason of the Degraded condition, while it holds.
fn degraded(status: Option<&MetalLBStatus>) -> Option<&str> {
    let conditions = status?.conditions.iter();
    let mut held = conditions.filter(|it| it.type_ == condition::DEGRADED && it.status == "True");
    held.next().map(|condition| condition.reason.as_str())
}

fn read<K: DeserializeOwned>(object: Option<Value>) -> Option<K> {
    object.and_then(|object| serde_json::from_value(object).ok())
}
