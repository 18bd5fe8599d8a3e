//! What `compile` makes of objects about BGP: peers, BFD profiles, communities and advertisements.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod advertisements;
mod memory;
mod peers;
mod same_router;
mod whole;

use ferrolb_core::config::{Compiled, Diagnostic, Message, PeerProblem, Severity};

/// The findings but those on what this version does not do yet.
fn findings(compiled: &Compiled) -> Vec<&Diagnostic> {
    let passing = |it: &&Diagnostic| {
        let Message::Peer { problem, .. } = &it.message else { return false };
        matches!(problem, PeerProblem::InterfaceNotUsed)
    };
    compiled.diagnostics.iter().filter(|it| !passing(it)).collect()
}

fn messages(compiled: &Compiled) -> Vec<String> {
    findings(compiled).iter().map(|it| it.message.to_string()).collect()
}

fn of_severity(compiled: &Compiled, severity: Severity) -> Vec<String> {
    let found = findings(compiled).into_iter().filter(|it| it.severity() == severity);
    found.map(|it| it.message.to_string()).collect()
}

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
