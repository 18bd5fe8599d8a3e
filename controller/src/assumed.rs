//! Own writes that the store does not show yet.
//!
//! Between a write and its echo in the watch, a recompute would decide from the past; [`Held`] carries
//! the writes into it. Decided here: when such a write is over. One that was answered ends when the store
//! has the version of the answer or a later one. One without an answer (the link or the API server was
//! gone) may have happened: it counts as done and is repeated until an answer says which. A conflict says
//! that the store is behind: perhaps by that very write, so it counts until the store has moved on. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_core::allocator::{Held, StatusWrite};
use ferrolb_core::service::ServiceKey;

/// Writes under way, and what the allocator is to believe because of them.
#[derive(Debug, Default)]
pub(crate) struct Assumed {
    held: Held,
    under_way: BTreeMap<Arc<ServiceKey>, Write>,
}

#[derive(Debug)]
struct Write {
    write: StatusWrite,
    /// Of the Service that the write was decided on.
    base: u128,
    state: State,
    /// Whether an attempt before was left without an answer.
    doubted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody knows whether it happened.
    InDoubt,
    /// The store is to show this version.
    Answered(u128),
    /// The store is to show a later version than the write was decided on.
    Conflicted,
}

/// What the store shows of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Identity of the object.
    pub(crate) uid: Arc<str>,
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

    /// A write goes out, decided on this version of the Service.
    pub(crate) fn sending(&mut self, service: &Arc<ServiceKey>, write: &StatusWrite, base: u128) {
        self.held.record(Arc::clone(service), write.clone());
        let before = self.under_way.get(service);
        let doubted =
            before.is_some_and(|entry| entry.state == State::InDoubt && entry.write.uid == write.uid);
        let entry = Write { write: write.clone(), base, state: State::InDoubt, doubted };
        self.under_way.insert(Arc::clone(service), entry);
    }

    /// The API server did it and gave the object this version.
    pub(crate) fn answered(&mut self, service: &ServiceKey, version: u128) {
        if let Some(entry) = self.under_way.get_mut(service) {
            entry.state = State::Answered(version);
        }
    }

    /// The API server knows a later version of the Service.
    pub(crate) fn conflicted(&mut self, service: &ServiceKey) {
        if let Some(entry) = self.under_way.get_mut(service) {
            entry.state = State::Conflicted;
        }
    }

    /// It was refused for good, or was not sent at all. An attempt before may have happened all the same.
    pub(crate) fn not_done(&mut self, service: &ServiceKey) {
        if self.under_way.get(service).is_some_and(|entry| !entry.doubted) {
            self.forget(service);
        }
    }

    /// The Service is gone.
    pub(crate) fn forget(&mut self, service: &ServiceKey) {
        self.under_way.remove(service);
        self.held.forget(service);
    }

    /// Forgets what the store has caught up with.
    pub(crate) fn catch_up(&mut self, store: impl Fn(&ServiceKey) -> Option<Seen>) {
        let over: Vec<Arc<ServiceKey>> = self
            .under_way
            .iter()
            .filter(|(service, entry)| match store(service) {
                // Deleted; who is not stored holds nothing.
                None => true,
                Some(seen) if seen.uid != entry.write.uid => true,
                Some(seen) => match entry.state {
                    State::InDoubt => false,
                    State::Answered(version) => seen.version >= version,
                    State::Conflicted => seen.version > entry.base,
                },
            })
            .map(|(service, _)| Arc::clone(service))
            .collect();
        for service in over {
            self.forget(&service);
        }
    }

    /// Whether a write of the Service is under way.
    pub(crate) fn is_under_way(&self, service: &ServiceKey) -> bool {
        self.under_way.contains_key(service)
    }

    /// Writes to repeat, because nobody knows whether they happened.
    pub(crate) fn in_doubt(&self) -> impl Iterator<Item = (&Arc<ServiceKey>, &StatusWrite)> {
        self.under_way
            .iter()
            .filter(|(_, entry)| entry.state == State::InDoubt)
            .map(|(service, entry)| (service, &entry.write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Arc<ServiceKey> {
        Arc::new(ServiceKey { namespace: "demo".into(), name: "hello".into() })
    }

    fn send(assumed: &mut Assumed) {
        let write = StatusWrite { uid: "u".into(), assignment: None, condition: None };
        assumed.sending(&key(), &write, 8);
    }

    fn sent() -> Assumed {
        let mut assumed = Assumed::default();
        send(&mut assumed);
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
        // Whatever becomes of the next attempt, the first one may have happened.
        send(&mut assumed);
        assumed.not_done(&key());
        assert_eq!((remembered(&assumed), assumed.in_doubt().count()), (1, 1));
        let mut assumed = sent();
        assumed.not_done(&key());
        assert_eq!((remembered(&assumed), assumed.in_doubt().count()), (0, 0));
    }

    #[test]
    fn after_a_conflict_the_store_must_move_on() {
        for (version, left) in [(8, 1), (9, 0)] {
            let mut assumed = sent();
            send(&mut assumed);
            assumed.conflicted(&key());
            assert_eq!(assumed.in_doubt().count(), 0);
            assumed.catch_up(seen("u", version));
            assert_eq!(remembered(&assumed), left, "version {version}");
        }
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
