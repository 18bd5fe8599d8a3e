//! `metallb.io/v1beta1`.

mod configuration_state;
mod ip_address_pool;
mod l2_advertisement;
mod metallb;
mod service_l2_status;

pub use configuration_state::{ConfigurationResult, ConfigurationState, ConfigurationStateStatus};
pub use ip_address_pool::{IPAddressPool, IPAddressPoolSpec, IPAddressPoolStatus, ServiceAllocation};
pub use l2_advertisement::{L2Advertisement, L2AdvertisementSpec, L2AdvertisementStatus, PreferredNode};
pub use metallb::{FrrK8sConfig, LogLevel, MetalLB, MetalLBSpec, MetalLBStatus, WorkloadConfig};
pub use service_l2_status::{
    ServiceL2InterfaceStatus, ServiceL2Status, ServiceL2StatusSpec, ServiceL2StatusStatus,
};

/// Implements what Kubernetes clients need to know of a namespaced kind. Written by hand rather than
/// derived because `spec` is optional in several kinds: an object without one must still be read.
macro_rules! namespaced_kind {
    ($kind:ident, $plural:literal) => {
        impl kube::core::Resource for $kind {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                crate::well_known::GROUP.into()
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                "v1beta1".into()
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl Default for $kind {
            fn default() -> Self {
                Self {
                    types: kube::core::TypeMeta::resource::<Self>(),
                    metadata: Default::default(),
                    spec: Default::default(),
                    status: Default::default(),
                }
            }
        }
    };
}
pub(crate) use namespaced_kind;
