//! `BGPPeer`: a router that learns addresses by BGP.

use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A router that the speakers open BGP sessions with.
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
crate::kind::namespaced_kind!(BGPPeer, "v1beta2", "bgppeers");

/// With whom, from where and how a session is opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BGPPeerSpec {
    /// AS number of the speakers, 1 to 4294967295.
    #[serde(rename = "myASN")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32), extend("format" = "int64"))]
    pub my_asn: u32,
    /// AS number of the router, 1 to 4294967295. Either this or dynamicASN.
    #[serde(default, rename = "peerASN", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32), extend("format" = "int64"))]
    pub peer_asn: Option<u32>,
    /// AS number that this router sees instead of myASN, 1 to 4294967295. Default: myASN.
    #[serde(default, rename = "localASN", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32), extend("format" = "int64"))]
    pub local_asn: Option<u32>,
    /// Learns the router's AS number from the session instead of peerASN: "internal" accepts only that of the
    /// speakers, "external" any other.
    #[serde(default, rename = "dynamicASN", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["internal", "external"]))]
    pub dynamic_asn: Option<String>,
    /// IP address of the router. Either this or interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<String>,
    /// Network interface of the nodes behind which the router is found by its router advertisements (an
    /// unnumbered session), instead of peerAddress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// IP address of the node that the session comes from. Default: what the routes of the node say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_address: Option<String>,
    /// TCP port of the router, 1 to 16384. Default 179.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_384), extend("format" = null, "default" = 179))]
    pub peer_port: Option<u16>,
    /// Silence after which the session is down, as a duration ("90s", "1m30s"): 0 (never), or at least 3s. The
    /// lower of both sides' counts. Default 90s, or three times keepaliveTime where that is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_time: Option<String>,
    /// Interval of KEEPALIVE messages, as a duration not above holdTime ("30s"). Default: a third of holdTime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_time: Option<String>,
    /// Longest pause between attempts to connect, as a duration of whole seconds, 1s to 65535s; the first is
    /// about 1s, each further one twice as long. Default 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::connect_time")]
    pub connect_time: Option<String>,
    /// BGP identifier of the speaker, written as an IPv4 address. Default: made from the node's address.
    #[serde(default, rename = "routerID", skip_serializing_if = "Option::is_none")]
    pub router_id: Option<String>,
    /// Nodes that open the session; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub node_selectors: Vec<LabelSelector>,
    /// Secret of TCP MD5 signatures (RFC 2385), in clear. Better kept in passwordSecret; not both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Secret of type kubernetes.io/basic-auth in the namespace of this object whose key `password` is the
    /// secret of TCP MD5 signatures (RFC 2385).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::secret_reference")]
    pub password_secret: Option<SecretReference>,
    /// Name of the BFDProfile of the session; default: no BFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd_profile: Option<String>,
    /// Asks the router to keep the routes while a speaker restarts (RFC 4724). Default false; fixed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::enable_graceful_restart")]
    pub enable_graceful_restart: Option<bool>,
    /// Whether the router of another AS may be more than one hop away. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebgp_multi_hop: Option<bool>,
    /// VRF device of the nodes that the session runs in. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf: Option<String>,
    /// Deprecated and without effect.
    #[serde(default, rename = "disableMP")]
    pub disable_mp: bool,
    /// Announces IPv4 and IPv6 prefixes on this one session, whatever its own family. Default false: only the
    /// family of the session.
    #[serde(default)]
    pub dual_stack_address_family: bool,
}

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BGPPeerStatus {}
