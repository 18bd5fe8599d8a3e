//! A small API server for tests: objects by path, list, watch, create, patch, delete, over real HTTP on
//! loopback. An apply is a merge, which is what it comes to with a single writer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::until;

/// The server.
#[derive(Clone, Default)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Value>,
    version: u64,
    log: Vec<(u64, &'static str, Key, Value)>,
    watchers: Vec<(Query, UnboundedSender<Result<Bytes, std::io::Error>>)>,
    writes: Vec<String>,
    broken: bool,
    closed: bool,
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
    labels: Vec<(String, String)>,
}

impl Query {
    fn selects(&self, key: &Key, object: &Value) -> bool {
        self.plural == key.plural
            && self.namespace.as_ref().is_none_or(|it| *it == key.namespace)
            && self.name.as_ref().is_none_or(|it| *it == key.name)
            && self.labels.iter().all(|(label, value)| object["metadata"]["labels"][label] == *value)
    }
}

impl Api {
    /// Starts to serve, and a client of it. Call within a runtime.
    pub(crate) async fn serve() -> (Self, Client) {
        let api = Self::default();
        let client = api.attach().await;
        (api, client)
    }

    /// Another client, served on the loopback interface of this thread's network.
    pub(crate) async fn attach(&self) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let handler = self.clone();
        let router = axum::Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let api = handler.clone();
            async move { api.answer(&method, &uri, &body) }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        let mut config = Config::new(url.parse().unwrap());
        config.default_namespace = "metallb-system".to_owned();
        Client::try_from(config).unwrap()
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

    /// Removes an object, as somebody else.
    pub(crate) fn remove(&self, plural: &str, namespace: &str, name: &str) {
        let key = Key { plural: plural.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
        self.lock().remove(&key);
    }

    /// Waits for an Event about the BGPPeer with the uid `peer-uid`; what it says.
    pub(crate) async fn event_of_peer(&self, reason: &str) -> String {
        let message = || {
            let events = self.list("events");
            let event = events.iter().find(|event| event["reason"] == reason)?;
            assert_eq!(event["involvedObject"]["kind"], "BGPPeer");
            assert_eq!(event["involvedObject"]["uid"], "peer-uid");
            event["message"].as_str().map(ToOwned::to_owned)
        };
        until(reason, || message().is_some()).await;
        message().unwrap()
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, plural: &str) -> Vec<Value> {
        let state = self.lock();
        state.objects.iter().filter(|(key, _)| key.plural == plural).map(|(_, it)| it.clone()).collect()
    }

    /// What the client wrote since the last call: method and path.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().writes)
    }

    /// Whether writes fail from now on.
    pub(crate) fn set_broken(&self, broken: bool) {
        self.lock().broken = broken;
    }

    /// Ends all watches and answers nothing but errors.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.watchers.clear();
    }

    fn answer(&self, method: &Method, uri: &Uri, body: &Bytes) -> Response {
        let mut segments = uri.path().split('/').skip(1);
        let group_segments = if segments.next() == Some("api") { 1 } else { 2 };
        let rest: Vec<&str> = segments.skip(group_segments).collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let plural = rest[0].to_owned();
        let parameters: BTreeMap<String, String> = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| {
                (key.to_owned(), value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/"))
            })
            .collect();
        let mut state = self.lock();
        if *method != Method::GET {
            state.writes.push(format!("{method} {}", uri.path()));
            if state.broken {
                return failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
            }
        }
        if state.closed {
            return failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
        }
        let Some(name) = rest.get(1) else {
            return match *method {
                Method::POST => state.create(plural, namespace.unwrap_or_default(), body),
                _ => state.list(&parameters, plural, namespace),
            };
        };
        let key = Key { plural, namespace: namespace.unwrap_or_default(), name: (*name).to_owned() };
        match *method {
            Method::GET => match state.objects.get(&key) {
                Some(object) => axum::Json(object.clone()).into_response(),
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::DELETE => match state.remove(&key) {
                true => axum::Json(json!({"kind": "Status", "status": "Success"})).into_response(),
                false => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
            _ => state.patch(key, body, rest.get(2) == Some(&"status")),
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

    fn remove(&mut self, key: &Key) -> bool {
        let Some(mut object) = self.objects.remove(key) else { return false };
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell("DELETED", key.clone(), object);
        true
    }

    fn tell(&mut self, what: &'static str, key: Key, object: Value) {
        let line = event(what, &object);
        self.watchers.retain(|(query, sender)| {
            !query.selects(&key, &object) || sender.unbounded_send(Ok(line.clone())).is_ok()
        });
        self.log.push((self.version, what, key, object));
    }

    fn create(&mut self, plural: String, namespace: String, body: &Bytes) -> Response {
        let mut object: Value = serde_json::from_slice(body).unwrap();
        if object["metadata"]["name"].is_null() {
            let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
            object["metadata"]["name"] = json!(format!("{prefix}{}", self.version));
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.version));
        object.as_object_mut().unwrap().remove("status");
        let stored = self.store(Key { plural, namespace, name }, object);
        (StatusCode::CREATED, axum::Json(stored)).into_response()
    }

    fn patch(&mut self, key: Key, body: &Bytes, status: bool) -> Response {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let applies = patch["kind"].is_string();
        let before = match self.objects.get(&key) {
            Some(object) => object.clone(),
            None if applies && !status => {
                json!({"metadata": {"namespace": key.namespace, "uid": format!("uid-{}", key.name)}})
            }
            None => return failure(StatusCode::NOT_FOUND, "NotFound"),
        };
        let mut after = before.clone();
        if status {
            merge(&mut after["status"], &patch["status"]);
        } else {
            merge(&mut after, &patch);
        }
        let stored = if after == before { before } else { self.store(key, after) };
        axum::Json(stored).into_response()
    }

    fn list(
        &mut self,
        parameters: &BTreeMap<String, String>,
        plural: String,
        namespace: Option<String>,
    ) -> Response {
        let pairs = |text: &String| -> Vec<(String, String)> {
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let fields = parameters.get("fieldSelector").map(pairs).unwrap_or_default();
        let query = Query {
            plural,
            namespace,
            name: fields.into_iter().find(|(key, _)| key == "metadata.name").map(|(_, value)| value),
            labels: parameters.get("labelSelector").map(pairs).unwrap_or_default(),
        };
        if parameters.get("watch").is_none_or(|it| it != "true") {
            let items: Vec<&Value> =
                self.objects.iter().filter(|(key, it)| query.selects(key, it)).map(|(_, it)| it).collect();
            let version = self.version.to_string();
            return axum::Json(json!({"metadata": {"resourceVersion": version}, "items": items}))
                .into_response();
        }
        let since = parameters.get("resourceVersion").and_then(|it| it.parse().ok()).unwrap_or(0);
        let (sender, receiver) = unbounded();
        for (version, what, key, object) in &self.log {
            if *version > since && query.selects(key, object) {
                sender.unbounded_send(Ok(event(what, object))).unwrap();
            }
        }
        self.watchers.push((query, sender));
        Body::from_stream(receiver).into_response()
    }
}

fn event(what: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": what, "object": object})).into()
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

fn failure(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": reason, "code": code.as_u16(),
    });
    (code, axum::Json(status)).into_response()
}
