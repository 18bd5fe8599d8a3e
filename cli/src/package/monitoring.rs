//! The package for a Prometheus operator: who is scraped, when somebody is called, who may read.
//!
//! Output: objects of the groups `v1`, `rbac.authorization.k8s.io` and `monitoring.coreos.com`, with the
//! names of MetalLB's where it has them. They are a package of their own, since their kinds exist only
//! where a Prometheus operator does.

mod dashboard;

use std::collections::BTreeMap;

use ferrolb_api::well_known::label;
use ferrolb_operator::render::{Object, monitoring};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// Name of the ClusterRole whose holders may read metrics.
pub(super) const READER: &str = "ferrolb-metrics-reader";

/// Headless Services, one a component, and the ServiceMonitors that read them.
pub(crate) fn monitors(namespace: &str) -> Vec<Value> {
    let component = |name: &str, component: &str| metadata(namespace, name, Some(component));
    monitoring::monitors(namespace, &BTreeMap::new(), component).iter().map(Object::to_value).collect()
}

fn metadata(namespace: &str, name: &str, component: Option<&str>) -> ObjectMeta {
    let app = (label::APP.to_owned(), label::APP_VALUE.to_owned());
    let component = component.map(|component| (label::COMPONENT.to_owned(), component.to_owned()));
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(namespace.into()),
        labels: Some([app].into_iter().chain(component).collect()),
        ..Default::default()
    }
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
    monitoring::rule(&BTreeMap::new(), metadata(namespace, monitoring::RULE, None)).to_value()
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
    use std::process::Command;

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

    /// Series and what they must come to, in promtool's form.
    const CASES: &str = include_str!("monitoring/alerts.yaml");

    /// Name and expression of each alert.
    fn alerts() -> Vec<(String, String)> {
        let rule = rule("metallb-system");
        let rules = rule["spec"]["groups"][0]["rules"].as_array().cloned().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rules.iter().map(|rule| (text(&rule["alert"]), text(&rule["expr"]))).collect()
    }

    #[test]
    fn every_metric_of_an_alert_is_exported() {
        let alerts = alerts();
        let looked_at = exported(alerts.iter().map(|(_, expr)| expr.as_str()));
        assert!(looked_at >= alerts.len());
    }

    #[test]
    fn each_alert_calls_when_it_should_and_only_then() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rules.yaml"), rule("metallb-system")["spec"].to_string()).unwrap();
        std::fs::write(folder.path().join("cases.yaml"), CASES).unwrap();
        let run = Command::new("promtool")
            .args(["test", "rules", "cases.yaml"])
            .current_dir(folder.path())
            .output();
        let run = run.expect("promtool is needed: hack/setup installs it (Debian's prometheus)");
        let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{said}");
        for (name, _) in alerts() {
            let asked = CASES.split("- alertname: ").filter_map(|case| case.strip_prefix(name.as_str()));
            let of_this = asked.filter(|case| case.starts_with('\n'));
            let (calling, silent): (Vec<_>, Vec<_>) = of_this.partition(|case| case.contains("exp_labels:"));
            assert!(!calling.is_empty() && !silent.is_empty(), "{name} has no case of each kind");
        }
    }
}
