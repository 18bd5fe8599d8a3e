//! Workflow commands: GitHub shows each beside the line that it is about.

use super::place;
use crate::lint::check::Checked;
use crate::lint::{Finding, Source};

pub(super) fn report(sources: &[Source], checked: &Checked) -> String {
    checked.findings.iter().map(|finding| command(sources, finding)).collect()
}

fn command(sources: &[Source], finding: &Finding) -> String {
    let level = finding.rule.level().name();
    let mut properties = Vec::new();
    if let Some((file, region)) = place(sources, finding) {
        properties.push(format!("file={}", property(file)));
        properties.push(format!("line={},endLine={}", region.line, region.end_line));
        if region.line == region.end_line {
            properties.push(format!("col={},endColumn={}", region.column, region.end_column));
        }
    }
    properties.push(format!("title={}", property(&format!("{} ({})", finding.object, finding.rule.id()))));
    let help = if finding.help.is_empty() { String::new() } else { format!("\n{}", finding.help) };
    format!("::{level} {}::{}\n", properties.join(","), data(&format!("{}{help}", finding.message)))
}

/// Text of a command, on one line.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
