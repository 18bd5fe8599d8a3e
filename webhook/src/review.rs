//! One review: an `admission.k8s.io/v1` AdmissionReview in, one out. What is decided is decided by
//! `core::admission`; here it is read and written. The response type is our own: the client library's
//! writes patches as arrays of numbers.

use std::fmt;
use std::sync::Arc;

use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{
    BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement, MetalLB,
};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::admission::{Candidate, Operation, Verdict};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A kind that is reviewed.
pub(crate) trait Reviewed:
    Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static
{
    /// Where the API server sends its reviews.
    const PATH: &'static str;

    /// The object to judge; `old` reads what it replaces.
    fn candidate(self, old: impl FnOnce() -> Option<Self>) -> Candidate;
}

/// Kinds that are judged without what they replace.
macro_rules! reviewed {
    ($($kind:ty, $path:literal, $candidate:ident;)*) => {$(
        impl Reviewed for $kind {
            const PATH: &'static str = $path;

            fn candidate(self, _: impl FnOnce() -> Option<Self>) -> Candidate {
                Candidate::$candidate(Arc::new(self))
            }
        }
    )*};
}

reviewed! {
    IPAddressPool, "/validate-metallb-io-v1beta1-ipaddresspool", IpAddressPool;
    AddressReservation, "/validate-ferrolb-io-v1alpha1-addressreservation", AddressReservation;
    L2Advertisement, "/validate-metallb-io-v1beta1-l2advertisement", L2Advertisement;
    BGPAdvertisement, "/validate-metallb-io-v1beta1-bgpadvertisement", BgpAdvertisement;
    BGPPeer, "/validate-metallb-io-v1beta2-bgppeer", BgpPeer;
    BFDProfile, "/validate-metallb-io-v1beta1-bfdprofile", BfdProfile;
    Community, "/validate-metallb-io-v1beta1-community", Community;
}

impl Reviewed for MetalLB {
    const PATH: &'static str = "/validate-metallb-io-v1beta1-metallb";

    fn candidate(self, old: impl FnOnce() -> Option<Self>) -> Candidate {
        Candidate::MetalLb { object: Arc::new(self), old: old().map(Arc::new) }
    }
}

/// What the API server asks.
#[derive(Debug, Deserialize)]
struct Question {
    request: Option<Request>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    operation: String,
    #[serde(default)]
    object: Option<Box<RawValue>>,
    #[serde(default)]
    old_object: Option<Box<RawValue>>,
}

/// What we answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Debug, Serialize)]
struct Response {
    pub(crate) uid: String,
    pub(crate) allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Status {
    pub(crate) code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    pub(crate) message: String,
}

/// A body that is no review: answered with HTTP 400.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoReview {
    wanted: &'static str,
    reason: String,
}

impl NoReview {
    pub(crate) fn new(wanted: &'static str, reason: String) -> Self {
        Self { wanted, reason }
    }
}

impl fmt::Display for NoReview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let article = if self.wanted.starts_with('A') { "an" } else { "a" };
        write!(f, "not {article} {}: {}", self.wanted, self.reason)
    }
}

/// A review that was read.
#[derive(Debug)]
pub(crate) struct Review {
    uid: String,
    /// The change, or why its object cannot be read.
    pub(crate) change: Result<(Candidate, Operation), String>,
}

/// Reads a review of a kind.
pub(crate) fn read<K: Reviewed>(body: &[u8]) -> Result<Review, NoReview> {
    let no_review = |reason: String| NoReview::new("AdmissionReview", reason);
    let question: Question = serde_json::from_slice(body).map_err(|error| no_review(error.to_string()))?;
    let request = question.request.ok_or_else(|| no_review("it has no request".into()))?;
    let operation = match request.operation.as_str() {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        other => return Err(no_review(format!("operation {other:?} is not reviewed here"))),
    };
    let (object, old) = match operation {
        Operation::Delete => (request.old_object, None),
        Operation::Create | Operation::Update => (request.object, request.old_object),
    };
    let old = || serde_json::from_str::<K>(old?.get()).ok();
    let change = match object {
        None => Err("the review has no object".to_owned()),
        Some(object) => serde_json::from_str::<K>(object.get())
            .map(|object| (object.candidate(old), operation))
            .map_err(|error| error.to_string()),
    };
    Ok(Review { uid: request.uid, change })
}

