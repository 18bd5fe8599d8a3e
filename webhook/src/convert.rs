//! Conversion of `BGPPeer` between its versions: an `apiextensions.k8s.io` ConversionReview in, the same
//! version of it out. What becomes of a field is decided by `ferrolb_api::conversion`; here it is read and
//! written.

use ferrolb_api::conversion::{to_v1beta1, to_v1beta2};
use ferrolb_api::{v1beta1, v1beta2};
use ferrolb_runtime::log::chain;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::review::NoReview;

/// Where the API server sends its reviews.
pub(crate) const PATH: &str = "/convert";
/// Versions of the review that are understood, the preferred one first.
pub(crate) const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

const REVIEW_GROUP: &str = "apiextensions.k8s.io";

/// What the API server asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    api_version: String,
    request: Option<Request>,
}

#[derive(Debug, Deserialize)]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    objects: Vec<Box<RawValue>>,
}

/// What we answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    api_version: String,
    kind: &'static str,
    response: Response,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    converted_objects: Vec<Box<RawValue>>,
    result: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(tag = "status")]
enum Outcome {
    Success,
    Failure { message: String },
}

impl Answer {
    /// Whether all objects were converted.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self.response.result, Outcome::Success)
    }
}

/// Reads a review and answers it.
pub(crate) fn answer(body: &[u8]) -> Result<Answer, NoReview> {
    let no_review = |reason: String| NoReview::new("ConversionReview", reason);
    let question: Question = serde_json::from_slice(body).map_err(|error| no_review(error.to_string()))?;
    let version = question.api_version.strip_prefix(REVIEW_GROUP).and_then(|it| it.strip_prefix('/'));
    if !version.is_some_and(|version| REVIEW_VERSIONS.contains(&version)) {
        return Err(no_review(format!("apiVersion {:?} is not understood", question.api_version)));
    }
    let Request { uid, desired, objects } =
        question.request.ok_or_else(|| no_review("it has no request".into()))?;
    let converted: Result<Vec<_>, String> = objects.into_iter().map(|it| convert(it, &desired)).collect();
    let (converted_objects, result) = match converted {
        Ok(objects) => (objects, Outcome::Success),
        Err(message) => (Vec::new(), Outcome::Failure { message }),
    };
    let response = Response { uid, converted_objects, result };
    Ok(Answer { api_version: question.api_version, kind: "ConversionReview", response })
}

/// What tells an object from others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: String,
    kind: String,
    #[serde(default)]
    metadata: Name,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    namespace: String,
    name: String,
}

fn convert(object: Box<RawValue>, desired: &str) -> Result<Box<RawValue>, String> {
    let header: Header = serde_json::from_str(object.get())
        .map_err(|error| format!("cannot read an object to convert: {error}"))?;
    let (deprecated, stored) = (v1beta1::BGPPeer::api_version(&()), v1beta2::BGPPeer::api_version(&()));
    if header.kind != v1beta1::BGPPeer::kind(&()) {
        return Err(format!("kind {:?} has one version only, nothing to convert", header.kind));
    }
    match (header.api_version.as_str(), desired) {
        (from, to) if from == to && (from == deprecated || from == stored) => Ok(object),
        (from, to) if from == deprecated && to == stored => {
            write(to_v1beta2(read(&object, &header)?).map_err(|error| chain(&error))?)
        }
        (from, to) if from == stored && to == deprecated => {
            write(to_v1beta1(read(&object, &header)?).map_err(|error| chain(&error))?)
        }
        (from, to) => Err(format!("no conversion of BGPPeer from {from:?} to {to:?}")),
    }
}

fn read<K: DeserializeOwned>(object: &RawValue, header: &Header) -> Result<K, String> {
    serde_json::from_str(object.get()).map_err(|error| {
        let Name { namespace, name } = &header.metadata;
        format!("BGPPeer {namespace}/{name} cannot be read as {}: {error}", header.api_version)
    })
}

