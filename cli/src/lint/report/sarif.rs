//! SARIF 2.1.0 (OASIS), as code scanning reads it.

use serde_json::{Value, json};

use super::place;
use crate::lint::check::Checked;
use crate::lint::{Finding, Rule, Source};

pub(super) fn report(sources: &[Source], checked: &Checked) -> String {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id(),
                "shortDescription": {"text": rule.describe()},
                "defaultConfiguration": {"level": rule.level().name()},
            })
        })
        .collect();
    let results: Vec<Value> = checked.findings.iter().map(|it| result(sources, it)).collect();
    let report = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "kubectl-ferrolb",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{report:#}\n")
}

fn result(sources: &[Source], finding: &Finding) -> Value {
    let help = if finding.help.is_empty() { String::new() } else { format!("\n{}", finding.help) };
    let logical = json!([{"name": finding.field, "fullyQualifiedName": format!("{} {}", finding.object, finding.field)}]);
    let mut location = json!({"logicalLocations": logical});
    if let Some((file, region)) = place(sources, finding) {
        location["physicalLocation"] = json!({
            "artifactLocation": {"uri": uri(file)},
            "region": {
                "startLine": region.line, "startColumn": region.column,
                "endLine": region.end_line, "endColumn": region.end_column,
            },
        });
    }
    json!({
        "ruleId": finding.rule.id(),
        "level": finding.rule.level().name(),
        "message": {"text": format!("{}{help}", finding.message)},
        "locations": [location],
    })
}

/// A path as a relative reference (RFC 3986).
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into())
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}
