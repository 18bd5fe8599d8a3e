//! The router over a scripted API server.

use std::sync::Mutex;

use axum::http::{Request, Response as HttpResponse};
use ferrolb_runtime::watch::Watches;
use ferrolb_runtime::{Readiness, Shutdown};
use kube::Client;
use prometheus::Registry;
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

use super::*;

/// An API server that answers every list with these pools and counts who asks. Watches end at once and
/// so are asked again: the stores stay as after the first list.
fn client(pools: Value, lists: Arc<Mutex<usize>>) -> Client {
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let watching = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let of_pools = request.uri().path().ends_with("/ipaddresspools");
        if of_pools && !watching {
            *lists.lock().unwrap() += 1;
        }
        let items = if of_pools { pools.clone() } else { json!([]) };
        async move {
            if watching {
                std::future::pending::<()>().await;
            }
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items});
            Ok::<_, std::convert::Infallible>(HttpResponse::new(kube::client::Body::from(
                list.to_string().into_bytes(),
            )))
        }
    });
    Client::new(service, "metallb-system")
}

fn pool(name: &str, addresses: &str) -> Value {
    json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
           "metadata": {"name": name, "namespace": "metallb-system"}, "spec": {"addresses": [addresses]}})
}

/// The router with these pools stored, and how often they were asked for.
async fn over(stored: Value) -> (Router, Arc<Mutex<usize>>) {
    let lists = Arc::new(Mutex::new(0));
    let client = client(stored, Arc::clone(&lists));
    let readiness = Readiness::default();
    let watches = Watches::new(readiness.clone(), Shutdown::default());
    let existing = Existing::watch(&watches, client, "metallb-system", true);
    readiness.wait().await;
    let metrics = Arc::new(Metrics::register(&Registry::new()).unwrap());
    (router(Arc::new(Reviewer::new(existing, metrics))), lists)
}

async fn answer(stored: Value, body: String) -> (StatusCode, Value, usize) {
    let (router, lists) = over(stored).await;
    let request = Request::post(IPAddressPool::PATH).body(Body::from(body)).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = to_bytes(response.into_body(), BODY_LIMIT).await.unwrap();
    let asked = *lists.lock().unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null), asked)
}

fn create(object: Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
           "request": {"uid": "u", "operation": "CREATE", "object": object}})
    .to_string()
}

#[tokio::test]
async fn a_good_pool_is_allowed_without_asking_again() {
    let stored = json!([pool("a", "10.0.0.0/24")]);
    let (status, answer, lists) = answer(stored, create(pool("b", "10.0.1.0/24"))).await;
    assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(true)));
    assert_eq!(lists, 1, "the watch's own list only");
}

#[tokio::test]
async fn a_wrong_pool_is_denied_with_the_known_text_after_a_fresh_look() {
    let (_, answer, lists) = answer(json!([]), create(pool("bad", "192.168.10.220-192.168.10.200"))).await;
    let response = &answer["response"];
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    assert_eq!(
        response["status"]["message"],
        "parsing address pool bad: invalid CIDR \"192.168.10.220-192.168.10.200\" in pool \"bad\": invalid IP range \
         \"192.168.10.220-192.168.10.200\": start IP \"192.168.10.220\" is after the end IP \"192.168.10.200\""
    );
    assert_eq!(lists, 2);
}

#[tokio::test]
async fn an_overlap_is_denied_and_a_stored_wrong_pool_does_not_block_others() {
    let stored = json!([pool("a", "10.0.0.0/24"), pool("bad", "x")]);
    let (_, answer, _) = answer(stored.clone(), create(pool("b", "10.0.0.128/32"))).await;
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.contains("overlaps with already defined CIDR \"10.0.0.0/24\""), "{message}");
    let (_, answer, _) = self::answer(stored, create(pool("b", "10.0.1.0/24"))).await;
    assert_eq!(answer["response"]["allowed"], true);
}

#[tokio::test]
async fn garbage_is_a_bad_request_and_too_much_of_it_is_too_large() {
    assert_eq!(answer(json!([]), "{".into()).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(answer(json!([]), "x".repeat(BODY_LIMIT + 1)).await.0, StatusCode::PAYLOAD_TOO_LARGE);
}

/// As large as the API server takes it, and wrong in every entry.
#[tokio::test]
async fn an_object_of_megabytes_gets_a_short_answer() {
    let mut huge = pool("huge", "");
    huge["spec"]["addresses"] = json!(vec!["10.0.0.999/24"; 180_000]);
    let body = create(huge);
    assert!(body.len() > 2_800_000);
    let (status, answer, _) = answer(json!([]), body).await;
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(false)));
    assert!(message.ends_with("and 179950 more") && answer.to_string().len() < 20_000, "{message}");
}

/// As many as are read at a time: nobody else would be answered.
#[tokio::test(start_paused = true)]
async fn who_stalls_loses_the_place() {
    let (router, _) = over(json!([])).await;
    let ask = |body: Body| router.clone().oneshot(Request::post(IPAddressPool::PATH).body(body).unwrap());
    let stalled = || Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let stalling: Vec<_> = (0..REVIEWS).map(|_| tokio::spawn(ask(stalled()))).collect();
    tokio::task::yield_now().await;
    let answer = ask(create(pool("a", "10.0.0.0/24")).into()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    for it in stalling {
        assert_eq!(it.await.unwrap().unwrap().status(), StatusCode::REQUEST_TIMEOUT);
    }
}

#[tokio::test]
async fn peers_are_converted_and_too_much_at_once_is_refused() {
    let ask = async |body: String| {
        let (router, _) = over(json!([])).await;
        let request = Request::post("/convert").body(Body::from(body)).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        (status, to_bytes(response.into_body(), BODY_LIMIT).await.unwrap())
    };
    let peer = json!({"apiVersion": "metallb.io/v1beta1", "kind": "BGPPeer", "metadata": {"name": "tor"},
                      "spec": {"myASN": 1, "peerASN": 2, "peerAddress": "10.0.0.1"}});
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "metallb.io/v1beta2", "objects": [peer]}});
    let (status, body) = ask(review.to_string()).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["response"]["convertedObjects"][0]["spec"]["peerAddress"], "10.0.0.1");
    assert_eq!(ask("{}".into()).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(ask("x".repeat(BODY_LIMIT + 1)).await.0, StatusCode::PAYLOAD_TOO_LARGE);
}
