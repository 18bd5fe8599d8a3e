//! The plan, and the registrar over a scripted API server.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::http::{Method, Request, Response, StatusCode};
use ferrolb_runtime::Readiness;
use ferrolb_runtime::tls::Bundle;
use ferrolb_runtime::watch::Watches;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use super::*;

fn configuration(bundles: &[Option<&str>]) -> ValidatingWebhookConfiguration {
    let webhook = |(index, bundle): (usize, &Option<&str>)| {
        json!({
            "name": format!("w{index}"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"caBundle": bundle.map(|it| ByteString(it.as_bytes().to_vec()))},
        })
    };
    let webhooks: Vec<Value> = bundles.iter().enumerate().map(webhook).collect();
    serde_json::from_value(json!({"metadata": {"name": "c", "uid": "u"}, "webhooks": webhooks})).unwrap()
}

#[test]
fn nothing_is_written_while_all_is_well_or_there_is_nothing() {
    assert_eq!(plan(None, "c", &authority("ca")), Plan::Absent);
    assert_eq!(plan(Some(&configuration(&[Some("ca"), Some("ca")])), "c", &authority("ca")), Plan::Done);
}

fn authority(pem: &str) -> Authority<'_> {
    Authority { pem, alone: false, now: SystemTime::now() }
}

#[test]
fn a_new_authority_stands_beside_the_old_one_for_a_while() {
    let made = |at| Bundle::generate(&["w.ns.svc".into()], at).unwrap().ca;
    let now = SystemTime::now();
    let (old, new) = (made(now), made(now));
    let beside = |authority: Authority<'_>, registered: &str| {
        let bundle = ByteString(registered.as_bytes().to_vec());
        String::from_utf8(authority.beside(Some(&bundle)).0).unwrap()
    };
    let both = beside(authority(&new), &old);
    assert_eq!(blocks(&both), BTreeSet::from([old.trim(), new.trim()]));
    // Another replica knows the old one only, or both the other way round: nothing changes to and fro.
    assert_eq!(beside(authority(&old), &both), both);
    assert_eq!(beside(authority(&new), &both), both);
    assert_eq!(beside(authority(&new), &new), new);
    // After an hour.
    assert_eq!(beside(Authority { alone: true, ..authority(&new) }, &both), new);
    // What no client would take for an authority is not kept.
    assert_eq!(beside(authority(&new), "garbage"), new.trim_end());
    let expired = made(now - Duration::from_secs(11 * 365 * 24 * 3600));
    assert_eq!(beside(authority(&new), &expired), new.trim_end());
}

#[test]
fn what_another_replica_registers_is_left_alone_for_a_while() {
    let begin = Instant::now();
    let mut calm = Calm { since: begin, generation: Some(1) };
    let minutes = |count: u64| begin + Duration::from_secs(60 * count);
    calm.see(Some(1), minutes(61));
    assert_eq!(calm.since, begin, "as it was");
    calm.see(Some(2), minutes(62));
    assert_eq!(calm.since, minutes(62));
    calm.see(Some(2), minutes(63));
    assert_eq!(calm.since, minutes(62));
}

#[test]
fn one_wrong_bundle_writes_all_and_only_bundles() {
    for other in [None, Some("old")] {
        let Plan::Apply(wanted) = plan(Some(&configuration(&[Some("ca"), other])), "c", &authority("ca"))
        else {
            panic!("{other:?}")
        };
        let bundle = json!({"caBundle": "Y2E="});
        assert_eq!(wanted["metadata"], json!({"name": "c", "uid": "u"}));
        assert_eq!(
            wanted["webhooks"],
            json!([{"name": "w0", "clientConfig": bundle}, {"name": "w1", "clientConfig": bundle}])
        );
    }
}

const NAME: &str = "bgppeers.metallb.io";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "uid": "c", "resourceVersion": "1"},
        "spec": {"group": "metallb.io", "scope": "Namespaced", "versions": [],
                 "names": {"kind": "BGPPeer", "plural": "bgppeers"}},
    })
}

/// Every write: query and body.
type Writes = Arc<Mutex<Vec<(String, Value)>>>;

/// An API server with one definition, whose first write fails.
fn client(writes: &Writes) -> Client {
    let writes = Arc::clone(writes);
    let service = service_fn(move |request: Request<Body>| {
        let writes = Arc::clone(&writes);
        async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": [definition()]});
            let (status, answer) = if request.method() == Method::PATCH {
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut writes = writes.lock().unwrap();
                writes.push((query, serde_json::from_slice(&body).unwrap()));
                let status =
                    if writes.len() == 1 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
                (status, definition())
            } else {
                (StatusCode::OK, list)
            };
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn the_conversion_is_written_by_our_field_manager_until_it_stands() {
    let writes = Writes::default();
    let (readiness, shutdown) = (Readiness::default(), Shutdown::default());
    let watches = Watches::new(readiness.clone(), shutdown.clone());
    let api: Api<CustomResourceDefinition> = Api::all(client(&writes));
    let (authority, told) = watch::channel(None);
    let service = conversion::Service { namespace: "ns".into(), name: "webhook".into() };
    let registrar = Registrar {
        store: watches.add(api.clone()),
        api,
        name: NAME.into(),
        authority: told,
        plan: Box::new(move |current, authority| conversion::plan(current, &service, Some(authority.pem))),
    };
    let task = tokio::spawn(registrar.run(watches.changed(), shutdown.clone()));
    readiness.wait().await;
    assert_eq!(writes.lock().unwrap().len(), 0, "nobody is to be trusted yet");
    authority.send_replace(Some("ca".into()));
    while writes.lock().unwrap().len() < 2 {
        tokio::time::sleep(RETRY / 4).await;
    }
    shutdown.begin();
    task.await.unwrap();
    let writes = writes.lock().unwrap().clone();
    for (query, body) in &writes {
        assert!(query.contains("fieldManager=metallb-webhook") && query.contains("force=true"), "{query}");
        assert_eq!(body["metadata"], json!({"name": NAME, "uid": "c"}));
        let config = &body["spec"]["conversion"]["webhook"]["clientConfig"];
        assert_eq!((&config["caBundle"], &config["service"]["path"]), (&json!("Y2E="), &json!("/convert")));
    }
}
