//! Events that wait for the write they are about.
//!
//! They are told when the write stands, which may be found out late: its answer can be lost, and by the time the store
//! shows what was written, a pass has nothing to tell of it any more. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_core::allocator::{Assignment, Event, StatusWrite};
use ferrolb_core::service::ServiceKey;

/// By Service.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    waiting: BTreeMap<Arc<ServiceKey>, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    uid: Arc<str>,
    assignment: Option<Assignment>,
    events: Vec<Event>,
}

impl Untold {
    /// A write was decided for these reasons. What was given by one before it, which it takes the place of, is not
    /// told any more; what had been found then is.
    pub(crate) fn sending(&mut self, service: &Arc<ServiceKey>, write: &StatusWrite, events: &[Event]) {
        let before = self.waiting.remove(service).filter(|it| it.uid == write.uid);
        let mut all = before.map(|it| it.events).unwrap_or_default();
        all.retain(|event| {
            let found =
                matches!(event, Event::GivenTwice(_) | Event::Cleared { .. } | Event::Overwritten { .. });
            found && !events.contains(event)
        });
        all.extend_from_slice(events);
        let (uid, assignment) = (Arc::clone(&write.uid), write.assignment.clone());
        self.waiting.insert(Arc::clone(service), Waiting { uid, assignment, events: all });
    }

    /// The write stands: what is to be told of it.
    pub(crate) fn done(&mut self, service: &ServiceKey) -> Vec<Event> {
        self.waiting.remove(service).map(|it| it.events).unwrap_or_default()
    }

    /// Nothing is to be written, and nothing is under way: what is to be told of a write that turns out to have been
    /// done.
    pub(crate) fn settled(&mut self, service: &ServiceKey, holds: Option<&Assignment>) -> Vec<Event> {
        let before = self.waiting.remove(service);
        before.filter(|it| it.assignment.as_ref() == holds).map(|it| it.events).unwrap_or_default()
    }

    /// Forgets Services that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&ServiceKey) -> bool) {
        self.waiting.retain(|service, _| exists(service));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::allocator::Refusal;

    #[test]
    fn what_was_decided_is_told_once_when_it_stands() {
        let key = Arc::new(ServiceKey { namespace: "ns".into(), name: "s".into() });
        let cleared = |uid: &str| StatusWrite { uid: uid.into(), assignment: None, condition: None };
        let event = |name: &str| Event::GivenTwice(Refusal::PoolExhausted(name.to_owned()));
        let mut untold = Untold::default();
        untold.sending(&key, &cleared("u"), &[event("a")]);
        untold.sending(&key, &cleared("u"), &[event("b")]);
        assert_eq!(untold.done(&key), [event("a"), event("b")]);
        assert_eq!(untold.done(&key), []);
        let given = Event::AssignedAdditional("10.0.0.1".parse().unwrap());
        untold.sending(&key, &cleared("u"), &[given]);
        untold.sending(&key, &cleared("u"), &[event("b")]);
        assert_eq!(untold.done(&key), [event("b")], "it was not given after all");
        // Found out by what the Service holds.
        untold.sending(&key, &cleared("u"), &[event("a")]);
        assert_eq!(untold.settled(&key, None), [event("a")]);
        let other =
            Assignment { addresses: ["10.0.0.1".parse().unwrap()].into(), pools: ["p".to_owned()].into() };
        untold.sending(&key, &cleared("u"), &[event("a")]);
        assert_eq!(untold.settled(&key, Some(&other)), [], "it came to nothing");
        // Of an object that was there before, nothing is told.
        untold.sending(&key, &cleared("u"), &[event("a")]);
        untold.sending(&key, &cleared("v"), &[event("b")]);
        assert_eq!(untold.done(&key), [event("b")]);
        untold.sending(&key, &cleared("v"), &[event("b")]);
        untold.retain(|_| false);
        assert_eq!(untold.done(&key), []);
    }
}
