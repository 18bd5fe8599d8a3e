//! Services as they are once our own writes are seen back.
//!
//! Between a write and its echo in the watch a store still shows the Service as it was. A recompute in
//! that gap would give the address out twice, so every object that the API server answered a write with
//! stands in for the store's, until the store has it or a later one. Pure: objects in, objects out.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_core::service::ServiceKey;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

/// Answers to writes that the store has not shown yet.
#[derive(Debug, Default)]
pub struct Assumed {
    written: BTreeMap<ServiceKey, Arc<Service>>,
}

impl Assumed {
    /// Remembers what a write was answered with.
    pub fn wrote(&mut self, key: ServiceKey, answer: Service) {
        self.written.insert(key, Arc::new(answer));
    }

    /// The Services as of the later of store and own writes. Forgets what the store has caught up with.
    pub fn overlay(
        &mut self,
        mut stored: BTreeMap<ServiceKey, Arc<Service>>,
    ) -> BTreeMap<ServiceKey, Arc<Service>> {
        self.written.retain(|key, written| match stored.get(key) {
            Some(seen) => seen.uid() == written.uid() && version(seen) < version(written),
            // Deleted meanwhile; a Service that is not stored holds nothing.
            None => false,
        });
        stored.extend(self.written.iter().map(|(key, written)| (key.clone(), Arc::clone(written))));
        stored
    }
}

/// Resource versions of one kind grow with time and are decimal numbers (KEP-5504). One that is not
/// counts as the newest: then the store is believed.
fn version(service: &Service) -> u128 {
    service.resource_version().and_then(|version| version.parse().ok()).unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(uid: &str, version: u32) -> Arc<Service> {
        let mut service = Service::default();
        service.metadata.uid = Some(uid.into());
        service.metadata.resource_version = Some(version.to_string());
        Arc::new(service)
    }

    fn key() -> ServiceKey {
        ServiceKey { namespace: "demo".into(), name: "hello".into() }
    }

    fn stored(service: Arc<Service>) -> BTreeMap<ServiceKey, Arc<Service>> {
        [(key(), service)].into()
    }

    #[test]
    fn a_write_stands_in_until_the_store_has_it_or_a_later_version() {
        let mut assumed = Assumed::default();
        assumed.wrote(key(), Arc::unwrap_or_clone(service("u", 10)));
        assert_eq!(assumed.overlay(stored(service("u", 9)))[&key()], service("u", 10));
        assert_eq!(assumed.overlay(stored(service("u", 10)))[&key()], service("u", 10));
        assert!(assumed.written.is_empty());
        assumed.wrote(key(), Arc::unwrap_or_clone(service("u", 12)));
        assert_eq!(assumed.overlay(stored(service("u", 100)))[&key()], service("u", 100));
    }

    #[test]
    fn a_deleted_or_recreated_service_takes_nothing_over() {
        let mut assumed = Assumed::default();
        assumed.wrote(key(), Arc::unwrap_or_clone(service("old", 10)));
        assert_eq!(assumed.overlay(stored(service("new", 5)))[&key()], service("new", 5));
        assumed.wrote(key(), Arc::unwrap_or_clone(service("new", 11)));
        assert!(assumed.overlay(BTreeMap::new()).is_empty());
        assert!(assumed.written.is_empty());
    }
}
