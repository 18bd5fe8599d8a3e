//! The webhook: two replicas apart from each other, the Service in front of them, and the registration
//! by which the API server asks them.

use ferrolb_api::well_known::{self, component, object, port};
use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{
    PodSpec, Secret, SecretVolumeSource, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Certificate, Context, pod, pod_labels, pod_selector};

/// A kind that is reviewed.
struct Reviewed {
    group: &'static str,
    singular: &'static str,
    plural: &'static str,
    version: &'static str,
    /// Name of its webhook, up to `validationwebhook.<group>`.
    prefix: &'static str,
}

const REVIEWED: [Reviewed; 7] = [
    Reviewed {
        group: well_known::ADDED_GROUP,
        ..reviewed("addressreservation", "addressreservations", "v1alpha1")
    },
    reviewed("bfdprofile", "bfdprofiles", "v1beta1"),
    reviewed("bgpadvertisement", "bgpadvertisements", "v1beta1"),
    Reviewed { prefix: "bgppeers", ..reviewed("bgppeer", "bgppeers", "v1beta2") },
    reviewed("community", "communities", "v1beta1"),
    reviewed("ipaddresspool", "ipaddresspools", "v1beta1"),
    reviewed("l2advertisement", "l2advertisements", "v1beta1"),
];
const METALLB: Reviewed = reviewed("metallb", "metallbs", "v1beta1");

const fn reviewed(singular: &'static str, plural: &'static str, version: &'static str) -> Reviewed {
    Reviewed { group: well_known::GROUP, singular, plural, version, prefix: singular }
}

/// The webhook runs where the controller may: it was part of it in MetalLB.
pub(super) fn deployment(context: &Context<'_>) -> Deployment {
    let spec = &context.metallb.spec;
    let mut container = context.container(pod::Process {
        name: "webhook-server",
        command: "/webhook",
        env: Vec::new(),
        args: certificate_flags(context.settings.certificate.as_ref()),
        ports: vec![pod::tcp_port("webhook", port::WEBHOOK)],
        probe_host: None,
        capabilities: &[],
    });
    let certificate = context.settings.certificate.as_ref();
    container.volume_mounts = certificate.map(|_| {
        vec![VolumeMount {
            name: VOLUME.into(),
            mount_path: FOLDER.into(),
            read_only: Some(true),
            ..Default::default()
        }]
    });
    let volume = |Certificate { secret, .. }: &Certificate| Volume {
        name: VOLUME.into(),
        secret: Some(SecretVolumeSource { secret_name: Some(secret.clone()), ..Default::default() }),
        ..Default::default()
    };
    let pod = PodSpec {
        volumes: certificate.map(|certificate| vec![volume(certificate)]),
        service_account_name: Some(object::WEBHOOK.into()),
        containers: vec![container],
        affinity: Some(pod::apart(component::WEBHOOK)),
        node_selector: pod::linux_nodes(&spec.controller_node_selector),
        tolerations: pod::unless_empty(&spec.controller_tolerations),
        security_context: Some(context.unprivileged()),
        termination_grace_period_seconds: Some(15),
        ..Default::default()
    };
    Deployment {
        metadata: context.namespaced(object::WEBHOOK, component::WEBHOOK),
        spec: DeploymentSpec {
            replicas: Some(2),
            revision_history_limit: Some(3),
            progress_deadline_seconds: Some(super::PROGRESS_DEADLINE),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::Int(1)),
                    max_unavailable: Some(IntOrString::Int(0)),
                }),
            }),
            selector: pod_selector(component::WEBHOOK),
            template: pod::template(context, component::WEBHOOK, None, pod),
            ..Default::default()
        },
        status: None,
    }
}

pub(super) fn service(context: &Context<'_>) -> Service {
    Service {
        metadata: context.namespaced(object::WEBHOOK_SERVICE, component::WEBHOOK),
        spec: Some(ServiceSpec {
            ip_family_policy: Some("PreferDualStack".into()),
            ports: Some(vec![ServicePort {
                name: Some("webhook".into()),
                port: 443,
                target_port: Some(IntOrString::Int(port::WEBHOOK.into())),
                protocol: Some("TCP".into()),
                ..Default::default()
            }]),
            selector: Some(pod_labels(component::WEBHOOK)),
            ..Default::default()
        }),
        status: None,
    }
}

/// Where a certificate of others is in the webhook's pod.
const FOLDER: &str = "/certificate";
const VOLUME: &str = "certificate";

fn certificate_flags(certificate: Option<&Certificate>) -> Vec<String> {
    let Some(Certificate { tell_authority, .. }) = certificate else { return Vec::new() };
    let authority = tell_authority.then(|| format!("--cert-ca={FOLDER}/ca.crt"));
    [format!("--cert-dir={FOLDER}")].into_iter().chain(authority).collect()
}

/// Without data: the webhook fills it. It is here to be owned by the `MetalLB` object and to go with it. None
/// where others make the certificate.
pub(super) fn certificate(context: &Context<'_>) -> Option<Secret> {
    context.settings.certificate.is_none().then(|| Secret {
        metadata: context.namespaced(object::WEBHOOK_SECRET, component::WEBHOOK),
        type_: Some("Opaque".into()),
        ..Default::default()
    })
}

/// Without `caBundle`: that field belongs to the webhook, which makes the certificate.
///
/// What would be wrong is not stored while the webhook is away. Nothing else waits for it: deleting is
/// reviewed to warn, and must not keep a namespace from going; and a `MetalLB` object that keeps the webhook
/// from running must be mended without it.
pub(super) fn registration(context: &Context<'_>) -> ValidatingWebhookConfiguration {
    let changes =
        REVIEWED.iter().map(|kind| webhook(context, kind, "validation", &["CREATE", "UPDATE"], "Fail"));
    let deletions = REVIEWED.iter().map(|kind| webhook(context, kind, "deletion", &["DELETE"], "Ignore"));
    let metallb = webhook(context, &METALLB, "validation", &["CREATE", "UPDATE"], "Ignore");
    ValidatingWebhookConfiguration {
        metadata: context.cluster_scoped(object::WEBHOOK_CONFIGURATION, component::WEBHOOK),
        webhooks: Some(changes.chain(deletions).chain([metallb]).collect()),
    }
}

fn webhook(
    context: &Context<'_>,
    Reviewed { group, singular, plural, version, prefix }: &Reviewed,
    purpose: &str,
    operations: &[&str],
    failure_policy: &str,
) -> ValidatingWebhook {
    ValidatingWebhook {
        name: format!("{prefix}{purpose}webhook.{group}"),
        admission_review_versions: vec!["v1".into()],
        client_config: WebhookClientConfig {
            service: Some(ServiceReference {
                name: object::WEBHOOK_SERVICE.into(),
                namespace: context.settings.namespace.clone(),
                path: Some(format!("/validate-{}-{version}-{singular}", group.replace('.', "-"))),
                port: Some(443),
            }),
            ..Default::default()
        },
        failure_policy: Some(failure_policy.into()),
        side_effects: "None".into(),
        rules: Some(vec![RuleWithOperations {
            api_groups: Some(vec![(*group).into()]),
            api_versions: Some(vec![(*version).into()]),
            operations: Some(operations.iter().map(|it| (*it).to_owned()).collect()),
            resources: Some(vec![(*plural).into()]),
            ..Default::default()
        }]),
        ..Default::default()
    }
}
