//! A small API server for tests, over real HTTP on loopback: objects by path, list, watch, create,
//! replace and patch with their preconditions. Each client has a gate of its own, and a request that
//! waits at a closed one is answered later even if its client has given up: as with a process that was
//! stopped after it had sent it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::crowd::Crowd;

/// The server.
#[derive(Clone, Default)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
}

/// Which requests of a client wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Status patches wait.
    HoldsPatches,
    /// Everything waits.
    Closed,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Value>,
    version: u64,
    log: Vec<(u64, &'static str, Key, Value)>,
    watchers: Vec<(Query, UnboundedSender<Result<Bytes, std::io::Error>>)>,
    writes: Vec<String>,
    at_gate: usize,
    /// Whose Services nobody may write.
    forbidden: Option<String>,
    /// In place of the Services, if there is one.
    crowd: Option<Crowd>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    plural: String,
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, Default)]
struct Query {
    plural: String,
    namespace: Option<String>,
    name: Option<String>,
}

impl Query {
    fn selects(&self, key: &Key) -> bool {
        self.plural == key.plural
            && self.namespace.as_ref().is_none_or(|it| *it == key.namespace)
            && self.name.as_ref().is_none_or(|it| *it == key.name)
    }
}

impl Api {
    /// A client of its own, and its gate.
    pub(crate) async fn attach(&self) -> (Client, watch::Sender<Gate>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, gate) = watch::channel(Gate::Open);
        let handler = self.clone();
        let router = axum::Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let (api, mut gate) = (handler.clone(), gate.clone());
            let passes = move |method: &Method, gate: Gate| match gate {
                Gate::Open => true,
                Gate::HoldsPatches => *method != Method::PATCH,
                Gate::Closed => false,
            };
            async move {
                let answer = tokio::spawn(async move {
                    let patch = usize::from(method == Method::PATCH && uri.path().contains("/services/"));
                    api.lock().at_gate += patch;
                    gate.wait_for(|gate| passes(&method, *gate)).await.unwrap();
                    api.lock().at_gate -= patch;
                    api.answer(&method, &uri, &body)
                });
                answer.await.unwrap()
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        let mut config = Config::new(url.parse().unwrap());
        config.default_namespace = "metallb-system".to_owned();
        (Client::try_from(config).unwrap(), sender)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Creates or replaces an object, as somebody else.
    pub(crate) fn put(&self, plural: &str, mut object: Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let key = Key { plural: plural.to_owned(), namespace, name };
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", key.name));
        }
        self.lock().store(key, object);
    }

