//! What is to be written, as a function of what there is and what should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_api::v1beta1::{ConfigurationStateStatus, ServiceL2Status, ServiceL2StatusStatus};
use ferrolb_api::well_known::{configuration_state::CONFIG_CONDITION, label};
use ferrolb_core::config::Diagnostic;
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde_json::{Value, json};

use super::ServiceReport;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Make the object, then its status.
    Create { service: ServiceKey, object: Box<ServiceL2Status>, status: ServiceL2StatusStatus },
    /// Make the status right.
    SetStatus { object: Arc<ServiceL2Status>, status: ServiceL2StatusStatus },
    /// It should not be.
    Delete { object: Arc<ServiceL2Status> },
}

impl Action {
    /// The Service concerned, for messages.
    pub(super) fn about(&self) -> String {
        match self {
            Self::Create { service, .. } => service.to_string(),
            Self::SetStatus { object, .. } | Self::Delete { object } => match identify(object) {
                Some((_, service)) => service.to_string(),
                None => "(unknown)".to_owned(),
            },
        }
    }

    /// The object that is there already.
    pub(super) fn base(&self) -> Option<&Arc<ServiceL2Status>> {
        match self {
            Self::Create { .. } => None,
            Self::SetStatus { object, .. } | Self::Delete { object } => Some(object),
        }
    }
}

/// Compares the objects there are with the Services announced from `node`.
///
/// An object that says it is this node's and is not exactly what would be made is deleted: names in its
/// status cannot be changed. Objects of other nodes are their own affair, unless their speaker is dead
/// and this node has taken the Service over.
pub(super) fn diff(
    services: &BTreeMap<ServiceKey, ServiceReport>,
    existing: &[Arc<ServiceL2Status>],
    node: &str,
    owner: &OwnerReference,
    living: &BTreeSet<String>,
) -> Vec<Action> {
    let mut missing: BTreeMap<&ServiceKey, &ServiceL2StatusStatus> =
        services.iter().filter_map(|(key, service)| Some((key, service.status.as_ref()?))).collect();
    let mut actions = Vec::new();
    let mut sorted: Vec<&Arc<ServiceL2Status>> = existing.iter().collect();
    sorted.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    for object in sorted {
        let identity = identify(object);
        let told = object.status.as_ref().and_then(|status| status.node.as_deref());
        let labelled = object.metadata.labels.as_ref().and_then(|labels| labels.get(label::NODE));
        if labelled.is_some_and(|it| it == node) || told == Some(node) {
            let desired = identity
                .filter(|(of, _)| of == node && is_owned_by(&object.metadata, owner))
                .and_then(|(_, service)| missing.remove_entry(&service));
            match desired {
                Some((_, status)) if object.status.as_ref() == Some(status) => {}
                Some((_, status)) if can_become(object.status.as_ref(), status) => {
                    actions.push(Action::SetStatus { object: Arc::clone(object), status: status.clone() });
                }
                Some((service, status)) => {
                    missing.insert(service, status);
                    actions.push(Action::Delete { object: Arc::clone(object) });
                }
                None => actions.push(Action::Delete { object: Arc::clone(object) }),
            }
        } else if let Some((of, service)) = identity
            && !living.contains(&of)
            && services.get(&service).is_some_and(|it| it.status.is_some())
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
fn identify(object: &ServiceL2Status) -> Option<(String, ServiceKey)> {
    let labels = object.metadata.labels.as_ref()?;
    let label = |name: &str| labels.get(name).cloned();
    let service =
        ServiceKey { namespace: label(label::SERVICE_NAMESPACE)?, name: label(label::SERVICE_NAME)? };
    Some((label(label::NODE)?, service))
}

fn object(service: &ServiceKey, node: &str, owner: &OwnerReference) -> ServiceL2Status {
    let labels = [
        (label::NODE, node),
        (label::SERVICE_NAME, &service.name),
        (label::SERVICE_NAMESPACE, &service.namespace),
    ];
    ServiceL2Status {
        metadata: ObjectMeta {
            generate_name: Some("l2-".to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        },
        ..ServiceL2Status::default()
    }
}

/// Whether the pod is an owner.
pub(super) fn is_owned_by(metadata: &ObjectMeta, owner: &OwnerReference) -> bool {
    metadata.owner_references.iter().flatten().any(|it| it.uid == owner.uid)
}

/// The API server lets the names in a status be set once.
fn can_become(current: Option<&ServiceL2StatusStatus>, desired: &ServiceL2StatusStatus) -> bool {
    let settable =
        |current: &Option<String>, desired: &Option<String>| current.is_none() || current == desired;
    current.is_none_or(|current| {
        settable(&current.node, &desired.node)
            && settable(&current.service_name, &desired.service_name)
            && settable(&current.service_namespace, &desired.service_namespace)
    })
}

/// The merge patch that makes the status exactly this.
pub(super) fn status_patch(uid: Option<&str>, status: &ServiceL2StatusStatus) -> Value {
    // No interfaces means all of them; null removes what an earlier status named.
    let interfaces = if status.interfaces.is_empty() { Value::Null } else { json!(status.interfaces) };
    json!({
        "metadata": {"uid": uid},
        "status": {
            "node": status.node,
            "serviceName": status.service_name,
            "serviceNamespace": status.service_namespace,
            "interfaces": interfaces,
        },
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
