//! `metallb.io/v1beta2`: what has outgrown `v1beta1`.

mod bgp_peer;

pub use bgp_peer::{BGPPeer, BGPPeerSpec, BGPPeerStatus};
