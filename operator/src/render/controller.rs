//! The controller: one Deployment, one replica unless more are asked for; a lease lets them overlap, and
//! one work.

use ferrolb_api::well_known::{component, object};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::PodSpec;

use super::{Context, Installer, pod, pod_selector};

pub(super) fn deployment(context: &Context<'_>) -> Deployment {
    let spec = &context.metallb.spec;
    let container = context.container(pod::Process {
        name: "controller",
        command: "/controller",
        env: Vec::new(),
        args: pod::load_balancer_class(context),
        ports: Vec::new(),
        probe_host: None,
        capabilities: &[],
    });
    // With the operator, the key is there before the first pod.
    let makes_key = (context.settings.installer == Installer::Manifest).then(|| {
        let command = ["/manager", "--make-memberlist-key", "--port=0"];
        vec![pod::init_container(&context.settings.image, "memberlist-key", &command)]
    });
    let pod = PodSpec {
        service_account_name: Some(object::CONTROLLER.into()),
        init_containers: makes_key,
        containers: vec![container],
        affinity: (replicas(context) > 1).then(|| pod::apart(component::CONTROLLER)),
        node_selector: pod::linux_nodes(&spec.controller_node_selector),
        tolerations: pod::unless_empty(&spec.controller_tolerations),
        security_context: Some(context.unprivileged()),
        termination_grace_period_seconds: Some(10),
        ..Default::default()
    };
    Deployment {
        metadata: context.namespaced(object::CONTROLLER, component::CONTROLLER),
        spec: DeploymentSpec {
            replicas: Some(replicas(context)),
            revision_history_limit: Some(3),
            progress_deadline_seconds: Some(super::PROGRESS_DEADLINE),
            selector: pod_selector(component::CONTROLLER),
            template: pod::template(context, component::CONTROLLER, spec.controller_config.as_ref(), pod),
            ..Default::default()
        },
        status: None,
    }
}

/// How many controllers there are.
pub(super) fn replicas(context: &Context<'_>) -> i32 {
    context.metallb.spec.controller_replicas.unwrap_or(1).max(1)
}
