//! What the `MetalLB` object's status says: four conditions that follow what is observed.
//!
//! Inputs: the object with its present status, the workloads as the API server holds them, what went
//! wrong in this pass, the time. Output: the new status, or nothing when it would say what it says
//! already.
//!
//! | condition | true while |
//! |---|---|
//! | Available | every workload runs all its pods, ready, of the newest template |
//! | Progressing | a workload is not there yet and has not given up |
//! | Degraded | something went wrong, or a workload has given up |
//! | Upgradeable | Available and nothing else to report |

use std::fmt;

use ferrolb_api::v1beta1::{MetalLB, MetalLBStatus};
use ferrolb_api::well_known::condition::{self, reason};
use ferrolb_api::well_known::object;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::render::{Backend, Kind, ObjectKey, Refusal};

/// Longest message that is stored; what the API server says of a refused object can be long.
const MESSAGE_LIMIT: usize = 2048;

/// The workloads as observed; `None` is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workloads<'a> {
    /// Deployment of the controller.
    pub controller: Option<&'a Deployment>,
    /// Deployment of the webhook.
    pub webhook: Option<&'a Deployment>,
    /// DaemonSet of the speakers.
    pub speaker: Option<&'a DaemonSet>,
}

/// What went wrong in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The object asks for what cannot be done.
    Refused(Refusal),
    /// An operand could not be applied.
    Apply {
        /// Which one.
        object: ObjectKey,
        /// What the API server said.
        error: String,
    },
    /// An operand could not be deleted.
    Delete {
        /// Which one.
        object: ObjectKey,
        /// What the API server said.
        error: String,
    },
    /// A fact that operands are made from could not be read.
    Read {
        /// What was to be read.
        what: &'static str,
        /// What the API server said.
        error: String,
    },
    /// The webhook is gone, but could not be taken out of the conversion of BGPPeers.
    Conversion {
        /// What the API server said.
        error: String,
    },
}

impl Problem {
    fn reason(&self) -> &'static str {
        match self {
            Self::Refused(Refusal::ExternalBackend | Refusal::UnknownBackend(_)) => {
                reason::UNSUPPORTED_BACKEND
            }
            Self::Refused(Refusal::TolerationSeconds(_)) => reason::INVALID_SPEC,
            Self::Apply { .. } | Self::Conversion { .. } => reason::APPLY_FAILED,
            Self::Delete { .. } => reason::DELETE_FAILED,
            Self::Read { .. } => reason::READ_FAILED,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Apply { object, error } => write!(f, "{object} could not be applied: {error}"),
            Self::Delete { object, error } => write!(f, "{object} could not be deleted: {error}"),
            Self::Read { what, error } => write!(f, "{what} could not be read: {error}"),
            Self::Conversion { error } => {
                write!(f, "the conversion of BGPPeers still asks the webhook, which is gone: {error}")
            }
        }
    }
}

/// The status to write, or `None` when the present one says it all.
pub fn status(
    metallb: &MetalLB,
    workloads: Workloads<'_>,
    problem: Option<&Problem>,
    now: Timestamp,
) -> Option<MetalLBStatus> {
    let rollouts = [
        deployment(object::CONTROLLER, workloads.controller),
        deployment(object::WEBHOOK, workloads.webhook),
        daemon_set(object::SPEAKER, workloads.speaker),
    ];
    let present = metallb.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let conditions: Vec<Condition> = verdicts(metallb, &rollouts, problem)
        .into_iter()
        .map(|(type_, verdict)| {
            let before = present.iter().find(|condition| condition.type_ == type_);
            verdict.condition(type_, before, metallb.metadata.generation, now)
        })
        .collect();
    let unchanged = conditions.iter().all(|condition| present.contains(condition));
    (!unchanged).then_some(MetalLBStatus { conditions })
}

/// How far a workload is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rollout {
    workload: ObjectKey,
    state: RolloutState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RolloutState {
    Missing,
    Unobserved,
    Rolling { ready: i32, desired: i32 },
    Stalled { ready: i32, desired: i32, why: String },
    Ready { pods: i32 },
}

impl Rollout {
    fn is_ready(&self) -> bool {
        matches!(self.state, RolloutState::Ready { .. })
    }

    fn is_stalled(&self) -> bool {
        matches!(self.state, RolloutState::Stalled { .. })
    }
}

impl fmt::Display for Rollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workload = &self.workload;
        match &self.state {
            RolloutState::Missing => write!(f, "{workload}: not created yet"),
            RolloutState::Unobserved => write!(f, "{workload}: change not taken up yet"),
            RolloutState::Rolling { ready, desired } => {
                write!(f, "{workload}: {ready} of {desired} pods ready")
            }
            RolloutState::Stalled { ready, desired, why } => {
                write!(f, "{workload}: {ready} of {desired} pods ready, {why}")
            }
            RolloutState::Ready { pods } => write!(f, "{workload}: {pods} of {pods} pods ready"),
        }
    }
}

