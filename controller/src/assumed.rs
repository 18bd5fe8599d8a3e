//! Own writes that the store does not show yet.
//!
//! Between a write and its echo in the watch, a recompute would decide from the past; [`Held`] carries
//! the writes into it. Decided here: when such a write is over. One that was answered ends when the store
//! has the version of the answer or a later one. One without an answer (the link or the API server was
//! gone) may have happened: it counts as done and is repeated until an answer says which. Pure.

use std::collections::BTreeMap;

use ferrolb_core::allocator::{Held, StatusWrite};
use ferrolb_core::service::ServiceKey;

/// Writes under way, and what the allocator is to believe because of them.
#[derive(Debug, Default)]
pub(crate) struct Assumed {
    held: Held,
    under_way: BTreeMap<ServiceKey, Write>,
}

#[derive(Debug)]
struct Write {
    write: StatusWrite,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody knows whether it happened.
    InDoubt,
    /// The store is to show this version.
    Answered(u128),
}

/// What the store shows of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Identity of the object.
    pub(crate) uid: String,
    /// Its resource version.
    pub(crate) version: u128,
}

/// Resource versions of one kind grow with time and are decimal numbers (KEP-5504). One that is not
/// counts as the newest: then the store is believed.
pub(crate) fn version(text: Option<&str>) -> u128 {
    text.and_then(|version| version.parse().ok()).unwrap_or(u128::MAX)
}

impl Assumed {
    /// What the allocator is to believe.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// As [`Self::held`], to accept the result of a pass.
    pub(crate) fn held_mut(&mut self) -> &mut Held {
        &mut self.held
    }

    /// A write goes out.
    pub(crate) fn sending(&mut self, service: &ServiceKey, write: &StatusWrite) {
        self.held.record(service.clone(), write.clone());
        let entry = Write { write: write.clone(), state: State::InDoubt };
        self.under_way.insert(service.clone(), entry);
    }

    /// The API server did it and gave the object this version.
    pub(crate) fn answered(&mut self, service: &ServiceKey, version: u128) {
        if let Some(entry) = self.under_way.get_mut(service) {
            entry.state = State::Answered(version);
        }
    }

    /// The API server refused it.
    pub(crate) fn refused(&mut self, service: &ServiceKey) {
        self.under_way.remove(service);
        self.held.forget(service);
    }

    /// Forgets what the store has caught up with.
    pub(crate) fn catch_up(&mut self, store: impl Fn(&ServiceKey) -> Option<Seen>) {
        let over: Vec<ServiceKey> = self
            .under_way
            .iter()
            .filter(|(service, entry)| match store(service) {
                // Deleted; who is not stored holds nothing.
                None => true,
                Some(seen) if seen.uid != entry.write.uid => true,
                Some(seen) => matches!(entry.state, State::Answered(version) if seen.version >= version),
            })
            .map(|(service, _)| service.clone())
            .collect();
        for service in over {
            self.refused(&service);
        }
    }

    /// Whether a write of the Service is under way.
    pub(crate) fn is_under_way(&self, service: &ServiceKey) -> bool {
        self.under_way.contains_key(service)
    }

    /// Writes to repeat, because nobody knows whether they happened.
    pub(crate) fn in_doubt(&self) -> impl Iterator<Item = (&ServiceKey, &StatusWrite)> {
        self.under_way
            .iter()
            .filter(|(_, entry)| entry.state == State::InDoubt)
            .map(|(service, entry)| (service, &entry.write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ServiceKey {
        ServiceKey { namespace: "demo".into(), name: "hello".into() }
    }

    fn sent() -> Assumed {
        let mut assumed = Assumed::default();
        assumed.sending(&key(), &StatusWrite { uid: "u".into(), assignment: None, condition: None });
        assumed
    }

    fn seen(uid: &str, version: u128) -> impl Fn(&ServiceKey) -> Option<Seen> {
        move |_| Some(Seen { uid: uid.into(), version })
    }

    fn remembered(assumed: &Assumed) -> usize {
        assumed.held().recorded().count()
    }

    #[test]
    fn an_answered_write_is_over_when_the_store_shows_it_or_a_later_version() {
        for (version, left) in [(9, 1), (10, 0), (11, 0)] {
            let mut assumed = sent();
            assumed.answered(&key(), 10);
            assert_eq!(assumed.in_doubt().count(), 0);
            assumed.catch_up(seen("u", version));
            assert_eq!(remembered(&assumed), left, "version {version}");
        }
    }

    #[test]
    fn a_write_without_an_answer_is_believed_and_repeated() {
        let mut assumed = sent();
        assumed.catch_up(seen("u", 1000));
        assert_eq!((remembered(&assumed), assumed.in_doubt().count()), (1, 1));
        assumed.refused(&key());
        assert_eq!((remembered(&assumed), assumed.in_doubt().count()), (0, 0));
    }

    #[test]
    fn a_deleted_or_recreated_service_ends_it() {
        let mut assumed = sent();
        assumed.catch_up(|_| None);
        assert_eq!(remembered(&assumed), 0);
        let mut assumed = sent();
        assumed.catch_up(seen("other", 1));
        assert_eq!(remembered(&assumed), 0);
    }

    #[test]
    fn versions_that_are_no_numbers_believe_the_store() {
        assert!(version(Some("17")) < version(Some("x")));
        assert_eq!(version(None), u128::MAX);
    }
}
