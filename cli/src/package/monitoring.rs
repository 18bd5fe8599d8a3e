//! What a Prometheus operator takes: who is scraped, and when somebody is called.
//!
//! Output: objects of the groups `v1`, `rbac.authorization.k8s.io` and `monitoring.coreos.com`, with the
//! names of MetalLB's where it has them. They are a package of their own, since their kinds exist only
//! where a Prometheus operator does.

mod alerts;
mod dashboard;

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
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "ferrolb", "namespace": namespace, "labels": {(label::APP): label::APP_VALUE}},
        "spec": alerts::groups(),
    })
}

/// Everything, as a kustomization.
pub(crate) fn documents(namespace: &str) -> Vec<(String, Value)> {
    let mut documents = monitors(namespace);
    documents.extend([reader(), rule(namespace), dashboard::config_map(namespace)]);
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

    /// Fails where a query names a metric that no process exports; says how many it names.
    pub(super) fn exported<'a>(queries: impl IntoIterator<Item = &'a str>) -> usize {
        let mut code = String::new();
        for process in ["controller", "speaker", "webhook", "operator", "runtime"] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            sources(&root.join(process).join("src"), &mut code);
        }
        let mut looked_at = 0;
        for query in queries {
            let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let ours = ["metallb_", "ferrolb_", "process_"];
            for metric in words.filter(|word| ours.iter().any(|start| word.starts_with(start))) {
                // The allocator's share a prefix that is put before them; of a histogram there are three.
                let literal = metric.strip_prefix("metallb_allocator_").unwrap_or(metric);
                let literal = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| literal.strip_suffix(end))
                    .unwrap_or(literal);
                assert!(code.contains(&format!("\"{literal}\"")), "{query}: nobody exports {metric}");
                looked_at += 1;
            }
        }
        looked_at
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
