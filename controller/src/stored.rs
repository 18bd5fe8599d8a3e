//! What the controller keeps of a Service: what decisions look at, and what a write to its status needs. There may
//! be very many Services, and most of an object is of no use here.

use std::borrow::Cow;
use std::sync::Arc;

use ferrolb_api::well_known::service_condition;
use ferrolb_core::service::LoadBalancer;
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::runtime::reflector::Lookup;

use crate::assumed::{Seen, version};

/// A Service as the store has it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) lb: Arc<LoadBalancer>,
    pub(crate) resource_version: Option<Box<str>>,
    /// Since when our condition has the status that it has.
    pub(crate) condition_since: Option<Time>,
}

impl Stored {
    /// Of an object.
    pub(crate) fn read(service: Service) -> Self {
        let conditions = service.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut ours = conditions.filter(|it| it.type_ == service_condition::ADDRESS_ASSIGNED);
        let condition_since = ours.next().map(|it| it.last_transition_time.clone());
        let lb = Arc::new(LoadBalancer::new(&service, []));
        Self { lb, resource_version: service.metadata.resource_version.map(Into::into), condition_since }
    }

    /// Which object in which state.
    pub(crate) fn seen(&self) -> Seen {
        Seen { uid: Arc::clone(&self.lb.uid), version: version(self.resource_version.as_deref()) }
    }

    /// For Events about it.
    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(<Service as Resource>::api_version(&()).into_owned()),
            kind: Some(<Service as Resource>::kind(&()).into_owned()),
            namespace: Some(self.lb.key.namespace.clone()),
            name: Some(self.lb.key.name.clone()),
            uid: Some(self.lb.uid.to_string()),
            resource_version: self.resource_version.as_deref().map(ToOwned::to_owned),
            field_path: None,
        }
    }
}

/// The store finds it as the Service that it is.
impl Lookup for Stored {
    type DynamicType = ();

    fn kind((): &()) -> Cow<'_, str> {
        <Service as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <Service as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <Service as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <Service as Resource>::plural(&())
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(self.lb.key.name.as_str().into())
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        Some(self.lb.key.namespace.as_str().into())
    }

    // The two that follow are no part of where it is kept.
    fn resource_version(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn uid(&self) -> Option<Cow<'_, str>> {
        None
    }
}
