//! An API server of one process: lists, watches, server-side apply (as a merge), deletes, and a record
//! of every write. No schema, no rights, no garbage collector.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The API server.
#[derive(Clone)]
pub(crate) struct Api {
    state: Arc<Mutex<Objects>>,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct Objects {
    /// By path, as in `/api/v1/namespaces/n/configmaps/name`.
    by_path: BTreeMap<String, Value>,
    version: u64,
    /// Every change: version, collection, watch event.
    log: Vec<(u64, String, Value)>,
    writes: Vec<String>,
    /// Objects that refuse every apply, as for a field that cannot change.
    frozen: BTreeSet<String>,
    /// Objects that nobody may change.
    forbidden: BTreeSet<String>,
    /// Groups of the API that are told of.
    groups: Vec<String>,
    /// How many writes are left until everything stops.
    stop: Option<usize>,
    stopped: bool,
    /// Dry runs so far.
    dry_runs: usize,
    /// Groups of the API that are not there.
    absent: Vec<String>,
    /// What becomes of dry runs while the webhook is not reached.
    unreached: Option<String>,
}

impl Api {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), newest: watch::channel(0).0 }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Router::new().fallback(answer).with_state(self.clone()), "metallb-system")
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().by_path.get(path).cloned()
    }

    /// Messages of all Events with a reason.
    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let events = state
            .by_path
            .iter()
            .filter(|(path, event)| path.contains("/events/") && event["reason"] == reason);
        events.map(|(_, event)| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Paths of all objects but Events.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.state.lock().unwrap().by_path.keys().filter(|path| !path.contains("/events/")).cloned().collect()
    }

    /// Every write so far but those of leases and Events: method and path.
    pub(crate) fn writes(&self) -> Vec<String> {
        let aside = |write: &&String| write.contains("/leases") || write.contains("/events");
        self.state.lock().unwrap().writes.iter().filter(|write| !aside(write)).cloned().collect()
    }

    /// Somebody writes a whole object.
    pub(crate) fn put(&self, path: &str, mut object: Value) -> Value {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let before = state.by_path.get(path);
        let uid =
            before.map_or_else(|| json!(format!("uid-{}", state.version)), |b| b["metadata"]["uid"].clone());
        let changed = before.is_none_or(|before| before["spec"] != object["spec"]);
        let generation = before.and_then(|b| b["metadata"]["generation"].as_i64()).unwrap_or(0);
        object["metadata"]["name"] = json!(path.rsplit('/').next());
        object["metadata"]["uid"] = uid;
        object["metadata"]["generation"] = json!(generation + i64::from(changed));
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let type_ = if before.is_some() { "MODIFIED" } else { "ADDED" };
        state.by_path.insert(path.into(), object.clone());
        self.tell(&mut state, path, type_, &object);
        object
    }

    /// After so many more writes none is done or answered; those of leases and Events do not count.
    pub(crate) fn stop_after(&self, writes: usize) {
        self.state.lock().unwrap().stop = Some(writes);
    }

    /// Whether it came to that.
    pub(crate) fn has_stopped(&self) -> bool {
        self.state.lock().unwrap().stopped
    }

    /// Answers again.
    pub(crate) fn go_on(&self) {
        let mut state = self.state.lock().unwrap();
        (state.stop, state.stopped) = (None, false);
    }

    /// Whether this write is not done any more.
    fn loses(&self, write: &str) -> bool {
        let mut state = self.state.lock().unwrap();
        if write.contains("/leases") || write.contains("/events") {
            return false;
        }
        match &mut state.stop {
            None => false,
            Some(0) => {
                state.stopped = true;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    /// Tells of a group of the API.
    pub(crate) fn has_group(&self, name: &str) {
        self.state.lock().unwrap().groups.push(name.into());
    }

    /// Has no such group of the API.
    pub(crate) fn lacks_group(&self, name: &str) {
        self.state.lock().unwrap().absent.push(name.into());
    }

    /// From now on, until it is deleted, the object refuses to be changed.
    pub(crate) fn freeze(&self, path: &str) {
        self.state.lock().unwrap().frozen.insert(path.into());
    }

    /// From now on nobody may change the object, or may again.
    pub(crate) fn forbid(&self, path: &str, forbidden: bool) {
        let mut state = self.state.lock().unwrap();
        if forbidden {
            state.forbidden.insert(path.into())
        } else {
            state.forbidden.remove(path)
        };
    }

    /// From now on the webhook is not reached, or is again.
    pub(crate) fn unreach(&self, error: Option<&str>) {
        self.state.lock().unwrap().unreached = error.map(ToOwned::to_owned);
    }

    pub(crate) fn dry_runs(&self) -> usize {
        self.state.lock().unwrap().dry_runs
    }

    /// The webhook's word on what is only tried, or why there is none.
    fn dry_run(&self) -> Response {
        let mut state = self.state.lock().unwrap();
        state.dry_runs += 1;
        let (code, reason, message) = match &state.unreached {
            Some(error) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error.clone()),
            None => {
                let webhook = "ipaddresspoolvalidationwebhook.metallb.io";
                let message =
                    format!("admission webhook \"{webhook}\" denied the request: parsing address pool");
                (StatusCode::FORBIDDEN, "Forbidden", message)
            }
        };
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
            "reason": reason, "message": message});
        (code, axum::Json(status)).into_response()
    }

    /// Somebody deletes an object.
    pub(crate) fn remove(&self, path: &str) -> Option<Value> {
        let mut state = self.state.lock().unwrap();
        state.frozen.remove(path);
        state.version += 1;
        let mut object = state.by_path.remove(path)?;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        self.tell(&mut state, path, "DELETED", &object);
        Some(object)
    }

    fn tell(&self, state: &mut Objects, path: &str, type_: &str, object: &Value) {
        let collection = path.rsplit_once('/').map_or("", |(collection, _)| collection);
        state.log.push((state.version, collection.into(), json!({"type": type_, "object": object})));
        self.newest.send_replace(state.version);
    }

    fn patch(
        &self,
        path: &str,
        subresource: &str,
        patch: &Value,
        manager: Option<&str>,
    ) -> Result<Value, StatusCode> {
        let before = self.get(path);
        if before.is_none() && !subresource.is_empty() {
            return Err(StatusCode::NOT_FOUND);
        }
        let mut after = before.clone().unwrap_or_else(|| json!({}));
        merge(&mut after, patch);
        // Who applied it; the fields themselves are not told apart here.
        if let Some(manager) = manager.filter(|_| subresource.is_empty()) {
            let entry = json!({"manager": manager, "operation": "Apply"});
            let entries = &mut after["metadata"]["managedFields"];
            let known = |it: &Value| it["manager"] == manager && it["operation"] == "Apply";
            if !entries.as_array().is_some_and(|entries| entries.iter().any(known)) {
                let others = entries.as_array().cloned().unwrap_or_default();
                *entries = others.into_iter().chain([entry]).collect();
            }
        }
        match before {
            Some(before) if before == after => Ok(before),
            _ => Ok(self.put(path, after)),
        }
    }

    fn list(&self, collection: &str, selector: &Selector) -> Value {
        let state = self.state.lock().unwrap();
        let inside = |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| is_in(parent, collection));
        let objects = state.by_path.iter().filter(|(path, _)| inside(path)).map(|(_, object)| object);
        let items: Vec<_> = objects.filter(|object| selector.matches(object)).collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": state.version.to_string()}, "items": items})
    }

    /// The changes of a collection after a version, as they come.
    fn watch(&self, collection: &str, selector: Selector, after: u64) -> Body {
        let start = (self.clone(), self.newest.subscribe(), collection.to_owned(), selector, after);
        let lines = stream::unfold(start, |(api, mut newest, collection, selector, after)| async move {
            loop {
                newest.borrow_and_update();
                if let Some((version, line)) = api.first_after(&collection, &selector, after) {
                    return Some((
                        Ok::<_, Infallible>(Bytes::from(line)),
                        (api, newest, collection, selector, version),
                    ));
                }
                newest.changed().await.ok()?;
            }
        });
        Body::from_stream(lines)
    }

    fn first_after(&self, collection: &str, selector: &Selector, after: u64) -> Option<(u64, String)> {
        let state = self.state.lock().unwrap();
        let seen = |(version, of, event): &&(u64, String, Value)| {
            *version > after && is_in(of, collection) && selector.matches(&event["object"])
        };
        let (version, _, event) = state.log.iter().find(seen)?;
        Some((*version, format!("{event}\n")))
    }
}

