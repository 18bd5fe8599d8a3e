//! Label selectors, compiled: parsed and checked once, then only matched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::text::{self, Quoted, Style, quoted_list};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Labels that selectors can be asked about.
pub trait LabelSet {
    /// The value of a label, if there is one of this key.
    fn value(&self, key: &str) -> Option<&str>;
}

impl LabelSet for Labels {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl<L: LabelSet> LabelSet for &L {
    fn value(&self, key: &str) -> Option<&str> {
        L::value(self, key)
    }
}

impl<L: LabelSet> LabelSet for Arc<L> {
    fn value(&self, key: &str) -> Option<&str> {
        L::value(self, key)
    }
}

/// Labels that are only looked at: they take no more room than their text needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FixedLabels(Box<[(Box<str>, Box<str>)]>);

impl From<&Labels> for FixedLabels {
    fn from(labels: &Labels) -> Self {
        Self(labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect())
    }
}

impl FixedLabels {
    /// Keys and values, in the order of the keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl LabelSet for FixedLabels {
    fn value(&self, key: &str) -> Option<&str> {
        let place = self.0.binary_search_by(|(it, _)| (**it).cmp(key)).ok()?;
        self.0.get(place).map(|(_, value)| &**value)
    }
}

/// A selector that is known to be well formed. All its requirements must hold; one without any
/// matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Checks and compiles.
    pub fn parse(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten().map(|(key, value)| {
            check_key(key)?;
            check_value(key, value, 0)?;
            Ok(Requirement { key: key.clone(), condition: Condition::In(BTreeSet::from([value.clone()])) })
        });
        let expressions = selector.match_expressions.iter().flatten().map(Requirement::parse);
        let mut requirements = labels.chain(expressions).collect::<Result<Vec<_>, _>>()?;
        requirements.sort();
        Ok(Self { requirements })
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &impl LabelSet) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.value(&requirement.key);
            match &requirement.condition {
                Condition::In(values) => value.is_some_and(|value| values.contains(value)),
                Condition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Condition::Exists => value.is_some(),
                Condition::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Selector {
    /// A label that every selected object has, and the values one of which it has: where to look first.
    pub(crate) fn needed_label(&self) -> Option<(&str, &BTreeSet<String>)> {
        self.requirements.iter().find_map(|requirement| match &requirement.condition {
            Condition::In(values) => Some((requirement.key.as_str(), values)),
            Condition::NotIn(_) | Condition::Exists | Condition::DoesNotExist => None,
        })
    }
}

impl Requirement {
    fn parse(expression: &LabelSelectorRequirement) -> Result<Self, SelectorError> {
        let values = expression.values.as_deref().unwrap_or_default();
        let set = || values.iter().cloned().collect();
        let condition = match expression.operator.as_str() {
            "In" => Condition::In(set()),
            "NotIn" => Condition::NotIn(set()),
            "Exists" => Condition::Exists,
            "DoesNotExist" => Condition::DoesNotExist,
            other => return Err(SelectorError::UnknownOperator(other.to_owned())),
        };
        check_key(&expression.key)?;
        match condition {
            Condition::In(_) | Condition::NotIn(_) if values.is_empty() => {
                return Err(SelectorError::ValuesMissing);
            }
            Condition::Exists | Condition::DoesNotExist if !values.is_empty() => {
                return Err(SelectorError::ValuesUnexpected(values.to_vec()));
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            check_value(&expression.key, value, index)?;
        }
        Ok(Self { key: expression.key.clone(), condition })
    }
}

/// Whether any selector of a list matches; selectors in a list are alternatives.
pub fn any_matches(selectors: &[Selector], labels: &impl LabelSet) -> bool {
    selectors.iter().any(|selector| selector.matches(labels))
}

/// Why a selector is not well formed. The texts are those of the Kubernetes libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// Not one of In, NotIn, Exists, DoesNotExist.
    UnknownOperator(String),
    /// In or NotIn without values.
    ValuesMissing,
    /// Exists or DoesNotExist with values.
    ValuesUnexpected(Vec<String>),
    /// Not a label key.
    InvalidKey(String),
    /// Not a label value.
    InvalidValue {
        /// Key of the requirement.
        key: String,
        /// The value.
        value: String,
        /// Its place among the values.
        index: usize,
    },
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOperator(operator) => {
                write!(f, "{} is not a valid label selector operator", Quoted(operator))
            }
            Self::ValuesMissing => f.write_str(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            Self::ValuesUnexpected(values) => write!(
                f,
                "values: Invalid value: {}: values set must be empty for exists and does not exist",
                quoted_list(values).replace("\" \"", "\",\"")
            ),
            Self::InvalidKey(key) => write!(
                f,
                "key: Invalid value: {}: name part must consist of alphanumeric characters, '-', '_' or '.', \
                 and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                 '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                Quoted(key)
            ),
            Self::InvalidValue { key, value, index } => write!(
                f,
                "values[{index}][{key}]: Invalid value: {}: a valid label must be an empty string or consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                Quoted(value)
            ),
        }
    }
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let prefix_holds = prefix.is_none_or(|prefix| {
        prefix.len() <= 253
            && prefix.split('.').all(|part| {
                !part.is_empty()
                    && !part.starts_with('-')
                    && !part.ends_with('-')
                    && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            })
    });
    if prefix_holds && !name.is_empty() && is_label_text(name) {
        Ok(())
    } else {
        Err(SelectorError::InvalidKey(key.to_owned()))
    }
}

fn check_value(key: &str, value: &str, index: usize) -> Result<(), SelectorError> {
    if value.is_empty() || is_label_text(value) {
        Ok(())
    } else {
        Err(SelectorError::InvalidValue { key: key.to_owned(), value: value.to_owned(), index })
    }
}

fn is_label_text(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Something that is defined twice in a list of selectors. Order of values never matters; order of
/// expressions does.
#[derive(Clone, Debug, PartialEq)]
pub enum Repeated {
    /// A value in one expression.
    Value(String),
    /// An expression in one selector.
    Expression(LabelSelectorRequirement),
    /// A selector in the list; the field it is in.
    Selector {
        /// Name of the list.
        field: &'static str,
        /// The selector.
        selector: LabelSelector,
    },
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("duplicate definition of ")?;
        match self {
            Self::Value(value) => write!(f, "match expression value in label selector {}", Quoted(value)),
            Self::Expression(expression) => {
                write!(f, "match expressions {}", text::requirement(Style::Quoted, expression))
            }
            Self::Selector { field, selector } => {
                write!(f, "{field} {}", text::selector(Style::Quoted, selector))
            }
        }
    }
}

/// Everything that is defined twice in the selectors of a field.
pub(crate) fn repetitions(field: &'static str, selectors: &[LabelSelector]) -> Vec<Repeated> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for selector in selectors {
        let mut selector = selector.clone();
        let mut expressions: Vec<&LabelSelectorRequirement> = Vec::new();
        for expression in selector.match_expressions.iter_mut().flatten() {
            let values = expression.values.get_or_insert_default();
            values.sort();
            found.extend(
                values
                    .windows(2)
                    .filter(|pair| pair[0] == pair[1])
                    .map(|pair| Repeated::Value(pair[0].clone())),
            );
            if expressions.contains(&&*expression) {
                found.push(Repeated::Expression(expression.clone()));
            }
            expressions.push(expression);
        }
        selector.match_labels.get_or_insert_default();
        selector.match_expressions.get_or_insert_default();
        if seen.contains(&selector) {
            found.push(Repeated::Selector { field, selector: selector.clone() });
        }
        seen.push(selector);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{expression, labels, match_labels};

    #[test]
    fn matches_like_kubernetes() {
        let object = labels(&[("foo", "bar"), ("empty", "")]);
        for (selector, expected) in [
            (LabelSelector::default(), true),
            (match_labels(&[("foo", "bar")]), true),
            (match_labels(&[("foo", "baz")]), false),
            (match_labels(&[("empty", "")]), true),
            (match_labels(&[("absent", "")]), false),
            (expression("foo", "In", &["quux", "bar"]), true),
            (expression("foo", "NotIn", &["bar"]), false),
            (expression("absent", "NotIn", &["bar"]), true),
            (expression("foo", "Exists", &[]), true),
            (expression("foo", "DoesNotExist", &[]), false),
            (expression("absent", "DoesNotExist", &[]), true),
        ] {
            assert_eq!(Selector::parse(&selector).unwrap().matches(&object), expected, "{selector:?}");
        }
    }

    #[test]
    fn refuses_what_kubernetes_refuses() {
        for (selector, message) in [
            (expression("", "invalid", &[]), "\"invalid\" is not a valid label selector operator"),
            (expression("", "In", &["a"]), "key: Invalid value: \"\""),
            (expression("foo", "In", &[]), "values: Invalid value: []: for 'in', 'notin' operators"),
            (
                expression("foo", "Exists", &["a", "b"]),
                "values: Invalid value: [\"a\",\"b\"]: values set must",
            ),
            (match_labels(&[("foo", "not a value")]), "values[0][foo]: Invalid value: \"not a value\""),
            (match_labels(&[("Upper.io/foo", "a")]), "key: Invalid value: \"Upper.io/foo\""),
        ] {
            let error = Selector::parse(&selector).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn finds_everything_defined_twice() {
        let texts = |selectors: &[LabelSelector]| {
            repetitions("nodeSelectors", selectors).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts(&[match_labels(&[("a", "1")]), match_labels(&[("a", "2")])]), Vec::<String>::new());
        assert_eq!(
            texts(&[match_labels(&[("a", "1"), ("b", "2")]), match_labels(&[("b", "2"), ("a", "1")])]),
            [r#"duplicate definition of nodeSelectors {map["a":"1" "b":"2"] []}"#]
        );
        assert_eq!(
            texts(&[expression("foo", "In", &["bar", "bar"])]),
            [r#"duplicate definition of match expression value in label selector "bar""#]
        );
        let mut twice = expression("host", "In", &["first", "second"]);
        let second = expression("host", "In", &["second", "first"]).match_expressions.unwrap();
        twice.match_expressions.as_mut().unwrap().extend(second);
        assert_eq!(
            texts(&[twice]),
            [r#"duplicate definition of match expressions {"host" "In" ["first" "second"]}"#]
        );
    }
}
