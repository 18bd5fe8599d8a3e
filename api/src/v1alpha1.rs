//! `ferrolb.io/v1alpha1`: what MetalLB does not have.

mod bgp_session;

pub use bgp_session::{BGPSession, BGPSessionNegotiated, BGPSessionState, BGPSessionStatus};
