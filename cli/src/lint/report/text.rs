//! For people: the message, the line that is meant with a caret, and what to do.

use annotate_snippets::{AnnotationKind, Group, Level as Title, Renderer, Snippet};

use crate::lint::check::Checked;
use crate::lint::{Finding, Level, Source};

pub(super) fn report(sources: &[Source], checked: &Checked) -> String {
    let renderer = Renderer::plain();
    let mut text = String::new();
    for finding in &checked.findings {
        text.push_str(&renderer.render(&[group(sources, finding)]));
        text.push_str("\n\n");
    }
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let total = [
        counted(checked.count(Level::Error), "error"),
        counted(checked.count(Level::Warning), "warning"),
        counted(checked.objects, "object"),
        counted(sources.len(), "file"),
    ];
    let [errors, warnings, objects, files] = total;
    text.push_str(&format!("{errors}, {warnings}; {objects} in {files}\n"));
    text
}

fn group<'a>(sources: &'a [Source], finding: &'a Finding) -> Group<'a> {
    let level = match finding.rule.level() {
        Level::Error => Title::ERROR,
        Level::Warning => Title::WARNING,
    };
    let title = level.primary_title(&finding.message).id(finding.rule.id());
    let source = finding.place.as_ref().and_then(|place| Some((sources.get(place.source)?, place)));
    let mut group = match source {
        Some((source, place)) => title.element(
            Snippet::source(&source.text)
                .path(&source.name)
                .annotation(AnnotationKind::Primary.span(place.span.clone()).label(&finding.object)),
        ),
        None => title
            .element(Title::NOTE.message(format!("in the cluster: {}, {}", finding.object, finding.field))),
    };
    if !finding.help.is_empty() {
        group = group.element(Title::HELP.message(&finding.help));
    }
    group
}
