//! The serving certificate of all replicas: it lies in one Secret, is made where it is missing, and is
//! renewed or replaced where it would not serve any more. Several replicas may find the same: the first
//! write wins, the others read what it wrote. A Secret that was deleted or spoilt gets back what was in it,
//! so that nobody has to trust anything new.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ferrolb_api::well_known::field_manager;
use ferrolb_runtime::Shutdown;
use ferrolb_runtime::latest::publish;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::tls::{Bundle, CertificateError};
use ferrolb_runtime::watch::{Changed, Store};
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use tokio::sync::watch;

use crate::presenter::Offer;

/// Keys of the Secret, as MetalLB names them.
const KEYS: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];
/// How often the end of the certificate is looked at.
const LOOK: Duration = Duration::from_secs(3600);
const RETRY: Duration = Duration::from_secs(1);

/// Keeps the Secret good and offers what is in it.
pub(crate) struct Keeper {
    pub(crate) api: Api<Secret>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) dns_names: Vec<String>,
    pub(crate) store: Store<Secret>,
    pub(crate) offers: watch::Sender<Option<Offer>>,
}

/// What is remembered from pass to pass.
#[derive(Default)]
struct Last {
    offered: Option<Bundle>,
    /// As it was seen last.
    secret: Option<Arc<Secret>>,
}

/// What the state of the Secret calls for.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Offer it.
    Serve(Bundle),
    /// There is no Secret.
    Create,
    /// The serving certificate nears its end; its authority is good.
    Renew(Bundle),
    /// What is in it cannot be used.
    Replace,
}

fn decide(secret: Option<&Secret>, dns_names: &[String], now: SystemTime) -> Decision {
    let Some(secret) = secret else { return Decision::Create };
    let Some(bundle) = read(secret) else { return Decision::Replace };
    match bundle.check(dns_names, now) {
        Ok(()) => Decision::Serve(bundle),
        Err(CertificateError::Refused(_)) => Decision::Renew(bundle),
        Err(_) => Decision::Replace,
    }
}

/// What was offered last, as long as it serves.
fn offered_or_new(
    offered: Option<&Bundle>,
    dns_names: &[String],
    now: SystemTime,
) -> Result<Bundle, CertificateError> {
    match offered {
        Some(bundle) if bundle.check(dns_names, now).is_ok() => Ok(bundle.clone()),
        _ => Bundle::generate(dns_names, now),
    }
}

fn read(secret: &Secret) -> Option<Bundle> {
    let data = secret.data.as_ref()?;
    let entry = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    let [ca, ca_key, certificate, key] = KEYS.map(entry);
    Some(Bundle { ca: ca?, ca_key: ca_key?, certificate: certificate?, key: key? })
}

fn data(bundle: &Bundle) -> BTreeMap<String, ByteString> {
    let texts = [&bundle.ca, &bundle.ca_key, &bundle.certificate, &bundle.key];
    KEYS.iter()
        .zip(texts)
        .map(|(key, text)| ((*key).to_owned(), ByteString(text.clone().into_bytes())))
        .collect()
}

impl Keeper {
    /// Works until the shutdown.
    pub(crate) async fn run(self, mut changed: Changed, shutdown: Shutdown) {
        tokio::select! {
            () = self.store.listed() => {}
            () = shutdown.requested() => return,
        }
        let mut last = Last::default();
        loop {
            let retry = match self.pass(&mut last).await {
                Ok(()) => false,
                Err(error) => {
                    tracing::warn!(op = "certificate", secret = self.name, error, "retrying");
                    true
                }
            };
            tokio::select! {
                () = changed.next() => {}
                () = tokio::time::sleep(if retry { RETRY } else { LOOK }) => {}
                () = shutdown.requested() => return,
            }
        }
    }

    async fn pass(&self, last: &mut Last) -> Result<(), String> {
        let secret = self.store.get(&self.namespace, &self.name);
        last.secret = secret.clone().or_else(|| last.secret.take());
        let now = SystemTime::now();
        let text = |error: CertificateError| chain(&error);
        let again = || offered_or_new(last.offered.as_ref(), &self.dns_names, now).map_err(text);
        let (bundle, reason) = match decide(secret.as_deref(), &self.dns_names, now) {
            Decision::Serve(bundle) => {
                self.offer(&bundle);
                last.offered = Some(bundle);
                return Ok(());
            }
            Decision::Create => (again()?, "missing"),
            Decision::Replace => (again()?, "unusable"),
            Decision::Renew(old) => match old.renew(&self.dns_names, now) {
                Ok(renewed) if renewed.check(&self.dns_names, now).is_ok() => (renewed, "renewed"),
                _ => (Bundle::generate(&self.dns_names, now).map_err(text)?, "unusable"),
            },
        };
        let written = match secret.as_deref() {
            None => self.create(last.secret.as_deref(), &bundle).await,
            Some(current) => self.replace(current, &bundle).await,
        };
        match written {
            Ok(()) => {
                tracing::info!(
                    event = "certificateWritten",
                    secret = self.name,
                    reason,
                    "certificate written"
                );
                Ok(())
            }
            // Another replica was faster; the watch brings what it wrote.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(chain(&error)),
        }
    }

