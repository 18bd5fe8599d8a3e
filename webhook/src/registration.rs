//! Tells the API server whom to trust, by server-side apply under a field manager that owns nothing else:
//! `caBundle` of every webhook in our ValidatingWebhookConfiguration, and the conversion of `BGPPeer`
//! ([`conversion`]). The objects themselves are others'; they are never created here.

pub(crate) mod conversion;

use ferrolb_api::well_known::field_manager;
use ferrolb_runtime::Shutdown;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::readiness::Condition;
use ferrolb_runtime::watch::{Changed, Store, Watched};
use ferrolb_runtime::write;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;

/// Pauses between attempts: the first, doubling to the last.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(8);

/// Keeps the bundle in one object.
pub(crate) struct Registrar<K: Watched> {
    pub(crate) api: Api<K>,
    pub(crate) name: String,
    pub(crate) store: Store<K>,
    pub(crate) authority: watch::Receiver<Option<String>>,
    /// Met while the API server can believe us.
    pub(crate) trusted: Option<Condition>,
    /// What the object (if it is there) calls for, given the authority.
    pub(crate) plan: Planner<K>,
}

type Planner<K> = Box<dyn Fn(Option<&K>, &str) -> Plan + Send + Sync>;

/// What an object calls for.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// There is none (yet): nobody asks us, nobody has to trust us.
    Absent,
    /// It is as it should be.
    Done,
    /// Apply this.
    Apply(Value),
    /// Apply this, which takes our entry away.
    Withdraw(Value),
}

/// The step towards the bundle in every webhook of a configuration.
pub(crate) fn plan(current: Option<&ValidatingWebhookConfiguration>, name: &str, authority: &str) -> Plan {
    let Some(current) = current else { return Plan::Absent };
    let bundle = ByteString(authority.as_bytes().to_vec());
    let webhooks = current.webhooks.as_deref().unwrap_or_default();
    if webhooks.iter().all(|webhook| webhook.client_config.ca_bundle.as_ref() == Some(&bundle)) {
        return Plan::Done;
    }
    let entries: Vec<Value> = webhooks
        .iter()
        .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    Plan::Apply(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        // Of this very object: one that was deleted meanwhile is not made anew.
        "metadata": {"name": name, "uid": current.metadata.uid},
        "webhooks": entries,
    }))
}

impl<K: Watched> Registrar<K> {
    /// Works until the shutdown.
    pub(crate) async fn run(mut self, mut changed: Changed, shutdown: Shutdown) {
        tokio::select! {
            () = self.store.listed() => {}
            () = shutdown.requested() => return,
        }
        let mut pause = RETRY;
        loop {
            let retry = self.pass().await;
            tokio::select! {
                () = changed.next() => {}
                Ok(()) = self.authority.changed() => {}
                () = tokio::time::sleep(pause), if retry => {}
                () = shutdown.requested() => return,
            }
            pause = if retry { (pause * 2).min(LONGEST_RETRY) } else { RETRY };
        }
    }

    async fn pass(&mut self) -> bool {
        let Some(authority) = self.authority.borrow_and_update().clone() else { return false };
        let current = self.store.get_global(&self.name);
        let (wanted, event) = match (self.plan)(current.as_deref(), &authority) {
            Plan::Absent | Plan::Done => {
                self.set_trusted(true);
                return false;
            }
            Plan::Apply(wanted) => (wanted, "caBundleWritten"),
            Plan::Withdraw(wanted) => (wanted, "registrationWithdrawn"),
        };
        self.set_trusted(false);
        match write::apply(&self.api, field_manager::WEBHOOK, &self.name, &wanted).await {
            Ok(_) => {
                let object = &self.name;
                tracing::info!(event, object, "the API server is told whom to ask and to trust");
                false
            }
            Err(error) => {
                // The operator may just have deleted it; the watch will tell.
                let (object, error) = (&self.name, chain(&error));
                tracing::warn!(op = "registration", object, error, "caBundle not written, retrying");
                true
            }
        }
    }

    fn set_trusted(&self, trusted: bool) {
        if let Some(condition) = &self.trusted {
            condition.set(trusted);
        }
    }
}

#[cfg(test)]
mod tests;
