//! Findings as text for people and as data for tools.

mod github;
mod json;
mod sarif;
mod text;

use std::ops::Range;

use super::check::Checked;
use super::{Finding, Level, Source};

/// The form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// With the lines that are meant, for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Workflow commands, which GitHub shows beside the changed lines.
    Github,
}

/// What is printed.
pub(crate) fn report(output: Output, sources: &[Source], checked: &Checked) -> String {
    match output {
        Output::Text => text::report(sources, checked),
        Output::Json => json::report(sources, checked),
        Output::Sarif => sarif::report(sources, checked),
        Output::Github => github::report(sources, checked),
    }
}

impl Checked {
    /// How many findings of a level.
    pub(crate) fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.rule.level() == level).count()
    }
}

/// Lines and columns from 1, in characters; the end is one past the last character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

impl Region {
    fn of(text: &str, span: &Range<usize>) -> Self {
        let ((line, column), (end_line, end_column)) = (position(text, span.start), position(text, span.end));
        Self { line, column, end_line, end_column }
    }
}

fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Name of the file and the region in it; none for an object of the cluster.
fn place<'a>(sources: &'a [Source], finding: &Finding) -> Option<(&'a str, Region)> {
    let place = finding.place.as_ref()?;
    let source = sources.get(place.source)?;
    Some((&source.name, Region::of(&source.text, &place.span)))
}

#[cfg(test)]
mod tests;
