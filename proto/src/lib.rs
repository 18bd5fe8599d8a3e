//! Network protocols of FerroLB as plain values: packets, and machines that turn packets and time
//! into packets and events. Nothing here reads a clock, opens a socket, logs or knows Kubernetes,
//! so every law can be tested with bytes and a made-up time.
//!
//! | module | what it decides |
//! |---|---|
//! | [`ethernet`] | MAC addresses, frame headers, the fixed-size [`Frame`](ethernet::Frame) every answer is built in |
//! | [`arp`] | which ARP request gets which answer (IPv4) |
//! | [`ndp`] | which Neighbor Solicitation gets which answer (IPv6) |
//! | [`conflict`] | which addresses one link owns: asks the wire before it takes one, defends, yields, hands over |
//! | [`announcer`] | when one link tells its neighbours about the addresses it owns |
//! | [`answer`] | the outcome of a received frame: a [`Reply`](answer::Reply) or why it was [`Ignored`](answer::Ignored) |
//! | [`bgp`] | messages, values and the session of BGP |
//! | [`bfd`] | packets and the session of BFD: whether a router can still be reached |
//! | [`decode`] | what a captured frame says, for recorders |
//! | [`error`] | what is wrong with received bytes, and where |
//!
//! # The contract of a machine
//!
//! A machine has inherent methods and no trait: `handle_input(now, input)` takes what happened,
//! `handle_timeout(now)` takes the time (early or repeated calls are harmless), `next_timeout()`
//! says when to call it next, and `poll_output()` yields the ordered effects; whoever drives the
//! machine drains it after each of the other calls.

pub mod announcer;
pub mod answer;
pub mod arp;
pub mod bfd;
pub mod bgp;
pub mod conflict;
pub mod decode;
pub mod error;
pub mod ethernet;
mod jitter;
pub mod ndp;
mod reader;
#[cfg(test)]
mod testing;
