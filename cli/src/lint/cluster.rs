//! The configuration that a cluster holds.

use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1 as api;
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::resources::Resources;
use k8s_openapi::api::core::v1::{Namespace, Node};

use crate::cluster::{Access, Objects};

/// The kinds of the configuration.
pub(crate) const CONFIGURATION: [&str; 7] = [
    "ipaddresspools.v1beta1.metallb.io",
    "addressreservations.v1alpha1.ferrolb.io",
    "l2advertisements.v1beta1.metallb.io",
    "bgpadvertisements.v1beta1.metallb.io",
    "bgppeers.v1beta2.metallb.io",
    "bfdprofiles.v1beta1.metallb.io",
    "communities.v1beta1.metallb.io",
];
/// The kinds that it is about.
pub(crate) const SURROUNDINGS: [&str; 2] = ["nodes", "namespaces"];

/// The configuration in `namespace`, and what it is about.
pub(crate) fn read(access: &Access, namespace: &str) -> anyhow::Result<Resources> {
    let own = access.mixed(&CONFIGURATION, Some(namespace))?;
    resources(&own, &access.mixed(&SURROUNDINGS, None)?)
}

/// The configuration among objects of the product's namespace and of the cluster.
pub(crate) fn resources(own: &Objects, all: &Objects) -> anyhow::Result<Resources> {
    Ok(Resources::default()
        .with_pools(own.of::<api::IPAddressPool>("IPAddressPool")?)
        .with_reservations(own.of::<AddressReservation>("AddressReservation")?)
        .with_l2_advertisements(own.of::<api::L2Advertisement>("L2Advertisement")?)
        .with_bgp_advertisements(own.of::<api::BGPAdvertisement>("BGPAdvertisement")?)
        .with_bgp_peers(own.of::<BGPPeer>("BGPPeer")?)
        .with_bfd_profiles(own.of::<api::BFDProfile>("BFDProfile")?)
        .with_communities(own.of::<api::Community>("Community")?)
        .with_nodes(all.of::<Node>("Node")?)
        .with_namespaces(all.of::<Namespace>("Namespace")?))
}
