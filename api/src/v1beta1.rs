//! `metallb.io/v1beta1`.

mod bfd_profile;
mod bgp_advertisement;
mod bgp_peer;
mod community;
mod configuration_state;
mod ip_address_pool;
mod l2_advertisement;
mod membership;
mod metallb;
mod service_bgp_status;
mod service_l2_status;

pub use bfd_profile::{BFDProfile, BFDProfileSpec, BFDProfileStatus};
pub use bgp_advertisement::{BGPAdvertisement, BGPAdvertisementSpec, BGPAdvertisementStatus};
pub use bgp_peer::{BGPPeer, BGPPeerSpec, BGPPeerStatus, MatchExpression, NodeSelector};
pub use community::{Community, CommunityAlias, CommunitySpec, CommunityStatus};
pub use configuration_state::{ConfigurationResult, ConfigurationState, ConfigurationStateStatus};
pub use ip_address_pool::{IPAddressPool, IPAddressPoolSpec, IPAddressPoolStatus, ServiceAllocation};
pub use l2_advertisement::{L2Advertisement, L2AdvertisementSpec, L2AdvertisementStatus, PreferredNode};
pub use membership::{LeaseTimes, LeaseTimesError, MembershipConfig, MembershipMode};
pub use metallb::{
    ComponentStatus, FrrK8sConfig, LogLevel, MetalLB, MetalLBSpec, MetalLBStatus, MetricsConfig,
    NetworkPolicies, TlsConfig, TlsVersion, WorkloadConfig,
};
pub use service_bgp_status::{ServiceBGPStatus, ServiceBGPStatusSpec, ServiceBGPStatusStatus};
pub use service_l2_status::{
    ServiceL2InterfaceStatus, ServiceL2Status, ServiceL2StatusSpec, ServiceL2StatusStatus,
};
