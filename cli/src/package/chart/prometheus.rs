//! The chart's part for a Prometheus operator, off by default.

use serde_json::{Value, json};

use super::template::{self, Template};
use crate::manifest::{self, HEADER};
use crate::package::monitoring;

/// Monitors, the right to read metrics, alerts.
pub(super) fn template() -> anyhow::Result<String> {
    let values = ".Values.prometheus";
    let mut text = format!("{HEADER}{{{{- if {values}.serviceMonitor.enabled }}}}\n");
    for monitor in monitoring::monitors(template::NAMESPACE) {
        let selected = (monitor["kind"] == "ServiceMonitor").then_some("serviceMonitor");
        text.push_str(&document(Template::default(), monitor, selected)?);
    }
    text.push_str(&document(Template::default(), monitoring::reader(), None)?);
    text.push_str(&format!(
        "{{{{- if {values}.serviceAccount }}}}\n{}{{{{- end }}}}\n{{{{- end }}}}\n",
        binding()?
    ));
    let rule = document(Template::default(), monitoring::rule(template::NAMESPACE), Some("prometheusRule"))?;
    text.push_str(&format!("{{{{- if {values}.prometheusRule.enabled }}}}\n{rule}{{{{- end }}}}\n"));
    Ok(text)
}

fn binding() -> anyhow::Result<String> {
    let mut template = Template::default();
    let account = template.place("{{ .Values.prometheus.serviceAccount | quote }}");
    let namespace = template.place("{{ .Values.prometheus.namespace | quote }}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": monitoring::READER, "labels": {}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": monitoring::READER},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    });
    document(template, binding, None)
}

/// A document; `selected` names the values with labels by which a Prometheus selects it.
fn document(mut template: Template, mut object: Value, selected: Option<&str>) -> anyhow::Result<String> {
    let labels = &mut object["metadata"]["labels"];
    labels[template.common_labels()] = Value::Null;
    if let Some(name) = selected {
        labels[template.more(&format!(".Values.prometheus.{name}.additionalLabels"))] = Value::Null;
    }
    Ok(format!("---\n{}", template.finish(&manifest::yaml(&object)?)))
}
