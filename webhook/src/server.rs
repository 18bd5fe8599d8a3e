//! The HTTP side: a path for each kind, bodies bounded in size, number and time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{
    BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement, MetalLB,
};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::admission::{Admission, Candidate, Operation, Verdict};
use ferrolb_core::resources::Resources;
use ferrolb_runtime::log::chain;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::convert;
use crate::existing::Existing;
use crate::metrics::Metrics;
use crate::review::{self, Reviewed};

/// The API server stores objects up to 1.5 MiB (etcd's limit) and takes requests up to 3 MiB; a review
/// carries the old and the new object. A list of thousands of peers in the deprecated version fits too.
const BODY_LIMIT: usize = 7 * 1024 * 1024;
/// Reviews in memory at a time; more wait.
const REVIEWS: usize = 8;
/// How long a body may take to arrive: who stalls must not keep a place from others.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// What a review needs.
pub(crate) struct Reviewer {
    pub(crate) existing: Existing,
    pub(crate) metrics: Arc<Metrics>,
    places: Semaphore,
    /// What was read for earlier reviews: little is another than the last time.
    admission: Mutex<Admission>,
}

impl Reviewer {
    pub(crate) fn new(existing: Existing, metrics: Arc<Metrics>) -> Self {
        Self { existing, metrics, places: Semaphore::new(REVIEWS), admission: Mutex::default() }
    }

    /// A verdict that would hurt is given on fresh data only.
    async fn judge(&self, candidate: Candidate, operation: Operation) -> Result<Verdict, String> {
        let verdict = self.admit(&self.existing.watched(), candidate.clone(), operation).await;
        if verdict == Verdict::allowed() {
            return Ok(verdict);
        }
        match self.existing.fresh().await {
            Ok(fresh) => Ok(self.admit(&fresh, candidate, operation).await),
            Err(error) => Err(format!("failed to get existing objects: {}", chain(&error))),
        }
    }

    async fn admit(&self, existing: &Resources, candidate: Candidate, operation: Operation) -> Verdict {
        let mut kept = self.admission.lock().await;
        // Taken out meanwhile: what a panic leaves behind is not used again.
        let mut admission = std::mem::take(&mut *kept);
        let verdict = admission.admit(existing, candidate, operation, &self.existing.namespace);
        *kept = admission;
        verdict
    }
}

/// All paths.
pub(crate) fn router(reviewer: Arc<Reviewer>) -> Router {
    Router::new()
        .route(IPAddressPool::PATH, post(review::<IPAddressPool>))
        .route(AddressReservation::PATH, post(review::<AddressReservation>))
        .route(L2Advertisement::PATH, post(review::<L2Advertisement>))
        .route(BGPAdvertisement::PATH, post(review::<BGPAdvertisement>))
        .route(BGPPeer::PATH, post(review::<BGPPeer>))
        .route(BFDProfile::PATH, post(review::<BFDProfile>))
        .route(Community::PATH, post(review::<Community>))
        .route(MetalLB::PATH, post(review::<MetalLB>))
        .route(convert::PATH, post(convert))
        .with_state(reviewer)
}

/// The body of a review, and the place it takes.
async fn receive(reviewer: &Reviewer, body: Body) -> Result<(Bytes, SemaphorePermit<'_>), Response> {
    let Ok(place) = reviewer.places.acquire().await else {
        return Err(StatusCode::SERVICE_UNAVAILABLE.into_response());
    };
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, BODY_LIMIT)).await {
        Ok(Ok(body)) => Ok((body, place)),
        Ok(Err(error)) => Err((StatusCode::PAYLOAD_TOO_LARGE, chain(&error)).into_response()),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time").into_response()),
    }
}

async fn convert(State(reviewer): State<Arc<Reviewer>>, body: Body) -> Response {
    let (body, _place) = match receive(&reviewer, body).await {
        Ok(received) => received,
        Err(refusal) => return refusal,
    };
    match convert::answer(&body) {
        Ok(answer) => {
            reviewer.metrics.converted(answer.is_success());
            Json(answer).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

async fn review<K: Reviewed>(State(reviewer): State<Arc<Reviewer>>, body: Body) -> Response {
    let (body, _place) = match receive(&reviewer, body).await {
        Ok(received) => received,
        Err(refusal) => return refusal,
    };
    let review = match review::read::<K>(&body) {
        Ok(review) => review,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let kind = K::kind(&()).into_owned();
    let (candidate, operation) = match review.change.clone() {
        Ok(change) => change,
        Err(message) => {
            reviewer.metrics.reviewed(&kind, "unreadable");
            return Json(review.unreadable(message)).into_response();
        }
    };
    match reviewer.judge(candidate, operation).await {
        Ok(verdict) => {
            match &verdict {
                Verdict::Allowed { .. } => reviewer.metrics.reviewed(&kind, "allowed"),
                Verdict::Denied { message } => {
                    reviewer.metrics.reviewed(&kind, "denied");
                    tracing::info!(event = "denied", kind, reason = message, "change refused");
                }
                Verdict::Unreadable { .. } => reviewer.metrics.reviewed(&kind, "unreadable"),
            }
            Json(review.answer(verdict)).into_response()
        }
        Err(message) => {
            reviewer.metrics.reviewed(&kind, "failed");
            Json(review.failed(message)).into_response()
        }
    }
}

#[cfg(test)]
#[path = "server/tests.rs"]
mod tests;
