//! Watches that stay: each kind is listed and watched into a [`Store`], across restarts of the API
//! server, and every change of any store raises one conflated [`Changed`].
//!
//! ```text
//! Api<A> ─list+watch→ Store<A> ┐
//! Api<B> ─list+watch→ Store<B> ┼→ Changed (a counter: latest wins) → the process's one loop
//! Api<C> ─list+watch→ Store<C> ┘
//! ```

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, TryStreamExt};
use kube::api::Api;
use kube::runtime::reflector::{self, Lookup, ObjectRef};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{WatchStreamExt, reflector as reflect};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::readiness::Readiness;
use crate::shutdown::Shutdown;

/// How long one watch request lasts before it is renewed; a connection that died in silence is noticed
/// by then.
const WATCH_SECONDS: u32 = 30;

/// Until it is asked again for a kind that the cluster does not have.
const ABSENT: Duration = Duration::from_secs(15);

/// What the API server holds of one kind, as of the last event.
#[derive(Debug)]
pub struct Store<K: Lookup<DynamicType = ()> + 'static> {
    reader: reflector::Store<K>,
    listed: watch::Receiver<bool>,
    served: watch::Receiver<bool>,
}

impl<K: Lookup<DynamicType = ()> + Clone + 'static> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { reader: self.reader.clone(), listed: self.listed.clone(), served: self.served.clone() }
    }
}

impl<K: Lookup<DynamicType = ()> + Clone + 'static> Store<K> {
    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.reader.state()
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.reader.get(&ObjectRef::new(name).within(namespace))
    }

    /// Returns once the first list is in.
    pub async fn listed(&self) {
        // The reader's own way of waiting wakes one waiter only.
        if self.listed.clone().wait_for(|listed| *listed).await.is_err() {
            // The watch was stopped before: there will be no list. The caller waits for the shutdown
            // beside this.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the cluster has the kind, as far as that was asked.
    pub fn is_served(&self) -> bool {
        *self.served.borrow()
    }

    /// One object of a cluster-scoped kind.
    pub fn get_global(&self, name: &str) -> Option<Arc<K>> {
        self.reader.get(&ObjectRef::new(name))
    }
}

/// Starts watches and gathers their changes.
#[derive(Debug)]
pub struct Watches {
    readiness: Readiness,
    shutdown: Shutdown,
    changes: Arc<watch::Sender<u64>>,
    sight: Arc<watch::Sender<Sight>>,
}

/// How much of the API server is seen.
#[derive(Clone, Copy, Debug, Default)]
struct Sight {
    watches: usize,
    failing: usize,
    restored: Option<Instant>,
    /// Since when no watch is up.
    lost: Option<Instant>,
    outage: Option<Outage>,
}

/// A time without any watch that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When the first watch was up again.
    pub ended: Instant,
    /// How long it was.
    pub lasted: Duration,
}

impl Sight {
    fn is_lost(&self) -> bool {
        self.watches > 0 && self.failing == self.watches
    }

    fn fail(&mut self) {
        self.failing += 1;
        if self.is_lost() {
            self.lost = Some(Instant::now());
        }
    }

    fn restore(&mut self) {
        self.failing -= 1;
        let now = Instant::now();
        self.restored = Some(now);
        if let Some(lost) = self.lost.take() {
            self.outage = Some(Outage { ended: now, lasted: now.duration_since(lost) });
        }
    }
}

impl Watches {
    /// No watch yet. Each one added becomes a readiness condition that its first list meets.
    pub fn new(readiness: Readiness, shutdown: Shutdown) -> Self {
        let sight = Arc::new(watch::channel(Sight::default()).0);
        Self { readiness, shutdown, changes: Arc::new(watch::channel(0).0), sight }
    }

    /// Watches every object of `api`.
    pub fn add<K>(&self, api: Api<K>) -> Store<K>
    where
        K: Watched,
    {
        self.add_with(api, watcher::Config::default())
    }

    /// Watches the objects of `api` that `config` selects.
    pub fn add_with<K>(&self, api: Api<K>, config: watcher::Config) -> Store<K>
    where
        K: Watched,
    {
        self.add_pruned(api, config, |_| {})
    }

    /// Watches the objects of `api` that `config` selects, and keeps of each what `prune` leaves: what
    /// nobody reads need not stay in memory.
    pub fn add_pruned<K>(&self, api: Api<K>, config: watcher::Config, prune: fn(&mut K)) -> Store<K>
    where
        K: Watched,
    {
        self.follow(K::plural(&()).into_owned(), false, pruned(api, config, prune))
    }

