//! The BGPSessions of this node: one for each peer, written when something changed, together and at most
//! once a second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferrolb_api::v1alpha1::{BGPSession, BGPSessionStatus};
use ferrolb_api::well_known::{field_manager, label};
use ferrolb_runtime::keep::{Wanted, keep};
use ferrolb_runtime::watch::{Store, Watches};
use ferrolb_runtime::write;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use sha2::{Digest, Sha256};

use super::PassError;
use crate::bgp::Sessions;

/// Between two rounds of writes.
const PAUSE: Duration = Duration::from_secs(1);
/// Of node and peer, in a name: the API server takes 253 characters.
const LONGEST_NAME: usize = 240;

pub(super) struct SessionObjects {
    api: Api<BGPSession>,
    stored: Store<BGPSession>,
    wrote_at: Option<Instant>,
}

impl SessionObjects {
    pub(super) fn watch(client: &Client, namespace: &str, node: &str, watches: &Watches) -> Self {
        let api: Api<BGPSession> = Api::namespaced(client.clone(), namespace);
        let mine = watcher::Config::default().labels(&format!("{}={node}", label::NODE));
        let stored = watches.add_with(api.clone(), mine);
        Self { api, stored, wrote_at: None }
    }

    pub(super) async fn listed(&self) {
        self.stored.listed().await;
    }

    /// Writes all that differs. Says when to look again although nothing changes.
    pub(super) async fn write(
        &mut self,
        sessions: &Sessions,
        node: &str,
        owner: &OwnerReference,
    ) -> Result<Option<Instant>, PassError> {
        if let Some(at) = self.wrote_at.filter(|at| at.elapsed() < PAUSE) {
            return Ok(Some(at + PAUSE));
        }
        let stored = self.stored.list();
        let mut others: BTreeMap<String, _> = stored.iter().map(|it| (it.name_any(), it)).collect();
        let mut result = Ok(None);
        let mut wrote = false;
        for (peer, status) in sessions.iter().filter(|(_, status)| !status.node.is_empty()) {
            let wanted = wanted(node, peer, status, owner);
            let current = others.remove(&wanted.name).map(|it| it.as_ref());
            let what = || format!("BGPSession {}", wanted.name);
            match keep(&self.api, current, &wanted, field_manager::SPEAKER, field_manager::SPEAKER).await {
                Ok(now) => wrote |= now,
                Err(source) => result = Err(PassError::Write { what: what(), source }),
            }
        }
        for (name, object) in others {
            wrote = true;
            if let Err(source) = write::delete(&self.api, &name, object.uid().as_deref()).await
                && !source.is_conflict()
            {
                result = Err(PassError::Write { what: format!("BGPSession {name}"), source });
            }
        }
        if wrote {
            // By then the store shows it.
            let now = Instant::now();
            self.wrote_at = Some(now);
            result = result.map(|_| Some(now + PAUSE));
        }
        result
    }
}

fn wanted(node: &str, peer: &str, status: &BGPSessionStatus, owner: &OwnerReference) -> Wanted {
    Wanted {
        name: name(node, peer),
        labels: [(label::NODE.to_owned(), node.to_owned())].into(),
        owner: Some(owner.clone()),
        // Our own types always become JSON.
        status: serde_json::to_value(status).unwrap_or_default(),
    }
}

/// Node and peer, and what tells `a-b` and `c` from `a` and `b-c`.
fn name(node: &str, peer: &str) -> String {
    let digest = Sha256::digest(format!("{node}/{peer}"));
    let digest: String = digest.iter().take(4).map(|it| format!("{it:02x}")).collect();
    let readable: String = format!("{node}-{peer}").chars().take(LONGEST_NAME).collect();
    // A part of a name ends in a letter or digit.
    format!("{}-{digest}", readable.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_nobody_elses() {
        assert_eq!(name("k8s-node-1", "router"), "k8s-node-1-router-154632e6");
        assert_ne!(name("a-b", "c"), name("a", "b-c"));
        let long = name(&"n".repeat(239), "router");
        assert!(long.len() <= 253 && !long.contains("--"), "{long}");
    }
}
