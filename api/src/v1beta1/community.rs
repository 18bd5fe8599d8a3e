//! `Community`: names for BGP communities.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names that BGPAdvertisements may use instead of the numbers of a BGP community. A name is known to
/// all advertisements of the namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Community {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    #[serde(default)]
    pub spec: CommunitySpec,
    /// Empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CommunityStatus>,
}
crate::kind::namespaced_kind!(Community, "v1beta1", "communities");

/// The names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommunitySpec {
    /// Names and their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub communities: Vec<CommunityAlias>,
}

/// A name for a community.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommunityAlias {
    /// The name, once in all Community objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The community: two numbers up to 65535 ("64512:100"), or three up to 4294967295 for a large community
    /// ("large:64512:1:100").
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommunityStatus {}
