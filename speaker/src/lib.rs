//! The speaker: one on each node, it announces the addresses of Services of type LoadBalancer.
//!
//! ```text
//! API server ─watch─> stores ─┐
//! UDP ─> members ─────────────┼─> agent ─┬─ watch<OwnedAddresses> ─> layer2 ─ a task a link ─> ARP, NDP
//! netlink ─> links ───────────┤          ├─ watch<Peers> ─> bgp ─ a task a peer ─> BGP
//!            secrets ─────────┘          │                └───> bfd ─ one thread ─> BFD; watch<Reachable> ─> bgp
//!                                        └─ watch<Report> ─> status ─> API server
//! ```
//!
//! Decisions are made elsewhere: what is announced by `ferrolb-core`, which frames are sent by
//! `ferrolb-proto`. State flows through `watch` channels, of which the latest value counts; there is no
//! queue to fall behind.

pub mod agent;
pub mod args;
pub mod bfd;
pub mod bgp;
mod departure;
pub mod layer2;
pub mod links;
pub mod members;
pub mod metrics;
mod packet_socket;
mod run;
pub mod secrets;
pub mod status;
pub mod stores;
mod sys;
#[cfg(test)]
mod testing;
mod thread;

pub use run::run;