    /// Watches the objects of `api` that `config` selects, of a kind that the cluster need not have: as long as
    /// it has not, there are none, and nothing failed.
    pub fn add_optional<K>(&self, api: Api<K>, config: watcher::Config) -> Store<K>
    where
        K: Watched,
    {
        self.follow(K::plural(&()).into_owned(), true, pruned(api, config, |_| {}))
    }

    /// Watches every object of `api`, and keeps what `read` makes of it: for kinds of which there may be very
    /// many objects.
    pub fn add_read<K, T>(&self, api: Api<K>, read: fn(K) -> T) -> Store<T>
    where
        K: Watched,
        T: Lookup<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let config = watcher::Config::default().timeout(WATCH_SECONDS);
        let stream = watcher(api, config).backoff(Retry::default());
        let stream = stream.map_ok(move |event| match event {
            watcher::Event::Apply(object) => watcher::Event::Apply(read(object)),
            watcher::Event::Delete(object) => watcher::Event::Delete(read(object)),
            watcher::Event::Init => watcher::Event::Init,
            watcher::Event::InitApply(object) => watcher::Event::InitApply(read(object)),
            watcher::Event::InitDone => watcher::Event::InitDone,
        });
        self.follow(K::plural(&()).into_owned(), false, stream)
    }

    fn follow<T>(
        &self,
        kind: String,
        optional: bool,
        stream: impl Stream<Item = watcher::Result<watcher::Event<T>>> + Send + 'static,
    ) -> Store<T>
    where
        T: Lookup<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let (reader, writer) = reflector::store();
        let ready = self.readiness.condition(format!("first list of {kind}"));
        let (first_list, listed) = watch::channel(false);
        let (serves, served) = watch::channel(false);
        let (changes, sight) = (Arc::clone(&self.changes), Arc::clone(&self.sight));
        sight.send_modify(|it| it.watches += 1);
        let shutdown = self.shutdown.clone();
        let mut stream = reflect(writer, stream).boxed();
        tokio::spawn(async move {
            // The first of a row of failures is worth a line; the rest would only repeat it.
            let mut failing = false;
            let restored = || {
                tracing::info!(event = "watchRestored", kind, "watch is up again");
                sight.send_modify(Sight::restore);
            };
            loop {
                let event = tokio::select! {
                    event = stream.next() => event,
                    () = shutdown.requested() => return,
                };
                match event {
                    Some(Ok(watcher::Event::Init | watcher::Event::InitApply(_))) => continue,
                    Some(Ok(event)) => {
                        if std::mem::take(&mut failing) {
                            restored();
                        }
                        if matches!(event, watcher::Event::InitDone) {
                            serves.send_replace(true);
                            first_list.send_replace(true);
                            ready.set(true);
                        }
                        changes.send_modify(|count| *count = count.wrapping_add(1));
                    }
                    Some(Err(error)) if optional && is_absent(&error) => {
                        if std::mem::take(&mut failing) {
                            restored();
                        }
                        if serves.send_replace(false) {
                            changes.send_modify(|count| *count = count.wrapping_add(1));
                        }
                        first_list.send_replace(true);
                        ready.set(true);
                        tokio::select! {
                            () = tokio::time::sleep(ABSENT) => {}
                            () = shutdown.requested() => return,
                        }
                    }
                    Some(Err(error)) if !failing => {
                        failing = true;
                        sight.send_modify(Sight::fail);
                        let cause = crate::log::chain(&error);
                        tracing::warn!(event = "watchLost", kind, error = cause, "watch failed, retrying");
                    }
                    Some(Err(_)) => {}
                    // Our back-off never gives up, so the stream does not end.
                    None => return,
                }
            }
        });
        Store { reader, listed, served }
    }

    /// A view of the changes of all stores, starting with one that stands for "now".
    pub fn changed(&self) -> Changed {
        let mut count = self.changes.subscribe();
        count.mark_changed();
        Changed { count, sight: self.sight.subscribe() }
    }
}

fn pruned<K: Watched>(
    api: Api<K>,
    config: watcher::Config,
    prune: fn(&mut K),
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static {
    watcher(api, config.timeout(WATCH_SECONDS)).backoff(Retry::default()).modify(move |object| {
        object.managed_fields_mut().clear();
        prune(object);
    })
}

/// The cluster does not have the kind.
fn is_absent(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.code == 404,
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}

/// What a kind must be to be watched.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}
impl<K> Watched for K
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
}

/// Conflated changes: however many happened, the next call returns once.
#[derive(Clone, Debug)]
pub struct Changed {
    count: watch::Receiver<u64>,
    sight: watch::Receiver<Sight>,
}

impl Changed {
    /// When a watch that had failed was up again last: for some seconds from then on the API server may
    /// say of what it has lost sight that it is gone.
    pub fn restored(&self) -> Option<Instant> {
        self.sight.borrow().restored
    }

