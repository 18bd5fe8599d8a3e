//! Whether the API server reaches the webhook and believes it. Nobody but the API server knows, so it is
//! asked: to store a pool that the webhook refuses, in a dry run, which stores nothing. Its refusal, in the
//! webhook's name, is the proof. A pod that is ready is not: what it serves may not be trusted yet, or not be
//! reached from where the API server is.
//!
//! It is asked until the proof is there, and again when the registration or the pods behind it are others.

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolb_api::v1beta1::{IPAddressPool, IPAddressPoolSpec};
use ferrolb_api::well_known::{component, object};
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::Instant;

use crate::drift::Live;
use crate::platform::{Platform, explain};
use crate::render::{Kind, ObjectKey, is_pod_of};
use crate::status::Rollout;

/// How long it may take until it counts as a fault.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the answer depends on: the version of the registration, and the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    registration: Option<String>,
    pods: BTreeSet<String>,
}

impl Behind {
    pub(crate) fn of(registration: Option<&Live>, pods: &[impl AsRef<Pod>]) -> Self {
        let version = |live: &Live| live.object()["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let pods = pods.iter().map(AsRef::as_ref).filter(|pod| is_pod_of(pod, component::WEBHOOK));
        let pods = pods.map(ResourceExt::name_any);
        Self { registration: registration.and_then(version), pods: pods.collect() }
    }
}

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    proven: Option<Behind>,
    failing: Option<Instant>,
}

impl Reach {
    /// The registration, among the operands.
    pub(crate) fn registration() -> ObjectKey {
        ObjectKey { kind: Kind::ValidatingWebhookConfiguration, name: object::WEBHOOK_CONFIGURATION.into() }
    }

    /// Holds the webhook back from being ready until the proof is there. Whether to come again.
    pub(crate) async fn prove(
        &mut self,
        platform: &Platform,
        behind: Behind,
        rollouts: &mut [Rollout],
    ) -> bool {
        let webhook = rollouts.iter_mut().find(|rollout| rollout.name() == object::WEBHOOK);
        let Some(webhook) = webhook.filter(|webhook| webhook.is_ready()) else {
            self.failing = None;
            return false;
        };
        if self.proven.as_ref() == Some(&behind) {
            return false;
        }
        match ask(&platform.address_pools()).await {
            Ok(()) => {
                *self = Self { proven: Some(behind), failing: None };
                false
            }
            Err(why) => {
                let since = *self.failing.get_or_insert_with(Instant::now);
                self.proven = None;
                webhook.hold_back(
                    format!("the API server does not get its word: {why}"),
                    since.elapsed() >= PATIENCE,
                );
                true
            }
        }
    }
}

/// Asks the API server for a pool that only the webhook knows to be wrong; an error says why the webhook did not
/// refuse it.
pub(crate) async fn ask(pools: &Api<IPAddressPool>) -> Result<(), String> {
    let pool = IPAddressPool {
        metadata: ObjectMeta { name: Some("ferrolb-verify".into()), ..Default::default() },
        spec: IPAddressPoolSpec { addresses: vec!["no address".into()], ..Default::default() },
        ..Default::default()
    };
    let parameters = PostParams { dry_run: true, ..Default::default() };
    match write::bounded(pools.create(&parameters, &pool)).await {
        Ok(_) => Err("the API server takes a pool without an address: it does not ask the webhook".into()),
        Err(error) if is_denial(&error) => Ok(()),
        Err(error) => Err(explain(&error)),
    }
}

/// The webhook's own answer; when it cannot be reached, the API server says something else.
fn is_denial(error: &WriteError) -> bool {
    let text = explain(error);
    text.contains("admission webhook") && text.contains("denied the request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_told_from_a_webhook_that_is_away() {
        let error = |code: u16, message: &str| {
            let status = serde_json::from_value(serde_json::json!({
                "status": "Failure", "code": code, "message": message, "reason": "",
            }));
            WriteError::Api(kube::Error::Api(Box::new(status.unwrap())))
        };
        let denied =
            r#"admission webhook "ipaddresspoolvalidationwebhook.metallb.io" denied the request: invalid"#;
        assert!(is_denial(&error(403, denied)));
        let away =
            r#"failed calling webhook "ipaddresspoolvalidationwebhook.metallb.io": connection refused"#;
        assert!(!is_denial(&error(500, away)));
        assert!(!is_denial(&error(403, r#"ipaddresspools.metallb.io is forbidden: User cannot create"#)));
    }
}
