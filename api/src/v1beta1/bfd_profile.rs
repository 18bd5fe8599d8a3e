//! `BFDProfile`: how fast a session notices that its peer is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Timers and modes of BFD (RFC 5880), referred to by name from BGPPeers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BFDProfile {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    #[serde(default)]
    pub spec: BFDProfileSpec,
    /// Empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<BFDProfileStatus>,
}
crate::kind::namespaced_kind!(BFDProfile, "v1beta1", "bfdprofiles");

/// Timers and modes of the BFD sessions that use the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BFDProfileSpec {
    /// Shortest interval at which this side can receive control packets, in milliseconds, 10 to 60000.
    /// Default 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 60_000), extend("format" = "int32"))]
    pub receive_interval: Option<u32>,
    /// Shortest interval at which this side sends control packets, in milliseconds, 10 to 60000.
    /// Default 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 60_000), extend("format" = "int32"))]
    pub transmit_interval: Option<u32>,
    /// How many packets in a row may be missed before the session is down, 2 to 255. Default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 255), extend("format" = "int32"))]
    pub detect_multiplier: Option<u32>,
    /// Interval of echo packets, in milliseconds, 10 to 60000. Default 50. Only with echoMode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 60_000), extend("format" = "int32"))]
    pub echo_interval: Option<u32>,
    /// Sends echo packets, which the peer returns without a look at them, so that both directions of the
    /// path are tested. Default false. Not over several hops, and for IPv4 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo_mode: Option<bool>,
    /// Waits for the peer's first control packet before it sends any. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passive_mode: Option<bool>,
    /// Lowest TTL (hop limit) of packets that are accepted on sessions over several hops, 1 to 254.
    /// Default 254. Without effect on directly connected peers, where it must be 255.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 254), extend("format" = "int32"))]
    pub minimum_ttl: Option<u32>,
}

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BFDProfileStatus {}