impl Review {
    /// The answer for a verdict.
    pub(crate) fn answer(self, verdict: Verdict) -> Answer {
        let (allowed, status, warnings) = match verdict {
            // The API server drops a warning of several lines.
            Verdict::Allowed { warnings } => {
                (true, None, warnings.iter().map(|warning| warning.replace('\n', "; ")).collect())
            }
            Verdict::Denied { message } => {
                (false, Some(Status { code: 403, reason: Some("Forbidden"), message }), Vec::new())
            }
            Verdict::Unreadable { message } => return self.unreadable(message),
        };
        self.with(allowed, status, warnings)
    }

    /// The answer where the object cannot be read.
    pub(crate) fn unreadable(self, message: String) -> Answer {
        self.with(false, Some(Status { code: 400, reason: Some("BadRequest"), message }), Vec::new())
    }

    /// The answer where we cannot judge; the API server then does as the failure policy says.
    pub(crate) fn failed(self, message: String) -> Answer {
        self.with(false, Some(Status { code: 500, reason: Some("InternalError"), message }), Vec::new())
    }

    fn with(self, allowed: bool, status: Option<Status>, warnings: Vec<String>) -> Answer {
        let response = Response { uid: self.uid, allowed, status, warnings };
        Answer { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(operation: &str, object: serde_json::Value) -> Vec<u8> {
        let request = json!({"uid": "u1", "operation": operation, "object": object, "oldObject": object});
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
            .into_bytes()
    }

    fn pool() -> serde_json::Value {
        json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
               "metadata": {"name": "p", "namespace": "n"}, "spec": {"addresses": ["10.0.0.0/24"]}})
    }

    #[test]
    fn reviews_are_read_and_answered_with_their_uid() {
        for (text, operation) in
            [("CREATE", Operation::Create), ("UPDATE", Operation::Update), ("DELETE", Operation::Delete)]
        {
            let review = read::<IPAddressPool>(&body(text, pool())).unwrap();
            assert_eq!(review.change.as_ref().unwrap().1, operation);
            let answer = review.answer(Verdict::Allowed { warnings: vec!["w\nx".into()] });
            let answer = serde_json::to_value(answer).unwrap();
            assert_eq!(answer["response"], json!({"uid": "u1", "allowed": true, "warnings": ["w; x"]}));
        }
        let review = read::<IPAddressPool>(&body("CREATE", pool())).unwrap();
        let answer = serde_json::to_value(review.answer(Verdict::Denied { message: "no".into() })).unwrap();
        assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(
            answer["response"]["status"],
            json!({"code": 403, "reason": "Forbidden", "message": "no"})
        );
        let review = read::<IPAddressPool>(&body("CREATE", pool())).unwrap();
        let answer = review.answer(Verdict::Unreadable { message: "no".into() });
        assert_eq!(
            serde_json::to_value(answer).unwrap()["response"]["status"],
            json!({"code": 400, "reason": "BadRequest", "message": "no"})
        );
    }

    #[test]
    fn a_metallb_object_is_judged_beside_what_it_replaces() {
        let object = |backend: &str| {
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"name": "metallb"},
                   "spec": {"bgpBackend": backend}})
        };
        let request = json!({"uid": "u1", "operation": "UPDATE", "object": object("native"), "oldObject": object("frr")});
        let review = read::<MetalLB>(json!({"request": request}).to_string().as_bytes()).unwrap();
        let Ok((Candidate::MetalLb { object, old }, Operation::Update)) = review.change else {
            panic!("{review:?}")
        };
        let backend = |it: &MetalLB| it.spec.bgp_backend.clone();
        assert_eq!(backend(&object).as_deref(), Some("native"));
        assert_eq!(old.as_deref().and_then(backend).as_deref(), Some("frr"));
    }

    #[test]
    fn what_is_no_review_is_an_error_and_an_unreadable_object_a_refusal() {
        for bad in [&b"{"[..], b"[]", b"{}", b"{\"request\": {\"uid\": \"u\"}}"] {
            assert!(read::<IPAddressPool>(bad).is_err(), "{bad:?}");
        }
        assert!(read::<IPAddressPool>(&body("CONNECT", pool())).is_err());
        let wrong =
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "spec": {"addresses": 7}});
        let review = read::<IPAddressPool>(&body("CREATE", wrong)).unwrap();
        let message = review.change.as_ref().unwrap_err().clone();
        let answer = serde_json::to_value(review.unreadable(message)).unwrap();
        assert_eq!(answer["response"]["status"]["code"], 400);
    }
}
