//! What the CustomResourceDefinition of `BGPPeer` says of its conversion: as shipped nothing but the name
//! of the version changes; while our webhook is installed it is asked, so that nothing is lost. When the
//! webhook goes, so does the entry: a dead webhook would be in the way of whoever reads the old version.

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, ServiceReference, WebhookClientConfig,
    WebhookConversion,
};
use serde_json::json;

use super::Plan;
use crate::convert::{PATH, REVIEW_VERSIONS};

/// The Service in front of the webhook.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The step towards the entry that `wanted` calls for: the authority to be trusted, or none at all.
pub(crate) fn plan(
    current: Option<&CustomResourceDefinition>,
    service: &Service,
    authority: Option<&str>,
) -> Plan {
    let Some(current) = current else { return Plan::Absent };
    let now = current.spec.conversion.as_ref();
    let mut apply = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        // Of this very object: one that was deleted meanwhile is not made anew.
        "metadata": {"name": current.metadata.name, "uid": current.metadata.uid},
    });
    match authority.map(|authority| wanted(service, authority)) {
        Some(wanted) if now == Some(&wanted) => Plan::Done,
        Some(wanted) => {
            apply["spec"] = json!({"conversion": wanted});
            Plan::Apply(apply)
        }
        // What our field manager does not apply any more, it gives up.
        None if now.is_some_and(|now| is_ours(now, service)) => Plan::Withdraw(apply),
        None => Plan::Done,
    }
}

fn wanted(service: &Service, authority: &str) -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: "Webhook".into(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                ca_bundle: Some(ByteString(authority.as_bytes().to_vec())),
                service: Some(ServiceReference {
                    namespace: service.namespace.clone(),
                    name: service.name.clone(),
                    path: Some(PATH.into()),
                    port: Some(443),
                }),
                url: None,
            }),
            conversion_review_versions: REVIEW_VERSIONS.map(Into::into).into(),
        }),
    }
}

/// The bundle of the entry, if it is ours.
pub(crate) fn bundle<'a>(
    current: Option<&'a CustomResourceDefinition>,
    service: &Service,
) -> Option<&'a ByteString> {
    let conversion = current?.spec.conversion.as_ref().filter(|it| is_ours(it, service))?;
    conversion.webhook.as_ref()?.client_config.as_ref()?.ca_bundle.as_ref()
}

fn is_ours(conversion: &CustomResourceConversion, service: &Service) -> bool {
    let config = conversion.webhook.as_ref().and_then(|webhook| webhook.client_config.as_ref());
    let named = config.and_then(|config| config.service.as_ref());
    named.is_some_and(|named| named.namespace == service.namespace && named.name == service.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn service() -> Service {
        Service { namespace: "metallb-system".into(), name: "metallb-webhook-service".into() }
    }

    fn definition(conversion: Value) -> CustomResourceDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": "bgppeers.metallb.io", "uid": "c"},
            "spec": {"group": "metallb.io", "scope": "Namespaced", "versions": [], "conversion": conversion,
                     "names": {"kind": "BGPPeer", "plural": "bgppeers"}},
        }))
        .unwrap()
    }

    fn ours(bundle: &str) -> Value {
        json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"caBundle": bundle, "service": {
                "namespace": "metallb-system", "name": "metallb-webhook-service", "path": "/convert", "port": 443,
            }},
        }})
    }

    #[test]
    fn another_strategy_authority_or_service_is_corrected() {
        let mut elsewhere = ours("Y2E=");
        elsewhere["webhook"]["clientConfig"]["service"]["namespace"] = json!("other");
        for conversion in [Value::Null, json!({"strategy": "None"}), ours("b2xk"), elsewhere] {
            let Plan::Apply(applied) = plan(Some(&definition(conversion.clone())), &service(), Some("ca"))
            else {
                panic!("{conversion}")
            };
            assert_eq!(applied["metadata"], json!({"name": "bgppeers.metallb.io", "uid": "c"}));
            assert_eq!(applied["spec"], json!({"conversion": ours("Y2E=")}), "nothing else is ours");
        }
        assert_eq!(plan(Some(&definition(ours("Y2E="))), &service(), Some("ca")), Plan::Done);
        assert_eq!(plan(None, &service(), Some("ca")), Plan::Absent);
    }

    #[test]
    fn the_entry_is_given_up_with_the_webhook_and_a_foreign_one_is_left_alone() {
        let Plan::Withdraw(applied) = plan(Some(&definition(ours("Y2E="))), &service(), None) else {
            panic!()
        };
        assert_eq!(applied.get("spec"), None);
        let mut foreign = ours("Y2E=");
        foreign["webhook"]["clientConfig"]["service"]["name"] = json!("other");
        for conversion in [json!({"strategy": "None"}), foreign] {
            assert_eq!(plan(Some(&definition(conversion)), &service(), None), Plan::Done);
        }
    }
}
