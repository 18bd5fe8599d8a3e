//! `BGPAdvertisement`: which pools are announced to which BGP peers, how and by whom.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Announces the addresses of pools to BGP peers. An object without a spec announces every pool as host
/// routes, from every node, to every peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BGPAdvertisement {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    #[serde(default)]
    pub spec: BGPAdvertisementSpec,
    /// Empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<BGPAdvertisementStatus>,
}
crate::kind::namespaced_kind!(BGPAdvertisement, "v1beta1", "bgpadvertisements");

/// What is announced, by which nodes, to which peers, with which attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BGPAdvertisementSpec {
    /// Length in bits of the IPv4 prefixes announced, 1 to 32: 32, the default, announces each address by
    /// itself, 24 the /24 network around it.
    #[serde(default = "host_route")]
    #[schemars(range(min = 1), extend("format" = "int32"))]
    pub aggregation_length: i64,
    /// Length in bits of the IPv6 prefixes announced, at most 128, the default.
    #[serde(default = "host_route_v6", rename = "aggregationLengthV6")]
    #[schemars(extend("format" = "int32"))]
    pub aggregation_length_v6: i64,
    /// LOCAL_PREF of the routes, told to peers of the same AS only; the route with the highest is preferred.
    /// 0, the default, is told as 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "int32"))]
    pub local_pref: Option<i64>,
    /// Communities of the routes: "64512:100", "large:64512:1:100", or the name of an alias in a Community.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub communities: Vec<String>,
    /// Names of the pools to announce. With `ipAddressPoolSelectors` empty as well: all pools.
    #[serde(default, rename = "ipAddressPools", skip_serializing_if = "Vec::is_empty")]
    pub ip_address_pools: Vec<String>,
    /// Pools to announce by label, in addition to `ipAddressPools`.
    #[serde(default, rename = "ipAddressPoolSelectors", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub ip_address_pool_selectors: Vec<LabelSelector>,
    /// Nodes that announce; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub node_selectors: Vec<LabelSelector>,
    /// Names of the BGPPeers to announce to; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
    /// Restricts the advertisement to Services with these labels; empty: all Services of the pools. Only
    /// with the default aggregation lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub service_selectors: Vec<LabelSelector>,
}

fn host_route() -> i64 {
    32
}

fn host_route_v6() -> i64 {
    128
}

impl Default for BGPAdvertisementSpec {
    fn default() -> Self {
        Self {
            aggregation_length: host_route(),
            aggregation_length_v6: host_route_v6(),
            local_pref: None,
            communities: Vec::new(),
            ip_address_pools: Vec::new(),
            ip_address_pool_selectors: Vec::new(),
            node_selectors: Vec::new(),
            peers: Vec::new(),
            service_selectors: Vec::new(),
        }
    }
}

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BGPAdvertisementStatus {}
