//! What a pass decided, by Service.

use std::sync::Arc;

use super::{Assignment, Event, Refusal, StatusWrite};
use crate::service::ServiceKey;

/// What a pass decided for one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What it holds from now on.
    pub assignment: Option<Assignment>,
    /// Why it does not have (all of) what it asks for.
    pub refusal: Option<Refusal>,
    /// What must be written for that, if anything.
    pub write: Option<StatusWrite>,
    /// What to tell its owner. The same on every pass while nothing changes.
    pub events: Vec<Event>,
}

/// Outcomes in the order of the keys. Each pass makes them all anew, so they are one piece of memory.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(Vec<(Arc<ServiceKey>, Outcome)>);

impl Outcomes {
    /// From what is in the order of the keys already.
    pub(super) fn in_order(outcomes: Vec<(Arc<ServiceKey>, Outcome)>) -> Self {
        Self(outcomes)
    }

    /// That of a Service.
    pub fn get(&self, service: &ServiceKey) -> Option<&Outcome> {
        let place = self.0.binary_search_by(|(key, _)| (**key).cmp(service)).ok()?;
        self.0.get(place).map(|(_, outcome)| outcome)
    }

    /// All, each with its Service.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<ServiceKey>, &Outcome)> {
        self.0.iter().map(|(key, outcome)| (key, outcome))
    }

    /// All.
    pub fn values(&self) -> impl Iterator<Item = &Outcome> {
        self.0.iter().map(|(_, outcome)| outcome)
    }
}
