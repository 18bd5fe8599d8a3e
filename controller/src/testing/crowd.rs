//! Very many Services for the small API server. They are made up when they are asked for, and of each no more is
//! kept than its version and the address that it was given: what a process has in memory with them is then its own.

use std::net::Ipv4Addr;

use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use serde_json::{Value, json};

use super::api::{event, failure, parameters};

/// The Services, all of one namespace. All want an address from one pool.
pub(crate) struct Crowd {
    pool: &'static str,
    services: Vec<State>,
    version: u64,
    watchers: Vec<UnboundedSender<Result<Bytes, std::io::Error>>>,
    writes: usize,
}

#[derive(Clone)]
struct State {
    version: u64,
    address: Option<Ipv4Addr>,
}

impl Crowd {
    /// So many, all waiting.
    pub(crate) fn new(count: usize, pool: &'static str) -> Self {
        let services = vec![State { version: 1, address: None }; count];
        Self { pool, services, version: 1, watchers: Vec::new(), writes: 0 }
    }

    /// How many have an address, and how many statuses were written for that.
    pub(crate) fn served(&self) -> (usize, usize) {
        (self.services.iter().filter(|it| it.address.is_some()).count(), self.writes)
    }

    /// The answer to a request for Services or for an Event about one; none: it is about something else.
    pub(crate) fn answer(&mut self, method: &Method, uri: &Uri, body: &Bytes) -> Option<Response> {
        let path = uri.path();
        if path.ends_with("/events") {
            let event: Value = serde_json::from_slice(body).ok()?;
            return Some((StatusCode::CREATED, axum::Json(event)).into_response());
        }
        let (_, path) = path.split_once("/services")?;
        let answer = match path.split('/').nth(1) {
            None => self.list(uri),
            Some(name) if *method == Method::PATCH => self.write(name, body),
            Some(_) => failure(StatusCode::NOT_FOUND, "NotFound"),
        };
        Some(answer)
    }

    fn list(&mut self, uri: &Uri) -> Response {
        let parameters = parameters(uri);
        if parameters.get("watch") == Some(&"true") {
            let (sender, receiver) = unbounded();
            self.watchers.push(sender);
            return axum::body::Body::from_stream(receiver).into_response();
        }
        let number = |name| parameters.get(name).and_then(|it| it.parse::<usize>().ok());
        let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
        let to = from.saturating_add(limit).min(self.services.len());
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if to < self.services.len() {
            metadata["continue"] = json!(to.to_string());
        }
        let items: Vec<Value> = (from..to).map(|number| self.object(number)).collect();
        axum::Json(json!({"metadata": metadata, "items": items})).into_response()
    }

    fn write(&mut self, name: &str, body: &Bytes) -> Response {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let number: usize = name.trim_start_matches("service-").parse().unwrap();
        if patch["metadata"]["resourceVersion"] != json!(self.services[number].version.to_string()) {
            return failure(StatusCode::CONFLICT, "Conflict");
        }
        let address = &patch["status"]["loadBalancer"]["ingress"][0]["ip"];
        self.version += 1;
        self.writes += 1;
        self.services[number] =
            State { version: self.version, address: address.as_str().map(|it| it.parse().unwrap()) };
        let object = self.object(number);
        let line = event("MODIFIED", &object);
        self.watchers.retain(|watcher| watcher.unbounded_send(Ok(line.clone())).is_ok());
        axum::Json(object).into_response()
    }

    fn object(&self, number: usize) -> Value {
        let cluster_ip = Ipv4Addr::from_bits((10 << 24) + (96 << 16) + u32::try_from(number).unwrap());
        let uid = format!("3f1b7c1e-6e0f-4a52-9f0e-{number:012}");
        let state = &self.services[number];
        let mut object = json!({
            "metadata": {
                "name": format!("service-{number:06}"), "namespace": "crowd", "uid": uid,
                "resourceVersion": state.version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app.kubernetes.io/name": format!("app-{number}"), "app.kubernetes.io/part-of": "shop"},
            },
            "spec": {
                "type": "LoadBalancer", "clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster",
                "selector": {"app.kubernetes.io/name": format!("app-{number}")},
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30000},
                          {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 8443, "nodePort": 30001}],
            },
            "status": {"loadBalancer": {}},
        });
        if let Some(address) = state.address {
            object["metadata"]["annotations"] = json!({
                "metallb.io/ip-allocated-from-pool": self.pool,
                "ferrolb.io/allocation": format!("0/{uid}/{address}"),
            });
            object["status"]["loadBalancer"]["ingress"] = json!([{"ip": address, "ipMode": "VIP"}]);
        }
        object
    }
}