fn deployment(name: &str, deployment: Option<&Deployment>) -> Rollout {
    let workload = ObjectKey { kind: Kind::Deployment, name: name.into() };
    let Some(deployment) = deployment else { return Rollout { workload, state: RolloutState::Missing } };
    let desired = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let ready = status.available_replicas.unwrap_or(0);
    let complete = ready == desired
        && status.updated_replicas.unwrap_or(0) == desired
        && status.replicas.unwrap_or(0) == desired;
    let gave_up = status.conditions.iter().flatten().find(|condition| {
        condition.type_.as_deref() == Some("Progressing") && condition.status.as_deref() == Some("False")
    });
    let state = if deployment.metadata.generation > status.observed_generation {
        RolloutState::Unobserved
    } else if complete {
        RolloutState::Ready { pods: desired }
    } else if let Some(condition) = gave_up {
        let why = condition.message.clone().or_else(|| condition.reason.clone()).unwrap_or_default();
        RolloutState::Stalled { ready, desired, why }
    } else {
        // Pods of the old template do not count: a rollout never reads "2 of 2".
        let new = ready.min(status.updated_replicas.unwrap_or(0)).min(desired - 1);
        RolloutState::Rolling { ready: new.max(0), desired }
    };
    Rollout { workload, state }
}

fn daemon_set(name: &str, daemon_set: Option<&DaemonSet>) -> Rollout {
    let workload = ObjectKey { kind: Kind::DaemonSet, name: name.into() };
    let Some(daemon_set) = daemon_set else { return Rollout { workload, state: RolloutState::Missing } };
    let status = daemon_set.status.clone().unwrap_or_default();
    let desired = status.desired_number_scheduled;
    let available = status.number_available.unwrap_or(0);
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let state = if daemon_set.metadata.generation > status.observed_generation {
        RolloutState::Unobserved
    } else if available == desired && updated == desired {
        RolloutState::Ready { pods: desired }
    } else {
        RolloutState::Rolling { ready: available.min(updated), desired }
    };
    Rollout { workload, state }
}

/// Status, reason and message of one condition.
struct Verdict {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn new(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { holds, reason, message: message.into() }
    }

    fn condition(
        self,
        type_: &str,
        before: Option<&Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Condition {
        let status = if self.holds { "True" } else { "False" };
        let since = before
            .filter(|before| before.status == status)
            .map_or(Time(now), |before| before.last_transition_time.clone());
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: self.reason.into(),
            message: self.message.chars().take(MESSAGE_LIMIT).collect(),
            last_transition_time: since,
            observed_generation: generation,
        }
    }
}

fn verdicts(
    metallb: &MetalLB,
    rollouts: &[Rollout],
    problem: Option<&Problem>,
) -> [(&'static str, Verdict); 4] {
    let all_ready = rollouts.iter().all(Rollout::is_ready);
    let stalled = list(rollouts.iter().filter(|rollout| rollout.is_stalled()));
    let moving = list(rollouts.iter().filter(|rollout| !rollout.is_ready() && !rollout.is_stalled()));

    let degraded = match problem {
        Some(problem) => Verdict::new(true, problem.reason(), problem.to_string()),
        None if !stalled.is_empty() => Verdict::new(true, reason::ROLLOUT_STALLED, stalled.clone()),
        None => Verdict::new(false, reason::AS_EXPECTED, ""),
    };
    let progressing = match problem {
        // Nothing is on its way while the object is refused and nothing was installed.
        Some(Problem::Refused(_)) => Verdict::new(false, degraded.reason, ""),
        _ if !moving.is_empty() => Verdict::new(true, reason::ROLLOUT_IN_PROGRESS, moving.clone()),
        _ if !stalled.is_empty() => Verdict::new(false, reason::ROLLOUT_STALLED, ""),
        _ => Verdict::new(false, reason::AS_EXPECTED, ""),
    };
    let available = if all_ready {
        ready(metallb, rollouts)
    } else {
        let waiting = list(rollouts.iter().filter(|rollout| !rollout.is_ready()));
        let because = if progressing.holds { progressing.reason } else { degraded.reason };
        Verdict::new(false, because, waiting)
    };
    let upgradeable = match (available.holds, degraded.holds) {
        (true, false) => Verdict::new(true, reason::AS_EXPECTED, ""),
        (_, true) => Verdict::new(false, degraded.reason, "not while the product is degraded"),
        (false, false) => Verdict::new(false, available.reason, "not while pods are being replaced"),
    };
    [
        (condition::AVAILABLE, available),
        (condition::UPGRADEABLE, upgradeable),
        (condition::PROGRESSING, progressing),
        (condition::DEGRADED, degraded),
    ]
}

/// All workloads are ready; the message says what an administrator may still wonder about.
fn ready(metallb: &MetalLB, rollouts: &[Rollout]) -> Verdict {
    let mut message = list(rollouts.iter());
    if let Ok(backend @ (Backend::Frr | Backend::FrrK8s)) = Backend::of(metallb) {
        message.push_str(&format!("; bgpBackend {}: the speaker's own BGP does its work", backend.as_str()));
    }
    let nowhere = |rollout: &Rollout| {
        rollout.workload.kind == Kind::DaemonSet && rollout.state == RolloutState::Ready { pods: 0 }
    };
    let reason = if rollouts.iter().any(nowhere) {
        message.push_str("; no node matches nodeSelector, so nothing is announced");
        reason::NO_SPEAKER_NODES
    } else {
        reason::AS_EXPECTED
    };
    Verdict::new(true, reason, message)
}

fn list<'a>(rollouts: impl Iterator<Item = &'a Rollout>) -> String {
    rollouts.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