    /// Changes an object, as somebody else.
    pub(crate) fn change(&self, plural: &str, namespace: &str, name: &str, patch: &Value) {
        let key = Key { plural: plural.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
        let mut state = self.lock();
        let mut object = state.objects[&key].clone();
        merge(&mut object, patch);
        state.store(key, object);
    }

    /// Removes an object, as somebody else.
    pub(crate) fn remove(&self, plural: &str, namespace: &str, name: &str) {
        let key = Key { plural: plural.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
        self.lock().remove(&key);
    }

    /// One object, or null.
    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let key = Key { plural: plural.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
        self.lock().objects.get(&key).cloned().unwrap_or_default()
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, plural: &str) -> Vec<Value> {
        let state = self.lock();
        state.objects.iter().filter(|(key, _)| key.plural == plural).map(|(_, it)| it.clone()).collect()
    }

    /// Refuses every status of a Service of this namespace.
    pub(crate) fn forbid(&self, namespace: Option<&str>) {
        self.lock().forbidden = namespace.map(ToOwned::to_owned);
    }

    /// Has these Services, and no others.
    pub(crate) fn crowd(&self, crowd: Crowd) {
        self.lock().crowd = Some(crowd);
    }

    /// How many Services of the crowd have an address, and how many statuses were written for that.
    pub(crate) fn served(&self) -> (usize, usize) {
        self.lock().crowd.as_ref().map(Crowd::served).unwrap_or_default()
    }

    /// How many patches of Services wait at gates.
    pub(crate) fn at_gate(&self) -> usize {
        self.lock().at_gate
    }

    /// What clients wrote since the last call and the server accepted: method and path.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().writes)
    }

    fn answer(&self, method: &Method, uri: &Uri, body: &Bytes) -> Response {
        if let Some(answer) = self.lock().crowd.as_mut().and_then(|it| it.answer(method, uri, body)) {
            return answer;
        }
        let mut segments = uri.path().split('/').skip(1);
        let group_segments = if segments.next() == Some("api") { 1 } else { 2 };
        let rest: Vec<&str> = segments.skip(group_segments).collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let plural = rest[0].to_owned();
        let query = parameters(uri);
        let mut state = self.lock();
        let Some(name) = rest.get(1) else {
            return match *method {
                Method::POST => state.create(plural, namespace.unwrap_or_default(), body, uri.path()),
                _ => state.list(&query, plural, namespace),
            };
        };
        let key = Key { plural, namespace: namespace.unwrap_or_default(), name: (*name).to_owned() };
        match *method {
            Method::GET => match state.objects.get(&key) {
                Some(object) => axum::Json(object.clone()).into_response(),
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::PUT => state.change(key, body, false, uri.path(), "PUT"),
            _ => state.change(key, body, rest.get(2) == Some(&"status"), uri.path(), "PATCH"),
        }
    }
}

impl State {
    fn store(&mut self, key: Key, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let what =
            if self.objects.insert(key.clone(), object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.tell(what, key, object.clone());
        object
    }

    fn remove(&mut self, key: &Key) {
        let Some(mut object) = self.objects.remove(key) else { return };
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell("DELETED", key.clone(), object);
    }

    fn tell(&mut self, what: &'static str, key: Key, object: Value) {
        let line = event(what, &object);
        self.watchers.retain(|(query, sender)| {
            !query.selects(&key) || sender.unbounded_send(Ok(line.clone())).is_ok()
        });
        self.log.push((self.version, what, key, object));
    }

    fn create(&mut self, plural: String, namespace: String, body: &Bytes, path: &str) -> Response {
        let mut object: Value = serde_json::from_slice(body).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let key = Key { plural, namespace, name };
        if self.objects.contains_key(&key) {
            return failure(StatusCode::CONFLICT, "AlreadyExists");
        }
        object["metadata"]["namespace"] = json!(key.namespace);
        object["metadata"]["uid"] = json!(format!("uid-{}-{}", key.name, self.version));
        self.writes.push(format!("POST {path}"));
        (StatusCode::CREATED, axum::Json(self.store(key, object))).into_response()
    }

    fn change(&mut self, key: Key, body: &Bytes, status: bool, path: &str, method: &str) -> Response {
        let patch: Value = serde_json::from_slice(body).unwrap();
        if status && key.plural == "services" && self.forbidden.as_ref() == Some(&key.namespace) {
            return failure(StatusCode::FORBIDDEN, "Forbidden");
        }
        let before = match self.objects.get(&key) {
            Some(object) => object.clone(),
            // An apply creates.
            None if patch["kind"].is_string() && method == "PATCH" => {
                json!({"metadata": {"namespace": key.namespace, "uid": format!("uid-{}", key.name)}})
            }
            None => return failure(StatusCode::NOT_FOUND, "NotFound"),
        };
        for precondition in ["uid", "resourceVersion"] {
            let wanted = &patch["metadata"][precondition];
            if !wanted.is_null() && *wanted != before["metadata"][precondition] {
                return failure(StatusCode::CONFLICT, "Conflict");
            }
        }
        let mut after = before.clone();
        if status {
            merge(&mut after["metadata"]["annotations"], &patch["metadata"]["annotations"]);
            merge(&mut after["status"], &patch["status"]);
        } else {
            merge(&mut after, &patch);
        }
        self.writes.push(format!("{method} {path}"));
        let stored = if after == before { before } else { self.store(key, after) };
        axum::Json(stored).into_response()
    }

    fn list(
        &mut self,
        parameters: &BTreeMap<&str, &str>,
        plural: String,
        namespace: Option<String>,
    ) -> Response {
        let name = parameters.get("fieldSelector").and_then(|it| it.split_once("%3D"));
        let query = Query { plural, namespace, name: name.map(|(_, name)| name.to_owned()) };
        if parameters.get("watch").is_none_or(|it| *it != "true") {
            let items = self.objects.iter().filter(|(key, _)| query.selects(key)).map(|(_, it)| it);
            let number = |name| parameters.get(name).and_then(|it| it.parse::<usize>().ok());
            let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
            let mut items: Vec<&Value> = items.skip(from).take(limit.saturating_add(1)).collect();
            let mut metadata = json!({"resourceVersion": self.version.to_string()});
            if items.len() > limit {
                items.truncate(limit);
                metadata["continue"] = json!((from + limit).to_string());
            }
            return axum::Json(json!({"metadata": metadata, "items": items})).into_response();
        }
        let since = parameters.get("resourceVersion").and_then(|it| it.parse().ok()).unwrap_or(0);
        let (sender, receiver) = unbounded();
        for (version, what, key, object) in &self.log {
            if *version > since && query.selects(key) {
                sender.unbounded_send(Ok(event(what, object))).unwrap();
            }
        }
        self.watchers.push((query, sender));
        Body::from_stream(receiver).into_response()
    }
}

/// What a request asks for, as far as it is said after the path.
pub(super) fn parameters(uri: &Uri) -> BTreeMap<&str, &str> {
    uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')).collect()
}

pub(super) fn event(what: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": what, "object": object})).into()
}

/// RFC 7396, but lists of conditions merge by type, as in a strategic merge.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        if !patch.is_null() {
            target.clone_from(patch);
        }
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else if key == "conditions" {
            let merged = conditions(&target[key.as_str()], value);
            target[key.as_str()] = merged;
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

fn conditions(before: &Value, patch: &Value) -> Value {
    let mut list = before.as_array().cloned().unwrap_or_default();
    for condition in patch.as_array().into_iter().flatten() {
        list.retain(|it| it["type"] != condition["type"]);
        if condition["$patch"] != "delete" {
            list.push(condition.clone());
        }
    }
    json!(list)
}

pub(super) fn failure(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": reason, "code": code.as_u16(),
    });
    (code, axum::Json(status)).into_response()
}
