//! Parts that the pods of all components share.

use std::collections::BTreeMap;

use ferrolb_api::v1beta1::{LogLevel, WorkloadConfig};
use ferrolb_api::well_known::port;
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction,
    ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, PodSpec, PodTemplateSpec,
    Probe, ResourceRequirements, SeccompProfile, SecurityContext, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Context, labels, pod_labels, pod_selector};
use crate::image::ImageReference;

/// Who owns nothing in the image and on the node.
const NOBODY: i64 = 65534;

/// One heap for all threads, of which what is free goes back to the node: these processes are often idle and hold
/// much for moments only. Both thresholds are glibc's own; set, they stay.
const MALLOC: &str =
    "glibc.malloc.arena_max=1:glibc.malloc.trim_threshold=131072:glibc.malloc.mmap_threshold=131072";

/// What differs between the components' containers.
pub(super) struct Process<'a> {
    /// Name of the container and, with a slash before it, of the binary.
    pub(super) name: &'a str,
    /// Path of the binary in the image.
    pub(super) command: &'a str,
    /// Environment beyond what every process gets.
    pub(super) env: Vec<EnvVar>,
    /// Flags beyond what every process gets.
    pub(super) args: Vec<String>,
    /// Ports beyond metrics.
    pub(super) ports: Vec<ContainerPort>,
    /// Where the kubelet probes; `None` is the pod's address.
    pub(super) probe_host: Option<&'a str>,
    /// The capabilities that it keeps.
    pub(super) capabilities: &'a [&'a str],
}

/// What the containers of all processes have in common.
pub(super) struct Common<'a> {
    /// Their image.
    pub(super) image: &'a ImageReference,
    /// Whether they serve metrics.
    pub(super) metrics: bool,
    /// Flags for the log level and for TLS.
    pub(super) args: Vec<String>,
}

impl<'a> Common<'a> {
    /// Of a process that no `MetalLB` object says anything of.
    pub(super) fn plain(image: &'a ImageReference) -> Self {
        Self { image, metrics: true, args: vec![log_level(LogLevel::Info)] }
    }
}

/// The flag for a log level that holds until the process ends.
pub(super) fn log_level(level: LogLevel) -> String {
    format!("--log-level={}", level.as_str())
}

/// The container of a process: read-only root, no escalation, every capability dropped but the ones it keeps.
pub(super) fn container(common: Common<'_>, process: Process<'_>) -> Container {
    let Common { image, metrics, args: common } = common;
    let mut args = vec![
        format!("--port={}", if metrics { port::METRICS } else { 0 }),
        format!("--health-probe-port={}", port::PROBES),
    ];
    args.extend(common);
    args.extend(process.args);
    let mut env = vec![
        field("METALLB_NAMESPACE", "metadata.namespace"),
        field("METALLB_POD_NAME", "metadata.name"),
        value("GLIBC_TUNABLES", MALLOC),
    ];
    env.extend(process.env);
    let mut ports: Vec<_> = metrics.then(|| tcp_port("metricshttps", port::METRICS)).into_iter().collect();
    ports.extend(process.ports);
    Container {
        name: process.name.into(),
        image: Some(image.to_string()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(vec![process.command.into()]),
        args: Some(args),
        env: Some(env),
        ports: unless_empty(&ports),
        // Readiness is asked often: it decides how soon Available turns true and how soon the webhook's
        // Service sees a pod go.
        readiness_probe: Some(probe("/readyz", process.probe_host, 2)),
        liveness_probe: Some(probe("/healthz", process.probe_host, 10)),
        resources: Some(small()),
        security_context: Some(confined(process.capabilities)),
        ..Default::default()
    }
}

/// A container that does one thing before the others start, and ends.
pub(super) fn init_container(image: &ImageReference, name: &str, command: &[&str]) -> Container {
    Container {
        name: name.into(),
        image: Some(image.to_string()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        env: Some(vec![field("METALLB_NAMESPACE", "metadata.namespace")]),
        resources: Some(small()),
        security_context: Some(confined(&[])),
        ..Default::default()
    }
}

fn confined(kept: &[&str]) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".into()]),
            add: unless_empty(&kept.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()),
        }),
        ..Default::default()
    }
}

