//! How speakers learn which of them live: what a `MetalLB` object or the speaker's flags say of it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How speakers learn which of them live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MembershipConfig {
    /// gossip: from each other, by UDP on port 7946, within a second and without the API server.
    /// lease: by a Lease of each node, where that port is closed. Default gossip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<MembershipMode>,
    /// A node whose Lease was not renewed for so long is dead. Default 15s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_duration: Option<String>,
    /// A node whose Lease was not renewed for so long is suspected: the next in turn asks the network for its
    /// addresses, and takes those that nobody answers for. Default 5s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_deadline: Option<String>,
    /// How often each node renews its Lease. Default 2s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_period: Option<String>,
}

/// A way to learn who lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MembershipMode {
    /// From each other.
    #[default]
    Gossip,
    /// By a Lease of each node.
    Lease,
}

/// Times of the membership by Leases: the duration is longer than the deadline, and a deadline has room for
/// one renewal that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl LeaseTimes {
    /// Reads them, where they are given.
    pub fn new(
        duration: Option<&str>,
        renew_deadline: Option<&str>,
        retry_period: Option<&str>,
    ) -> Result<Self, LeaseTimesError> {
        let read = |field: &'static str, text: Option<&str>, default: Duration| {
            text.map_or(Ok(default), |text| match text.parse::<kube::core::Duration>() {
                Ok(duration) if !duration.is_negative() => Ok(Duration::from(duration)),
                Ok(_) | Err(_) => Err(LeaseTimesError::Unreadable { field, text: text.to_owned() }),
            })
        };
        let times = Self {
            duration: read("leaseDuration", duration, Duration::from_secs(15))?,
            renew_deadline: read("renewDeadline", renew_deadline, Duration::from_secs(5))?,
            retry_period: read("retryPeriod", retry_period, Duration::from_secs(2))?,
        };
        if times.duration < Duration::from_secs(1) {
            Err(LeaseTimesError::ShortDuration)
        } else if times.duration <= times.renew_deadline {
            Err(LeaseTimesError::LateDeadline)
        } else if times.retry_period < Duration::from_millis(100) {
            Err(LeaseTimesError::ShortPeriod)
        } else if times.renew_deadline < times.retry_period * 2 {
            Err(LeaseTimesError::LongPeriod)
        } else {
            Ok(times)
        }
    }

    /// How long a Lease lasts after a renewal was seen.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How long after a renewal the next may take until its node is suspected.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The pause between renewals.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }
}

impl MembershipConfig {
    /// The times; said or not, they must be such as can be.
    pub fn lease_times(&self) -> Result<LeaseTimes, LeaseTimesError> {
        let [duration, deadline, period] =
            [&self.lease_duration, &self.renew_deadline, &self.retry_period].map(|it| it.as_deref());
        LeaseTimes::new(duration, deadline, period)
    }
}

/// Times by which nobody could live.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseTimesError {
    /// No duration.
    #[error("{field}: {text:?} is no duration: write for example 15s or 200ms")]
    Unreadable {
        /// Which of them.
        field: &'static str,
        /// What it says.
        text: String,
    },
    /// Leases count whole seconds.
    #[error("leaseDuration must be 1s or longer")]
    ShortDuration,
    /// Who is dead was suspected before.
    #[error("leaseDuration must be longer than renewDeadline")]
    LateDeadline,
    /// Each renewal is a write.
    #[error("retryPeriod must be 100ms or longer")]
    ShortPeriod,
    /// One renewal that is late is no reason for suspicion.
    #[error("renewDeadline must be twice the retryPeriod or longer")]
    LongPeriod,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_can_be_and_those_that_cannot() {
        let config = |duration: &str, deadline: &str, period: &str| {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            MembershipConfig {
                mode: Some(MembershipMode::Lease),
                lease_duration: given(duration),
                renew_deadline: given(deadline),
                retry_period: given(period),
            }
        };
        let times = |duration, deadline, period| config(duration, deadline, period).lease_times();
        let millis = |times: LeaseTimes| {
            [times.duration(), times.renew_deadline(), times.retry_period()].map(|it| it.as_millis())
        };
        assert_eq!(times("", "", "").map(millis), Ok([15_000, 5000, 2000]));
        assert_eq!(times("3s", "1s", "200ms").map(millis), Ok([3000, 1000, 200]));
        for (duration, deadline, period, wrong) in [
            ("soon", "", "", "leaseDuration: \"soon\" is no duration: write for example 15s or 200ms"),
            ("", "5", "", "renewDeadline: \"5\" is no duration: write for example 15s or 200ms"),
            ("", "", "-1s", "retryPeriod: \"-1s\" is no duration: write for example 15s or 200ms"),
            ("900ms", "", "", "leaseDuration must be 1s or longer"),
            ("5s", "", "", "leaseDuration must be longer than renewDeadline"),
            ("", "", "0s", "retryPeriod must be 100ms or longer"),
            ("", "", "2600ms", "renewDeadline must be twice the retryPeriod or longer"),
        ] {
            assert_eq!(times(duration, deadline, period).unwrap_err().to_string(), wrong);
        }
    }
}
