//! The operator itself, as it is installed by a file, a chart or OLM: never by itself.
//!
//! Input: the installation's [`Settings`]. Output: its namespace, its rights and its Deployment. The
//! image that stands here is the one that every operand gets.

use ferrolb_api::well_known::{label, object};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Namespace, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::object::Object;
use super::{Settings, labels, pod, rbac};

/// Name of the operator's container.
pub const CONTAINER: &str = "manager";
/// Label of a namespace with the Pod Security level that its pods must keep to.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// All labels with such levels.
const POD_SECURITY: [&str; 3] =
    ["pod-security.kubernetes.io/audit", POD_SECURITY_ENFORCE, "pod-security.kubernetes.io/warn"];
/// The level that speakers need: they use the node's network and raw sockets.
pub const POD_SECURITY_LEVEL: &str = "privileged";

/// The namespace of the product, at the Pod Security level that the speakers need.
pub fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.into()),
            labels: Some(labels(POD_SECURITY.map(|label| (label, POD_SECURITY_LEVEL)))),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// Rights and Deployment of the operator.
pub fn operator(settings: &Settings) -> Vec<Object> {
    let mut objects = rbac::operator(&settings.namespace);
    objects.push(deployment(settings).into());
    objects
}

/// The Deployment of the operator.
pub fn deployment(settings: &Settings) -> Deployment {
    let own = labels([
        (label::APP, label::APP_VALUE),
        (label::COMPONENT, "operator"),
        ("control-plane", "controller-manager"),
    ]);
    let container = pod::container(
        pod::Common::plain(&settings.image),
        pod::Process {
            name: CONTAINER,
            command: "/manager",
            env: Vec::new(),
            args: Vec::new(),
            ports: Vec::new(),
            probe_host: None,
            capabilities: &[],
        },
    );
    let pod = PodSpec {
        service_account_name: Some(object::OPERATOR_ACCOUNT.into()),
        containers: vec![container],
        node_selector: pod::linux_nodes(&Default::default()),
        security_context: Some(pod::unprivileged()),
        termination_grace_period_seconds: Some(10),
        ..Default::default()
    };
    let mut template = pod::plain_template("operator", pod);
    if let Some(metadata) = &mut template.metadata {
        metadata.labels = Some(own.clone());
        let default_container = ("kubectl.kubernetes.io/default-container".into(), CONTAINER.into());
        metadata.annotations.get_or_insert_default().extend([default_container]);
    }
    Deployment {
        metadata: ObjectMeta {
            name: Some(object::OPERATOR.into()),
            namespace: Some(settings.namespace.clone()),
            labels: Some(own),
            ..Default::default()
        },
        spec: DeploymentSpec {
            replicas: Some(1),
            revision_history_limit: Some(3),
            selector: LabelSelector {
                match_labels: Some(labels([("control-plane", "controller-manager")])),
                ..Default::default()
            },
            template,
            ..Default::default()
        },
        status: None,
    }
}
