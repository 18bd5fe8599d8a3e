//! What was written counts before the watch shows it: else each write would be made a second time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};

/// Longest time that a watch may lag behind; then the store is right, whatever it shows.
const BELIEVED: Duration = Duration::from_secs(30);

/// What was written, by name of the object.
#[derive(Debug)]
pub(super) struct Assumed<K> {
    written: BTreeMap<String, Entry<K>>,
}

#[derive(Debug)]
struct Entry<K> {
    /// Versions that the write replaced: a store that shows one of these lags behind.
    superseded: Vec<Option<String>>,
    /// The object as it is now; none where it was deleted.
    now: Option<Arc<K>>,
    at: Instant,
}

impl<K> Default for Assumed<K> {
    fn default() -> Self {
        Self { written: BTreeMap::new() }
    }
}

impl<K: Resource<DynamicType = ()>> Assumed<K> {
    /// An object was written over `base`, or created where there was none.
    pub(super) fn wrote(&mut self, base: Option<&K>, now: Arc<K>) {
        self.put(now.name_any(), base.and_then(ResourceExt::resource_version), Some(now));
    }

    /// An object was deleted.
    pub(super) fn deleted(&mut self, base: &K) {
        self.put(base.name_any(), base.resource_version(), None);
    }

    fn put(&mut self, name: String, base: Option<String>, now: Option<Arc<K>>) {
        let entry = self.written.entry(name).or_insert(Entry {
            superseded: Vec::new(),
            now: None,
            at: Instant::now(),
        });
        entry.superseded.push(base);
        entry.now = now;
        entry.at = Instant::now();
    }

    /// Whether the stores show all that was written.
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// What the store holds, with what was written in place of what the write replaced.
    pub(super) fn over(&mut self, stored: Vec<Arc<K>>) -> Vec<Arc<K>> {
        let written = stored.iter().filter(|object| self.written.contains_key(&object.name_any()));
        let mut versions: BTreeMap<String, Option<String>> =
            written.map(|object| (object.name_any(), object.resource_version())).collect();
        self.written.retain(|name, entry| {
            // An object that the store does not show is not created yet, or deleted.
            let shown = versions.get(name).cloned().unwrap_or(None);
            entry.at.elapsed() < BELIEVED && entry.superseded.contains(&shown)
        });
        if self.written.is_empty() {
            return stored;
        }
        let mut objects: Vec<Arc<K>> = Vec::with_capacity(stored.len());
        for object in stored {
            match self.written.get(&object.name_any()) {
                Some(entry) => objects.extend(entry.now.clone()),
                None => objects.push(object),
            }
        }
        for (name, entry) in &self.written {
            if versions.remove(name).is_none() {
                objects.extend(entry.now.clone());
            }
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_api::v1beta1::ServiceL2Status;

    use super::*;

    fn object(name: &str, version: &str) -> Arc<ServiceL2Status> {
        let mut object = ServiceL2Status::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        Arc::new(object)
    }

    fn shown(assumed: &mut Assumed<ServiceL2Status>, stored: &[(&str, &str)]) -> Vec<String> {
        let stored = stored.iter().map(|(name, version)| object(name, version)).collect();
        let version =
            |it: Arc<ServiceL2Status>| format!("{}@{}", it.name_any(), it.resource_version().unwrap());
        assumed.over(stored).into_iter().map(version).collect()
    }

    #[test]
    fn a_created_object_is_there_until_the_store_knows_better() {
        let mut assumed = Assumed::<ServiceL2Status>::default();
        assumed.wrote(None, object("a", "1"));
        assumed.wrote(Some(&object("a", "1")), object("a", "2"));
        assert_eq!(shown(&mut assumed, &[]), ["a@2"]);
        assert_eq!(shown(&mut assumed, &[("a", "1"), ("b", "7")]), ["a@2", "b@7"]);
        assert_eq!(shown(&mut assumed, &[("a", "3")]), ["a@3"]);
        // Once the store was ahead, what it shows counts.
        assert!(shown(&mut assumed, &[]).is_empty());
    }

    #[test]
    fn a_deleted_object_is_gone_until_another_takes_its_name() {
        let mut assumed = Assumed::<ServiceL2Status>::default();
        assumed.deleted(&object("a", "1"));
        assert!(shown(&mut assumed, &[("a", "1")]).is_empty());
        assert_eq!(shown(&mut assumed, &[("a", "2")]), ["a@2"]);
    }

    #[test]
    fn a_change_counts_over_the_version_it_was_made_of() {
        let mut assumed = Assumed::<ServiceL2Status>::default();
        assumed.wrote(Some(&object("a", "1")), object("a", "2"));
        assert_eq!(shown(&mut assumed, &[("a", "1")]), ["a@2"]);
        assert_eq!(shown(&mut assumed, &[("a", "2")]), ["a@2"]);
        assert!(shown(&mut assumed, &[]).is_empty(), "deleted by somebody");
    }
}
