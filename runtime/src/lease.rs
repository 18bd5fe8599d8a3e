//! Leader election over a `coordination.k8s.io/v1` Lease: at most one process writes.
//!
//! The algorithm is client-go's. Every write carries the resourceVersion that was read, so of two
//! candidates that see an expired lease one is refused. Expiry is judged by the local monotonic clock
//! since a change of the lease was *seen*: clocks of two nodes are never compared. The decision is
//! [`Observed::next_step`], a pure function.

use std::future::Future;
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
/// holder that could not renew for `renew_deadline` stops, before anybody takes over.
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

/// What is held, since when.
#[derive(Clone, Copy, Debug)]
struct Hold {
    term: i32,
    renewed: Instant,
}

/// Whether this process holds the lease. Ask before every write.
#[derive(Clone, Debug)]
pub struct Held {
    hold: watch::Receiver<Option<Hold>>,
    timing: Timing,
}

impl Held {
    /// Whether the lease is held now. A process that was stopped for a while finds out by the clock,
    /// even before its election goes on.
    pub fn now(&self) -> bool {
        self.hold.borrow().is_some_and(|hold| hold.renewed.elapsed() < self.timing.renew_deadline)
    }

    /// The term that is held, if nobody else can take over for at least `time` from now: so what is
    /// begun now and bounded by less is over before.
    pub fn covers(&self, time: Duration) -> Option<i32> {
        let hold = (*self.hold.borrow())?;
        (hold.renewed.elapsed() + time <= self.timing.duration).then_some(hold.term)
    }

    /// Returns when the lease is held.
    pub async fn acquired(&mut self) {
        let deadline = self.timing.renew_deadline;
        let fresh = |hold: &Option<Hold>| hold.is_some_and(|it| it.renewed.elapsed() < deadline);
        if self.hold.wait_for(fresh).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns when the lease is not held (any more).
    pub async fn lost(&mut self) {
        // A vanished elector cannot renew: that is a loss as well.
        let _ = self.hold.wait_for(Option::is_none).await;
    }
}

/// A running election.
#[derive(Debug)]
pub struct Lease {
    held: Held,
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
        let (sender, hold) = watch::channel(None);
        let elector = Elector {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing,
            hold: sender,
        };
        let task = tokio::spawn(elector.run(shutdown));
        Self { held: Held { hold, timing }, task }
    }

    /// A view of whether the lease is held.
    pub fn held(&self) -> Held {
        self.held.clone()
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
    hold: watch::Sender<Option<Hold>>,
}

impl Elector {
    async fn run(self, shutdown: Shutdown) {
        let mut observed = Observed::default();
        let mut renewed = Instant::now();
        while !shutdown.begun() {
            let attempt_at = Instant::now();
            match self.attempt(&mut observed).await {
                Ok(Some(term)) => {
                    renewed = attempt_at;
                    self.set(Some(Hold { term, renewed }));
                }
                Ok(None) => self.set(None),
                Err(error) => {
                    tracing::debug!(
                        lease = self.name,
                        error = crate::log::chain(&error),
                        "lease not renewed"
                    );
                    if renewed.elapsed() >= self.timing.renew_deadline {
                        self.set(None);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.timing.retry_period) => {}
                () = shutdown.requested() => break,
            }
        }
        if self.hold.borrow().is_some() {
            self.set(None);
            let given_back = self.give_back(&observed).await;
            if let Err(error) = given_back {
                tracing::debug!(lease = self.name, error = crate::log::chain(&error), "lease not given back");
            }
        }
    }

    fn set(&self, hold: Option<Hold>) {
        let held = hold.is_some();
        let before = self.hold.send_replace(hold).is_some();
        if !before && held {
            tracing::info!(event = "leaseAcquired", lease = self.name, "this process is the writer now");
        } else if before && !held {
            tracing::info!(event = "leaseLost", lease = self.name, "this process is not the writer any more");
        }
    }

    /// A request that takes so long that the lease would end meanwhile is better begun anew.
    async fn bounded<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
        write::bounded_by(self.timing.renew_deadline / 2, request).await
    }

    /// One look and, where it is ours to take or renew, one write. Some: the term that is held.
    async fn attempt(&self, observed: &mut Observed) -> Result<Option<i32>, WriteError> {
        let current = self.bounded(self.api.get_opt(&self.name)).await?;
        let Some(current) = current else {
            let fresh = self.desired(None);
            let created = self.bounded(self.api.create(&PostParams::default(), &fresh)).await?;
            observed.see(&created, Instant::now());
            return Ok(Some(term(&created)));
        };
        observed.see(&current, Instant::now());
        match observed.next_step(&self.identity, Instant::now()) {
            Step::Wait => Ok(None),
            Step::Take | Step::Renew => {
                let desired = self.desired(Some(&current));
                let written =
                    self.bounded(self.api.replace(&self.name, &PostParams::default(), &desired)).await;
                match written {
                    Ok(written) => {
                        observed.see(&written, Instant::now());
                        Ok(Some(term(&written)))
                    }
                    // Somebody was faster; look again next time.
                    Err(error) if error.is_conflict() => Ok(None),
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
        self.bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await?;
        Ok(())
    }
}

/// How often the lease had changed hands when this holder took it.
fn term(lease: &LeaseObject) -> i32 {
    lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0)
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

    #[test]
    fn a_hold_covers_what_ends_before_anybody_takes_over() {
        let (sender, hold) = watch::channel(None);
        let held = Held { hold, timing: Timing::default() };
        assert!(!held.now() && held.covers(Duration::ZERO).is_none());
        sender.send_replace(Some(Hold { term: 7, renewed: Instant::now() }));
        assert!(held.now());
        assert_eq!(held.covers(Duration::from_secs(5)), Some(7));
        assert_eq!(held.covers(Duration::from_secs(16)), None);
        // The process was stopped for a while: the value is as it was, the clock is not.
        let Some(renewed) = Instant::now().checked_sub(Duration::from_secs(12)) else { return };
        sender.send_replace(Some(Hold { term: 7, renewed }));
        assert!(!held.now());
        assert_eq!(held.covers(Duration::from_secs(1)), Some(7));
        assert_eq!(held.covers(Duration::from_secs(5)), None);
    }
}
