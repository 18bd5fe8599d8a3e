use super::*;

const TEXT: &str = "\
# ünïcödé before
kind: A
spec:
  addresses:
  - 10.0.0.0/8
  - bad-one
  labels: {a.b/c: x, a: {b: z}}
---
{\"kind\": \"B\", \"spec\": {\"n\": 3, \"list\": [{\"m\": 1}]}}
---
";

fn good(text: &str) -> Vec<Node> {
    let (documents, errors) = read(text);
    assert!(errors.is_empty(), "{errors:?}");
    documents
}

fn at(document: usize, path: &str) -> &'static str {
    &TEXT[good(TEXT)[document].locate(path)]
}

#[test]
fn a_path_leads_to_the_text_that_is_meant() {
    assert_eq!(good(TEXT).len(), 2, "an empty document is none");
    for (document, path, text) in [
        (0, "kind", "A"),
        (0, "spec.addresses[1]", "bad-one"),
        (0, "spec.addresses", "addresses"),
        (0, "spec.labels.a.b/c", "x"),
        (0, "spec.labels.a.b", "z"),
        (0, "spec.missing.below", "spec"),
        (0, "spec.addresses[7]", "addresses"),
        (0, "", "kind"),
        (1, "spec.n", "3"),
        (1, "spec.list[0].m", "1"),
    ] {
        assert_eq!(at(document, path).trim_matches('"'), text, "{path}");
    }
}

#[test]
fn a_tree_is_the_value_that_kubernetes_sees() {
    let documents = good(TEXT);
    let wanted = serde_json::json!({"kind": "A", "spec": {
        "addresses": ["10.0.0.0/8", "bad-one"], "labels": {"a.b/c": "x", "a": {"b": "z"}}}});
    assert_eq!(documents[0].to_json(), wanted);
    // Words that kubectl takes for truth values are some here too.
    let scalars = "y: no\na: ~\nb: true\nc: -3\nd: 1.5\ne: '1'\nf: 64512:100\ng: 18446744073709551615\n";
    let wanted = serde_json::json!({"y": false, "a": null, "b": true, "c": -3, "d": 1.5, "e": "1", "f": "64512:100",
        "g": 18446744073709551615_u64});
    assert_eq!(good(scalars)[0].to_json(), wanted);
}

fn errors(text: &str) -> Vec<SyntaxError> {
    read(text).1
}

#[test]
fn a_syntax_error_says_where() {
    let text = "kind: A\nspec: [1, 2\nmore: {\n";
    let error = errors(text).remove(0);
    assert!(text[error.span.start..].starts_with(": {"), "{error:?}");
    let twice = "kind: A\nkind: B\n";
    let error = errors(twice).remove(0);
    assert!(error.message.contains("kind") && twice[error.span.start..].starts_with("kind: B"), "{error:?}");
}

#[test]
fn one_bad_document_hides_no_other() {
    let text = "# first\n---\nkind: A\n---\nkind: [\n---\r\nkind: C\n--- # same line\nkind: {{ .Values.d }}\n---\nkind: E";
    let (documents, errors) = read(text);
    let kinds: Vec<&str> = documents.iter().map(|it| &text[it.locate("kind")]).collect();
    assert_eq!(kinds, ["A", "C", "E"]);
    let lines: Vec<usize> = errors.iter().map(|it| text[..it.span.start].lines().count()).collect();
    assert_eq!(lines.len(), 2, "{errors:?}");
    assert!(lines[0] <= 6 && lines[1] > 6, "{errors:?}");
    assert!(errors.iter().all(|it| !it.message.contains(" line ")), "{errors:?}");
}

#[test]
fn markers_within_texts_and_directives_part_nothing() {
    let text = "%YAML 1.2\n---\nkind: A\nnote: |\n  ---\n  more\nother: ---x\n...\n---\n---\n# nothing\n";
    let documents = good(text);
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0].to_json()["note"], "---\nmore\n");
    assert_eq!(documents[0].to_json()["other"], "---x");
    assert!(good("").is_empty() && good("---").is_empty() && good("\u{feff}kind: A\n").len() == 1);
}

#[test]
fn large_clusters_are_read_and_bombs_are_not() {
    let many: String = (0..3_000).map(|nth| format!("---\nkind: A\nname: n{nth}\n")).collect();
    assert_eq!(good(&many).len(), 3_000);
    let items: String = (0..60_000).map(|nth| format!("- {{a: {nth}, b: [x, y]}}\n")).collect();
    assert_eq!(good(&format!("kind: List\nitems:\n{items}")).len(), 1);
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (before, name) in ('a'..'j').zip('b'..) {
        let all = vec![format!("*{before}"); 9].join(", ");
        bomb.push_str(&format!("{name}: &{name} [{all}]\n"));
    }
    assert_eq!(errors(&bomb).len(), 1);
    let deep = format!("a: {}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(errors(&deep).len(), 1);
}
