//! The operator: one `MetalLB` object in, the installed product out.
//!
//! ```text
//! watches → Reconciler::pass ─┬ platform  what is there, and the writes (the only I/O)
//!                             ├ render    what must be there (pure)
//!                             ├ drift     the difference (pure)
//!                             ├ gate      when the next speaker may be replaced (pure)
//!                             └ status    what to say of it (pure)
//! ```

pub mod drift;
mod gate;
pub mod image;
mod managers;
mod memberlist;
mod metrics;
mod platform;
mod reach;
mod reconcile;
pub mod render;
mod run;
pub mod status;
mod verify;
mod write;

pub use run::{Args, run};

/// Version of the product, as image tags and labels spell it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
