//! The key with which speakers encrypt their membership traffic: made once, where there is none, and
//! never changed, since speakers with different keys do not find each other.

use std::time::Duration;

use ferrolb_api::well_known::object;
use ferrolb_runtime::Process;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use rand::Rng;

/// Length of a key, as in MetalLB.
const KEY_BYTES: usize = 128;
/// Time between attempts while the API server does not answer or another was faster.
const PAUSE: Duration = Duration::from_secs(1);

/// The key in a membership Secret.
pub(crate) fn key_in(secret: Secret) -> Option<String> {
    let ByteString(key) = secret.data?.remove(object::MEMBERLIST_SECRET_KEY)?;
    String::from_utf8(key).ok().filter(|key| !key.is_empty())
}

/// A fresh key, as text.
pub(crate) fn new_key() -> String {
    let mut bytes = vec![0; KEY_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    // Kubernetes' own encoding of bytes in JSON: base64.
    let encoded = serde_json::to_value(ByteString(bytes)).unwrap_or_default();
    encoded.as_str().unwrap_or_default().to_owned()
}

/// Puts a key into the installed Secret, unless one is there. For installations without the operator:
/// a file that people apply cannot hold a random key.
pub(crate) async fn make(process: &Process) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(process.client.clone(), &process.namespace);
    loop {
        match fill(&secrets).await {
            Ok(event) => {
                tracing::info!(event, secret = object::MEMBERLIST_SECRET, "the speakers have a key");
                return Ok(());
            }
            Err(error) if error.is_not_found() => anyhow::bail!(
                "there is no Secret {}: apply the whole manifest again",
                object::MEMBERLIST_SECRET
            ),
            Err(error) => {
                tracing::warn!(op = "memberlistKey", error = chain(&error), "retrying");
            }
        }
        tokio::select! {
            () = process.shutdown.requested() => return Ok(()),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

async fn fill(secrets: &Api<Secret>) -> Result<&'static str, WriteError> {
    let mut secret = write::bounded(secrets.get(object::MEMBERLIST_SECRET)).await?;
    if key_in(secret.clone()).is_some() {
        return Ok("memberlistKeyFound");
    }
    let key = (object::MEMBERLIST_SECRET_KEY.to_owned(), ByteString(new_key().into_bytes()));
    secret.data.get_or_insert_default().extend([key]);
    // With the version that was read: of two pods that start together, one makes the key.
    write::bounded(secrets.replace(object::MEMBERLIST_SECRET, &PostParams::default(), &secret)).await?;
    Ok("memberlistKeyMade")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_are_text_of_full_length_and_differ() {
        let key = new_key();
        assert_eq!(key.len(), KEY_BYTES.div_ceil(3) * 4);
        assert!(key.is_ascii());
        assert_ne!(key, new_key());
    }

    #[test]
    fn a_key_is_read_from_its_secret_unless_it_is_empty() {
        let secret = |name: &str, key: &str| Secret {
            data: Some(BTreeMap::from([(name.into(), ByteString(key.into()))])),
            ..Default::default()
        };
        assert_eq!(key_in(secret("secretkey", "abc")), Some("abc".into()));
        assert_eq!(key_in(secret("secretkey", "")), None);
        assert_eq!(key_in(secret("other", "abc")), None);
        assert_eq!(key_in(Secret::default()), None);
    }
}
