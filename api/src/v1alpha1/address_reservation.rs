//! `AddressReservation`: which addresses are kept for whom, and how many a namespace may have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::TypeMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keeps addresses of pools for one Service, for the Services of one namespace or for nobody, and limits how
/// many addresses the Services of a namespace may have. What a Service holds already is never taken away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddressReservation {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the administrator wants.
    pub spec: AddressReservationSpec,
    /// Empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AddressReservationStatus>,
}
crate::kind::namespaced_kind!(
    AddressReservation,
    crate::well_known::ADDED_GROUP,
    "v1alpha1",
    "addressreservations"
);

/// What is reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressReservationSpec {
    /// Addresses of pools: single ones ("192.168.10.5"), CIDRs ("192.168.10.0/28") or ranges
    /// ("192.168.10.5-192.168.10.9"). They are given to the one that is named below and to nobody else; where
    /// nobody is named, to nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The Service that the addresses are for, whether it exists or not. It is given one of them whenever it asks
    /// for nothing else, before any other address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ReservedService>,
    /// The namespace whose Services the addresses are for. They are given these addresses first, pool by pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How many addresses the Services of a namespace may have. Where several objects limit one namespace the
    /// lowest limit counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<AddressQuota>,
}

/// A Service by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReservedService {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
}

/// How many addresses the Services of a namespace may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressQuota {
    /// The namespace.
    pub namespace: String,
    /// Different addresses of both families together; one that Services share counts once.
    #[schemars(range(min = 0))]
    pub max_addresses: i64,
}

/// Empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressReservationStatus {}
