//! `BGPPeer` of the deprecated version `v1beta1`; `conversion` turns it into `v1beta2`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A router that the speakers open BGP sessions with, in the deprecated version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BGPPeer {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    #[serde(default)]
    pub spec: BGPPeerSpec,
    /// Empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<BGPPeerStatus>,
}
crate::kind::namespaced_kind!(BGPPeer, "v1beta1", "bgppeers");

/// With whom, from where and how a session is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BGPPeerSpec {
    /// AS number of the speakers, 1 to 4294967295.
    #[serde(rename = "myASN")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32), extend("format" = "int64"))]
    pub my_asn: u32,
    /// AS number of the router, 1 to 4294967295.
    #[serde(rename = "peerASN")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32), extend("format" = "int64"))]
    pub peer_asn: u32,
    /// IP address of the router.
    pub peer_address: String,
    /// IP address of the node that the session comes from. Default: what the routes of the node say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_address: Option<String>,
    /// TCP port of the router, up to 16384. Default 179.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 16_384), extend("format" = null))]
    pub peer_port: Option<u16>,
    /// Silence after which the session is down, as a duration ("90s", "1m30s"): 0, or at least 3s. Default 0s
    /// in this version, which means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_time: Option<String>,
    /// Interval of KEEPALIVE messages, as a duration not above holdTime ("30s"). Default 0s in this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_time: Option<String>,
    /// BGP identifier of the speaker, written as an IPv4 address. Default: made from the node's address.
    #[serde(default, rename = "routerID", skip_serializing_if = "Option::is_none")]
    pub router_id: Option<String>,
    /// Nodes that open the session; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_selectors: Vec<NodeSelector>,
    /// Secret of TCP MD5 signatures (RFC 2385), in clear. Version v1beta2 can refer to a Secret instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Name of the BFDProfile of the session; default: no BFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd_profile: Option<String>,
    /// Whether the router of another AS may be more than one hop away. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebgp_multi_hop: Option<bool>,
}

/// Selects nodes by label. All requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// Labels that must all have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<MatchExpression>,
}

/// A requirement on a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatchExpression {
    /// Label key.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// Values for In and NotIn.
    #[schemars(length(min = 1))]
    pub values: Vec<String>,
}

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BGPPeerStatus {}
