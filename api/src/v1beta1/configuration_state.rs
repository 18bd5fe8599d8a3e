//! `ConfigurationState`: what one process of the product says of the configuration it runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether one process (the controller, or the speaker of a node) accepts the configuration, and if
/// not, which object is left out and why. Written by that process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationState {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// This kind has no spec.
    #[serde(skip)]
    pub spec: (),
    /// What the process found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ConfigurationStateStatus>,
}
crate::kind::namespaced_kind!(ConfigurationState, "v1beta1", "configurationstates");

/// What the process found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationStateStatus {
    /// Valid, Invalid, or Unknown while nothing was read yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ConfigurationResult>,
    /// What is wrong, one finding a line; empty while Valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_summary: Option<String>,
    /// The findings as conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Verdict on the configuration as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConfigurationResult {
    /// Every object is in force.
    Valid,
    /// At least one object is left out.
    Invalid,
    /// Nothing was read yet.
    Unknown,
}
