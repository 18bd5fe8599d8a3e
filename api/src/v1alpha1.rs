//! Group `ferrolb.io`: what MetalLB does not have.

mod address_reservation;
mod bgp_session;

pub use address_reservation::{
    AddressQuota, AddressReservation, AddressReservationSpec, AddressReservationStatus, ReservedService,
};
pub use bgp_session::{BGPSession, BGPSessionNegotiated, BGPSessionState, BGPSessionStatus};
