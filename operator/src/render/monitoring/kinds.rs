//! Kinds of `monitoring.coreos.com`, as far as the operator knows them: what is in `spec` is a document.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Resource, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

macro_rules! kind {
    ($kind:ident, $plural:literal, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $kind {
            /// `apiVersion` and `kind`.
            #[serde(flatten)]
            types: TypeMeta,
            #[serde(default)]
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Value,
        }

        impl $kind {
            pub(super) fn new(metadata: ObjectMeta, spec: Value) -> Self {
                Self { types: TypeMeta::resource::<Self>(), metadata, spec }
            }
        }

        impl Resource for $kind {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                "monitoring.coreos.com".into()
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

kind!(ServiceMonitor, "servicemonitors", "Whom a Prometheus scrapes, and how.");
kind!(PrometheusRule, "prometheusrules", "When a Prometheus calls somebody.");
