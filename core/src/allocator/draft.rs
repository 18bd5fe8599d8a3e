//! What a pass decides of one Service, and the write and the Events that follow.

use std::sync::Arc;

use ferrolb_api::well_known::service_condition;

use super::held::Known;
use super::{Assignment, Event, Outcome, Refusal, StatusWrite};
use crate::service::{AddressAssigned, LoadBalancer};

/// What is decided of a Service so far.
pub(super) struct Draft<'a> {
    pub(super) service: &'a LoadBalancer,
    pub(super) next: Next,
    pub(super) known: Known<'a>,
    pub(super) assignment: Option<Assignment>,
    pub(super) refusal: Option<Refusal>,
    pub(super) events: Vec<Event>,
    /// Whether its status is not to be touched.
    pub(super) hands_off: bool,
}

/// What the second half is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Look for an address of the other family.
    Complete,
    /// Look for addresses.
    Allocate,
}

impl<'a> Draft<'a> {
    pub(super) fn new(service: &'a LoadBalancer, known: Known<'a>) -> Self {
        let (assignment, refusal, events) = (None, None, Vec::new());
        Self { service, known, next: Next::Nothing, assignment, refusal, events, hands_off: false }
    }

    pub(super) fn refused(mut self, refusal: Refusal) -> Self {
        self.refusal = Some(refusal);
        self
    }

    pub(super) fn outcome(self) -> Outcome {
        let Self { service, known, assignment, refusal, mut events, hands_off, .. } = self;
        let written = known.written;
        let shown = written.map_or(service.condition.as_ref(), |it| it.condition.as_ref());
        let condition = condition(service, assignment.as_ref(), refusal.as_ref(), shown.is_some());
        let done = match written {
            Some(written) => written.assignment == assignment,
            None => {
                let recorded = service.recorded_pool.as_deref();
                let addresses = assignment.as_ref().map_or(&[][..], |it| &it.addresses);
                service.ingress.is_exactly(addresses)
                    && assignment
                        .as_ref()
                        .map_or(recorded.is_none(), |it| recorded.is_some_and(|by| it.is_recorded(by)))
            }
        };
        let done = done && shown == condition.as_ref();
        let write = (!done && !hands_off).then(|| StatusWrite {
            uid: Arc::clone(&service.uid),
            assignment: assignment.clone(),
            condition,
        });
        if write.is_some() {
            events.extend(service.deprecated_annotations.iter().cloned().map(Event::DeprecatedAnnotation));
        }
        if service.is_load_balancer {
            events.extend(service.unknown_annotations.iter().cloned().map(Event::UnknownAnnotation));
        }
        events.shrink_to_fit();
        Outcome { assignment, refusal, write, events }
    }
}

/// What the condition of a Service is to say. It comes with the first refusal and stays; the status of
/// one that is simply given what it asks for has nothing but the addresses.
fn condition(
    service: &LoadBalancer,
    assignment: Option<&Assignment>,
    refusal: Option<&Refusal>,
    shown: bool,
) -> Option<AddressAssigned> {
    if !service.is_load_balancer {
        return None;
    }
    let status = assignment.is_some();
    match (assignment, refusal) {
        (_, Some(refusal)) => Some(AddressAssigned {
            status,
            reason: refusal.reason().to_owned(),
            message: refusal.to_string(),
        }),
        (Some(assignment), None) if shown => Some(AddressAssigned {
            status,
            reason: service_condition::ASSIGNED.to_owned(),
            message: Event::Assigned(assignment.addresses.clone()).to_string(),
        }),
        _ => None,
    }
}
