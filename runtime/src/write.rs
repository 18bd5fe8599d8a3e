//! Writes to the API server: server-side apply and status patches. Every one is bounded in time, since
//! the client itself would wait for an answer as long as a dead link lasts.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::ACCEPT;
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest time that one write may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a write did not happen (or may have happened without an answer).
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server or the way to it failed.
    #[error("the API server refused or failed")]
    Api(#[source] kube::Error),
    /// No answer within this time.
    #[error("no answer from the API server within {} s", .0.as_secs())]
    Timeout(Duration),
}

impl WriteError {
    /// The HTTP status of the API server's refusal, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// The object does not exist (any more).
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Somebody else wrote first, or owns a field.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// Bounds any request to the API server in time.
pub async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    bounded_by(TIMEOUT, request).await
}

/// As [`bounded`], by another limit.
pub async fn bounded_by<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, WriteError> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => answer.map_err(WriteError::Api),
        Err(_) => Err(WriteError::Timeout(limit)),
    }
}

/// Server-side apply of an object under a field manager, taking over what others claim.
pub async fn apply<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    object: &impl SerializeDebug,
) -> Result<K, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    bounded(api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(object))).await
}

/// Server-side apply of the status subresource.
pub async fn apply_status<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    object: &impl SerializeDebug,
) -> Result<K, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    bounded(api.patch_status(name, &PatchParams::apply(manager).force(), &Patch::Apply(object))).await
}

/// Merge patch (RFC 7396) of the status subresource. Put `metadata.uid` and, where a concurrent change
/// must not be overwritten, `metadata.resourceVersion` into the patch.
pub async fn merge_status<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    patch: &serde_json::Value,
) -> Result<K, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    bounded(api.patch_status(
        name,
        &PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() },
        &Patch::Merge(patch),
    ))
    .await
}

/// Strategic merge patch of the status subresource, for kinds built into Kubernetes: lists of conditions
/// merge by their type. Preconditions as for [`merge_status`]. Returns the version that the object has now: there may
/// be thousands of such writes in a row, so nothing else is asked for.
pub async fn strategic_status<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    patch: &serde_json::Value,
    limit: Duration,
) -> Result<Option<String>, WriteError>
where
    K: Resource + Clone,
{
    let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let request = Request::new(api.resource_url());
    let request = request.patch_subresource("status", name, &parameters, &Patch::Strategic(patch));
    let answer = async {
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA_ONLY));
        api.clone().into_client().request::<Written>(request).await
    };
    bounded_by(limit, answer).await.map(|it| it.metadata.resource_version)
}

const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

#[derive(Deserialize)]
struct Written {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
}

/// Creates an object.
pub async fn create<K>(api: &Api<K>, manager: &str, object: &K) -> Result<K, WriteError>
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    bounded(
        api.create(&PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() }, object),
    )
    .await
}

/// Deletes an object; its absence is success. With a uid, only that very object.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<&str>) -> Result<(), WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let parameters = DeleteParams {
        preconditions: uid
            .map(|uid| kube::api::Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::background()
    };
    match bounded(api.delete(name, &parameters)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// What a patch body must be.
pub trait SerializeDebug: Serialize + Debug {}
impl<T: Serialize + Debug> SerializeDebug for T {}
