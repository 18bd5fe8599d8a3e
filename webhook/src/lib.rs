//! The admission front door of FerroLB's configuration: it answers the API server's reviews with what
//! `ferrolb-core` decides, and looks after the certificate that makes the API server believe it.
//!
//! ```text
//! API ─review→ server ─ review::<K> ─ Existing (live list, else Store) → core::admission → allow | deny | warn
//!     └─convert→ server ─ convert → api::conversion → the objects in the other version
//! Secret        ─watch→ certificate: decide() → offer, or a write that heals the Secret
//! files         ─read→  files                 → offer (certificates of others)
//! offer, what is registered → presenter: decide() → served certificate, readiness
//! Configuration ─watch→ registration: plan()  → server-side apply of caBundle alone
//! BGPPeer's CRD ─watch→ registration::conversion: plan() → server-side apply of its conversion alone
//! ```
//!
//! Nothing is kept: any number of replicas may run side by side, all with the certificate of the one
//! Secret.

mod args;
mod certificate;
mod convert;
mod existing;
mod files;
mod metrics;
mod parting;
mod presenter;
mod registration;
mod review;
mod run;
mod server;

pub use args::Args;
pub use run::run;
