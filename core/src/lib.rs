//! The decisions of FerroLB, as functions over plain values: no clock, socket, client or log.
//!
//! ```text
//! Resources ──compile──▶ Config + diagnostics          config, admission, status
//! Config + LoadBalancers + Held ──allocate──▶ outcomes   allocator        (controller)
//! Config + LoadBalancers + members ──plan──▶ plans, claims, routes            planner   (speaker)
//! all of these, as the API server shows them ──explain──▶ why a Service is (not) reached   explain   (cli)
//! ```
//!
//! A refusal is a value: [`allocator::Refusal`] says why an address was not given,
//! [`planner::Withheld`] why a node does not announce. Their texts are MetalLB's.

pub mod admission;
pub mod allocator;
pub mod config;
pub mod departure;
mod duration;
pub mod explain;
pub mod node;
pub mod planner;
pub mod resources;
pub mod selector;
pub mod service;
pub mod status;
#[doc(hidden)]
pub mod testing;
mod text;
