//! When somebody is called. Names are those of MetalLB's where it has them.

use serde_json::{Value, json};

/// An alert.
struct Alert {
    name: &'static str,
    expr: String,
    minutes: u8,
    severity: &'static str,
    summary: &'static str,
}

/// Of several controllers each may say how much of a pool is in use.
const IN_USE: &str = "max by (pool) (metallb_allocator_addresses_in_use_total)";
const IN_POOL: &str = "max by (pool) (metallb_allocator_addresses_total)";

/// The groups of a rule file.
pub(super) fn groups() -> Value {
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
    json!({"groups": [{"name": "ferrolb.rules", "rules": rules}]})
}

fn alerts() -> Vec<Alert> {
    let usage = |name, percent: u8, severity| Alert {
        name,
        // A full pool has an alert of its own.
        expr: format!("{IN_USE} / {IN_POOL} * 100 > {percent} and {IN_USE} < {IN_POOL}"),
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
            expr: format!("{IN_USE} >= {IN_POOL}"),
            minutes: 1,
            severity: "critical",
            summary: "IPAddressPool {{ $labels.pool }} has no free address.",
        },
        usage("MetalLBAddressPoolUsage75Percent", 75, "warning"),
        usage("MetalLBAddressPoolUsage85Percent", 85, "warning"),
        usage("MetalLBAddressPoolUsage95Percent", 95, "critical"),
        Alert {
            name: "MetalLBBGPSessionDown",
            expr: "metallb_bgp_session_up == 0".into(),
            minutes: 1,
            severity: "critical",
            summary: "{{ $labels.pod }} has no BGP session with {{ $labels.peer }}; Events of the BGPPeer say why.",
        },
        Alert {
            name: "FerroLBAddressNotAnnounced",
            expr: format!(
                "sum({IN_USE}) - (count(count by (ip) (metallb_speaker_announced == 1)) or vector(0)) > 0"
            ),
            minutes: 5,
            severity: "warning",
            summary: "{{ $value }} addresses are given to Services and announced by no node; kubectl describe service says why.",
        },
        Alert {
            name: "FerroLBAddressConflict",
            expr: "increase(ferrolb_layer2_conflicts_total[10m]) > 0".into(),
            minutes: 0,
            severity: "critical",
            summary: "Another host claims an address that {{ $labels.pod }} announces; the Event AddressConflict names its MAC.",
        },
        Alert {
            name: "FerroLBMembershipSplit",
            expr: "max(ferrolb_speaker_members{state=\"alive\"}) != min(ferrolb_speaker_members{state=\"alive\"})".into(),
            minutes: 5,
            severity: "warning",
            summary: "Speakers do not agree on who is there: some cannot reach others on UDP port 7946.",
        },
        Alert {
            name: "FerroLBWebhookCertificateEnds",
            expr: "ferrolb_webhook_certificate_expiry_timestamp_seconds - time() < 7 * 86400".into(),
            minutes: 10,
            severity: "warning",
            summary: "The webhook's certificate was not renewed and ends within a week; then every change of the configuration is refused.",
        },
        Alert {
            name: "FerroLBRolloutStalled",
            expr: "max(ferrolb_operator_degraded{reason=\"RolloutStalled\"}) == 1".into(),
            minutes: 2,
            severity: "warning",
            summary: "New pods do not take over; the condition Degraded of the MetalLB object names them and the cause.",
        },
        Alert {
            name: "FerroLBDegraded",
            expr: "max by (reason) (ferrolb_operator_degraded{reason!=\"RolloutStalled\"}) == 1".into(),
            minutes: 5,
            severity: "warning",
            summary: "The MetalLB object is Degraded: {{ $labels.reason }}; its conditions say what to do.",
        },
    ]
}
