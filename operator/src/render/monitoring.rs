//! What a Prometheus operator takes: who is scraped, and when somebody is called.
//!
//! Its kinds are there only where a Prometheus operator is. The operator makes objects of them where the
//! `MetalLB` object asks for that; `kubectl ferrolb package` writes the same as files. Names are those of
//! MetalLB's where it has them.

mod alerts;
mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_api::v1beta1::{MetalLB, MetricsConfig};
use ferrolb_api::well_known::{component, port};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

pub use kinds::{PrometheusRule, ServiceMonitor};

use super::{Context, Kind, Object, pod_labels};

/// Components and the names of their monitors.
const SCRAPED: [(&str, &str); 4] = [
    (component::CONTROLLER, "controller-monitor"),
    (component::SPEAKER, "speaker-monitor"),
    (component::WEBHOOK, "webhook-monitor"),
    (OPERATOR, "operator-monitor"),
];
const OPERATOR: &str = "operator";
/// Name of the object with the alerts.
pub const RULE: &str = "ferrolb";

/// What the `MetalLB` object asks for, as far as the cluster has the kinds.
pub(super) fn objects(context: &Context<'_>) -> Vec<Object> {
    let Some(metrics) = context.metallb.spec.metrics.as_ref().filter(|_| context.has_metrics()) else {
        return Vec::new();
    };
    let is_there = |kind| asks_for(metrics, kind) && !context.observed.absent.contains(&kind);
    let metadata = |name: &str, component: &str| context.namespaced(name, component);
    let mut objects = Vec::new();
    if is_there(Kind::ServiceMonitor) {
        objects.extend(monitors(&context.settings.namespace, &metrics.additional_labels, metadata));
    }
    if is_there(Kind::PrometheusRule) {
        objects.push(rule(&metrics.additional_labels, metadata(RULE, OPERATOR)));
    }
    objects
}

fn asks_for(metrics: &MetricsConfig, kind: Kind) -> bool {
    let asked = match kind {
        Kind::ServiceMonitor => metrics.service_monitors,
        Kind::PrometheusRule => metrics.prometheus_rule,
        _ => None,
    };
    asked == Some(true)
}

/// The kinds of which the object wants objects and that the cluster does not have.
pub(crate) fn missing(metallb: &MetalLB, absent: &BTreeSet<Kind>) -> Vec<Kind> {
    let metrics = metallb.spec.metrics.iter().filter(|metrics| metrics.enabled != Some(false));
    metrics.flat_map(|metrics| absent.iter().copied().filter(|kind| asks_for(metrics, *kind))).collect()
}

/// Headless Services, one a component, and the ServiceMonitors that read them.
pub fn monitors(
    namespace: &str,
    more_labels: &BTreeMap<String, String>,
    metadata: impl Fn(&str, &str) -> ObjectMeta,
) -> Vec<Object> {
    SCRAPED
        .iter()
        .flat_map(|(component, name)| {
            let service_name = format!("{name}-service");
            let of = |name: &str| labelled(metadata(name, component), [("name".to_owned(), name.to_owned())]);
            [
                service(of(&service_name), component).into(),
                monitor(labelled(of(name), more_labels.clone()), namespace, &service_name).into(),
            ]
        })
        .collect()
}

/// Labels that are there already stay: by them the operator finds what is its own.
fn labelled(mut metadata: ObjectMeta, more: impl IntoIterator<Item = (String, String)>) -> ObjectMeta {
    let labels = metadata.labels.get_or_insert_default();
    for (key, value) in more {
        labels.entry(key).or_insert(value);
    }
    metadata
}

fn service(metadata: ObjectMeta, component: &str) -> Service {
    Service {
        metadata,
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            selector: Some(pod_labels(component)),
            ports: Some(vec![ServicePort {
                name: Some("metricshttps".into()),
                port: port::METRICS.into(),
                target_port: Some(IntOrString::Int(port::METRICS.into())),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        status: None,
    }
}

fn monitor(metadata: ObjectMeta, namespace: &str, service: &str) -> ServiceMonitor {
    let spec = json!({
        "jobLabel": "name",
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchLabels": {"name": service}},
        "endpoints": [{
            "port": "metricshttps",
            "scheme": "https",
            "honorLabels": true,
            "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
            // Each process makes its own certificate; what protects the metrics is the bearer token.
            "tlsConfig": {"insecureSkipVerify": true},
        }],
    });
    ServiceMonitor::new(metadata, spec)
}

/// The alerts.
pub fn rule(more_labels: &BTreeMap<String, String>, metadata: ObjectMeta) -> Object {
    PrometheusRule::new(labelled(metadata, more_labels.clone()), alerts::groups()).into()
}

#[cfg(test)]
mod tests {
    use ferrolb_api::well_known::label;
    use serde_json::Value;

    use super::*;

    #[test]
    fn monitors_find_their_services_and_services_the_pods() {
        let metadata = |name: &str, component: &str| ObjectMeta {
            name: Some(name.into()),
            labels: Some([(label::COMPONENT.to_owned(), component.to_owned())].into()),
            ..Default::default()
        };
        let more = [("release", "prometheus"), (label::COMPONENT, "mine")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let objects: Vec<Value> =
            monitors("metallb-system", &more, metadata).iter().map(Object::to_value).collect();
        assert_eq!(objects.len(), 8);
        for pair in objects.chunks(2) {
            let (service, monitor) = (&pair[0], &pair[1]);
            let selected = &monitor["spec"]["selector"]["matchLabels"]["name"];
            assert_eq!(*selected, service["metadata"]["labels"]["name"]);
            assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
            assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
            let component = &monitor["metadata"]["labels"][label::COMPONENT];
            assert_eq!(*component, service["spec"]["selector"][label::COMPONENT], "labels of ours stay");
        }
    }
}