    fn offer(&self, bundle: &Bundle) {
        let Bundle { ca, certificate, key, .. } = bundle.clone();
        publish(&self.offers, Some(Offer { chain: certificate, key, authority: Some(ca) }));
    }

    async fn create(&self, before: Option<&Secret>, bundle: &Bundle) -> Result<(), WriteError> {
        let secret = new_secret(&self.name, before, bundle);
        write::create(&self.api, field_manager::WEBHOOK, &secret).await.map(drop)
    }

    async fn replace(&self, current: &Secret, bundle: &Bundle) -> Result<(), WriteError> {
        // With the resource version that was read: a conflict says that somebody else wrote.
        let secret = Secret { data: Some(data(bundle)), ..current.clone() };
        write::bounded(self.api.replace(&self.name, &PostParams::default(), &secret)).await.map(drop)
    }
}

/// The Secret anew. It belongs to whom it belonged before: where the owner is being deleted, the garbage
/// collector takes it along although we are still running.
fn new_secret(name: &str, before: Option<&Secret>, bundle: &Bundle) -> Secret {
    let before = before.map(|before| &before.metadata);
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: before.and_then(|before| before.labels.clone()),
            owner_references: before.and_then(|before| before.owner_references.clone()),
            ..ObjectMeta::default()
        },
        data: Some(data(bundle)),
        type_: Some("Opaque".into()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn names() -> Vec<String> {
        vec!["webhook.ns.svc".into()]
    }

    fn secret(bundle: &Bundle) -> Secret {
        Secret { data: Some(data(bundle)), ..Secret::default() }
    }

    #[test]
    fn a_good_secret_is_served_and_a_missing_one_made() {
        let now = SystemTime::now();
        let bundle = Bundle::generate(&names(), now).unwrap();
        assert_eq!(decide(Some(&secret(&bundle)), &names(), now), Decision::Serve(bundle));
        assert_eq!(decide(None, &names(), now), Decision::Create);
    }

    #[test]
    fn a_lost_secret_gets_back_what_is_presented_unless_that_ends() {
        let now = SystemTime::now();
        let bundle = Bundle::generate(&names(), now).unwrap();
        assert_eq!(offered_or_new(Some(&bundle), &names(), now).unwrap(), bundle);
        let late = now + Duration::from_secs(360 * 24 * 3600);
        let new = offered_or_new(Some(&bundle), &names(), late).unwrap();
        assert_ne!(new, bundle);
        new.check(&names(), late).unwrap();
        offered_or_new(None, &names(), now).unwrap().check(&names(), now).unwrap();
    }

    #[test]
    fn a_secret_made_anew_belongs_to_whom_it_belonged() {
        let bundle = Bundle::generate(&names(), SystemTime::now()).unwrap();
        let owner = OwnerReference { uid: "u".into(), ..OwnerReference::default() };
        let mut before = secret(&bundle);
        before.metadata.owner_references = Some(vec![owner.clone()]);
        before.metadata.uid = Some("gone".into());
        let anew = new_secret("s", Some(&before), &bundle).metadata;
        assert_eq!((anew.owner_references, anew.uid), (Some(vec![owner]), None));
        assert_eq!(new_secret("s", None, &bundle).metadata.owner_references, None);
    }

    #[test]
    fn empty_corrupted_and_foreign_secrets_are_replaced_and_ending_ones_renewed() {
        let now = SystemTime::now();
        let bundle = Bundle::generate(&names(), now).unwrap();
        let replaced = |secret: &Secret| decide(Some(secret), &names(), now) == Decision::Replace;
        assert!(replaced(&Secret::default()));
        for key in KEYS {
            let mut broken = secret(&bundle);
            broken.data.as_mut().unwrap().insert(key.into(), ByteString(b"garbage".to_vec()));
            let decision = decide(Some(&broken), &names(), now);
            assert!(matches!(decision, Decision::Replace | Decision::Serve(_)), "{key}: {decision:?}");
            // The authority's key matters at the next renewal only.
            assert_eq!(matches!(decision, Decision::Serve(_)), key == "ca.key", "{key}");
            broken.data.as_mut().unwrap().remove(key);
            assert!(replaced(&broken), "{key}");
        }
        let late = now + Duration::from_secs(360 * 24 * 3600);
        assert!(matches!(decide(Some(&secret(&bundle)), &names(), late), Decision::Renew(_)));
        let other = vec!["other.ns.svc".to_owned()];
        assert!(matches!(decide(Some(&secret(&bundle)), &other, now), Decision::Renew(_)));
    }
}
