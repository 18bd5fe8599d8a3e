//! Leader election over a `coordination.k8s.io/v1` Lease: at most one process writes.
//!
//! The algorithm is client-go's. Every write carries the resourceVersion that was read, so of two
//! candidates that see an expired lease one is refused. Expiry is judged by the local monotonic clock
//! since a change of the lease was *seen*: clocks of two nodes are never compared. The decision is
//! [`Observed::next_step`], a pure function.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::shutdown::Shutdown;
use crate::write::{self, WriteError};

/// Times of the election. A candidate takes over after `duration` without a sign of the holder; a
/// holder that could not renew for `renew_deadline` stops writing, before anybody takes over.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long the lease lasts after a renewal was seen.
    pub duration: Duration,
    /// How long a holder goes on without a successful renewal.
    pub renew_deadline: Duration,
    /// Pause between renewals and between looks of a candidate.
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(3),
        }
    }
}

/// Whether this process holds the lease. Ask before every write.
#[derive(Clone, Debug)]
pub struct Held {
    held: watch::Receiver<bool>,
}

impl Held {
    /// Whether the lease is held now.
    pub fn now(&self) -> bool {
        *self.held.borrow()
    }

    /// Returns when the lease is held.
    pub async fn acquired(&mut self) {
        if self.held.wait_for(|held| *held).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns when the lease is not held (any more).
    pub async fn lost(&mut self) {
        // A vanished elector cannot renew: that is a loss as well.
        let _ = self.held.wait_for(|held| !*held).await;
    }
}

/// A running election.
#[derive(Debug)]
pub struct Lease {
    held: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Lease {
    /// Takes part in the election of the lease `namespace/name` as `identity` (the pod's name: a
    /// container that restarts in its pod goes on at once as the holder it was).
    pub fn contend(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        timing: Timing,
        shutdown: Shutdown,
    ) -> Self {
        let (sender, held) = watch::channel(false);
        let elector = Elector {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing,
            held: sender,
        };
        let task = tokio::spawn(elector.run(shutdown));
        Self { held, task }
    }

    /// A view of whether the lease is held.
    pub fn held(&self) -> Held {
        Held { held: self.held.clone() }
    }

    /// Waits until the lease was given back after a shutdown began, so that a successor need not wait
    /// for its end.
    pub async fn released(self) {
        // A panic of the task ends the process by itself.
        let _ = self.task.await;
    }
}

struct Elector {
    api: Api<LeaseObject>,
    name: String,
    identity: String,
    timing: Timing,
    held: watch::Sender<bool>,
}

impl Elector {
    async fn run(self, shutdown: Shutdown) {
        let mut observed = Observed::default();
        let mut renewed = Instant::now();
        while !shutdown.begun() {
            let attempt_at = Instant::now();
            match self.attempt(&mut observed).await {
                Ok(true) => {
                    renewed = attempt_at;
                    self.set(true);
                }
                Ok(false) => self.set(false),
                Err(error) => {
                    tracing::debug!(
                        lease = self.name,
                        error = crate::log::chain(&error),
                        "lease not renewed"
                    );
                    if renewed.elapsed() >= self.timing.renew_deadline {
                        self.set(false);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.timing.retry_period) => {}
                () = shutdown.requested() => break,
            }
        }
        if *self.held.borrow() {
            self.set(false);
            let given_back = self.give_back(&observed).await;
            if let Err(error) = given_back {
                tracing::debug!(lease = self.name, error = crate::log::chain(&error), "lease not given back");
            }
        }
    }

    fn set(&self, held: bool) {
        let changed = self.held.send_if_modified(|current| std::mem::replace(current, held) != held);
        if changed && held {
            tracing::info!(event = "leaseAcquired", lease = self.name, "this process is the writer now");
        } else if changed {
            tracing::info!(event = "leaseLost", lease = self.name, "this process is not the writer any more");
        }
    }

    /// One look and, where it is ours to take or renew, one write. True: held.
    async fn attempt(&self, observed: &mut Observed) -> Result<bool, WriteError> {
        let current = write::bounded(self.api.get_opt(&self.name)).await?;
        let Some(current) = current else {
            let fresh = self.desired(None);
            let created = write::bounded(self.api.create(&PostParams::default(), &fresh)).await?;
            observed.see(&created, Instant::now());
            return Ok(true);
        };
        observed.see(&current, Instant::now());
        match observed.next_step(&self.identity, Instant::now()) {
            Step::Wait => Ok(false),
            Step::Take | Step::Renew => {
                let desired = self.desired(Some(&current));
                let written =
                    write::bounded(self.api.replace(&self.name, &PostParams::default(), &desired)).await;
                match written {
                    Ok(written) => {
                        observed.see(&written, Instant::now());
                        Ok(true)
                    }
                    // Somebody was faster; look again next time.
                    Err(error) if error.is_conflict() => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn desired(&self, current: Option<&LeaseObject>) -> LeaseObject {
        let now = MicroTime(Timestamp::now());
        let spec = current.and_then(|c| c.spec.clone()).unwrap_or_default();
        let same_holder = spec.holder_identity.as_deref() == Some(self.identity.as_str());
        LeaseObject {
            metadata: current.map_or_else(
                || ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                |c| c.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(self.timing.duration.as_secs() as i32),
                acquire_time: if same_holder { spec.acquire_time } else { Some(now.clone()) },
                renew_time: Some(now),
                lease_transitions: Some(
                    spec.lease_transitions.unwrap_or(0) + i32::from(!same_holder && current.is_some()),
                ),
                ..LeaseSpec::default()
            }),
        }
    }

    async fn give_back(&self, observed: &Observed) -> Result<(), WriteError> {
        let Some(mut lease) = observed.lease.clone() else { return Ok(()) };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        write::bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await?;
        Ok(())
    }
}

/// What was seen of the lease, and when it last changed.
#[derive(Default)]
struct Observed {
    lease: Option<LeaseObject>,
    changed_at: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Renew,
    Take,
    Wait,
}

impl Observed {
    fn see(&mut self, lease: &LeaseObject, now: Instant) {
        let known = self.lease.as_ref().and_then(|l| l.metadata.resource_version.as_ref());
        if known != lease.metadata.resource_version.as_ref() || self.changed_at.is_none() {
            self.changed_at = Some(now);
        }
        self.lease = Some(lease.clone());
    }

    fn next_step(&self, identity: &str, now: Instant) -> Step {
        let spec = self.lease.as_ref().and_then(|l| l.spec.as_ref());
        let holder = spec.and_then(|s| s.holder_identity.as_deref()).unwrap_or_default();
        let duration = spec.and_then(|s| s.lease_duration_seconds).unwrap_or(0).max(0) as u64;
        let expired = self
            .changed_at
            .is_some_and(|at| now.saturating_duration_since(at) >= Duration::from_secs(duration));
        match holder {
            holder if holder == identity => Step::Renew,
            "" => Step::Take,
            _ if expired => Step::Take,
            _ => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(version: &str, holder: &str) -> LeaseObject {
        LeaseObject {
            metadata: ObjectMeta { resource_version: Some(version.into()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(15),
                ..LeaseSpec::default()
            }),
        }
    }

    #[test]
    fn a_lease_expires_by_the_local_clock_since_it_last_changed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut observed = Observed::default();
        observed.see(&lease("1", "other"), at(0));
        assert_eq!(observed.next_step("me", at(14)), Step::Wait);
        observed.see(&lease("1", "other"), at(14));
        assert_eq!(observed.next_step("me", at(15)), Step::Take, "seeing it unchanged is no renewal");
        observed.see(&lease("2", "other"), at(16));
        assert_eq!(observed.next_step("me", at(30)), Step::Wait);
        assert_eq!(observed.next_step("me", at(31)), Step::Take);
    }

    #[test]
    fn own_and_given_back_leases_are_taken_at_once() {
        let now = Instant::now();
        let mut observed = Observed::default();
        observed.see(&lease("1", "me"), now);
        assert_eq!(observed.next_step("me", now), Step::Renew);
        observed.see(&lease("2", ""), now);
        assert_eq!(observed.next_step("me", now), Step::Take);
    }
}
