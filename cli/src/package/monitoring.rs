//! What a Prometheus operator takes: who is scraped, and when somebody is called.
//!
//! Output: objects of the groups `v1`, `rbac.authorization.k8s.io` and `monitoring.coreos.com`, with the
//! names of MetalLB's where it has them. They are a package of their own, since their kinds exist only
//! where a Prometheus operator does.

use ferrolb_api::well_known::{component, label, port};
use serde_json::{Value, json};

/// Components and the names of their Services.
const SCRAPED: [(&str, &str); 4] = [
    (component::CONTROLLER, "controller-monitor"),
    (component::SPEAKER, "speaker-monitor"),
    (component::WEBHOOK, "webhook-monitor"),
    ("operator", "operator-monitor"),
];
/// Name of the ClusterRole whose holders may read metrics.
pub(super) const READER: &str = "ferrolb-metrics-reader";

/// An alert.
struct Alert {
    name: &'static str,
    expr: String,
    minutes: u8,
    severity: &'static str,
    summary: &'static str,
}

/// Headless Services, one a component, and the ServiceMonitors that read them.
pub(crate) fn monitors(namespace: &str) -> Vec<Value> {
    SCRAPED
        .iter()
        .flat_map(|(component, name)| {
            [service(namespace, component, name), monitor(namespace, component, name)]
        })
        .collect()
}

fn metadata(namespace: &str, component: &str, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": namespace,
        "labels": {(label::APP): label::APP_VALUE, (label::COMPONENT): component, "name": name},
    })
}

fn service(namespace: &str, component: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(namespace, component, &format!("{name}-service")),
        "spec": {
            "clusterIP": "None",
            "selector": {(label::APP): label::APP_VALUE, (label::COMPONENT): component},
            "ports": [{"name": "metricshttps", "port": port::METRICS, "targetPort": port::METRICS}],
        },
    })
}

fn monitor(namespace: &str, component: &str, name: &str) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata(namespace, component, name),
        "spec": {
            "jobLabel": "name",
            "namespaceSelector": {"matchNames": [namespace]},
            "selector": {"matchLabels": {"name": format!("{name}-service")}},
            "endpoints": [{
                "port": "metricshttps",
                "scheme": "https",
                "honorLabels": true,
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                // Each process makes its own certificate; what protects the metrics is the bearer token.
                "tlsConfig": {"insecureSkipVerify": true},
            }],
        },
    })
}

/// Who may read metrics: bind it to Prometheus's account.
pub(crate) fn reader() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": READER, "labels": {(label::APP): label::APP_VALUE}},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    })
}

/// The alerts.
pub(crate) fn rule(namespace: &str) -> Value {
    let rules: Vec<Value> = alerts()
        .into_iter()
        .map(|alert| {
            json!({
                "alert": alert.name,
                "expr": alert.expr,
                "for": format!("{}m", alert.minutes),
                "labels": {"severity": alert.severity},
                "annotations": {"summary": alert.summary},
            })
        })
        .collect();
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "ferrolb", "namespace": namespace, "labels": {(label::APP): label::APP_VALUE}},
        "spec": {"groups": [{"name": "ferrolb.rules", "rules": rules}]},
    })
}

fn alerts() -> Vec<Alert> {
    let share = "metallb_allocator_addresses_in_use_total / on(pool) metallb_allocator_addresses_total";
    let usage = |name, percent: u8, severity| Alert {
        name,
        // A full pool has an alert of its own.
        expr: format!("{share} * 100 > {percent} and {share} < 1"),
        minutes: 1,
        severity,
        summary: "IPAddressPool {{ $labels.pool }} is {{ $value | printf \"%.0f\" }} % in use.",
    };
    vec![
        Alert {
            name: "MetalLBStaleConfig",
            expr: "metallb_k8s_client_config_stale_bool == 1".into(),
            minutes: 1,
            severity: "warning",
            summary: "{{ $labels.pod }} leaves a part of the configuration out; ConfigurationState says which and why.",
        },
        Alert {
            name: "MetalLBConfigNotLoaded",
            expr: "metallb_k8s_client_config_loaded_bool == 0".into(),
            minutes: 1,
            severity: "warning",
            summary: "{{ $labels.pod }} has not read any configuration yet.",
        },
        Alert {
            name: "MetalLBAddressPoolExhausted",
            expr: "metallb_allocator_addresses_in_use_total >= on(pool) metallb_allocator_addresses_total"
                .into(),
            minutes: 1,
            severity: "critical",
            summary: "IPAddressPool {{ $labels.pool }} has no free address.",
        },
        usage("MetalLBAddressPoolUsage75Percent", 75, "warning"),
        usage("MetalLBAddressPoolUsage85Percent", 85, "warning"),
        usage("MetalLBAddressPoolUsage95Percent", 95, "critical"),
        Alert {
            name: "FerroLBWebhookCertificateEnds",
            expr: "ferrolb_webhook_certificate_expiry_timestamp_seconds - time() < 7 * 86400".into(),
            minutes: 10,
            severity: "warning",
            summary: "The webhook's certificate was not renewed and ends within a week; then every change of the configuration is refused.",
        },
        Alert {
            name: "FerroLBDegraded",
            expr: "max by (reason) (ferrolb_operator_degraded) == 1".into(),
            minutes: 5,
            severity: "warning",
            summary: "The MetalLB object is Degraded: {{ $labels.reason }}; its conditions say what to do.",
        },
    ]
}

/// Everything, as a kustomization.
pub(crate) fn documents(namespace: &str) -> Vec<(String, Value)> {
    let mut documents = monitors(namespace);
    documents.extend([reader(), rule(namespace)]);
    let file = |document: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{}_{}.yaml", text(&document["kind"]).to_lowercase(), text(&document["metadata"]["name"]))
    };
    documents.into_iter().map(|document| (file(&document), document)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// All code of the processes.
    fn sources(folder: &Path, into: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn every_metric_of_an_alert_is_exported() {
        let mut code = String::new();
        for process in ["controller", "speaker", "webhook", "operator"] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            sources(&root.join(process).join("src"), &mut code);
        }
        let mut looked_at = 0;
        for alert in alerts() {
            let words = alert.expr.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            for metric in words.filter(|word| word.starts_with("metallb_") || word.starts_with("ferrolb_")) {
                // The allocator's share a prefix that is put before them.
                let literal = metric.strip_prefix("metallb_allocator_").unwrap_or(metric);
                assert!(code.contains(&format!("\"{literal}\"")), "{}: nobody exports {metric}", alert.name);
                looked_at += 1;
            }
        }
        assert!(looked_at >= alerts().len());
    }

    #[test]
    fn monitors_find_their_services_and_services_the_pods() {
        for pair in monitors("metallb-system").chunks(2) {
            let (service, monitor) = (&pair[0], &pair[1]);
            assert_eq!(
                monitor["spec"]["selector"]["matchLabels"]["name"],
                service["metadata"]["labels"]["name"]
            );
            assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
        }
        let names: Vec<String> = documents("metallb-system").into_iter().map(|(file, _)| file).collect();
        assert!(names.contains(&"servicemonitor_speaker-monitor.yaml".to_owned()), "{names:?}");
    }
}
