//! `ServiceL2Status`: which node answers for a Service on layer 2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which node answers ARP and NDP for the addresses of a Service, and on which interfaces. Written by
/// the speaker of that node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceL2Status {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Empty.
    #[serde(default)]
    pub spec: ServiceL2StatusSpec,
    /// Who announces what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ServiceL2StatusStatus>,
}
crate::kind::namespaced_kind!(ServiceL2Status, "v1beta1", "servicel2statuses");

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceL2StatusSpec {}

/// Who announces what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceL2StatusStatus {
    /// Name of the node that answers.
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
    /// Interfaces that answer; absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<ServiceL2InterfaceStatus>,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceL2InterfaceStatus {
    /// Name of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
