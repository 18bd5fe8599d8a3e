//! Others who write the statuses of our Services.
//!
//! Decided here: what was given is restored at once, so that a slip of somebody's hand costs nothing;
//! whoever overwrites a status for the third time insists, and the Service is left to them for ten
//! minutes, after which it is tried once more. Pure: the time is an argument.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferrolb_core::allocator::Rival;
use ferrolb_core::service::ServiceKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

/// So often in a row is insisting.
const LIMIT: u32 = 3;
/// How long a Service is left to a rival, and how long overwriting counts as being in a row.
const PAUSE: Duration = Duration::from_secs(600);

/// What was seen of others.
#[derive(Debug, Default)]
pub(crate) struct Rivals {
    seen: BTreeMap<ServiceKey, Overwriting>,
}

#[derive(Debug)]
struct Overwriting {
    uid: String,
    /// Of the Service when it was last found overwritten.
    version: u128,
    name: String,
    times: u32,
    at: Instant,
}

impl Overwriting {
    fn insists(&self, now: Instant) -> bool {
        self.times >= LIMIT && now.saturating_duration_since(self.at) < PAUSE
    }
}

impl Rivals {
    /// Whether this state of an overwritten Service is one not noted yet.
    pub(crate) fn is_news(&self, service: &ServiceKey, uid: &str, version: u128) -> bool {
        self.seen.get(service).is_none_or(|it| it.uid != uid || it.version != version)
    }

    /// A Service was found overwritten by `name`.
    pub(crate) fn note(
        &mut self,
        service: &ServiceKey,
        uid: &str,
        version: u128,
        name: String,
        now: Instant,
    ) {
        let before = self.seen.get(service).filter(|it| it.uid == uid);
        let times = match before {
            Some(it) if it.insists(now) => it.times,
            // After the pause: one more time is insisting again.
            Some(it) if it.times >= LIMIT => LIMIT,
            Some(it) if now.saturating_duration_since(it.at) < PAUSE => it.times + 1,
            _ => 1,
        };
        // While they have it, what they write does not make it longer.
        let at = before.filter(|it| it.insists(now)).map_or(now, |it| it.at);
        let entry = Overwriting { uid: uid.to_owned(), version, name, times, at };
        self.seen.insert(service.clone(), entry);
    }

    /// Forgets Services that are gone, and what is long over.
    pub(crate) fn retain(&mut self, exists: impl Fn(&ServiceKey) -> bool, now: Instant) {
        self.seen.retain(|key, it| exists(key) && now.saturating_duration_since(it.at) < 2 * PAUSE);
    }

    /// Who writes which Service now.
    pub(crate) fn now(&self, now: Instant) -> BTreeMap<ServiceKey, Rival> {
        let rival = |it: &Overwriting| Rival { name: it.name.clone(), insists: it.insists(now) };
        self.seen.iter().map(|(key, it)| (key.clone(), rival(it))).collect()
    }

    /// How long until one of them has had its time.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Duration> {
        let insisting = self.seen.values().filter(|it| it.insists(now));
        insisting.map(|it| (it.at + PAUSE).saturating_duration_since(now)).min()
    }
}

/// Who wrote the status last, other than `ours`.
pub(crate) fn last_writer(fields: &[ManagedFieldsEntry], ours: &str) -> Option<String> {
    let of_status = |it: &&ManagedFieldsEntry| it.subresource.as_deref() == Some("status");
    let others = fields.iter().filter(of_status).filter(|it| it.manager.as_deref() != Some(ours));
    others.max_by_key(|it| it.time.clone())?.manager.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    fn key() -> ServiceKey {
        ServiceKey { namespace: "ns".into(), name: "s".into() }
    }

    #[test]
    fn the_third_time_is_insisting() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut rivals = Rivals::default();
        let insists = |rivals: &Rivals, now| rivals.now(now).get(&key()).map(|it| it.insists);
        for (version, insisting) in [(1, false), (2, false), (3, true)] {
            assert!(rivals.is_news(&key(), "u", version));
            rivals.note(&key(), "u", version, "cloud".into(), at(u64::try_from(version).unwrap()));
            assert!(!rivals.is_news(&key(), "u", version));
            assert_eq!(insists(&rivals, at(5)), Some(insisting), "{version}");
        }
        // What they write meanwhile changes nothing.
        rivals.note(&key(), "u", 4, "cloud".into(), at(500));
        assert_eq!(rivals.next_change(at(503)), Some(Duration::from_secs(100)));
        assert_eq!(insists(&rivals, at(602)), Some(true));
        assert_eq!(insists(&rivals, at(603)), Some(false), "it is tried once more");
        rivals.note(&key(), "u", 5, "cloud".into(), at(604));
        assert_eq!(insists(&rivals, at(604)), Some(true));
        rivals.retain(|_| true, at(604 + 1200));
        assert_eq!(insists(&rivals, at(1804)), None);
    }

    #[test]
    fn slips_far_apart_and_other_objects_do_not_count() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut rivals = Rivals::default();
        for (uid, version, second) in
            [("u", 1, 0), ("u", 2, 700), ("u", 3, 1400), ("v", 4, 1401), ("v", 5, 1402)]
        {
            rivals.note(&key(), uid, version, "somebody".into(), at(second));
            assert!(!rivals.now(at(second))[&key()].insists, "{version}");
        }
        assert_eq!(rivals.next_change(at(1402)), None);
        rivals.retain(|_| false, at(1402));
        assert!(rivals.now(at(1402)).is_empty());
    }

    #[test]
    fn names_whoever_wrote_the_status_last() {
        let entry = |manager: &str, subresource: &str, second| ManagedFieldsEntry {
            manager: Some(manager.into()),
            subresource: Some(subresource.into()).filter(|it: &String| !it.is_empty()),
            time: Timestamp::from_second(second).ok().map(Time),
            ..Default::default()
        };
        let fields = [
            entry("kubectl", "", 9),
            entry("ours", "status", 8),
            entry("cloud", "status", 7),
            entry("old", "status", 1),
        ];
        assert_eq!(last_writer(&fields, "ours").as_deref(), Some("cloud"));
        assert_eq!(last_writer(&fields[..2], "ours"), None);
    }
}
