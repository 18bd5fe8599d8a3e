//! What the `MetalLB` object's status says: four conditions that follow what is observed.
//!
//! Inputs: the object with its present status, how far the workloads are ([`rollouts`]), what went wrong
//! in this pass, the kinds that the cluster does not have, the time. Output: the new status, or nothing when it would say what it says already;
//! [`transition`] makes Events of the difference.
//!
//! | condition | true while |
//! |---|---|
//! | Available | every workload runs all its pods, ready, of the newest template |
//! | Progressing | a workload is not there yet and has not given up |
//! | Degraded | something went wrong, or a pod cannot start and says why |
//! | Upgradeable | Available and nothing else to report |

mod cause;
mod misplaced;
mod problem;
mod rollout;
pub(crate) mod transition;

use std::collections::BTreeSet;

use ferrolb_api::v1beta1::{MetalLB, MetalLBStatus};
use ferrolb_api::well_known::condition::{self, reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub(crate) use cause::refusal;
pub(crate) use misplaced::misplaced;
pub use problem::Problem;
pub use rollout::Workloads;
pub(crate) use rollout::{Rollout, rollouts};

use crate::render::{Backend, Kind, monitoring};
use rollout::RolloutState;

/// Longest message that is stored; what the API server says of a refused object can be long.
const MESSAGE_LIMIT: usize = 2048;

/// The status to write, or `None` when the present one says it all.
pub(crate) fn status(
    metallb: &MetalLB,
    rollouts: &[Rollout],
    problem: Option<&Problem>,
    absent: &BTreeSet<Kind>,
    now: Timestamp,
) -> Option<MetalLBStatus> {
    let present = metallb.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let conditions: Vec<Condition> = verdicts(metallb, rollouts, problem, absent)
        .into_iter()
        .map(|(type_, verdict)| {
            let before = present.iter().find(|condition| condition.type_ == type_);
            verdict.condition(type_, before, metallb.metadata.generation, now)
        })
        .collect();
    let components = rollouts.iter().map(Rollout::component).collect();
    let status = MetalLBStatus { conditions, components };
    (metallb.status.as_ref() != Some(&status)).then_some(status)
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
    absent: &BTreeSet<Kind>,
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
        _ if metallb.spec.paused == Some(true) => {
            Verdict::new(false, reason::PAUSED, "spec.paused is true: nothing is applied or repaired")
        }
        // Nothing is on its way while the object is refused and nothing was installed.
        Some(Problem::Refused(_)) => Verdict::new(false, degraded.reason, ""),
        _ if !moving.is_empty() => Verdict::new(true, reason::ROLLOUT_IN_PROGRESS, moving.clone()),
        _ if !stalled.is_empty() => Verdict::new(false, reason::ROLLOUT_STALLED, ""),
        _ => Verdict::new(false, reason::AS_EXPECTED, ""),
    };
    let available = if all_ready {
        ready(metallb, rollouts, absent)
    } else {
        let waiting = list(rollouts.iter().filter(|rollout| !rollout.is_ready()));
        let because = if progressing.holds { progressing.reason } else { degraded.reason };
        Verdict::new(false, because, waiting)
    };
    let upgradeable = match (available.holds, degraded.holds) {
        _ if metallb.spec.paused == Some(true) => Verdict::new(false, reason::PAUSED, "not while paused"),
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
fn ready(metallb: &MetalLB, rollouts: &[Rollout], absent: &BTreeSet<Kind>) -> Verdict {
    let mut message = list(rollouts.iter());
    if let Ok(backend @ (Backend::Frr | Backend::FrrK8s)) = Backend::of(metallb) {
        message.push_str(&format!("; bgpBackend {}: the speaker's own BGP does its work", backend.as_str()));
    }
    for kind in monitoring::missing(metallb, absent) {
        message.push_str(&format!("; no {kind:?} as long as no Prometheus operator brings that kind"));
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