fn write(object: impl Serialize) -> Result<Box<RawValue>, String> {
    to_raw_value(&object).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn peer(version: &str, spec: Value) -> Value {
        json!({"apiVersion": format!("metallb.io/{version}"), "kind": "BGPPeer",
               "metadata": {"name": "tor", "namespace": "metallb-system", "uid": "p"}, "spec": spec})
    }

    fn ask(review: &str, desired: &str, objects: Value) -> Value {
        let review = json!({"apiVersion": format!("apiextensions.k8s.io/{review}"), "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": desired, "objects": objects}});
        serde_json::to_value(answer(review.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn both_versions_of_the_review_are_answered_in_kind() {
        let old = peer("v1beta1", json!({"myASN": 1, "peerASN": 2, "peerAddress": "10.0.0.1"}));
        for version in REVIEW_VERSIONS {
            let answer = ask(version, "metallb.io/v1beta2", json!([old, old]));
            assert_eq!(answer["apiVersion"], format!("apiextensions.k8s.io/{version}"));
            assert_eq!((&answer["kind"], answer.get("request")), (&json!("ConversionReview"), None));
            let response = &answer["response"];
            assert_eq!((&response["uid"], &response["result"]), (&json!("u"), &json!({"status": "Success"})));
            let converted = response["convertedObjects"].as_array().unwrap();
            assert_eq!(converted.len(), 2);
            assert_eq!(converted[0]["apiVersion"], "metallb.io/v1beta2");
            assert_eq!(converted[0]["metadata"], old["metadata"]);
            assert_eq!(converted[0]["spec"]["holdTime"], "0s");
        }
    }

    #[test]
    fn what_the_older_version_cannot_hold_comes_back() {
        let stored = peer(
            "v1beta2",
            json!({"myASN": 1, "dynamicASN": "internal", "interface": "eth1", "vrf": "red", "peerPort": 179,
                   "disableMP": false, "dualStackAddressFamily": true}),
        );
        let narrow = ask("v1", "metallb.io/v1beta1", json!([stored]))["response"]["convertedObjects"].clone();
        assert_eq!((&narrow[0]["spec"]["peerASN"], narrow[0]["spec"].get("vrf")), (&json!(0), None));
        let back = ask("v1", "metallb.io/v1beta2", narrow)["response"]["convertedObjects"].clone();
        assert_eq!(back, json!([stored]));
    }

    #[test]
    fn an_object_that_has_the_version_already_is_not_touched() {
        let stored = peer("v1beta2", json!({"myASN": 1, "of": "the future"}));
        let answer = ask("v1", "metallb.io/v1beta2", json!([stored]));
        assert_eq!(answer["response"]["convertedObjects"], json!([stored]));
    }

    #[test]
    fn one_bad_object_fails_the_review_by_name() {
        let good = peer("v1beta1", json!({"myASN": 1, "peerASN": 2, "peerAddress": "10.0.0.1"}));
        let kept = |value: &str| {
            let mut peer = good.clone();
            peer["metadata"]["annotations"] = json!({"ferrolb.io/kept-for-v1beta2": value});
            peer
        };
        let mut pool = good.clone();
        pool["kind"] = json!("IPAddressPool");
        for (bad, message) in [
            (
                peer("v1beta1", json!({"myASN": 1})),
                "BGPPeer metallb-system/tor cannot be read as metallb.io/v1beta1: missing field `peerASN`",
            ),
            (
                peer("v1beta1", json!({"myASN": -1})),
                "BGPPeer metallb-system/tor cannot be read as metallb.io/v1beta1: invalid value: integer `-1`",
            ),
            (
                peer("v1", json!({})),
                "no conversion of BGPPeer from \"metallb.io/v1\" to \"metallb.io/v1beta2\"",
            ),
            (
                kept("no JSON"),
                "BGPPeer metallb-system/tor: annotation ferrolb.io/kept-for-v1beta2 does not hold fields of v1beta2",
            ),
            (pool, "kind \"IPAddressPool\" has one version only"),
            (json!([]), "cannot read an object to convert"),
        ] {
            let response = ask("v1", "metallb.io/v1beta2", json!([good, bad]))["response"].clone();
            assert_eq!(response["convertedObjects"], json!([]));
            assert_eq!(response["result"]["status"], "Failure");
            let told = response["result"]["message"].as_str().unwrap();
            assert!(told.starts_with(message), "{told}");
        }
    }

    #[test]
    fn what_is_no_review_is_refused() {
        let other = json!({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "desiredAPIVersion": "", "objects": []}});
        let empty = json!({"apiVersion": "apiextensions.k8s.io/v1"});
        for body in ["", "[]", "{}", &other.to_string(), &empty.to_string()] {
            let refused = answer(body.as_bytes()).unwrap_err().to_string();
            assert!(refused.starts_with("not a ConversionReview: "), "{refused}");
        }
    }
}
