//! The speakers: one pod on every node, in the node's network, with raw sockets as its one privilege;
//! and what they read: the membership key and the interfaces that never announce.

use std::collections::BTreeMap;

use ferrolb_api::well_known::{component, object, pod_condition, port};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, ContainerPort, KeyToPath, Pod, PodReadinessGate, PodSecurityContext,
    PodSpec, Secret, SecretVolumeSource, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::openshift::{REQUIRED_CONSTRAINT, SPEAKER_CONSTRAINT};
use super::{Context, Installer, Object, pod, pod_selector};

const KEY_VOLUME: &str = "memberlist";
const KEY_PATH: &str = "/etc/ml_secret_key";
const EXCLUDE_PATH: &str = "/etc/metallb";

/// Where a process in the node's network answers probes: its other addresses are the node's.
const LOOPBACK: &str = "127.0.0.1";

/// The flag of speakers that renew Leases.
const BY_LEASES: &str = "--membership=lease";

/// Interfaces that belong to container networks, as regular expressions.
const NEVER_ANNOUNCE: [&str; 14] = [
    "^docker.*",
    "^cbr.*",
    "^dummy.*",
    "^virbr.*",
    "^lxcbr.*",
    "^veth.*",
    "^lo$",
    "^cali.*",
    "^tunl.*",
    "^flannel.*",
    "^kube-ipvs.*",
    "^cni.*",
    "^nodelocaldns.*",
    "^lxc.*",
];

/// What the speakers' pods mount.
pub(super) fn configuration(context: &Context<'_>) -> Vec<Object> {
    let mut exclude = String::from("announcedInterfacesToExclude:\n");
    for pattern in NEVER_ANNOUNCE {
        exclude.push_str(&format!("- {pattern}\n"));
    }
    let mut objects = vec![
        ConfigMap {
            metadata: context.namespaced(object::EXCLUDE_L2, component::SPEAKER),
            data: Some(BTreeMap::from([(object::EXCLUDE_L2_KEY.into(), exclude)])),
            ..Default::default()
        }
        .into(),
    ];
    let key = context.observed.memberlist_key.as_ref().map(|key| ByteString(key.clone().into_bytes()));
    if key.is_some() || context.settings.installer == Installer::Manifest {
        let secret = Secret {
            metadata: context.namespaced(object::MEMBERLIST_SECRET, component::SPEAKER),
            data: key.map(|key| BTreeMap::from([(object::MEMBERLIST_SECRET_KEY.into(), key)])),
            type_: Some("Opaque".into()),
            ..Default::default()
        };
        objects.push(secret.into());
    }
    objects
}

