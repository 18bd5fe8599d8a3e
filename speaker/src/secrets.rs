//! Secrets that BGP peers name, read by name and nothing else: this node may see no other.
//!
//! ```text
//! watch<names> ─ Secrets ─ one watch a name ─> watch<Found> ─> agent
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ferrolb_runtime::log;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, utils::Backoff};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use ferrolb_runtime::latest::publish;

/// Pauses after a failed watch. A right that the operator is about to give is there soon.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(15);

/// The Secrets that were found, by name, and the names that were looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What there is.
    pub secrets: BTreeMap<String, Arc<Secret>>,
    /// Names about which there was an answer: what is not among `secrets` does not exist.
    pub known: BTreeSet<String>,
}

/// Reads Secrets by name.
#[derive(Debug)]
pub struct Secrets {
    names: watch::Sender<BTreeSet<String>>,
    found: watch::Receiver<Found>,
}

impl Secrets {
    /// Reads none until it is told names.
    pub fn start(client: Client, namespace: &str) -> Self {
        let (names, wanted) = watch::channel(BTreeSet::new());
        let (sender, found) = watch::channel(Found::default());
        let api = Api::namespaced(client, namespace);
        tokio::spawn(follow(api, wanted, Arc::new(sender)));
        Self { names, found }
    }

    /// From now on these are read.
    pub fn want(&self, wanted: BTreeSet<String>) {
        publish(&self.names, wanted);
    }

    /// What is found, and tells of changes.
    pub fn found(&self) -> watch::Receiver<Found> {
        self.found.clone()
    }
}

async fn follow(
    api: Api<Secret>,
    mut wanted: watch::Receiver<BTreeSet<String>>,
    found: Arc<watch::Sender<Found>>,
) {
    let mut watches: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
    while wanted.changed().await.is_ok() {
        let names = wanted.borrow_and_update().clone();
        watches.retain(|name, watch| {
            let stays = names.contains(name);
            if !stays {
                watch.abort();
            }
            stays
        });
        found.send_modify(|found| {
            found.secrets.retain(|name, _| names.contains(name));
            found.known.retain(|name| names.contains(name));
        });
        for name in names {
            let task = || tokio::spawn(read(api.clone(), name.clone(), Arc::clone(&found)));
            watches.entry(name.clone()).or_insert_with(task);
        }
    }
}

/// Follows one Secret until aborted.
async fn read(api: Api<Secret>, name: String, found: Arc<watch::Sender<Found>>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(api, config).backoff(Retry { pause: FIRST_RETRY }).boxed();
    let mut failing = false;
    let mut listed = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = None,
            Ok(Event::InitApply(secret)) => listed = Some(secret),
            Ok(Event::InitDone) => {
                failing = false;
                put(&found, &name, listed.take());
            }
            Ok(Event::Apply(secret)) => put(&found, &name, Some(secret)),
            Ok(Event::Delete(_)) => put(&found, &name, None),
            Err(error) if !failing => {
                failing = true;
                let error = log::chain(&error);
                tracing::warn!(op = "readSecret", secret = name, error, "cannot read Secret, trying again");
            }
            Err(_) => {}
        }
    }
}

fn put(found: &watch::Sender<Found>, name: &str, secret: Option<Secret>) {
    found.send_if_modified(|found| {
        let before = found.clone();
        found.known.insert(name.to_owned());
        match secret {
            Some(mut secret) => {
                // Who applied it, and how, is often a copy of its content.
                secret.metadata.managed_fields = None;
                secret.metadata.annotations = None;
                found.secrets.insert(name.to_owned(), Arc::new(secret));
            }
            None => drop(found.secrets.remove(name)),
        }
        *found != before
    });
}

struct Retry {
    pause: Duration,
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.pause = (2 * pause).min(LAST_RETRY);
        Some(pause)
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.pause = FIRST_RETRY;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::api::Api as Server;
    use crate::testing::until;

    #[tokio::test]
    async fn only_named_secrets_are_read_and_followed() {
        let (server, client) = Server::serve().await;
        let put = |name: &str, password: &str| {
            server.put(
                "secrets",
                json!({
                    "metadata": {"name": name, "namespace": "metallb-system"},
                    "type": "kubernetes.io/basic-auth", "data": {"password": password},
                }),
            );
        };
        put("other", "c2VjcmV0");
        let secrets = Secrets::start(client, "metallb-system");
        let found = secrets.found();
        let password = |name: &str| {
            let found = found.borrow();
            let data = found.secrets.get(name)?.data.clone()?;
            Some(String::from_utf8(data.get("password")?.0.clone()).unwrap())
        };
        secrets.want(["bgp".to_owned()].into());
        until("the answer that there is none", || found.borrow().known.contains("bgp")).await;
        assert_eq!(found.borrow().secrets.len(), 0);
        put("bgp", "cGFzcw==");
        until("the password", || password("bgp").as_deref() == Some("pass")).await;
        put("bgp", "bmV3");
        until("the new one", || password("bgp").as_deref() == Some("new")).await;
        assert_eq!(found.borrow().secrets.len(), 1, "the other one is nobody's business");
        server.remove("secrets", "metallb-system", "bgp");
        until("its end", || password("bgp").is_none()).await;
        put("bgp", "cGFzcw==");
        until("its return", || password("bgp").is_some()).await;
        secrets.want(BTreeSet::new());
        until("forgotten", || *found.borrow() == Found::default()).await;
    }
}
