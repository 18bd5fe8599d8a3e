//! BFD profiles: how fast a session notices that its neighbour is gone.

use std::time::Duration;

use ferrolb_api::v1beta1::{BFDProfile, BFDProfileSpec};

use super::diagnostic::{BfdField, BfdProblem};
use super::selectors::Finding;

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
    // Unless the profile says otherwise.
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

/// The profile, and everything that is wrong with it.
pub(super) fn parse(profile: &BFDProfile) -> (BfdProfile, Vec<Finding<BfdProblem>>) {
    let name = profile.metadata.name.clone().unwrap_or_default();
    let mut findings = Vec::new();
    if name.is_empty() {
        findings.push(("metadata.name".to_owned(), BfdProblem::MissingName));
    }
    let BFDProfileSpec { receive_interval, transmit_interval, detect_multiplier, .. } = profile.spec;
    let BFDProfileSpec { echo_interval, echo_mode, passive_mode, minimum_ttl, .. } = profile.spec;
    let mut checked = |field: BfdField, value: Option<u32>| {
        let (min, max) = field.bounds();
        let value = value?;
        if (min..=max).contains(&value) {
            return Some(value);
        }
        findings.push((format!("spec.{}", field.name()), BfdProblem::OutOfRange { field, value }));
        None
    };
    let multiplier = checked(BfdField::DetectMultiplier, detect_multiplier);
    let receive = checked(BfdField::ReceiveInterval, receive_interval);
    let transmit = checked(BfdField::TransmitInterval, transmit_interval);
    let ttl = checked(BfdField::MinimumTtl, minimum_ttl);
    let echo = checked(BfdField::EchoInterval, echo_interval);
    let millis = |value: u32| Duration::from_millis(value.into());
    let byte = |value: u32| u8::try_from(value).ok();
    let defaults = BfdProfile::named(&name);
    let parsed = BfdProfile {
        receive_interval: receive.map_or(defaults.receive_interval, millis),
        transmit_interval: transmit.map_or(defaults.transmit_interval, millis),
        detect_multiplier: multiplier.and_then(byte).unwrap_or(defaults.detect_multiplier),
        echo_interval: echo.map_or(defaults.echo_interval, millis),
        echo_mode: echo_mode.unwrap_or_default(),
        passive_mode: passive_mode.unwrap_or_default(),
        minimum_ttl: ttl.and_then(byte),
        ..defaults
    };
    (parsed, findings)
}
