//! The kinds of which operands are, closed: a new kind is one line here, and apply, watch, prune and
//! the operator's rights follow.

use std::fmt;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, Resource};
use serde_json::Value;

use super::monitoring::{PrometheusRule, ServiceMonitor};

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the operator's namespace.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// Calls a macro with every kind and its scope: the one list of them.
macro_rules! for_each_kind {
    ($callback:ident) => {
        $callback! {
            ServiceAccount: Namespaced,
            Role: Namespaced,
            RoleBinding: Namespaced,
            ClusterRole: Cluster,
            ClusterRoleBinding: Cluster,
            ConfigMap: Namespaced,
            Secret: Namespaced,
            Service: Namespaced,
            NetworkPolicy: Namespaced,
            PodDisruptionBudget: Namespaced,
            Deployment: Namespaced,
            DaemonSet: Namespaced,
            ValidatingWebhookConfiguration: Cluster,
            ServiceMonitor: Namespaced,
            PrometheusRule: Namespaced,
        }
    };
}
pub(crate) use for_each_kind;

macro_rules! kinds {
    ($($kind:ident: $scope:ident),* $(,)?) => {
        /// An operand.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object {
            $(
                #[doc = concat!("A ", stringify!($kind), ".")]
                $kind($kind),
            )*
        }

        /// The kind of an operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(
                #[doc = concat!("Of ", stringify!($kind), "s.")]
                $kind,
            )*
        }

        impl Kind {
            /// Every kind that an operand can have.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// How the API server addresses the kind.
            pub fn api_resource(self) -> ApiResource {
                match self {
                    $(Kind::$kind => ApiResource::erase::<$kind>(&()),)*
                }
            }

            /// Where its objects live.
            pub fn scope(self) -> Scope {
                match self {
                    $(Kind::$kind => Scope::$scope,)*
                }
            }
        }

        impl Object {
            /// The object's kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$kind(_) => Kind::$kind,)*
                }
            }

            /// The object's metadata.
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Object::$kind(object) => object.meta(),)*
                }
            }

            /// The object as the API server takes it.
            pub fn to_value(&self) -> Value {
                match self {
                    $(Object::$kind(object) => value_of(object),)*
                }
            }
        }

        $(
            impl From<$kind> for Object {
                fn from(object: $kind) -> Self {
                    Object::$kind(object)
                }
            }
        )*
    };
}

for_each_kind!(kinds);

impl Kind {
    /// Whether a cluster may be without the kind.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::ServiceMonitor | Self::PrometheusRule)
    }
}

/// Names an operand; its namespace is the operator's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// What it is.
    pub kind: Kind,
    /// What it is called.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.name)
    }
}

impl Object {
    /// Names the object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind(), name: self.metadata().name.clone().unwrap_or_default() }
    }
}

#[expect(
    clippy::expect_used,
    reason = "Kubernetes' own types are maps of strings to values; a test renders every kind"
)]
fn value_of(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).expect("a Kubernetes object is JSON")
}
