//! The objects of one kind of status: compared with the report, and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_core::service::ServiceKey;
use ferrolb_runtime::watch::{Store, Watches};
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};

use super::assumed::Assumed;
use super::diff::{Action, diff};
use super::kind::ServiceStatus;
use super::perform::{Performed, perform};
use super::{PassError, Report};

/// Writes under way at one time.
const PARALLEL: usize = 8;
/// A status object that is gone again right after it was made is not made anew before this: two
/// speakers that each take the other for dead must not compete at the pace of the API server.
const RECREATE: Duration = Duration::from_secs(5);

pub(super) struct Statuses<K: ServiceStatus> {
    api: Api<K>,
    stored: Store<K>,
    assumed: Assumed<K>,
    /// When the status of a Service was created last.
    created: BTreeMap<ServiceKey, Instant>,
    /// A report, and the objects that there were when nothing differed from it: between the two there is still
    /// nothing to do.
    done: Option<(Arc<Report>, Vec<Arc<K>>)>,
}

impl<K: ServiceStatus> Statuses<K> {
    pub(super) fn watch(client: &Client, namespace: &str, node: &str, watches: &Watches) -> Self {
        let api: Api<K> = Api::namespaced(client.clone(), namespace);
        let stored = watches.add_with(api.clone(), K::seen_by(node));
        Self { api, stored, assumed: Assumed::default(), created: BTreeMap::new(), done: None }
    }

    pub(super) async fn listed(&self) {
        self.stored.listed().await;
    }

    /// Writes all that differs. Says when to look again although nothing changes.
    pub(super) async fn write(
        &mut self,
        report: &Arc<Report>,
        node: &str,
        owner: &OwnerReference,
    ) -> Result<Option<Instant>, PassError> {
        let Some(services) = &report.services else { return Ok(None) };
        self.created.retain(|_, at| at.elapsed() < RECREATE);
        let stored = self.stored.list();
        if self.is_done(report, &stored) {
            return Ok(None);
        }
        let existing = self.assumed.over(stored.clone());
        let actions = diff(services, &existing, node, owner, &report.living);
        let (late, actions): (Vec<Action<K>>, Vec<Action<K>>) = actions.into_iter().partition(
            |action| matches!(action, Action::Create { service, .. } if self.created.contains_key(service)),
        );
        let again = late.iter().filter_map(|action| match action {
            Action::Create { service, .. } => self.created.get(service).map(|at| *at + RECREATE),
            Action::SetStatus { .. } | Action::Delete { .. } => None,
        });
        let again = again.min();
        let is_done = actions.is_empty() && again.is_none() && self.assumed.is_empty();
        self.done = is_done.then(|| (Arc::clone(report), stored));
        let api = &self.api;
        let written: Vec<_> = futures::stream::iter(actions)
            .map(|action| async move {
                let outcome = perform(api, &action).await;
                (action, outcome)
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let mut result = Ok(again);
        for (action, Performed { objects, outcome }) in written {
            if let Action::Create { service, .. } = &action {
                self.created.insert(service.clone(), Instant::now());
            }
            let mut base = action.base().cloned();
            for object in objects {
                let object = Arc::new(object);
                self.assumed.wrote(base.as_deref(), Arc::clone(&object));
                base = Some(object);
            }
            match (outcome, &action) {
                (Ok(()), Action::Delete { object }) => self.assumed.deleted(object),
                (Ok(()), Action::Create { .. } | Action::SetStatus { .. }) => {}
                (Err(error), _) => result = Err(error),
            }
        }
        result
    }

    fn is_done(&self, report: &Arc<Report>, stored: &[Arc<K>]) -> bool {
        let same =
            |of: &[Arc<K>]| of.len() == stored.len() && of.iter().zip(stored).all(|(a, b)| Arc::ptr_eq(a, b));
        self.done.as_ref().is_some_and(|(done, of)| Arc::ptr_eq(done, report) && same(of))
    }
}
