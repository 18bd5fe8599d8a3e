//! `L2Advertisement`: which pools are answered for by ARP and NDP, where and by whom.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Announces the addresses of pools on layer 2. An object without a spec announces every pool from
/// every node on every interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct L2Advertisement {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    #[serde(default)]
    pub spec: L2AdvertisementSpec,
    /// Empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<L2AdvertisementStatus>,
}
crate::kind::namespaced_kind!(L2Advertisement, "v1beta1", "l2advertisements");

/// What is announced, by which nodes, on which interfaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct L2AdvertisementSpec {
    /// Names of the pools to announce. With `ipAddressPoolSelectors` empty as well: all pools.
    #[serde(default, rename = "ipAddressPools", skip_serializing_if = "Vec::is_empty")]
    pub ip_address_pools: Vec<String>,
    /// Pools to announce by label, in addition to `ipAddressPools`.
    #[serde(default, rename = "ipAddressPoolSelectors", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub ip_address_pool_selectors: Vec<LabelSelector>,
    /// Nodes that may announce; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub node_selectors: Vec<LabelSelector>,
    /// Names of the network interfaces to announce from; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Restricts the advertisement to Services with these labels; empty: all Services of the pools.
    /// Not for Services that share an address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub service_selectors: Vec<LabelSelector>,
    /// Preference among the nodes that may announce: the highest sum of matching weights wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred_node_selectors: Vec<PreferredNode>,
}

/// A preference for some nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreferredNode {
    /// Added to the score of each matching node, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
    /// The nodes meant; {} matches every node.
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub preference: LabelSelector,
}

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct L2AdvertisementStatus {}
