//! The controller: one Deployment, one replica; a lease lets old and new overlap while it rolls.

use ferrolb_api::well_known::{component, object};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::PodSpec;

use super::{Context, pod, pod_selector};

pub(super) fn deployment(context: &Context<'_>) -> Deployment {
    let spec = &context.metallb.spec;
    let container = pod::container(
        context,
        pod::Process {
            name: "controller",
            command: "/controller",
            env: Vec::new(),
            args: pod::load_balancer_class(context),
            ports: Vec::new(),
            probe_host: None,
            capability: None,
        },
    );
    let pod = PodSpec {
        service_account_name: Some(object::CONTROLLER.into()),
        containers: vec![container],
        node_selector: pod::linux_nodes(&spec.controller_node_selector),
        tolerations: pod::unless_empty(&spec.controller_tolerations),
        security_context: Some(pod::unprivileged()),
        termination_grace_period_seconds: Some(10),
        ..Default::default()
    };
    Deployment {
        metadata: context.namespaced(object::CONTROLLER, component::CONTROLLER),
        spec: DeploymentSpec {
            replicas: Some(1),
            revision_history_limit: Some(3),
            progress_deadline_seconds: Some(super::PROGRESS_DEADLINE),
            selector: pod_selector(component::CONTROLLER),
            template: pod::template(component::CONTROLLER, spec.controller_config.as_ref(), pod),
            ..Default::default()
        },
        status: None,
    }
}