/// A preference only: on a single node all replicas run side by side.
pub(super) fn apart(component: &str) -> Affinity {
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
                weight: 100,
                pod_affinity_term: PodAffinityTerm {
                    label_selector: Some(pod_selector(component)),
                    topology_key: "kubernetes.io/hostname".into(),
                    ..Default::default()
                },
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A pod template around one container, with what the administrator set for the workload.
pub(super) fn template(
    context: &Context<'_>,
    component: &str,
    config: Option<&WorkloadConfig>,
    mut pod: PodSpec,
) -> PodTemplateSpec {
    pod.image_pull_secrets = unless_empty(&context.metallb.spec.image_pull_secrets);
    let mut template = plain_template(component, pod);
    if !context.has_metrics()
        && let Some(metadata) = &mut template.metadata
    {
        metadata.annotations = None;
    }
    let (Some(config), Some(metadata), Some(pod)) = (config, &mut template.metadata, &mut template.spec)
    else {
        return template;
    };
    metadata.annotations.get_or_insert_default().extend(config.annotations.clone());
    pod.priority_class_name = config.priority_class_name.clone();
    pod.runtime_class_name = config.runtime_class_name.clone();
    if config.affinity.is_some() {
        pod.affinity = config.affinity.clone();
    }
    if let (Some(resources), Some(main)) = (&config.resources, pod.containers.first_mut()) {
        main.resources = Some(resources.clone());
    }
    template
}

/// A pod template around one container.
pub(super) fn plain_template(component: &str, mut pod: PodSpec) -> PodTemplateSpec {
    let metrics = port::METRICS.to_string();
    let annotations = labels([("prometheus.io/port", metrics.as_str()), ("prometheus.io/scrape", "true")]);
    // The variables that Kubernetes makes of Services are called like ours.
    pod.enable_service_links = Some(false);
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod_labels(component)),
            annotations: Some(annotations),
            ..Default::default()
        }),
        spec: Some(pod),
    }
}

/// Of pods that need no privilege at all.
pub(super) fn unprivileged() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(NOBODY),
        run_as_group: Some(NOBODY),
        fs_group: Some(NOBODY),
        seccomp_profile: Some(runtime_default()),
        ..Default::default()
    }
}

/// The system calls that the container runtime allows by default.
pub(super) fn runtime_default() -> SeccompProfile {
    SeccompProfile { type_: "RuntimeDefault".into(), ..Default::default() }
}

/// Linux nodes, further restricted by what the administrator selected.
pub(super) fn linux_nodes(selected: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    let mut selector = labels([("kubernetes.io/os", "linux")]);
    selector.extend(selected.clone());
    Some(selector)
}

/// A list, absent when it has nothing in it: server-side apply would own an empty one.
pub(super) fn unless_empty<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// `--lb-class`, where the object names a class.
pub(super) fn load_balancer_class(context: &Context<'_>) -> Vec<String> {
    let class = context.metallb.spec.load_balancer_class.as_deref().filter(|class| !class.is_empty());
    class.map(|class| format!("--lb-class={class}")).into_iter().collect()
}

/// An environment variable that Kubernetes fills from the pod.
pub(super) fn field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.into(), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// An environment variable with a fixed value.
pub(super) fn value(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), ..Default::default() }
}

/// A TCP port of a container.
pub(super) fn tcp_port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: number.into(),
        protocol: Some("TCP".into()),
        ..Default::default()
    }
}

fn probe(path: &str, host: Option<&str>, period: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::Int(port::PROBES.into()),
            host: host.map(Into::into),
            ..Default::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(2),
        failure_threshold: Some(3),
        ..Default::default()
    }
}

/// What an idle process needs, so that the scheduler counts it; no limits, which would throttle a
/// fail-over.
fn small() -> ResourceRequirements {
    let requests = [("cpu", "10m"), ("memory", "32Mi")];
    ResourceRequirements {
        requests: Some(requests.map(|(name, amount)| (name.to_owned(), Quantity(amount.into()))).into()),
        ..Default::default()
    }
}