    /// Whether no watch is up: the stores say what was, not what is.
    pub fn is_lost(&self) -> bool {
        self.sight.borrow().is_lost()
    }

    /// The last time without any watch, once it is over.
    pub fn outage(&self) -> Option<Outage> {
        self.sight.borrow().outage
    }

    /// Returns when something changed since the last call.
    pub async fn next(&mut self) {
        if self.count.changed().await.is_err() {
            // No store can change any more; the caller waits for the shutdown beside this.
            std::future::pending::<()>().await;
        }
    }
}

/// Pauses between attempts: 20 ms once, then 250 ms doubling to 2 s, each with a random share, so that
/// hundreds of speakers do not return to a restarted API server at one instant.
#[derive(Debug, Default)]
struct Retry {
    failures: u32,
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = match self.failures {
            0 => 20,
            n => (250_u64 << (n - 1).min(3)).min(2000),
        };
        self.failures = self.failures.saturating_add(1);
        Some(Duration::from_millis(pause).mul_f64(rand::random_range(0.75..1.25)))
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_grow_to_a_bound_and_never_end() {
        let mut retry = Retry::default();
        let pauses: Vec<_> = retry.by_ref().take(40).collect();
        assert!(pauses[0] < Duration::from_millis(30));
        assert!(pauses[1] >= Duration::from_millis(180));
        assert!(pauses.iter().all(|p| *p <= Duration::from_millis(2500)));
        retry.reset();
        assert!(retry.next().unwrap() < Duration::from_millis(30));
    }

    #[tokio::test]
    async fn everybody_who_waits_for_the_first_list_is_woken() {
        let (open, gate) = watch::channel(false);
        let answer = move |request: axum::extract::Request| {
            let mut gate = gate.clone();
            async move {
                if request.uri().query().unwrap_or_default().contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                gate.wait_for(|open| *open).await.map(drop).unwrap();
                let list = r#"{"metadata": {"resourceVersion": "1"}, "items": []}"#;
                ([("content-type", "application/json")], list)
            }
        };
        let client = kube::Client::new(axum::Router::new().fallback(answer), "ns");
        let watches = Watches::new(Readiness::default(), Shutdown::default());
        let store = watches.add(Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, "ns"));
        let waiter = || {
            let store = store.clone();
            tokio::spawn(async move { store.listed().await })
        };
        let waiters = [waiter(), waiter(), waiter()];
        tokio::task::yield_now().await;
        open.send_replace(true);
        for waiter in waiters {
            tokio::time::timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_the_cluster_does_not_have_is_no_failure_and_may_come_later() {
        let (open, gate) = watch::channel(false);
        let answer = move |request: axum::extract::Request| {
            let gate = gate.clone();
            async move {
                let json = [("content-type", "application/json")];
                if !*gate.borrow() {
                    let status = r#"{"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": ""}"#;
                    return (axum::http::StatusCode::NOT_FOUND, json, status);
                }
                if request.uri().query().unwrap_or_default().contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                (axum::http::StatusCode::OK, json, r#"{"metadata": {"resourceVersion": "1"}, "items": []}"#)
            }
        };
        let client = kube::Client::new(axum::Router::new().fallback(answer), "ns");
        let readiness = Readiness::default();
        let watches = Watches::new(readiness.clone(), Shutdown::default());
        let api = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, "ns");
        let store = watches.add_optional(api, watcher::Config::default());
        let mut changed = watches.changed();
        changed.next().await;
        readiness.wait().await;
        assert!(!store.is_served() && !changed.is_lost());
        open.send_replace(true);
        changed.next().await;
        assert!(store.is_served());
    }

    #[test]
    fn an_outage_begins_with_the_last_watch_lost_and_ends_with_the_first_restored() {
        let mut sight = Sight { watches: 2, ..Sight::default() };
        sight.fail();
        sight.restore();
        assert_eq!((sight.is_lost(), sight.outage), (false, None), "one watch alone is none");
        sight.fail();
        sight.fail();
        assert!(sight.is_lost() && sight.outage.is_none());
        sight.restore();
        let outage = sight.outage;
        assert!(!sight.is_lost() && outage.is_some());
        sight.restore();
        assert_eq!(sight.outage, outage, "the others only follow");
    }

    #[tokio::test]
    async fn changes_are_conflated_and_the_first_call_returns_at_once() {
        let watches = Watches::new(Readiness::default(), Shutdown::default());
        let mut changed = watches.changed();
        changed.next().await;
        let raise = || watches.changes.send_modify(|count| *count += 1);
        raise();
        raise();
        changed.next().await;
        let again = tokio::time::timeout(Duration::from_millis(50), changed.next()).await;
        assert!(again.is_err(), "two raises were one change");
    }
}
