//! For programs: one document with everything that is known of each finding.

use serde_json::{Value, json};

use super::place;
use crate::lint::check::Checked;
use crate::lint::{Finding, Level, Source};

pub(super) fn report(sources: &[Source], checked: &Checked) -> String {
    let findings: Vec<Value> = checked.findings.iter().map(|it| of(sources, it)).collect();
    let report = json!({
        "errors": checked.count(Level::Error),
        "warnings": checked.count(Level::Warning),
        "objects": checked.objects,
        "findings": findings,
    });
    format!("{report:#}\n")
}

fn of(sources: &[Source], finding: &Finding) -> Value {
    let mut value = json!({
        "level": finding.rule.level().name(),
        "rule": finding.rule.id(),
        "object": finding.object,
        "field": finding.field,
        "message": finding.message,
        "help": finding.help,
    });
    if let Some((file, region)) = place(sources, finding) {
        value["file"] = json!(file);
        value["line"] = json!(region.line);
        value["column"] = json!(region.column);
        value["endLine"] = json!(region.end_line);
        value["endColumn"] = json!(region.end_column);
    }
    value
}
