//! What can be wrong with a community, as the value of an alias or in an advertisement.

use std::fmt;

use super::{Name, Problem, Severity};
use crate::text::Quoted;

/// What can be wrong with an alias of a community.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommunityProblem {
    /// Its value is no community.
    Value(CommunityValueError),
    /// There is one of this name already.
    Repeated {
        /// Name of the object that has it.
        earlier: String,
    },
}

impl Problem for CommunityProblem {
    fn severity(&self) -> Severity {
        Severity::Invalid
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        let alias = Quoted(of.name);
        match self {
            Self::Value(error) => write!(f, "parsing community {alias}: {error}"),
            Self::Repeated { .. } => write!(f, "duplicate definition of community {alias}"),
        }
    }

    fn names_object(&self) -> bool {
        false
    }

    fn remedy(&self) -> String {
        match self {
            Self::Value(_) => VALUE_REMEDY.into(),
            Self::Repeated { earlier } => {
                format!("remove or rename it here or in Community {}", Quoted(earlier))
            }
        }
    }
}

pub(super) const VALUE_REMEDY: &str =
    "write two numbers up to 65535, such as 64512:100, or a large community, such as large:64512:1:100";

/// A text that is no community.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommunityValueError {
    /// Neither two nor four parts.
    Format(String),
    /// Four parts, of which the first is not `large`.
    Marker(String),
    /// A part is no number, or too large a one.
    Section {
        /// The part.
        section: String,
        /// The whole.
        value: String,
        /// Whether it is a number.
        out_of_range: bool,
    },
}

impl fmt::Display for CommunityValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(value) => write!(f, "invalid community format: {value}"),
            Self::Marker(value) => write!(
                f,
                "invalid community value: invalid marker for large community, expected community to be of \
                 format large:<uint32>:<uint32>:<uint32> but got {} instead",
                Quoted(value)
            ),
            Self::Section { section, value, out_of_range } => {
                let why = if *out_of_range { "value out of range" } else { "invalid syntax" };
                let error = format!("strconv.ParseUint: parsing {}: {why}", Quoted(section));
                write!(
                    f,
                    "invalid community value: invalid section {} of community {}, err: {}",
                    Quoted(section),
                    Quoted(value),
                    Quoted(error)
                )
            }
        }
    }
}
