//! The chart's values as a type: its defaults are `values.yaml`, its documentation the comments there,
//! its shape `values.schema.json`. Names are those of MetalLB's chart where it has them.

use std::collections::BTreeMap;

use ferrolb_api::v1beta1::LogLevel;
use ferrolb_operator::image::ImageReference;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::manifest::{self, HEADER};

type Free = Map<String, Value>;

/// Values of the chart.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Values {
    /// The image of all processes.
    image: Image,
    /// Secrets with which nodes pull the image: a list of {name: NAME}.
    image_pull_secrets: Vec<BTreeMap<String, String>>,
    /// Only Services of this spec.loadBalancerClass are handled; empty: only those without a class.
    load_balancer_class: String,
    /// Install the operator alone, which then installs what a MetalLB object asks for.
    operator: Operator,
    /// The process that gives addresses to Services.
    controller: Controller,
    /// The process on each node that announces addresses.
    speaker: Speaker,
    /// The processes that check configuration; they run on the controller's nodes.
    webhook: Webhook,
    /// The CustomResourceDefinitions. They stay when the release goes, with the pools in them.
    crds: Crds,
    /// How Prometheus finds the pods.
    prometheus: Prometheus,
    /// Accepted from values written for MetalLB, without effect: the speaker talks BGP itself.
    #[serde(rename = "frrk8s")]
    frr_k8s: Free,
    /// What Helm gives to every chart of a release.
    global: Free,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Image {
    /// Registry and path.
    repository: String,
    /// Empty: the chart's appVersion, or none where there is a digest.
    tag: String,
    /// Empty, or sha256:… to say exactly what runs.
    digest: String,
    /// When nodes pull it.
    pull_policy: PullPolicy,
}

#[derive(Serialize, JsonSchema)]
#[expect(dead_code, reason = "the schema is made of it; users write the others")]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// What the pods of any workload can be given.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Pods {
    /// Least important level that is logged.
    log_level: LogLevel,
    /// CPU and memory.
    resources: Free,
    /// More annotations of the pods.
    pod_annotations: BTreeMap<String, String>,
    /// Name of a PriorityClass.
    priority_class_name: String,
    /// Name of a RuntimeClass.
    runtime_class_name: String,
}

