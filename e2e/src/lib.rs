//! The lab: a real Kubernetes in network namespaces of this machine, with a router, a client and a
//! registry, for people and for the tests of the whole product.
//!
//! ```text
//!                 bridge br0 in namespace `lan` (192.168.10.0/24, fd00:10::/64)
//!   ┌──────────────┬────────────┬────────────┬──────────┬──────────┬──────────┐
//! k8s-master-1  k8s-node-1  k8s-node-2    router     client    registry   this machine
//!   .17           .20         .21          .1         .50        .5        .254 (flb0)
//! ```
//!
//! Each host is a set of namespaces (network, mounts, pids, host name) with a first process of its
//! own ([`keeper`]); all are children of the lab's first process, so the kernel ends everything with
//! it. What runs on the hosts is in `cluster` (pure), what is done with it in [`lab`], [`host`] and
//! `faults`.

mod cable;
mod cgroups;
pub mod cli;
mod cluster;
mod down;
pub mod error;
mod faults;
pub mod host;
mod host_files;
pub mod image;
pub mod keeper;
pub mod lab;
pub mod layout;
mod lock;
mod namespaces;
mod network;
mod pki;
mod preflight;
pub mod process;
pub mod product;
pub mod progress;
mod state;
mod status;
pub mod topology;
mod up;
pub mod wire;

pub use cable::Cable;
pub use error::{LabError, Result};
pub use host::Host;
pub use lab::Lab;
pub use lock::Lock;
pub use wire::Wire;
