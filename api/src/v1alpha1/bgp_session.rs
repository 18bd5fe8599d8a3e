//! `BGPSession`: how the session of a node with a peer stands.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the BGP session of a node with a BGPPeer stands: one object for each of both, written by the speaker of
/// that node when something changes, gone with the peer and with the speaker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BGPSession {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// This kind has no spec.
    #[serde(skip)]
    pub spec: (),
    /// How it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<BGPSessionStatus>,
}
crate::kind::namespaced_kind!(BGPSession, crate::well_known::ADDED_GROUP, "v1alpha1", "bgpsessions");

/// How a session stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BGPSessionStatus {
    /// Name of the node.
    pub node: String,
    /// Name of the BGPPeer.
    pub peer: String,
    /// Address and port of the peer, or the interface that it is behind.
    pub address: String,
    /// AS number that the peer sees.
    #[serde(rename = "localASN")]
    pub local_asn: i64,
    /// AS number of the peer; none where any will do and no session was there yet.
    #[serde(default, rename = "peerASN", skip_serializing_if = "Option::is_none")]
    pub peer_asn: Option<i64>,
    /// Established, or Connect while that is tried.
    pub state: BGPSessionState,
    /// Since when it is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub since: Option<Time>,
    /// How often it was established since the speaker has the peer.
    pub established: i64,
    /// What both sides agreed on, while it is established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negotiated: Option<BGPSessionNegotiated>,
    /// Routes that the peer has from this node.
    pub prefixes_sent: i64,
    /// Routes that the peer is to have from this node.
    pub prefixes_wanted: i64,
    /// Routes that the peer announces; none is ever used. 10000 stands for that many or more.
    pub prefixes_received: i64,
    /// Why some routes are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsent: Vec<String>,
    /// Why the last session, or the last try, ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The last NOTIFICATION that the peer was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_notification_sent: Option<String>,
    /// The last NOTIFICATION of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_notification_received: Option<String>,
    /// State of the BFD session with the peer, where it has a BFDProfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd_state: Option<String>,
}

/// Whether there is a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BGPSessionState {
    /// It is tried, with pauses.
    #[default]
    Connect,
    /// There is.
    Established,
}

/// What both sides agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BGPSessionNegotiated {
    /// BGP identifier of the peer.
    #[serde(rename = "peerIdentifier")]
    pub peer_identifier: String,
    /// BGP identifier of this node.
    pub local_identifier: String,
    /// Silence for so long ends the session; 0: it never does.
    pub hold_time_seconds: i64,
    /// Pause between two KEEPALIVEs; 0: there are none.
    pub keepalive_seconds: i64,
    /// Families whose routes are sent.
    pub families: Vec<String>,
    /// Everything that the peer says it can do.
    pub capabilities: Vec<String>,
}
