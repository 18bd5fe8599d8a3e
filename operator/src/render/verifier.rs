//! A pod that checks an installation from inside the cluster, and what it may do: for `helm test`.

use ferrolb_api::well_known::{GROUP, label};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::object::Object;
use super::{Settings, labels, pod, rbac};

/// Name of the pod and of its account.
const NAME: &str = "ferrolb-verify";

fn metadata(settings: &Settings) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.into()),
        namespace: Some(settings.namespace.clone()),
        labels: Some(labels([(label::APP, label::APP_VALUE), (label::COMPONENT, "verify")])),
        ..Default::default()
    }
}

/// Account, Role and binding of the pod: it reads the workloads, and asks for a pool that nobody stores.
pub fn rights(settings: &Settings) -> Vec<Object> {
    let rules = vec![
        rbac::rule("apps", &["daemonsets", "deployments"], &["get"]),
        rbac::rule(GROUP, &["ipaddresspools"], &["create"]),
    ];
    rbac::namespaced_account(&settings.namespace, NAME, metadata(settings), rules)
}

/// The pod.
pub fn pod(settings: &Settings) -> Pod {
    let mut container = pod::container(
        pod::Common::plain(&settings.image),
        pod::Process {
            name: "verify",
            command: "/manager",
            env: Vec::new(),
            args: vec!["--verify".into()],
            ports: Vec::new(),
            probe_host: None,
            capabilities: &[],
        },
    );
    // It ends by itself, and its end is what it says.
    (container.readiness_probe, container.liveness_probe) = (None, None);
    Pod {
        metadata: metadata(settings),
        spec: Some(PodSpec {
            service_account_name: Some(NAME.into()),
            containers: vec![container],
            restart_policy: Some("Never".into()),
            enable_service_links: Some(false),
            node_selector: pod::linux_nodes(&Default::default()),
            security_context: Some(pod::unprivileged()),
            ..Default::default()
        }),
        status: None,
    }
}
