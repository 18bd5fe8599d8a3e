//! Objects for a Prometheus operator: made where the `MetalLB` object asks for them and their kinds are there.

mod support;

use std::time::Duration;

use serde_json::json;
use support::{NAMESPACE, Product, condition, text, until};

/// As much of a Prometheus operator's kinds as an API server needs: whether their schemas fit is the operator's
/// golden files' affair.
fn definition(kind: &str) -> String {
    let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
    .to_string()
}

#[test]
fn monitors_are_there_as_soon_as_their_kinds_are_and_as_long_as_somebody_asks() {
    let product = Product::installed();
    let ask = |metrics: serde_json::Value| {
        let patch = json!({"spec": {"metrics": metrics}}).to_string();
        product.kubectl(&["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", &patch]);
    };
    let available = |wanted: &str, is_said: bool| {
        until(&format!("Available says: {wanted}, {is_said}"), Duration::from_secs(60), || {
            let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
            let message = text(&metallb["status"]["conditions"][0]["message"]);
            let is_available = condition(&metallb, "Available") == Some("True");
            if is_available && message.contains(wanted) == is_said { Ok(()) } else { Err(message) }
        });
    };
    ask(json!({"serviceMonitors": true, "prometheusRule": true, "additionalLabels": {"release": "lab"}}));
    available("no ServiceMonitor as long as no Prometheus operator brings that kind", true);

    let kinds = ["ServiceMonitor", "PrometheusRule"];
    // FERROLB_MONITORING_CRDS is a folder with a Prometheus operator's own definitions.
    match std::env::var("FERROLB_MONITORING_CRDS") {
        Ok(folder) => drop(product.kubectl(&["apply", "--server-side", "-f", &folder])),
        Err(_) => kinds.iter().for_each(|kind| product.lab.apply(&definition(kind)).map(drop).unwrap()),
    }
    let found = || {
        let query =
            ["-n", NAMESPACE, "get", "servicemonitors,prometheusrules", "-l", "release=lab", "-o", "name"];
        product.lab.kubectl(&query).map_err(|error| error.to_string())
    };
    until("monitors of four processes and the alerts", Duration::from_secs(60), || {
        let found = found()?;
        if found.lines().count() == 5 { Ok(()) } else { Err(found) }
    });
    available("no ServiceMonitor", false);
    // What a Prometheus finds by them.
    for monitor in product.items(&["-n", NAMESPACE, "servicemonitors"]) {
        let labels = &monitor["spec"]["selector"]["matchLabels"];
        let selector = format!("name={}", text(&labels["name"]));
        let services = product.items(&["-n", NAMESPACE, "services", "-l", &selector]);
        assert_eq!(services.len(), 1, "{monitor}");
        let service = format!("kubernetes.io/service-name={}", text(&services[0]["metadata"]["name"]));
        until("endpoints of the monitor's Service", Duration::from_secs(30), || {
            let slices = product.items(&["-n", NAMESPACE, "endpointslices", "-l", &service]);
            let all = slices.iter().filter_map(|slice| slice["endpoints"].as_array());
            if all.map(Vec::len).sum::<usize>() > 0 { Ok(()) } else { Err(format!("{slices:?}")) }
        });
    }
    product.kubectl(&["-n", NAMESPACE, "delete", "prometheusrule", "ferrolb"]);
    until("the alerts again", Duration::from_secs(30), || {
        product.get(&["-n", NAMESPACE, "prometheusrule", "ferrolb"]).map(drop)
    });
    ask(json!(null));
    until("nothing of it", Duration::from_secs(30), || {
        let services = product.items(&["-n", NAMESPACE, "services"]);
        let monitors = services.iter().filter(|it| text(&it["metadata"]["name"]).contains("monitor")).count();
        let found = found()?;
        if monitors == 0 && found.is_empty() { Ok(()) } else { Err(format!("{monitors} {found}")) }
    });
    let gone = kinds.map(|kind| format!("crd/{}s.monitoring.coreos.com", kind.to_lowercase()));
    product.kubectl(&["delete", &gone[0], &gone[1], "--timeout=30s"]);
    product.wait_available(Duration::from_secs(60));
}