/// Where pods may run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Placement {
    /// Labels of nodes, beside kubernetes.io/os: linux.
    node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    tolerations: Vec<Free>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Operator {
    /// False: controller, speakers and webhook are installed directly.
    enabled: bool,
    #[serde(flatten)]
    pods: Pods,
    #[serde(flatten)]
    placement: Placement,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Controller {
    /// One works, the others stand by.
    #[schemars(range(min = 1))]
    replicas: u8,
    /// Affinity of the pods; with several replicas and none here, they prefer different nodes.
    affinity: Free,
    #[serde(flatten)]
    pods: Pods,
    #[serde(flatten)]
    placement: Placement,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Speaker {
    /// Affinity of the pods.
    affinity: Free,
    /// Run on control plane nodes too.
    tolerate_master: bool,
    /// Announce from nodes labelled node.kubernetes.io/exclude-from-external-load-balancers too.
    #[serde(rename = "ignoreExcludeLB")]
    ignore_exclude_lb: bool,
    /// TCP port of the nodes on which BGP peers may connect, 179 for most routers; none: none may.
    #[schemars(range(min = 1, max = 65535))]
    bgp_listen_port: Option<u16>,
    /// How speakers learn of each other.
    memberlist: Memberlist,
    /// How new pods replace old ones.
    update_strategy: Free,
    #[serde(flatten)]
    pods: Pods,
    #[serde(flatten)]
    placement: Placement,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Memberlist {
    /// UDP port, the same on every node.
    #[schemars(range(min = 1))]
    ml_bind_port: u16,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    /// With two, one can go while pools are applied.
    #[schemars(range(min = 1))]
    replicas: u8,
    /// A certificate that cert-manager or you make, instead of one that the webhook makes itself.
    certificate: Certificate,
    #[serde(flatten)]
    pods: Pods,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Certificate {
    /// Secret of the release's namespace with tls.crt and tls.key; empty: the webhook makes its own.
    secret: String,
    /// Tell the API server whom to trust, by the Secret's ca.crt. False: whoever makes it does, as cert-manager
    /// by an annotation.
    tell_authority: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Crds {
    /// Install and upgrade them.
    enabled: bool,
    /// What happens to configuration while no webhook answers.
    validation_failure_policy: FailurePolicy,
}

#[derive(Serialize, JsonSchema)]
#[expect(dead_code, reason = "the schema is made of it; users write the others")]
enum FailurePolicy {
    Fail,
    Ignore,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Prometheus {
    /// Annotate pods with prometheus.io/scrape and prometheus.io/port.
    scrape_annotations: bool,
    /// Account of Prometheus that may read the metrics; empty: nobody is given the right.
    service_account: String,
    /// Namespace of that account.
    namespace: String,
    /// ServiceMonitors for a Prometheus operator.
    service_monitor: Monitoring,
    /// Alerts for a Prometheus operator.
    prometheus_rule: Monitoring,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Monitoring {
    /// Install them; needs the kinds of monitoring.coreos.com.
    enabled: bool,
    /// Labels by which a Prometheus selects what it takes.
    additional_labels: BTreeMap<String, String>,
}

impl Values {
    /// The defaults, with this image.
    pub(super) fn new(image: &ImageReference) -> Self {
        let own = |requests: Value| {
            let Value::Object(resources) = requests else { return Free::new() };
            resources
        };
        let pods = || Pods {
            log_level: LogLevel::Info,
            resources: own(json!({"requests": {"cpu": "10m", "memory": "32Mi"}})),
            pod_annotations: BTreeMap::new(),
            priority_class_name: String::new(),
            runtime_class_name: String::new(),
        };
        let placement = || Placement { node_selector: BTreeMap::new(), tolerations: Vec::new() };
        let registry = image.registry().map(|host| format!("{host}/")).unwrap_or_default();
        let tag = image.tag().filter(|tag| *tag != ferrolb_operator::VERSION).unwrap_or_default();
        Self {
            image: Image {
                repository: format!("{registry}{}", image.repository()),
                tag: tag.into(),
                digest: image.digest().unwrap_or_default().into(),
                pull_policy: PullPolicy::IfNotPresent,
            },
            image_pull_secrets: Vec::new(),
            load_balancer_class: String::new(),
            operator: Operator { enabled: false, pods: pods(), placement: placement() },
            controller: Controller {
                replicas: 1,
                affinity: Free::new(),
                pods: pods(),
                placement: placement(),
            },
            speaker: Speaker {
                affinity: Free::new(),
                tolerate_master: true,
                ignore_exclude_lb: false,
                bgp_listen_port: None,
                memberlist: Memberlist { ml_bind_port: ferrolb_api::well_known::port::MEMBERLIST },
                update_strategy: own(
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
                ),
                pods: pods(),
                placement: placement(),
            },
            webhook: Webhook {
                replicas: 2,
                certificate: Certificate { secret: String::new(), tell_authority: false },
                pods: pods(),
            },
            crds: Crds { enabled: true, validation_failure_policy: FailurePolicy::Fail },
            prometheus: Prometheus {
                scrape_annotations: true,
                service_account: String::new(),
                namespace: String::new(),
                service_monitor: Monitoring { enabled: false, additional_labels: BTreeMap::new() },
                prometheus_rule: Monitoring { enabled: false, additional_labels: BTreeMap::new() },
            },
            frr_k8s: Free::new(),
            global: Free::new(),
        }
    }

    /// `values.yaml`, each value with its documentation.
    pub(super) fn yaml(&self) -> anyhow::Result<String> {
        let mut text = HEADER.to_owned();
        documented(&crate::package::value(self)?, &schema(), 0, &mut text)?;
        Ok(text)
    }
}

/// `values.schema.json`.
pub(super) fn schema_text() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}

fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Values>().to_value();
    loosen(&mut schema);
    schema
}

/// Nothing is required, since Helm merges the defaults in before it checks; and a misspelt value is an
/// error everywhere but in free maps.
fn loosen(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    map.remove("required");
    // Two types flattened into one do not know of each other's fields.
    if map.contains_key("properties") {
        map.remove("unevaluatedProperties");
        map.insert("additionalProperties".into(), json!(false));
    }
    for property in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        loosen(property.1);
    }
}

fn documented(values: &Value, schema: &Value, depth: usize, text: &mut String) -> anyhow::Result<()> {
    let indent = "  ".repeat(depth);
    for (key, value) in values.as_object().into_iter().flatten() {
        let schema = &schema["properties"][key];
        for line in schema["description"].as_str().unwrap_or_default().lines() {
            text.push_str(&format!("{indent}# {line}\n"));
        }
        if schema["properties"].is_object() {
            text.push_str(&format!("{indent}{key}:\n"));
            documented(value, schema, depth + 1, text)?;
            continue;
        }
        for line in manifest::yaml(&json!({(key): value}))?.lines() {
            text.push_str(&format!("{indent}{line}\n"));
        }
    }
    Ok(())
}
