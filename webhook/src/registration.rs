//! Tells the API server whom to trust, by server-side apply under a field manager that owns nothing else:
//! `caBundle` of every webhook in our ValidatingWebhookConfiguration, and the conversion of `BGPPeer`
//! ([`conversion`]). The objects themselves are others'; they are never created here.
//!
//! A new authority is added to the one that is registered, which replicas still present certificates of; when
//! nothing has changed for an hour it stands alone.

pub(crate) mod conversion;

use ferrolb_api::well_known::field_manager;
use ferrolb_runtime::Shutdown;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::tls;
use ferrolb_runtime::watch::{Changed, Store, Watched};
use ferrolb_runtime::write;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use kube::Api;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::Instant;

/// Pauses between attempts: the first, doubling to the last.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(8);

/// Keeps the bundle in one object.
pub(crate) struct Registrar<K: Watched> {
    pub(crate) api: Api<K>,
    pub(crate) name: String,
    pub(crate) store: Store<K>,
    pub(crate) authority: watch::Receiver<Option<String>>,
    /// What the object (if it is there) calls for, given the authority.
    pub(crate) plan: Planner<K>,
}

type Planner<K> = Box<dyn Fn(Option<&K>, &Authority<'_>) -> Plan + Send + Sync>;

/// Whom to trust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authority<'a> {
    /// PEM.
    pub(crate) pem: &'a str,
    /// Whether nothing has changed for so long that nobody presents a certificate of another.
    pub(crate) alone: bool,
    pub(crate) now: SystemTime,
}

impl Authority<'_> {
    /// What is to be registered, where this is.
    fn beside(&self, registered: Option<&ByteString>) -> ByteString {
        let registered = registered.and_then(|it| std::str::from_utf8(&it.0).ok()).unwrap_or_default();
        let others = || {
            let certificates = tls::valid_certificates(registered, self.now).into_iter();
            certificates.filter(|it| !self.pem.contains(it)).take(OTHERS).collect::<Vec<_>>()
        };
        let bundle = match self.alone {
            true => self.pem.to_owned(),
            false => [vec![self.pem.trim_end()], others()].concat().join("\n"),
        };
        // In whatever order: replicas must not change it to and fro.
        let same = blocks(registered) == blocks(&bundle);
        ByteString(if same { registered.to_owned() } else { bundle }.into_bytes())
    }
}

/// The parts of a PEM text.
fn blocks(pem: &str) -> BTreeSet<&str> {
    let parts = pem.split_inclusive("-----END CERTIFICATE-----").map(str::trim);
    parts.filter(|part| !part.is_empty()).collect()
}

/// Older authorities that are kept beside the new one.
const OTHERS: usize = 3;
/// For how long.
const BOTH: Duration = Duration::from_secs(3600);

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
pub(crate) fn plan(
    current: Option<&ValidatingWebhookConfiguration>,
    name: &str,
    authority: &Authority<'_>,
) -> Plan {
    let Some(current) = current else { return Plan::Absent };
    let webhooks = current.webhooks.as_deref().unwrap_or_default();
    let bundles: Vec<(&ValidatingWebhook, ByteString)> = webhooks
        .iter()
        .map(|webhook| (webhook, authority.beside(webhook.client_config.ca_bundle.as_ref())))
        .collect();
    if bundles.iter().all(|(webhook, bundle)| webhook.client_config.ca_bundle.as_ref() == Some(bundle)) {
        return Plan::Done;
    }
    let entry = |(webhook, bundle): &(&ValidatingWebhook, ByteString)| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}});
    let entries: Vec<Value> = bundles.iter().map(entry).collect();
    Plan::Apply(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        // Of this very object: one that was deleted meanwhile is not made anew.
        "metadata": {"name": name, "uid": current.metadata.uid},
        "webhooks": entries,
    }))
}

/// Since when the authority and what is registered have been the same. Another replica may know of a new
/// authority before this one does (files reach pods up to minutes apart), and what it registers is not to be
/// taken away.
struct Calm {
    since: Instant,
    generation: Option<i64>,
}

impl Calm {
    fn see(&mut self, generation: Option<i64>, now: Instant) {
        if self.generation != generation {
            *self = Self { since: now, generation };
        }
    }
}

impl<K: Watched> Registrar<K> {
    /// Works until the shutdown.
    pub(crate) async fn run(mut self, mut changed: Changed, shutdown: Shutdown) {
        tokio::select! {
            () = self.store.listed() => {}
            () = shutdown.requested() => return,
        }
        let mut pause = RETRY;
        let mut calm = Calm { since: Instant::now(), generation: None };
        loop {
            let generation = self.store.get_global(&self.name).and_then(|it| it.meta().generation);
            calm.see(generation, Instant::now());
            let retry = self.pass(calm.since.elapsed() >= BOTH).await;
            tokio::select! {
                () = changed.next() => {}
                Ok(()) = self.authority.changed() => calm.since = Instant::now(),
                () = tokio::time::sleep(pause), if retry => {}
                () = tokio::time::sleep_until(calm.since + BOTH), if calm.since.elapsed() < BOTH => {}
                () = shutdown.requested() => return,
            }
            pause = if retry { (pause * 2).min(LONGEST_RETRY) } else { RETRY };
        }
    }

    async fn pass(&mut self, alone: bool) -> bool {
        let Some(pem) = self.authority.borrow_and_update().clone() else { return false };
        let current = self.store.get_global(&self.name);
        let authority = Authority { pem: &pem, alone, now: SystemTime::now() };
        let (wanted, event) = match (self.plan)(current.as_deref(), &authority) {
            Plan::Absent | Plan::Done => return false,
            Plan::Apply(wanted) => (wanted, "caBundleWritten"),
            Plan::Withdraw(wanted) => (wanted, "registrationWithdrawn"),
        };
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
}

#[cfg(test)]
mod tests;
