//! How far each workload is, from what the API server holds of it and of its pods.

use std::fmt;
use std::sync::Arc;

use ferrolb_api::v1beta1::ComponentStatus;
use ferrolb_api::well_known::{component, label, object};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, DeploymentCondition};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cause;
use crate::render::{Kind, ObjectKey};

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

/// How far a workload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rollout {
    pub(super) workload: ObjectKey,
    version: Option<String>,
    pub(super) state: RolloutState,
    /// Fewer pods exist than there are to be.
    pub(crate) lacks_pods: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RolloutState {
    Missing,
    Unobserved {
        ready: i32,
        desired: i32,
    },
    Rolling {
        ready: i32,
        desired: i32,
    },
    Stalled {
        ready: i32,
        desired: i32,
        why: String,
    },
    /// All pods are ready, and that is not enough yet.
    HeldBack {
        pods: i32,
        why: String,
    },
    Ready {
        pods: i32,
    },
}

impl Rollout {
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, RolloutState::Ready { .. })
    }

    pub(super) fn is_stalled(&self) -> bool {
        matches!(self.state, RolloutState::Stalled { .. })
    }

    /// Pods that are ready, and that there are to be.
    pub(crate) fn pods(&self) -> (i32, i32) {
        match self.state {
            RolloutState::Missing => (0, 0),
            RolloutState::Unobserved { ready, desired }
            | RolloutState::Rolling { ready, desired }
            | RolloutState::Stalled { ready, desired, .. } => (ready, desired),
            RolloutState::Ready { pods } | RolloutState::HeldBack { pods, .. } => (pods, pods),
        }
    }

    /// Although its pods are ready, the workload does not do its work, for this reason; and `for_good`, as far
    /// as anybody can tell.
    pub(crate) fn hold_back(&mut self, why: String, for_good: bool) {
        let RolloutState::Ready { pods } = self.state else { return };
        self.state = match for_good {
            true => RolloutState::Stalled { ready: pods, desired: pods, why },
            false => RolloutState::HeldBack { pods, why },
        };
    }

    /// Name of the workload.
    pub(crate) fn name(&self) -> &str {
        &self.workload.name
    }

    /// As the status lists it.
    pub(super) fn component(&self) -> ComponentStatus {
        let (ready, desired) = self.pods();
        ComponentStatus {
            name: self.workload.name.clone(),
            kind: format!("{:?}", self.workload.kind),
            desired,
            ready,
            version: self.version.clone(),
        }
    }
}

impl fmt::Display for Rollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workload = &self.workload;
        match &self.state {
            RolloutState::Missing => write!(f, "{workload}: not created yet"),
            RolloutState::Unobserved { .. } => write!(f, "{workload}: change not taken up yet"),
            RolloutState::Rolling { ready, desired } => {
                write!(f, "{workload}: {ready} of {desired} pods ready")
            }
            RolloutState::Stalled { ready, desired, why } => {
                write!(f, "{workload}: {ready} of {desired} pods ready, {why}")
            }
            RolloutState::HeldBack { pods, why } => {
                write!(f, "{workload}: {pods} of {pods} pods ready, {why}")
            }
            RolloutState::Ready { pods } => write!(f, "{workload}: {pods} of {pods} pods ready"),
        }
    }
}

/// How far the workloads are; `pods` are those of the product, which know why they do not start.
pub(crate) fn rollouts(workloads: Workloads<'_>, pods: &[Arc<Pod>]) -> [Rollout; 3] {
    let cause = |component: &str| cause::first(pods, component);
    [
        deployment(object::CONTROLLER, workloads.controller, cause(component::CONTROLLER)),
        deployment(object::WEBHOOK, workloads.webhook, cause(component::WEBHOOK)),
        daemon_set(object::SPEAKER, workloads.speaker, cause(component::SPEAKER)),
    ]
}

fn version(metadata: &ObjectMeta) -> Option<String> {
    metadata.labels.as_ref()?.get(label::VERSION).cloned()
}

fn deployment(name: &str, deployment: Option<&Deployment>, cause: Option<String>) -> Rollout {
    let workload = ObjectKey { kind: Kind::Deployment, name: name.into() };
    let Some(deployment) = deployment else {
        return Rollout { workload, version: None, state: RolloutState::Missing, lacks_pods: false };
    };
    let desired = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let available = status.available_replicas.unwrap_or(0);
    let complete = available == desired
        && status.updated_replicas.unwrap_or(0) == desired
        && status.replicas.unwrap_or(0) == desired;
    let failed = |type_: &str, status_: &str| {
        let is = |condition: &&DeploymentCondition| {
            condition.type_.as_deref() == Some(type_) && condition.status.as_deref() == Some(status_)
        };
        let condition = status.conditions.iter().flatten().find(is)?;
        condition.message.clone().or_else(|| condition.reason.clone())
    };
    // Pods of the old template do not count: a rollout never reads "2 of 2".
    let ready = available.min(status.updated_replicas.unwrap_or(0)).min(desired - 1).max(0);
    let why = cause.or_else(|| failed("ReplicaFailure", "True")).or_else(|| failed("Progressing", "False"));
    let state = match why {
        _ if deployment.metadata.generation > status.observed_generation => {
            RolloutState::Unobserved { ready, desired }
        }
        _ if complete => RolloutState::Ready { pods: desired },
        Some(why) => RolloutState::Stalled { ready: available, desired, why },
        None => RolloutState::Rolling { ready, desired },
    };
    // Of these, the Deployment itself says why.
    Rollout { workload, version: version(&deployment.metadata), state, lacks_pods: false }
}

fn daemon_set(name: &str, daemon_set: Option<&DaemonSet>, cause: Option<String>) -> Rollout {
    let workload = ObjectKey { kind: Kind::DaemonSet, name: name.into() };
    let Some(daemon_set) = daemon_set else {
        return Rollout { workload, version: None, state: RolloutState::Missing, lacks_pods: false };
    };
    let status = daemon_set.status.clone().unwrap_or_default();
    let desired = status.desired_number_scheduled;
    let available = status.number_available.unwrap_or(0);
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let ready = available.min(updated);
    let state = match cause {
        _ if daemon_set.metadata.generation > status.observed_generation => {
            RolloutState::Unobserved { ready, desired }
        }
        _ if available == desired && updated == desired => RolloutState::Ready { pods: desired },
        Some(why) => RolloutState::Stalled { ready, desired, why },
        None => RolloutState::Rolling { ready, desired },
    };
    let lacks_pods = status.current_number_scheduled < desired;
    Rollout { workload, version: version(&daemon_set.metadata), state, lacks_pods }
}
