//! Places in a YAML document that Helm fills in.
//!
//! A place is marked in the object by a token: as a key of a map or as an item of a list it becomes
//! whole lines, anywhere else a scalar. `@N` in its text is the place's own indentation plus N, as
//! `nindent` wants it.

/// Stands for the release's namespace in rendered objects.
pub(super) const NAMESPACE: &str = "release-namespace";

const OPEN: char = '⟦';
const CLOSE: char = '⟧';

/// The texts of one document's places.
#[derive(Default)]
pub(super) struct Template {
    texts: Vec<String>,
}

impl Template {
    /// A token for a text.
    pub(super) fn place(&mut self, text: impl Into<String>) -> String {
        self.texts.push(text.into());
        format!("{OPEN}{}{CLOSE}", self.texts.len() - 1)
    }

    /// A whole list or map of the values, where there is one: what `key` names.
    pub(super) fn optional(&mut self, key: &str, path: &str) -> String {
        self.place(format!(
            "{{{{- with {path} }}}}\n{key}:\n  {{{{- toYaml . | nindent @2 }}}}\n{{{{- end }}}}"
        ))
    }

    /// A list or map that the values always have.
    pub(super) fn required(&mut self, key: &str, path: &str) -> String {
        self.place(format!("{key}:\n  {{{{- toYaml {path} | nindent @2 }}}}"))
    }

    /// A text of the values, where it is not empty.
    pub(super) fn optional_text(&mut self, key: &str, path: &str) -> String {
        self.place(format!("{{{{- with {path} }}}}\n{key}: {{{{ . | quote }}}}\n{{{{- end }}}}"))
    }

    /// More items or entries from the values.
    pub(super) fn more(&mut self, path: &str) -> String {
        self.place(format!("{{{{- with {path} }}}}\n{{{{- toYaml . | nindent @0 }}}}\n{{{{- end }}}}"))
    }

    /// Labels that everything in a release carries.
    pub(super) fn common_labels(&mut self) -> String {
        self.place(r#"{{- include "ferrolb.labels" . | nindent @0 }}"#)
    }

    /// The document with its places filled.
    pub(super) fn finish(&self, yaml: &str) -> String {
        let mut result = String::new();
        for line in yaml.lines() {
            let content = line.trim_start();
            let indent = line.len() - content.len();
            match self.whole_line(content) {
                Some(text) => {
                    for line in text.lines() {
                        result.push_str(&format!("{}{}\n", " ".repeat(indent), indented(line, indent)));
                    }
                }
                None => {
                    result.push_str(&" ".repeat(indent));
                    result.push_str(&self.scalar(&escaped(content)));
                    result.push('\n');
                }
            }
        }
        result
    }

    /// The text of a line that is a token and nothing else.
    fn whole_line(&self, content: &str) -> Option<&str> {
        let bare = content.strip_suffix(": null").or_else(|| content.strip_prefix("- "))?;
        self.text(unquoted(bare))
    }

    fn text(&self, token: &str) -> Option<&str> {
        let number: usize = token.strip_prefix(OPEN)?.strip_suffix(CLOSE)?.parse().ok()?;
        self.texts.get(number).map(String::as_str)
    }

    /// A line whose value is a token, or has the namespace in it.
    fn scalar(&self, content: &str) -> String {
        let (before, value) = match content.split_once(": ") {
            Some((key, value)) => (format!("{key}: "), value),
            None => match content.strip_prefix("- ") {
                Some(value) => ("- ".to_owned(), value),
                None => return content.to_owned(),
            },
        };
        if let Some(text) = self.text(unquoted(value)) {
            return format!("{before}{text}");
        }
        if value.contains(NAMESPACE) {
            let filled = unquoted(value).replace(NAMESPACE, "{{ .Release.Namespace }}");
            return format!("{before}\"{filled}\"");
        }
        content.to_owned()
    }
}

/// `@N` as a number.
fn indented(line: &str, indent: usize) -> String {
    let Some((before, after)) = line.split_once('@') else { return line.to_owned() };
    let digits = after.chars().take_while(char::is_ascii_digit).count();
    match after[..digits].parse::<usize>() {
        Ok(more) => format!("{before}{}{}", indent + more, &after[digits..]),
        Err(_) => line.to_owned(),
    }
}

fn unquoted(text: &str) -> &str {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    quoted('"').or_else(|| quoted('\'')).unwrap_or(text)
}

/// What Helm would take for an action is text here.
fn escaped(content: &str) -> String {
    content.replace("{{", "{{ \"{{\" }}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::yaml;

    #[test]
    fn places_become_lines_and_scalars_with_their_indentation() {
        let mut template = Template::default();
        let (more, item) =
            (template.more(".Values.a"), template.place("{{- if .Values.b }}\n- b\n{{- end }}"));
        let scalar = template.place("{{ .Values.c }}");
        let object: Value = json!({
            "map": {"x": "1", (more): null},
            "list": ["first", item],
            "scalar": scalar,
            "own": NAMESPACE,
            "role": format!("{NAMESPACE}:controller"),
            "text": "{{ not ours }}",
        });
        let text = template.finish(&yaml(&object).unwrap());
        for expected in [
            "  {{- with .Values.a }}\n  {{- toYaml . | nindent 2 }}\n  {{- end }}\n",
            "- first\n{{- if .Values.b }}\n- b\n{{- end }}\n",
            "scalar: {{ .Values.c }}\n",
            "own: \"{{ .Release.Namespace }}\"\n",
            "role: \"{{ .Release.Namespace }}:controller\"\n",
            "{{ \"{{\" }} not ours }}",
        ] {
            assert!(text.contains(expected), "{expected}\nin\n{text}");
        }
        assert!(!text.contains(OPEN), "{text}");
    }
}
