//! Builders of objects about BGP.

use std::collections::BTreeMap;

use ferrolb_api::v1beta1::{
    BFDProfile, BFDProfileSpec, BGPAdvertisement, BGPAdvertisementSpec, Community, CommunityAlias,
    CommunitySpec,
};
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use k8s_openapi::api::core::v1::Secret;

use super::metadata;

/// A peer of AS 200 at this address, seen from AS 100.
pub fn bgp_peer(name: &str, address: &str) -> BGPPeer {
    peer_with(name, BGPPeerSpec { peer_address: Some(address.to_owned()), ..peer_spec() })
}

/// What [`bgp_peer`] says, without the address.
pub fn peer_spec() -> BGPPeerSpec {
    BGPPeerSpec { my_asn: 100, peer_asn: Some(200), ..Default::default() }
}

/// A peer.
pub fn peer_with(name: &str, spec: BGPPeerSpec) -> BGPPeer {
    let mut metadata = metadata(name);
    metadata.namespace = Some("metallb-system".to_owned());
    BGPPeer { metadata, spec, ..Default::default() }
}

/// A BGP advertisement.
pub fn bgp_advertisement(name: &str, spec: BGPAdvertisementSpec) -> BGPAdvertisement {
    BGPAdvertisement { metadata: metadata(name), spec, ..Default::default() }
}

/// A BFD profile.
pub fn bfd_profile(name: &str, spec: BFDProfileSpec) -> BFDProfile {
    BFDProfile { metadata: metadata(name), spec, ..Default::default() }
}

/// Aliases of communities.
pub fn community(name: &str, aliases: &[(&str, &str)]) -> Community {
    let alias = |(name, value): &(&str, &str)| CommunityAlias {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    let spec = CommunitySpec { communities: aliases.iter().map(alias).collect() };
    Community { metadata: metadata(name), spec, ..Default::default() }
}

/// A Secret of a type, with texts.
pub fn secret(name: &str, type_: &str, texts: &[(&str, &str)]) -> Secret {
    let texts: BTreeMap<String, String> = super::labels(texts);
    Secret {
        metadata: metadata(name),
        type_: Some(type_.to_owned()),
        string_data: Some(texts),
        ..Default::default()
    }
}
