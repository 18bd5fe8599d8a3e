//! `IPAddressPool`: addresses that Services may be given.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of addresses for Services of type LoadBalancer. Honoured in the namespace of the product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IPAddressPool {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    #[serde(default)]
    pub spec: IPAddressPoolSpec,
    /// What the controller counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<IPAddressPoolStatus>,
}
crate::kind::namespaced_kind!(IPAddressPool, "v1beta1", "ipaddresspools");

/// Which addresses the pool holds and who may have them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressPoolSpec {
    /// Addresses of the pool: CIDR prefixes ("192.168.10.0/24", "fd00:10::/120") or inclusive ranges
    /// ("192.168.10.200-192.168.10.220"), IPv4 and IPv6 alike. They are given in this order.
    pub addresses: Vec<String>,
    /// Whether Services that ask for nothing in particular may be given addresses of this pool. Default true;
    /// false: only those that ask for the pool or for an address of it.
    #[serde(default = "enabled")]
    pub auto_assign: bool,
    /// Never give IPv4 addresses that end in .0 or .255, which some old network equipment drops. Default false.
    #[serde(default, rename = "avoidBuggyIPs")]
    pub avoid_buggy_ips: bool,
    /// Restricts the pool to some namespaces or Services and ranks it among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_allocation: Option<ServiceAllocation>,
}

fn enabled() -> bool {
    true
}

impl Default for IPAddressPoolSpec {
    fn default() -> Self {
        Self { addresses: Vec::new(), auto_assign: true, avoid_buggy_ips: false, service_allocation: None }
    }
}

/// Who may have addresses of a pool. Namespaces and selectors are alternatives of each other within a
/// list; the two kinds of restriction must both hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAllocation {
    /// Order among the pools that a Service may be given automatically: lower first; 0 or unset (the
    /// default) last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>", extend("format" = null))]
    pub priority: Option<i64>,
    /// Names of namespaces whose Services may have addresses of this pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Namespaces by label, in addition to `namespaces`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub namespace_selectors: Vec<LabelSelector>,
    /// Services by label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::label_selectors")]
    pub service_selectors: Vec<LabelSelector>,
}

/// Usage of the pool, counted in distinct addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IPAddressPoolStatus {
    /// IPv4 addresses in use.
    #[serde(rename = "assignedIPv4")]
    pub assigned_ipv4: i64,
    /// IPv6 addresses in use.
    #[serde(rename = "assignedIPv6")]
    pub assigned_ipv6: i64,
    /// Usable IPv4 addresses that nobody has.
    #[serde(rename = "availableIPv4")]
    pub available_ipv4: i64,
    /// Usable IPv6 addresses that nobody has.
    #[serde(rename = "availableIPv6")]
    pub available_ipv6: i64,
}
