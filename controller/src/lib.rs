//! The controller: gives Services of type LoadBalancer addresses from pools.
//!
//! ```text
//! Service, IPAddressPool, L2Advertisement, Namespace, Node ─watch→ stores
//!    stores + own writes (assumed) ─→ compile ─→ allocate ─→ outcomes          pure
//!    outcomes ─→ writer: Service status, under the Lease                       one writer each
//!             ─→ reporter: Events        ─→ pool status, ConfigurationState
//! ```

mod args;
mod assumed;
mod metrics;
mod reconcile;
mod reporter;
mod run;
mod states;
mod writer;

pub use args::Args;
pub use run::run;
