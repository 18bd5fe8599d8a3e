//! `MetalLB`: the one object that an administrator creates; the operator installs what it asks for.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSetUpdateStrategy;
use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MembershipConfig;

/// Asks the operator for the product. Only the object named `metallb` in the operator's namespace
/// exists for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetalLB {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    #[serde(default)]
    pub spec: MetalLBSpec,
    /// How far the operator is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MetalLBStatus>,
}
crate::kind::namespaced_kind!(MetalLB, "v1beta1", "metallbs");

/// What to install and where. Every field is optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetalLBSpec {
    /// Deprecated and without effect: the operator knows its images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// BGP implementation: native (default), frr, frr-k8s or frr-k8s-external.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bgp_backend: Option<String>,
    /// Log level of controller, webhook and speakers, who follow it without a restart; default info.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Only Services of this spec.loadBalancerClass are handled; default: only those without a class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^([a-z0-9A-Z]([\w.\-]*[a-z0-9A-Z])?/)?[a-z0-9A-Z]([\w.\-]*[a-z0-9A-Z])?$"
    ))]
    pub load_balancer_class: Option<String>,
    /// Nodes that get a speaker, by label; default: all Linux nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Nodes where the controller may run, by label; default: all Linux nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controller_node_selector: BTreeMap<String, String>,
    /// Tolerations of the speakers, after those for control plane nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::undescribed::<Vec<Toleration>>")]
    pub speaker_tolerations: Vec<Toleration>,
    /// Tolerations of the controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::undescribed::<Vec<Toleration>>")]
    pub controller_tolerations: Vec<Toleration>,
    /// Further settings of the speaker pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker_config: Option<WorkloadConfig>,
    /// Further settings of the controller pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_config: Option<WorkloadConfig>,
    /// Settings of the frr-k8s backends; without effect on the native one.
    #[serde(default, rename = "frrk8sConfig", skip_serializing_if = "Option::is_none")]
    pub frr_k8s_config: Option<FrrK8sConfig>,
    /// How many controllers; one works, the others stand by. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    pub controller_replicas: Option<i32>,
    /// Secrets in the operator's namespace with which nodes pull the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How new speakers replace old ones. Default: one node after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<DaemonSetUpdateStrategy>,
    /// Announce from nodes labelled node.kubernetes.io/exclude-from-external-load-balancers too. Default
    /// false.
    #[serde(default, rename = "ignoreExcludeLB", skip_serializing_if = "Option::is_none")]
    pub ignore_exclude_lb: Option<bool>,
    /// How speakers learn which of them live. Default: from each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<MembershipConfig>,
    /// TCP port of the nodes on which BGP peers may connect to speakers, which dial them besides; 179 for routers
    /// that dial only that one. Default: none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub bgp_listen_port: Option<i32>,
    /// Metrics of all processes, by HTTPS on port 9120. Default: served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsConfig>,
    /// NetworkPolicies that let controller and webhook talk to nobody but whom they must. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policies: Option<NetworkPolicies>,
    /// What the HTTPS servers of all processes accept. Default: TLS 1.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
    /// Leave everything as it is: nothing is applied, repaired or removed. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Log level, least to most silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    All,
    /// Decisions in detail.
    Debug,
    /// What changed.
    #[default]
    Info,
    /// What may be wrong.
    Warn,
    /// What is wrong.
    Error,
    /// Nothing.
    None,
}

impl LogLevel {
    /// The value as flags and this API spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::None => "none",
        }
    }
}

/// Settings of the pods of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadConfig {
    /// Name of a PriorityClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Name of a RuntimeClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Affinity of the pods; replaces the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::undescribed::<Option<Affinity>>")]
    pub affinity: Option<Affinity>,
    /// CPU and memory of the main container; replaces the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::undescribed::<Option<ResourceRequirements>>")]
    pub resources: Option<ResourceRequirements>,
}

/// Metrics of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsConfig {
    /// Serve them. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Have ServiceMonitors of all processes, for a Prometheus operator, as soon as that kind is there. Default
    /// false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitors: Option<bool>,
    /// Have a PrometheusRule with the alerts, as soon as that kind is there. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus_rule: Option<bool>,
    /// Labels of both, by which a Prometheus selects them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_labels: BTreeMap<String, String>,
}

/// NetworkPolicies of controller and webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicies {
    /// Have them. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// TCP port on which the API server really listens. Default: as its endpoints say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub api_port: Option<i32>,
}

/// What HTTPS servers accept of their clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsConfig {
    /// Lowest version: VersionTLS12 or VersionTLS13. Default VersionTLS13.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<TlsVersion>,
    /// Cipher suites of TLS 1.2, by IANA's names; minVersion must be VersionTLS12 then. Default: all that are safe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cipher_suites: Vec<String>,
    /// Groups of the key exchange, most wanted first, by name (X25519MLKEM768, X25519, P-256, P-384) or
    /// IANA's number. Default: all that are safe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "VersionTLS12")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "VersionTLS13")]
    Tls13,
}

/// Settings of the frr-k8s backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrrK8sConfig {
    /// Prefixes (CIDR) that are never accepted from routers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub always_block: Vec<String>,
    /// Namespace of an external frr-k8s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Pass references to Secrets on instead of the passwords in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_passthrough: Option<bool>,
}

/// How far the operator is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetalLBStatus {
    /// Available, Upgradeable, Progressing and Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What is installed, and how far each part is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentStatus>,
}

/// How far one workload is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComponentStatus {
    /// Name of the workload.
    pub name: String,
    /// Deployment or DaemonSet.
    pub kind: String,
    /// How many pods there are to be.
    pub desired: i32,
    /// How many of them are ready.
    pub ready: i32,
    /// Version of the product that it runs; absent while it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