/// Labels that listed and watched objects must have.
#[derive(Clone)]
struct Selector(Vec<(String, String)>);

impl Selector {
    fn of(query: &str) -> Self {
        let decoded = query.replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
        let labels =
            decoded.split('&').find_map(|pair| pair.strip_prefix("labelSelector=")).unwrap_or_default();
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(key, value)| object["metadata"]["labels"][key] == value.as_str())
    }
}

async fn answer(State(api): State<Api>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let (full, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default());
    let (path, subresource) = match full.strip_suffix("/status") {
        Some(path) => (path.to_owned(), "status"),
        None => (full.clone(), ""),
    };
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
    if query.contains("dryRun=All") {
        return api.dry_run();
    }
    if api.state.lock().unwrap().absent.iter().any(|group| path.starts_with(&format!("/apis/{group}/"))) {
        return not_found(&path);
    }
    if head.method != Method::GET {
        if api.loses(&full) {
            std::future::pending::<()>().await;
        }
        api.state.lock().unwrap().writes.push(format!("{} {full}", head.method));
    }
    let applies =
        head.headers.get("content-type").is_some_and(|it| it.to_str().unwrap_or_default().contains("apply"));
    let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager=")).filter(|_| applies);
    let answer = match head.method {
        Method::GET if path == "/apis" => {
            let group = |name: &String| json!({"name": name, "versions": []});
            let groups: Vec<Value> = api.state.lock().unwrap().groups.iter().map(group).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Method::GET if query.contains("watch=true") => {
            let after = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
            return api
                .watch(&path, Selector::of(query), after.and_then(|after| after.parse().ok()).unwrap_or(0))
                .into_response();
        }
        Method::GET => {
            api.get(&path).or_else(|| is_collection(&path).then(|| api.list(&path, &Selector::of(query))))
        }
        Method::PATCH if api.state.lock().unwrap().frozen.contains(&path) => return immutable(),
        Method::PATCH if api.state.lock().unwrap().forbidden.contains(&path) => return forbidden(&path),
        Method::PATCH => match api.patch(&path, subresource, &sent, manager) {
            Ok(object) => Some(object),
            Err(status) => return status.into_response(),
        },
        Method::POST => {
            let name = sent["metadata"]["name"].as_str().unwrap_or_default();
            Some(api.put(&format!("{path}/{name}"), sent.clone()))
        }
        Method::PUT => Some(api.put(&path, sent)),
        Method::DELETE => api.remove(&path),
        _ => None,
    };
    match answer {
        Some(object) => axum::Json(object).into_response(),
        None => not_found(&path),
    }
}

fn not_found(path: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "message": format!("{path} not found")});
    (StatusCode::NOT_FOUND, axum::Json(status)).into_response()
}

fn forbidden(path: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": format!("{path} is forbidden: attempting to grant extra privileges")});
    (StatusCode::FORBIDDEN, axum::Json(status)).into_response()
}

fn immutable() -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422,
        "reason": "Invalid", "message": "spec.selector: Invalid value: {}: field is immutable"});
    (StatusCode::UNPROCESSABLE_ENTITY, axum::Json(status)).into_response()
}

/// Whether a collection is the other, or the part of it that is in one namespace.
fn is_in(part: &str, collection: &str) -> bool {
    let everywhere = |(start, rest): (&str, &str)| {
        rest.split_once('/').is_some_and(|(_, plural)| format!("{start}/{plural}") == collection)
    };
    part == collection || part.split_once("/namespaces/").is_some_and(everywhere)
}

/// Paths of collections end in a plural after an even number of group, version and namespace parts.
fn is_collection(path: &str) -> bool {
    let after_version = if path.starts_with("/api/v1/") { 3 } else { 4 };
    let parts = path.split('/').count() - after_version;
    parts % 2 == 1
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