pub(super) fn daemon_set(context: &Context<'_>) -> DaemonSet {
    let spec = &context.metallb.spec;
    let member_labels = format!("app=metallb,component={}", component::SPEAKER);
    let mut args = vec![format!("--health-probe-address={LOOPBACK}")];
    args.extend(pod::load_balancer_class(context));
    if spec.ignore_exclude_lb == Some(true) {
        args.push("--ignore-exclude-lb".into());
    }
    args.extend(membership(context));
    args.extend(spec.bgp_listen_port.map(|port| format!("--bgp-listen-port={port}")));
    let mut container = context.container(pod::Process {
        name: "speaker",
        command: "/speaker",
        env: vec![
            pod::field("METALLB_NODE_NAME", "spec.nodeName"),
            pod::field("METALLB_HOST", "status.hostIP"),
            pod::field("METALLB_ML_BIND_ADDR", "status.podIP"),
            pod::value("METALLB_ML_BIND_PORT", &port::MEMBERLIST.to_string()),
            pod::value("METALLB_ML_LABELS", &member_labels),
            pod::value("METALLB_ML_SECRET_KEY_PATH", KEY_PATH),
        ],
        args,
        ports: (!context.has_leases())
            .then(|| ContainerPort {
                name: Some("memberlist-udp".into()),
                container_port: port::MEMBERLIST.into(),
                protocol: Some("UDP".into()),
                ..Default::default()
            })
            .into_iter()
            .collect(),
        probe_host: Some(LOOPBACK),
        capabilities: capabilities(spec.bgp_listen_port),
    });
    container.volume_mounts =
        Some(vec![mount(KEY_VOLUME, KEY_PATH), mount(object::EXCLUDE_L2, EXCLUDE_PATH)]);
    // The operator opens it. Who says how speakers are to be replaced is not waited for.
    let gated = context.settings.installer == Installer::Operator && spec.update_strategy.is_none();
    let pod = PodSpec {
        service_account_name: Some(object::SPEAKER.into()),
        readiness_gates: gated
            .then(|| vec![PodReadinessGate { condition_type: pod_condition::ANNOUNCING.into() }]),
        host_network: Some(true),
        containers: vec![container],
        volumes: Some(vec![
            Volume {
                name: KEY_VOLUME.into(),
                secret: Some(SecretVolumeSource {
                    secret_name: Some(object::MEMBERLIST_SECRET.into()),
                    // Named, so that a pod waits for its key and never starts without one.
                    items: Some(vec![KeyToPath {
                        key: object::MEMBERLIST_SECRET_KEY.into(),
                        path: object::MEMBERLIST_SECRET_KEY.into(),
                        ..Default::default()
                    }]),
                    default_mode: Some(0o400),
                    ..Default::default()
                }),
                ..Default::default()
            },
            Volume {
                name: object::EXCLUDE_L2.into(),
                config_map: Some(ConfigMapVolumeSource {
                    name: object::EXCLUDE_L2.into(),
                    default_mode: Some(0o400),
                    ..Default::default()
                }),
                ..Default::default()
            },
        ]),
        node_selector: pod::linux_nodes(&spec.node_selector),
        tolerations: Some(tolerations(&spec.speaker_tolerations)),
        // An added capability is effective for uid 0 only; everything else is dropped.
        security_context: Some(PodSecurityContext {
            run_as_user: Some(0),
            run_as_group: Some(0),
            seccomp_profile: Some(pod::runtime_default()),
            ..Default::default()
        }),
        termination_grace_period_seconds: Some(10),
        ..Default::default()
    };
    let mut template = pod::template(context, component::SPEAKER, spec.speaker_config.as_ref(), pod);
    if context.observed.openshift.is_some()
        && let Some(metadata) = &mut template.metadata
    {
        let constraint = (REQUIRED_CONSTRAINT.into(), SPEAKER_CONSTRAINT.into());
        metadata.annotations.get_or_insert_default().extend([constraint]);
    }
    DaemonSet {
        metadata: context.namespaced(object::SPEAKER, component::SPEAKER),
        spec: DaemonSetSpec {
            revision_history_limit: Some(3),
            selector: pod_selector(component::SPEAKER),
            template,
            update_strategy: Some(spec.update_strategy.clone().unwrap_or_else(one_by_one)),
            ..Default::default()
        },
        status: None,
    }
}

/// How the others are found, where that is not by their gossip.
fn membership(context: &Context<'_>) -> Vec<String> {
    let Some(membership) = context.metallb.spec.membership.as_ref().filter(|_| context.has_leases()) else {
        return Vec::new();
    };
    let times = [
        ("duration", &membership.lease_duration),
        ("renew-deadline", &membership.renew_deadline),
        ("retry-period", &membership.retry_period),
    ];
    let times =
        times.into_iter().filter_map(|(flag, time)| Some(format!("--lease-{flag}={}", time.as_ref()?)));
    std::iter::once(BY_LEASES.into()).chain(times).collect()
}

/// Whether a speaker's pod renews a Lease.
pub(crate) fn renews_lease(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.flat_map(|it| it.args.iter().flatten()).any(|arg| arg == BY_LEASES)
}

/// Raw sockets, and a port of the system's only where one is asked for.
fn capabilities(listen_port: Option<i32>) -> &'static [&'static str] {
    match listen_port {
        Some(..FIRST_FREE_PORT) => &["NET_RAW", "NET_BIND_SERVICE"],
        Some(_) | None => &["NET_RAW"],
    }
}

/// Ports below it are the system's.
const FIRST_FREE_PORT: i32 = 1024;

/// A node gives its addresses away before the next one does.
fn one_by_one() -> DaemonSetUpdateStrategy {
    DaemonSetUpdateStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDaemonSet {
            max_unavailable: Some(IntOrString::Int(1)),
            ..Default::default()
        }),
    }
}

/// Control plane nodes announce too, unless they are labelled otherwise; then what was asked for.
fn tolerations(asked: &[Toleration]) -> Vec<Toleration> {
    let built_in = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];
    let built_in = built_in.map(|key| Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        effect: Some("NoSchedule".into()),
        ..Default::default()
    });
    built_in.into_iter().chain(asked.iter().cloned()).collect()
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.into(), mount_path: path.into(), read_only: Some(true), ..Default::default() }
}
