//! Carries out one write of a status object.

use ferrolb_api::well_known::field_manager;
use ferrolb_runtime::write;
use kube::{Api, ResourceExt};

use super::PassError;
use super::diff::{Action, status_patch};
use super::kind::ServiceStatus;

/// What an action came to: the states of the object, each written over the one before.
pub(super) struct Performed<K> {
    pub(super) objects: Vec<K>,
    pub(super) outcome: Result<(), PassError>,
}

pub(super) async fn perform<K: ServiceStatus>(api: &Api<K>, action: &Action<K>) -> Performed<K> {
    let mut objects = Vec::new();
    let outcome = perform_into(api, action, &mut objects).await;
    Performed { objects, outcome }
}

async fn perform_into<K: ServiceStatus>(
    api: &Api<K>,
    action: &Action<K>,
    objects: &mut Vec<K>,
) -> Result<(), PassError> {
    let what = || format!("{} of Service {}", K::kind(&()), action.about());
    let failed = |source| PassError::Write { what: what(), source };
    let (name, uid, status) = match action {
        Action::Create { object, status, .. } => {
            let created =
                write::create(api, field_manager::SPEAKER, object.as_ref()).await.map_err(failed)?;
            let identity = (created.name_any(), created.uid());
            objects.push(created);
            (identity.0, identity.1, status)
        }
        Action::SetStatus { object, status } => (object.name_any(), object.uid(), status),
        Action::Delete { object } => {
            let deleted = write::delete(api, &object.name_any(), object.uid().as_deref()).await;
            return match deleted {
                // Another object of this name: not the one meant.
                Err(error) if error.is_conflict() => Ok(()),
                other => other.map_err(failed),
            };
        }
    };
    let patch = status_patch::<K>(uid.as_deref(), status);
    match write::merge_status(api, field_manager::SPEAKER, &name, &patch).await {
        Ok(written) => {
            let agrees = written.status() == Some(status);
            objects.push(written);
            if agrees { Ok(()) } else { Err(PassError::Disagreement { what: what() }) }
        }
        // Deleted meanwhile; the store is about to say so.
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
