//! The operator: one `MetalLB` object in, the installed product out.
//!
//! [`render`] (pure) says what must exist; [`status`] (pure) says what to tell the administrator of
//! what does exist. Everything else is the shell around these two.

pub mod drift;
pub mod image;
pub mod render;
pub mod status;

/// Version of the product, as image tags and labels spell it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
