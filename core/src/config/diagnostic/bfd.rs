//! What can be wrong with a BFD profile.

use std::fmt;

use super::{Name, Problem, Severity};

/// What can be wrong with a BFD profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BfdProblem {
    /// It has no name.
    MissingName,
    /// A number is too small or too large.
    OutOfRange {
        /// Which.
        field: BfdField,
        /// What it is.
        value: u32,
    },
}

/// A number in a BFD profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BfdField {
    /// `detectMultiplier`
    DetectMultiplier,
    /// `receiveInterval`
    ReceiveInterval,
    /// `transmitInterval`
    TransmitInterval,
    /// `minimumTtl`
    MinimumTtl,
    /// `echoInterval`
    EchoInterval,
}

impl BfdField {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::DetectMultiplier => "detectMultiplier",
            Self::ReceiveInterval => "receiveInterval",
            Self::TransmitInterval => "transmitInterval",
            Self::MinimumTtl => "minimumTtl",
            Self::EchoInterval => "echoInterval",
        }
    }

    /// What it may be.
    pub fn bounds(self) -> (u32, u32) {
        match self {
            Self::DetectMultiplier => (2, 255),
            Self::ReceiveInterval | Self::TransmitInterval | Self::EchoInterval => (10, 60_000),
            Self::MinimumTtl => (1, 254),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::DetectMultiplier => "detect multiplier",
            Self::ReceiveInterval => "receive interval",
            Self::TransmitInterval => "transmit interval",
            Self::MinimumTtl => "minimum ttl",
            Self::EchoInterval => "echo interval",
        }
    }
}

impl Problem for BfdProblem {
    fn severity(&self) -> Severity {
        Severity::Invalid
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        match self {
            Self::MissingName => f.write_str("missing bfd profile name"),
            Self::OutOfRange { field, value } => {
                let ((min, max), words) = (field.bounds(), field.words());
                write!(
                    f,
                    "parsing bfd profile {}: invalid value {value}, must be in {min}-{max} range\ninvalid {words} value",
                    of.name
                )
            }
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::MissingName => "give the profile a name".into(),
            Self::OutOfRange { field, .. } => {
                let (min, max) = field.bounds();
                format!("set {} to a number from {min} to {max}", field.name())
            }
        }
    }
}
