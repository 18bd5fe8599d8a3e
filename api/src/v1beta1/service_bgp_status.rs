//! `ServiceBGPStatus`: to which BGP peers a node announces a Service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// To which BGP peers a node announces the addresses of a Service. One object a Service and node, written
/// by the speaker of that node; whether a session is up is not said here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceBGPStatus {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Empty.
    #[serde(default)]
    pub spec: ServiceBGPStatusSpec,
    /// Who announces what to whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ServiceBGPStatusStatus>,
}
crate::kind::namespaced_kind!(ServiceBGPStatus, "v1beta1", "servicebgpstatuses");

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceBGPStatusSpec {}

/// Who announces what to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceBGPStatusStatus {
    /// Name of the node that announces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::immutable_string")]
    pub node: Option<String>,
    /// Name of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::immutable_string")]
    pub service_name: Option<String>,
    /// Namespace of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::immutable_string")]
    pub service_namespace: Option<String>,
    /// Names of the BGPPeers, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
}
