//! The configuration that a cluster holds.

use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::resources::Resources;
use k8s_openapi::api::core::v1::{Namespace, Node};

use crate::cluster::Access;

/// The configuration in `namespace`, and what it is about.
pub(crate) fn read(access: &Access, namespace: &str) -> anyhow::Result<Resources> {
    let own = Some(namespace);
    Ok(Resources::default()
        .with_pools(access.list::<IPAddressPool>("ipaddresspools.v1beta1.metallb.io", own)?)
        .with_reservations(access.list::<AddressReservation>("addressreservations.v1alpha1.ferrolb.io", own)?)
        .with_l2_advertisements(access.list::<L2Advertisement>("l2advertisements.v1beta1.metallb.io", own)?)
        .with_bgp_advertisements(
            access.list::<BGPAdvertisement>("bgpadvertisements.v1beta1.metallb.io", own)?,
        )
        .with_bgp_peers(access.list::<BGPPeer>("bgppeers.v1beta2.metallb.io", own)?)
        .with_bfd_profiles(access.list::<BFDProfile>("bfdprofiles.v1beta1.metallb.io", own)?)
        .with_communities(access.list::<Community>("communities.v1beta1.metallb.io", own)?)
        .with_nodes(access.list::<Node>("nodes", None)?)
        .with_namespaces(access.list::<Namespace>("namespaces", None)?))
}
