//! A Grafana dashboard of the whole product, in the ConfigMap that Grafana's sidecar takes up.

use ferrolb_api::well_known::label;
use serde_json::{Value, json};

/// A panel: its title, the unit of its values, and what each line shows, with the line's name.
type Panel = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const PANELS: &[Panel] = &[
    (
        "Addresses in use, share of the pool",
        "percentunit",
        &[(
            "{{pool}}",
            "max by (pool) (metallb_allocator_addresses_in_use_total) / max by (pool) (metallb_allocator_addresses_total)",
        )],
    ),
    (
        "Services without an address, by reason",
        "short",
        &[("{{reason}}", "max by (reason) (ferrolb_controller_refused_services)")],
    ),
    (
        "From a change to the written address",
        "s",
        &[
            (
                "p50",
                "histogram_quantile(0.5, sum by (le) (rate(ferrolb_controller_assignment_duration_seconds_bucket[5m])))",
            ),
            (
                "p95",
                "histogram_quantile(0.95, sum by (le) (rate(ferrolb_controller_assignment_duration_seconds_bucket[5m])))",
            ),
        ],
    ),
    (
        "Addresses announced, by node",
        "short",
        &[("{{node}} {{protocol}}", "count by (node, protocol) (metallb_speaker_announced == 1)")],
    ),
    (
        "Layer 2: requests and answers a second",
        "reqps",
        &[
            ("requests", "sum(rate(metallb_layer2_requests_received[5m]))"),
            ("answers", "sum(rate(metallb_layer2_responses_sent[5m]))"),
            ("gratuitous", "sum(rate(metallb_layer2_gratuitous_sent[5m]))"),
        ],
    ),
    (
        "Layer 2: take-over time",
        "s",
        &[(
            "p95",
            "histogram_quantile(0.95, sum by (le) (rate(ferrolb_layer2_takeover_seconds_bucket[5m])))",
        )],
    ),
    (
        "Layer 2: address conflicts",
        "short",
        &[("{{pod}}", "sum by (pod) (increase(ferrolb_layer2_conflicts_total[10m]))")],
    ),
    (
        "Speakers known, by state",
        "short",
        &[("{{pod}} {{state}}", "sum by (pod, state) (ferrolb_speaker_members)")],
    ),
    ("BGP sessions", "short", &[("{{pod}} {{peer}}", "metallb_bgp_session_up")]),
    (
        "BGP prefixes",
        "short",
        &[
            ("{{peer}} announced", "sum by (peer) (metallb_bgp_announced_prefixes_total)"),
            ("{{peer}} to be announced", "sum by (peer) (metallb_bgp_pending_prefixes_total)"),
        ],
    ),
    ("BGP updates a second", "short", &[("{{peer}}", "sum by (peer) (rate(metallb_bgp_updates_total[5m]))")]),
    ("Configuration left out", "short", &[("{{pod}}", "metallb_k8s_client_config_stale_bool")]),
    (
        "Reviews of the webhook a second",
        "reqps",
        &[("{{kind}} {{verdict}}", "sum by (kind, verdict) (rate(ferrolb_webhook_reviews_total[5m]))")],
    ),
    (
        "Until the webhook's certificate ends",
        "s",
        &[("{{pod}}", "ferrolb_webhook_certificate_expiry_timestamp_seconds - time()")],
    ),
    (
        "Operator: repairs",
        "short",
        &[("{{kind}} {{cause}}", "sum by (kind, cause) (increase(ferrolb_operator_repairs_total[10m]))")],
    ),
    (
        "Pods",
        "short",
        &[("{{component}} {{state}}", "max by (component, state) (ferrolb_operator_component_pods)")],
    ),
    ("Memory", "bytes", &[("{{pod}}", "process_resident_memory_bytes{job=~\".*-monitor-service\"}")]),
];

/// Panels side by side.
const COLUMNS: usize = 2;
const WIDTH: usize = 24 / COLUMNS;
const HEIGHT: usize = 8;

/// The ConfigMap.
pub(super) fn config_map(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "ferrolb-dashboard",
            "namespace": namespace,
            "labels": {(label::APP): label::APP_VALUE, "grafana_dashboard": "1"},
        },
        "data": {"ferrolb.json": format!("{:#}\n", dashboard())},
    })
}

fn dashboard() -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let panels: Vec<Value> = PANELS
        .iter()
        .enumerate()
        .map(|(number, (title, unit, lines))| {
            let targets: Vec<Value> = ('A'..='Z')
                .zip(lines.iter())
                .map(|(id, (legend, expr))| json!({"refId": id, "expr": expr, "legendFormat": legend, "datasource": source}))
                .collect();
            json!({
                "id": number + 1,
                "type": "timeseries",
                "title": title,
                "datasource": source,
                "gridPos": {
                    "x": number % COLUMNS * WIDTH, "y": number / COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT,
                },
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "targets": targets,
            })
        })
        .collect();
    json!({
        "uid": "ferrolb",
        "title": "FerroLB",
        "tags": ["ferrolb", "metallb"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn queries() -> Vec<&'static str> {
        PANELS.iter().flat_map(|(_, _, lines)| lines.iter().map(|(_, query)| *query)).collect()
    }

    #[test]
    fn every_query_names_what_is_exported() {
        assert!(super::super::tests::exported(queries()) >= queries().len());
    }

    #[test]
    fn every_query_is_one_that_prometheus_understands() {
        let record = |(number, query): (usize, &str)| json!({"record": "panel", "expr": query, "labels": {"number": number.to_string()}});
        let rules: Vec<Value> = queries().into_iter().enumerate().map(record).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yaml");
        std::fs::write(&file, json!({"groups": [{"name": "panels", "rules": rules}]}).to_string()).unwrap();
        let run = Command::new("promtool").args(["check", "rules"]).arg(&file).output();
        let run = run.expect("promtool is needed: hack/setup installs it (Debian's prometheus)");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }

    #[test]
    fn panels_do_not_overlap_and_every_line_has_a_source() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().unwrap();
        let places: std::collections::BTreeSet<String> =
            panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
        assert_eq!(places.len(), PANELS.len());
        for panel in panels {
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"]["uid"], "${datasource}");
            }
        }
    }
}
