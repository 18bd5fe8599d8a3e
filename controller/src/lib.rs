//! The controller: gives Services of type LoadBalancer addresses from pools.
//!
//! ```text
//! Service, IPAddressPool, L2Advertisement, Namespace ─watch→ stores
//!    stores + own writes (assumed) + rivals ─→ compile ─→ allocate ─→ outcomes   pure
//!    outcomes ─→ writer: Service status, under the Lease                         one writer each
//!             ─→ reporter: Events        ─→ pool status, ConfigurationState
//! ```

mod args;
mod arrivals;
mod assumed;
mod barrier;
mod metrics;
mod pool_status;
mod postponed;
mod publish;
mod reconcile;
mod reporter;
mod rivals;
mod run;
mod states;
mod stored;
#[cfg(test)]
mod testing;
mod untold;
mod view;
mod writer;

pub use args::Args;
pub use run::run;
