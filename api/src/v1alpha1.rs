//! Group `ferrolb.io`: what MetalLB does not have.

mod address_reservation;

pub use address_reservation::{
    AddressQuota, AddressReservation, AddressReservationSpec, AddressReservationStatus, ReservedService,
};
