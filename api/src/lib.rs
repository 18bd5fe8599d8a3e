//! The Kubernetes API of FerroLB: its custom resources as Rust types, the CustomResourceDefinitions
//! made from those types, and every well-known name.
//!
//! The API is MetalLB's (group `metallb.io`, same names, fields, defaults and rules), so that a
//! MetalLB user changes nothing; what goes beyond it is in the group `ferrolb.io`. This crate decides nothing: it is data and its schema.

pub mod conversion;
mod crd;
mod kind;
mod schema;
pub mod v1alpha1;
pub mod v1beta1;
pub mod v1beta2;
pub mod well_known;

pub use crd::{CRDS_IN_APPLY_ORDER, crds};
