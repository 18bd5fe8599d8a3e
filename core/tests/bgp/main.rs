//! What `compile` makes of objects about BGP: peers, BFD profiles, communities and advertisements.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod advertisements;
mod memory;
mod peers;
mod same_router;
mod whole;

use ferrolb_core::config::{Compiled, Diagnostic, Severity};

fn findings(compiled: &Compiled) -> Vec<&Diagnostic> {
    compiled.diagnostics.iter().collect()
}

fn messages(compiled: &Compiled) -> Vec<String> {
    compiled.diagnostics.iter().map(|it| it.message.to_string()).collect()
}

fn of_severity(compiled: &Compiled, severity: Severity) -> Vec<String> {
    let found = compiled.diagnostics.iter().filter(|it| it.severity() == severity);
    found.map(|it| it.message.to_string()).collect()
}

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
