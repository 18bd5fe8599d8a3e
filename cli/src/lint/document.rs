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

/// Reads every document of a text; empty ones do not count. One that cannot be read keeps none of the others
/// from being read.
pub(crate) fn read(text: &str) -> (Vec<Node>, Vec<SyntaxError>) {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    for (begin, part) in parts(text) {
        match serde_saphyr::from_multiple_with_options::<Node>(part, options()) {
            Ok(read) => documents.extend(read.into_iter().map(|node| node.moved(begin))),
            Err(error) => errors.push(SyntaxError::of(&error, part, begin)),
        }
    }
    (documents, errors)
}

/// How much there may be of a document: a list of a large cluster, but no bomb of aliases.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_events: 20_000_000, max_nodes: 10_000_000 },
    }
}

/// The documents of a text, each with where it begins and with the marker, comments and directives before it.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let (mut begins, mut place, mut has_content) = (vec![0], 0, false);
    for line in text.split_inclusive('\n') {
        let is_marker =
            line.strip_prefix("---").is_some_and(|rest| rest.trim_start() != rest || rest.is_empty());
        if is_marker && has_content {
            begins.push(place);
            has_content = false;
        }
        let rest = if is_marker { line.get(3..).unwrap_or_default() } else { line }.trim();
        has_content |= !(rest.is_empty() || rest.starts_with('#') || line.starts_with('%'));
        place += line.len();
    }
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    begins.iter().zip(ends).filter_map(|(begin, end)| Some((*begin, text.get(*begin..end)?))).collect()
}

impl SyntaxError {
    fn of(error: &serde_saphyr::Error, part: &str, begin: usize) -> Self {
        let start = error.location().map_or(0, |at| offset(part, at.line(), at.column()));
        let end =
            part.get(start..).and_then(|rest| rest.chars().next()).map_or(start, |it| start + it.len_utf8());
        let told = error.without_snippet().to_string();
        // Where it is, is told beside it; here it would count from the beginning of the document.
        let message = [" at line ", " (defined at line ", " (used at line "]
            .iter()
            .fold(&*told, |text, mark| text.split_once(mark).map_or(text, |(before, _)| before));
        Self { message: message.to_owned(), span: begin + start..begin + end }
    }
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
    /// As it stands in a text of which its own begins there.
    fn moved(mut self, begin: usize) -> Self {
        let moved = |span: Range<usize>| span.start + begin..span.end + begin;
        self.span = moved(self.span);
        self.value = match self.value {
            Value::List(items) => Value::List(items.into_iter().map(|item| item.moved(begin)).collect()),
            Value::Map(entries) => {
                let entry = |it: Entry| Entry { span: moved(it.span), node: it.node.moved(begin), ..it };
                Value::Map(entries.into_iter().map(entry).collect())
            }
            simple => simple,
        };
        self
    }

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
mod tests;
