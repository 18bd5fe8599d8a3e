//! Writes of addresses into the status of Services: a merge patch of `/status`, which carries the pool's
//! annotation along. The uid keeps it off a Service that was recreated, the resource version off one that
//! somebody changed meanwhile.

use ferrolb_api::well_known::{annotation, field_manager};
use ferrolb_core::allocator::StatusWrite;
use ferrolb_core::service::ServiceKey;
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Writes one Service's status.
pub(crate) async fn write(
    client: Client,
    service: &ServiceKey,
    resource_version: Option<&str>,
    wanted: &StatusWrite,
) -> Result<Service, WriteError> {
    let api: Api<Service> = Api::namespaced(client, &service.namespace);
    let patch = patch(resource_version, wanted);
    write::merge_status(&api, field_manager::CONTROLLER, &service.name, &patch).await
}

fn patch(resource_version: Option<&str>, wanted: &StatusWrite) -> Value {
    let pool = wanted.assignment.as_ref().map(|assignment| assignment.pool.clone());
    let ingress = wanted.assignment.as_ref().map(|assignment| {
        let entry = |address: &std::net::IpAddr| json!({"ip": address, "ipMode": "VIP"});
        assignment.addresses.iter().map(entry).collect::<Vec<_>>()
    });
    json!({
        "metadata": {
            "uid": wanted.uid,
            "resourceVersion": resource_version,
            "annotations": {annotation::ALLOCATED_FROM_POOL: pool},
        },
        "status": {"loadBalancer": {"ingress": ingress}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::allocator::Assignment;

    #[test]
    fn an_assignment_sets_and_its_absence_removes_address_and_annotation() {
        let addresses = vec!["192.168.10.200".parse().unwrap()];
        let assignment = Some(Assignment { addresses, pool: "default".into() });
        assert_eq!(
            patch(Some("7"), &StatusWrite { uid: "u".into(), assignment }),
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7",
                             "annotations": {"metallb.io/ip-allocated-from-pool": "default"}},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.168.10.200", "ipMode": "VIP"}]}},
            })
        );
        let cleared = patch(None, &StatusWrite { uid: "u".into(), assignment: None });
        assert_eq!(cleared["status"]["loadBalancer"]["ingress"], Value::Null);
        assert_eq!(cleared["metadata"]["annotations"]["metallb.io/ip-allocated-from-pool"], Value::Null);
    }
}
