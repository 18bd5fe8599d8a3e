//! BFD profiles: how fast a session notices that its neighbour is gone.

use std::time::Duration;

/// A BFD profile in force, with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BfdProfile {
    /// Its name.
    pub name: String,
    /// Shortest interval between packets that we can receive.
    pub receive_interval: Duration,
    /// Shortest interval at which we want to send.
    pub transmit_interval: Duration,
    /// Missed packets after which the neighbour is gone, 2 to 255.
    pub detect_multiplier: u8,
    /// Shortest interval between echo packets that we can send back.
    pub echo_interval: Duration,
    /// Whether echo packets are sent (IPv4 only).
    pub echo_mode: bool,
    /// Whether we wait for the neighbour's first packet.
    pub passive_mode: bool,
    /// Lowest TTL of a packet that counts, on sessions over several hops.
    pub minimum_ttl: Option<u8>,
}

impl BfdProfile {
    /// Unless the profile says otherwise, in milliseconds.
    const INTERVAL: Duration = Duration::from_millis(300);
    const ECHO_INTERVAL: Duration = Duration::from_millis(50);
    const DETECT_MULTIPLIER: u8 = 3;

    /// The profile that says nothing.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            receive_interval: Self::INTERVAL,
            transmit_interval: Self::INTERVAL,
            detect_multiplier: Self::DETECT_MULTIPLIER,
            echo_interval: Self::ECHO_INTERVAL,
            echo_mode: false,
            passive_mode: false,
            minimum_ttl: None,
        }
    }
}
