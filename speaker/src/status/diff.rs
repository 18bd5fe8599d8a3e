//! What is to be written, as a function of what there is and what should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_api::v1beta1::ConfigurationStateStatus;
use ferrolb_api::well_known::{configuration_state::CONFIG_CONDITION, label};
use ferrolb_core::config::Diagnostic;
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde_json::{Value, json};

use super::ServiceReports;
use super::kind::ServiceStatus;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action<K: ServiceStatus> {
    /// Make the object, then its status.
    Create { service: ServiceKey, object: Box<K>, status: K::Status },
    /// Make the status right.
    SetStatus { object: Arc<K>, status: K::Status },
    /// It should not be.
    Delete { object: Arc<K> },
}

impl<K: ServiceStatus> Action<K> {
    /// The Service concerned, for messages.
    pub(super) fn about(&self) -> String {
        match self {
            Self::Create { service, .. } => service.to_string(),
            Self::SetStatus { object, .. } | Self::Delete { object } => match identify(object.as_ref()) {
                Some((_, service)) => service.to_string(),
                None => "(unknown)".to_owned(),
            },
        }
    }

    /// The object that is there already.
    pub(super) fn base(&self) -> Option<&Arc<K>> {
        match self {
            Self::Create { .. } => None,
            Self::SetStatus { object, .. } | Self::Delete { object } => Some(object),
        }
    }
}

/// Compares the objects there are with the Services announced from `node`.
///
/// An object that says it is this node's and is not exactly what would be made is deleted: names in its
/// status cannot be changed. Objects of other nodes are their own affair, unless a Service has but one
/// object, its speaker is dead and this node has taken the Service over.
pub(super) fn diff<K: ServiceStatus>(
    services: &ServiceReports,
    existing: &[Arc<K>],
    node: &str,
    owner: &OwnerReference,
    living: &BTreeSet<String>,
) -> Vec<Action<K>> {
    let mut missing: BTreeMap<&ServiceKey, &K::Status> =
        services.iter().filter_map(|(key, service)| Some((key, K::reported(service)?))).collect();
    let mut actions = Vec::new();
    let mut sorted: Vec<&Arc<K>> = existing.iter().collect();
    sorted.sort_by(|a, b| a.meta().name.cmp(&b.meta().name));
    for object in sorted {
        let identity = identify(object.as_ref());
        let [told, ..] = object.status().map_or([&None; 3], K::names);
        let labelled = object.meta().labels.as_ref().and_then(|labels| labels.get(label::NODE));
        if labelled.is_some_and(|it| it == node) || told.as_deref() == Some(node) {
            let desired = identity
                .filter(|(of, _)| of == node && is_owned_by(object.meta(), owner))
                .and_then(|(_, service)| missing.remove_entry(&service));
            match desired {
                Some((_, status)) if object.status() == Some(status) => {}
                Some((_, status)) if can_become::<K>(object.status(), status) => {
                    actions.push(Action::SetStatus { object: Arc::clone(object), status: status.clone() });
                }
                Some((service, status)) => {
                    missing.insert(service, status);
                    actions.push(Action::Delete { object: Arc::clone(object) });
                }
                None => actions.push(Action::Delete { object: Arc::clone(object) }),
            }
        } else if let Some((of, service)) = identity
            && K::ONE_A_SERVICE
            && !living.contains(&of)
            && services.get(&service).is_some_and(|it| K::reported(it).is_some())
        {
            actions.push(Action::Delete { object: Arc::clone(object) });
        }
    }
    actions.extend(missing.into_iter().map(|(service, status)| Action::Create {
        service: service.clone(),
        object: Box::new(object(service, node, owner)),
        status: status.clone(),
    }));
    actions
}

/// Node and Service of an object, by its labels.
fn identify(object: &impl ServiceStatus) -> Option<(String, ServiceKey)> {
    let labels = object.meta().labels.as_ref()?;
    let label = |name: &str| labels.get(name).cloned();
    let service =
        ServiceKey { namespace: label(label::SERVICE_NAMESPACE)?, name: label(label::SERVICE_NAME)? };
    Some((label(label::NODE)?, service))
}

fn object<K: ServiceStatus>(service: &ServiceKey, node: &str, owner: &OwnerReference) -> K {
    let labels = [
        (label::NODE, node),
        (label::SERVICE_NAME, &service.name),
        (label::SERVICE_NAMESPACE, &service.namespace),
    ];
    K::with_metadata(ObjectMeta {
        generate_name: Some(K::PREFIX.to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    })
}

/// Whether the pod is an owner.
pub(super) fn is_owned_by(metadata: &ObjectMeta, owner: &OwnerReference) -> bool {
    metadata.owner_references.iter().flatten().any(|it| it.uid == owner.uid)
}

/// The API server lets the names in a status be set once.
fn can_become<K: ServiceStatus>(current: Option<&K::Status>, desired: &K::Status) -> bool {
    current.is_none_or(|current| {
        let mut pairs = K::names(current).into_iter().zip(K::names(desired));
        pairs.all(|(current, desired)| current.is_none() || current == desired)
    })
}

/// The merge patch that makes the status exactly this.
pub(super) fn status_patch<K: ServiceStatus>(uid: Option<&str>, status: &K::Status) -> Value {
    let [node, name, namespace] = K::names(status);
    let (field, details) = K::details(status);
    json!({
        "metadata": {"uid": uid},
        "status": {"node": node, "serviceName": name, "serviceNamespace": namespace, field: details},
    })
}

/// The status of this speaker's ConfigurationState.
pub(super) fn desired_state(
    diagnostics: &[Diagnostic],
    now: Time,
    before: Option<&ConfigurationStateStatus>,
) -> ConfigurationStateStatus {
    status::configuration_state(diagnostics, |_| true, CONFIG_CONDITION, now, before)
}

/// Whether a status says what is desired, whatever conditions others may have added.
pub(super) fn is_current(status: &ConfigurationStateStatus, desired: &ConfigurationStateStatus) -> bool {
    status.result == desired.result
        && status.error_summary == desired.error_summary
        && desired.conditions.iter().all(|wanted| status.conditions.contains(wanted))
}

#[cfg(test)]
mod tests;
