//! YAML (and so JSON) as a tree that knows where each of its values stands.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number};
use serde_saphyr::{Location, Spanned};

/// A value and its bytes in the text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field of a map.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) span: Range<usize>,
    pub(crate) node: Node,
}

/// What is wrong with a text, and where.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) span: Range<usize>,
}

/// Reads every document of a text; empty ones do not count.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, SyntaxError> {
    serde_saphyr::from_multiple(text).map_err(|error| {
        let start = error.location().map_or(0, |at| offset(text, at.line(), at.column()));
        let end =
            text.get(start..).and_then(|rest| rest.chars().next()).map_or(start, |it| start + it.len_utf8());
        SyntaxError { message: error.without_snippet().to_string(), span: start..end }
    })
}

/// The byte at a line and column, both from 1; the last one of the line if it is shorter.
fn offset(text: &str, line: u64, column: u64) -> usize {
    let index = |from_one: u64| usize::try_from(from_one.saturating_sub(1)).unwrap_or(usize::MAX);
    let before: usize = text.split_inclusive('\n').take(index(line)).map(str::len).sum();
    let line = text.get(before..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    before + line.chars().take(index(column)).map(char::len_utf8).sum::<usize>()
}

fn bytes(location: Location) -> Option<Range<usize>> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let len = usize::try_from(span.byte_len()?).ok()?;
    Some(start..start.saturating_add(len))
}

impl Node {
    /// The field of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The text at `metadata.name` and the like.
    pub(crate) fn text_at(&self, path: &[&str]) -> Option<&str> {
        let mut node = self;
        for key in path {
            node = &node.get(key)?.node;
        }
        node.as_str()
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(value) => value.clone().into(),
            Value::String(value) => value.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let fields: Map<_, _> =
                    entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect();
                fields.into()
            }
        }
    }

    /// Where a field such as `spec.addresses[0]` stands, or of what is there the closest above it: a
    /// simple value itself, else the key that it is under.
    pub(crate) fn locate(&self, path: &str) -> Range<usize> {
        let (node, under) = self.walk(path);
        match node.value {
            Value::List(_) | Value::Map(_) => under,
            _ => node.span.clone(),
        }
    }

    /// Where the key of a field stands.
    pub(crate) fn locate_key(&self, path: &str) -> Range<usize> {
        self.walk(path).1
    }

    /// As far along a path as it leads: the value, and the key or item that it is.
    fn walk(&self, path: &str) -> (&Self, Range<usize>) {
        let (mut node, mut under, mut rest) = (self, self.start(), path);
        while !rest.is_empty() {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let Some(step) = node.step(rest) else { break };
            (node, under, rest) = step;
        }
        (node, under)
    }

    /// The first step of a path: where it leads, the key or item it takes, and the rest of the path.
    fn step<'a, 'b>(&'a self, path: &'b str) -> Option<(&'a Self, Range<usize>, &'b str)> {
        match &self.value {
            Value::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                Some((item, item.start(), rest))
            }
            Value::Map(entries) => {
                // Keys of labels have dots themselves: the longest key that fits is meant.
                let fits = |entry: &&Entry| {
                    let rest = path.strip_prefix(entry.key.as_str());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                };
                let entry = entries.iter().filter(fits).max_by_key(|entry| entry.key.len())?;
                Some((&entry.node, entry.span.clone(), path.get(entry.key.len()..)?))
            }
            _ => None,
        }
    }

    /// A point at the beginning, for what spans lines: of a map its first key.
    fn start(&self) -> Range<usize> {
        match &self.value {
            Value::Map(entries) => entries.first().map_or(self.span.clone(), |entry| entry.span.clone()),
            Value::List(items) => items.first().map_or(self.span.clone(), Self::start),
            _ => self.span.clone(),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { value: spanned.value, span: bytes(spanned.referenced).unwrap_or_default() })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of Kubernetes")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            let span = bytes(key.referenced).unwrap_or_default();
            entries.push(Entry { key: key.value, span, node: fields.next_value()? });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
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

    fn at(document: usize, path: &str) -> &'static str {
        &TEXT[read(TEXT).unwrap()[document].locate(path)]
    }

    #[test]
    fn a_path_leads_to_the_text_that_is_meant() {
        assert_eq!(read(TEXT).unwrap().len(), 2, "an empty document is none");
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
        let documents = read(TEXT).unwrap();
        let wanted = serde_json::json!({"kind": "A", "spec": {
            "addresses": ["10.0.0.0/8", "bad-one"], "labels": {"a.b/c": "x", "a": {"b": "z"}}}});
        assert_eq!(documents[0].to_json(), wanted);
        // Words that kubectl takes for truth values are some here too.
        let scalars = "y: no\na: ~\nb: true\nc: -3\nd: 1.5\ne: '1'\nf: 64512:100\ng: 18446744073709551615\n";
        let wanted = serde_json::json!({"y": false, "a": null, "b": true, "c": -3, "d": 1.5, "e": "1", "f": "64512:100",
            "g": 18446744073709551615_u64});
        assert_eq!(read(scalars).unwrap()[0].to_json(), wanted);
    }

    #[test]
    fn a_syntax_error_says_where() {
        let text = "kind: A\nspec: [1, 2\nmore: {\n";
        let error = read(text).unwrap_err();
        assert!(text[error.span.start..].starts_with(": {"), "{error:?}");
        let twice = "kind: A\nkind: B\n";
        let error = read(twice).unwrap_err();
        assert!(
            error.message.contains("kind") && twice[error.span.start..].starts_with("kind: B"),
            "{error:?}"
        );
    }
}
