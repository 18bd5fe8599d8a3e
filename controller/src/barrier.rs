//! What a new leader must have seen before it decides anything.
//!
//! Its store may lag behind the last writes of the leader before it. So it lists the Services once,
//! after it took the Lease and from the API server's own consistent view, and waits until its store
//! shows each of them at least as new: then no address that was given can be unknown to it.

use std::collections::BTreeMap;

use ferrolb_core::service::ServiceKey;
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::assumed::{Seen, version};

/// Services of one answer. The pages of a list are of one moment, and no more than a page is in memory at a time.
const PAGE: u32 = 500;

/// The Services as they were when the Lease was held already.
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    listed: BTreeMap<ServiceKey, Seen>,
}

impl Barrier {
    /// Lists.
    pub(crate) async fn read(client: Client) -> Result<Self, WriteError> {
        let api: Api<Service> = Api::all(client);
        let mut listed = BTreeMap::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = write::bounded(api.list_metadata(&page)).await?;
            listed.extend(list.items.iter().map(|service| {
                let key = ServiceKey {
                    namespace: service.namespace().unwrap_or_default(),
                    name: service.name_any(),
                };
                let version = version(service.resource_version().as_deref());
                (key, Seen { uid: service.uid().unwrap_or_default().into(), version })
            }));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(Self { listed }),
            }
        }
    }

    /// Whether the store shows everything that was listed. What it does not show at all may have been
    /// deleted since: then a fresh list passes.
    pub(crate) fn is_passed(&self, store: impl Fn(&ServiceKey) -> Option<Seen>) -> bool {
        self.listed.iter().all(|(key, listed)| store(key).is_some_and(|seen| seen.version >= listed.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_must_show_everything_that_was_listed() {
        let key = |name: &str| ServiceKey { namespace: "ns".into(), name: name.into() };
        let seen = |version| Seen { uid: "u".into(), version };
        let barrier = Barrier { listed: [(key("a"), seen(5)), (key("b"), seen(9))].into() };
        let passed = |a: Option<u128>, b: Option<u128>| {
            barrier.is_passed(|it| if it.name == "a" { a } else { b }.map(seen))
        };
        assert!(passed(Some(5), Some(9)) && passed(Some(7), Some(10)));
        assert!(!passed(Some(4), Some(9)) && !passed(Some(5), Some(8)));
        assert!(!passed(None, Some(9)));
        assert!(Barrier::default().is_passed(|_| None));
    }
}
