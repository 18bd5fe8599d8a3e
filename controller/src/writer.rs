//! Writes of addresses into the status of Services: one patch of `/status`, which carries the condition
//! and our annotations along. The uid keeps it off a Service that was recreated, the resource version off
//! one that somebody changed meanwhile, and the Lease off what another leader may be deciding.

use std::sync::Arc;
use std::time::Duration;

use ferrolb_api::well_known::{annotation, field_manager, service_condition};
use ferrolb_core::allocator::{Assignment, StatusWrite};
use ferrolb_core::service::Grant;
use ferrolb_runtime::lease::Held as LeaseHeld;
use ferrolb_runtime::write::{self, WriteError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::stored::Stored;

/// How long writes may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// One write.
    pub(crate) write: Duration,
    /// What the Lease must last beyond that, since the API server may still be at work on a request
    /// that is given up here.
    pub(crate) margin: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { write: Duration::from_secs(4), margin: Duration::from_secs(1) }
    }
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It was done, and this is the resource version of the Service now.
    Done(Option<String>),
    /// It failed.
    Failed(WriteError),
    /// It was not sent: somebody else may be the leader before it is over.
    NotSent,
}

/// Writes one Service's status, if the Lease lasts.
pub(crate) async fn write(
    client: Client,
    lease: &LeaseHeld,
    limits: Limits,
    service: &Stored,
    wanted: &StatusWrite,
) -> Answer {
    let key = &service.lb.key;
    let api: Api<Service> = Api::namespaced(client.clone(), &key.namespace);
    // The check is the last thing before the request.
    let Some(term) = lease.covers(limits.write + limits.margin) else { return Answer::NotSent };
    let patch = patch(service, wanted, term, Timestamp::now());
    let manager = field_manager::CONTROLLER;
    match write::strategic_status(&api, manager, &key.name, &patch, limits.write).await {
        Ok(version) => Answer::Done(version),
        Err(error) => Answer::Failed(error),
    }
}

fn patch(service: &Stored, wanted: &StatusWrite, term: i32, now: Timestamp) -> Value {
    let assignment = wanted.assignment.as_ref();
    let mut annotations = json!({ annotation::ALLOCATED_FROM_POOL: assignment.map(Assignment::record) });
    match assignment {
        None => annotations[annotation::ALLOCATION] = Value::Null,
        Some(assignment) if wanted.gives(&service.lb) => {
            let addresses = assignment.addresses.to_vec();
            let grant = Grant { term, uid: Arc::clone(&wanted.uid), addresses };
            annotations[annotation::ALLOCATION] = json!(grant.to_string());
        }
        Some(_) => {}
    }
    let ingress = assignment.map(|assignment| {
        let entry = |address: &std::net::IpAddr| json!({"ip": address, "ipMode": "VIP"});
        assignment.addresses.iter().map(entry).collect::<Vec<_>>()
    });
    let mut status = json!({"loadBalancer": {"ingress": ingress}});
    if let Some(condition) = condition(service, wanted, now) {
        status["conditions"] = json!([condition]);
    }
    json!({
        "metadata": {
            "uid": &*wanted.uid,
            "resourceVersion": service.resource_version,
            "annotations": annotations,
        },
        "status": status,
    })
}

/// The element of `status.conditions` to patch, if any.
fn condition(service: &Stored, wanted: &StatusWrite, now: Timestamp) -> Option<Value> {
    let type_ = service_condition::ADDRESS_ASSIGNED;
    let shown = service.lb.condition.as_ref();
    let Some(wanted) = &wanted.condition else {
        return shown.map(|_| json!({"$patch": "delete", "type": type_}));
    };
    // The time is that of the last change of the status, not of the words.
    let before = shown.filter(|it| it.status == wanted.status).and(service.condition_since.clone());
    Some(json!({
        "type": type_,
        "status": if wanted.status { "True" } else { "False" },
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": before.unwrap_or(Time(now)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::service::AddressAssigned;
    use ferrolb_core::testing::{ServiceBuilder, service};

    fn assigned(condition: Option<AddressAssigned>) -> StatusWrite {
        let addresses = ["192.168.10.200".parse().unwrap()].into();
        StatusWrite {
            uid: "u".into(),
            assignment: Some(Assignment { addresses, pools: ["default".into()].into() }),
            condition,
        }
    }

    fn patched(service: ServiceBuilder, wanted: &StatusWrite) -> Value {
        let mut object = service.build();
        object.metadata.resource_version = Some("7".into());
        patch(&Stored::read(object), wanted, 3, Timestamp::UNIX_EPOCH)
    }

    fn condition_of(status: bool) -> AddressAssigned {
        AddressAssigned { status, reason: "R".into(), message: "m".into() }
    }

    #[test]
    fn an_assignment_sets_and_its_absence_removes() {
        let plain = service("demo", "hello").uid("u");
        assert_eq!(
            patched(plain.clone(), &assigned(None)),
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7", "annotations": {
                    "metallb.io/ip-allocated-from-pool": "default",
                    "ferrolb.io/allocation": "3/u/192.168.10.200",
                }},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.168.10.200", "ipMode": "VIP"}]}},
            })
        );
        let cleared = patched(plain, &StatusWrite { uid: "u".into(), assignment: None, condition: None });
        assert_eq!(cleared["status"], json!({"loadBalancer": {"ingress": null}}));
        assert_eq!(
            cleared["metadata"]["annotations"],
            json!({"metallb.io/ip-allocated-from-pool": null, "ferrolb.io/allocation": null})
        );
    }

    #[test]
    fn who_keeps_its_address_keeps_its_term() {
        let holding =
            service("demo", "hello").uid("u").holding(&["192.168.10.200"]).from_pool("old").granted(1);
        let annotations = &patched(holding, &assigned(None))["metadata"]["annotations"];
        assert_eq!(*annotations, json!({"metallb.io/ip-allocated-from-pool": "default"}));
    }

    #[test]
    fn the_condition_travels_along() {
        let plain = service("demo", "hello").uid("u");
        let refused = StatusWrite { uid: "u".into(), assignment: None, condition: Some(condition_of(false)) };
        let expected = |status: &str, time: &str| {
            json!([{"type": "ferrolb.io/AddressAssigned", "status": status, "reason": "R", "message": "m",
                    "lastTransitionTime": time}])
        };
        let conditions = |it, wanted: &StatusWrite| patched(it, wanted)["status"]["conditions"].clone();
        let epoch = "1970-01-01T00:00:00Z";
        assert_eq!(conditions(plain.clone(), &refused), expected("False", epoch));
        assert_eq!(conditions(plain.clone(), &assigned(None)), Value::Null);
        let told = || plain.clone().written(&refused, 1);
        assert_eq!(conditions(told(), &assigned(Some(condition_of(true)))), expected("True", epoch));
        assert_eq!(
            conditions(told(), &assigned(None)),
            json!([{"$patch": "delete", "type": "ferrolb.io/AddressAssigned"}])
        );
        // Other words, same status: the time stays.
        let mut object = told().build();
        let time = Time(Timestamp::from_second(5).unwrap());
        object.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].last_transition_time = time;
        let again = patch(&Stored::read(object), &refused, 3, Timestamp::from_second(9).unwrap());
        assert_eq!(again["status"]["conditions"], expected("False", "1970-01-01T00:00:05Z"));
    }
}
