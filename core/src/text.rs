//! Values written the way MetalLB's messages write them, so that texts which people and tools search
//! for stay the same: quoted strings, lists of quoted strings, label selectors.

use std::fmt::{self, Display, Write};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// In double quotes, with quotes, backslashes and control characters escaped.
pub(crate) struct Quoted<T>(pub(crate) T);

impl<T: Display> Display for Quoted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.to_string().chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// `["a" "b"]`; an absent element is `"<nil>"`.
pub(crate) struct QuotedList<'a, T>(pub(crate) &'a [Option<T>]);

impl<T: Display> Display for QuotedList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_char(' ')?;
            }
            match item {
                Some(item) => Quoted(item).fmt(f)?,
                None => f.write_str("\"<nil>\"")?,
            }
        }
        f.write_char(']')
    }
}

/// `["a" "b"]` of things that are all there.
pub(crate) fn quoted_list<T: Display + Clone>(items: &[T]) -> String {
    QuotedList(&items.iter().cloned().map(Some).collect::<Vec<_>>()).to_string()
}

/// How strings inside a selector are written: as they are, or in quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Quoted,
}

impl Style {
    fn write(self, out: &mut String, value: &str) {
        match self {
            Self::Plain => out.push_str(value),
            Self::Quoted => out.push_str(&Quoted(value).to_string()),
        }
    }
}

/// `{map[foo:bar] [{key In [a b]}]}`
pub(crate) fn selector(style: Style, selector: &LabelSelector) -> String {
    let mut out = "{map[".to_owned();
    for (index, (key, value)) in selector.match_labels.iter().flatten().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        style.write(&mut out, key);
        out.push(':');
        style.write(&mut out, value);
    }
    out.push_str("] [");
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(&requirement(style, expression));
    }
    out.push_str("]}");
    out
}

/// `{key In [a b]}`
pub(crate) fn requirement(style: Style, requirement: &LabelSelectorRequirement) -> String {
    let mut out = "{".to_owned();
    style.write(&mut out, &requirement.key);
    out.push(' ');
    style.write(&mut out, &requirement.operator);
    out.push_str(" [");
    for (index, value) in requirement.values.iter().flatten().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        style.write(&mut out, value);
    }
    out.push_str("]}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_as_the_field_knows_it() {
        assert_eq!(Quoted("a\"b\\c\n\u{1}").to_string(), r#""a\"b\\c\n\x01""#);
        assert_eq!(QuotedList(&[Some("1.2.3.4"), None]).to_string(), r#"["1.2.3.4" "<nil>"]"#);
        let unknown = LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                operator: "invalid".to_owned(),
                ..Default::default()
            }]),
            ..Default::default()
        };
        assert_eq!(selector(Style::Plain, &unknown), "{map[] [{ invalid []}]}");
        let labels = LabelSelector {
            match_labels: Some([("foo".to_owned(), "bar".to_owned())].into()),
            ..Default::default()
        };
        assert_eq!(selector(Style::Quoted, &labels), r#"{map["foo":"bar"] []}"#);
        let expression = LabelSelectorRequirement {
            key: "key".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec!["a".to_owned(), "b".to_owned()]),
        };
        assert_eq!(requirement(Style::Quoted, &expression), r#"{"key" "In" ["a" "b"]}"#);
    }
}
