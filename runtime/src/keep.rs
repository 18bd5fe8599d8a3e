//! Keeping a status object of our own as it should be: there, labelled, owned, and with the status that
//! was computed. Whoever deletes or edits it is answered at the next look; nothing is written while it is
//! as wanted.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::write::{self, WriteError};

/// An object of our own, as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Labels that it has at least.
    pub labels: BTreeMap<String, String>,
    /// Its only owner, with which it goes.
    pub owner: Option<OwnerReference>,
    /// Its status, whole.
    pub status: Value,
}

/// Writes what differs between `current` (as a store has it) and `wanted`: metadata under `manager`, the
/// status under `status_manager`. Says whether anything was written.
pub async fn keep<K>(
    api: &Api<K>,
    current: Option<&K>,
    wanted: &Wanted,
    manager: &str,
    status_manager: &str,
) -> Result<bool, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let metadata_differs = current.is_none_or(|object| !has_metadata(object, wanted));
    let status_differs = current.is_none_or(|object| status_of(object) != wanted.status);
    let kind = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&())});
    if metadata_differs {
        let mut object = kind.clone();
        object["metadata"] = json!({
            "name": wanted.name,
            "labels": wanted.labels,
            "ownerReferences": wanted.owner.iter().collect::<Vec<_>>(),
        });
        if let Some(current) = current
            && current.owner_references().iter().any(|it| Some(it) != wanted.owner.as_ref())
        {
            drop_foreign_owners(api, current, wanted, manager).await?;
        }
        write::apply(api, manager, &wanted.name, &object).await?;
    }
    if status_differs {
        let mut object = kind;
        object["metadata"] = json!({"name": wanted.name});
        object["status"] = wanted.status.clone();
        write::apply_status(api, status_manager, &wanted.name, &object).await?;
    }
    Ok(metadata_differs || status_differs)
}

/// Owner references are merged by uid; those of earlier pods would pile up under other managers.
async fn drop_foreign_owners<K>(
    api: &Api<K>,
    current: &K,
    wanted: &Wanted,
    manager: &str,
) -> Result<(), WriteError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let patch = json!({"metadata": {
        "uid": current.uid(),
        "ownerReferences": wanted.owner.iter().collect::<Vec<_>>(),
    }});
    let parameters = kube::api::PatchParams {
        field_manager: Some(manager.to_owned()),
        ..kube::api::PatchParams::default()
    };
    write::bounded(api.patch(&wanted.name, &parameters, &kube::api::Patch::Merge(patch))).await?;
    Ok(())
}

fn has_metadata<K: Resource<DynamicType = ()>>(object: &K, wanted: &Wanted) -> bool {
    let labels = object.labels();
    wanted.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && object.owner_references().iter().eq(wanted.owner.iter())
}

fn status_of<K: Serialize>(object: &K) -> Value {
    // Our own types always become JSON.
    serde_json::to_value(object).unwrap_or_default().get("status").cloned().unwrap_or(Value::Null)
}

/// A reference by which an object goes with a pod, without being controlled by it.
pub fn owned_by_pod(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: name.into(),
        uid: uid.into(),
        ..OwnerReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn wanted() -> Wanted {
        Wanted {
            name: "controller".into(),
            labels: [("a".to_owned(), "1".to_owned())].into(),
            owner: Some(owned_by_pod("pod", "u1")),
            status: json!({"result": "Valid"}),
        }
    }

    #[test]
    fn metadata_is_as_wanted_with_more_labels_but_not_with_more_owners() {
        let mut object = ConfigMap::default();
        assert!(!has_metadata(&object, &wanted()));
        object.labels_mut().extend([("a".into(), "1".into()), ("b".into(), "2".into())]);
        object.owner_references_mut().push(owned_by_pod("pod", "u1"));
        assert!(has_metadata(&object, &wanted()));
        object.owner_references_mut().push(owned_by_pod("earlier", "u0"));
        assert!(!has_metadata(&object, &wanted()));
    }
}
