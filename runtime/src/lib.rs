//! What every process of FerroLB needs once, and nothing of what any of them decides.
//!
//! ```text
//! main()  ─ process::main ─ arguments, logs, TLS provider, client, signals
//!              │
//!              ├─ admin: /healthz /livez /readyz (HTTP) · /metrics /log-level (HTTPS, authorised)
//!              └─ run(args, process)
//!                    watch::Watches ─ Store<K>, one `Changed` for all of them
//!                    lease::Lease   ─ at most one writer
//!                    write          ─ server-side apply and status patches, bounded in time
//!                    event          ─ core/v1 Events
//!                    latest         ─ channels of which the latest value counts
//!                    tls            ─ authority, serving certificates, HTTPS server
//! ```

pub mod admin;
pub mod args;
pub mod event;
pub mod keep;
pub mod latest;
pub mod lease;
pub mod log;
mod metrics;
pub mod process;
pub mod readiness;
pub mod shutdown;
pub mod tls;
pub mod watch;
pub mod write;

pub use args::CommonArgs;
pub use process::{Process, main};
pub use readiness::Readiness;
pub use shutdown::Shutdown;
