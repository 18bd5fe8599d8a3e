//! What is known of the other side.

use std::time::Duration;

use crate::bfd::packet::{ControlPacket, Discriminator, State};

/// The `Remote…` variables of RFC 5880 §6.8.1, and what its last packet said besides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remote {
    pub(super) discriminator: Option<Discriminator>,
    pub(super) state: State,
    pub(super) desired_min_tx: Duration,
    pub(super) required_min_rx: Duration,
    pub(super) required_min_echo_rx: Duration,
    pub(super) detect_mult: u8,
    pub(super) demand: bool,
}

/// Before anything was heard.
impl Default for Remote {
    fn default() -> Self {
        Self {
            discriminator: None,
            state: State::Down,
            desired_min_tx: Duration::ZERO,
            // It may be asked at any pace.
            required_min_rx: Duration::from_micros(1),
            required_min_echo_rx: Duration::ZERO,
            detect_mult: 0,
            demand: false,
        }
    }
}

impl Remote {
    pub(super) fn of(packet: &ControlPacket) -> Self {
        Self {
            discriminator: Some(packet.my_discriminator),
            state: packet.state,
            desired_min_tx: packet.desired_min_tx,
            required_min_rx: packet.required_min_rx,
            required_min_echo_rx: packet.required_min_echo_rx,
            detect_mult: packet.detect_mult.get(),
            demand: packet.demand,
        }
    }
}
