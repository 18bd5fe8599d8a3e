//! The configuration compiler on files, before they reach a cluster.
//!
//! ```text
//! files   ─ document (YAML with places) ─┐
//!                                        ├ check: schema, then core::config::compile ─ findings ─ report
//! cluster ─ cluster (kubectl get) ───────┘
//! ```
//!
//! What is wrong is decided by the schemas of the CRDs and by the compiler that admission asks too; here
//! it is said where in which file that is.

pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod document;
pub(crate) mod report;
mod schema;

use std::ops::Range;

/// A text that was read, under the name that it is reported by.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// It would be refused, or left out.
    Error,
    /// It would be taken; read it again.
    Warning,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// What kind of finding: the identifier that tools suppress or count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// No YAML, or no object.
    Syntax,
    /// A kind or version that this API group does not have.
    UnknownKind,
    /// A field that the kind does not have.
    UnknownField,
    /// A value that the schema of its field forbids.
    Schema,
    /// An object where the product does not look.
    Namespace,
    /// Two objects with one name.
    Repeated,
    /// Left out by the compiler, denied by admission.
    Invalid,
    /// Names what is not there.
    Unresolved,
    /// Works, but not for ever.
    Deprecated,
    /// In force, but hardly what was meant.
    Doubtful,
}

impl Rule {
    pub(crate) const ALL: [Self; 10] = [
        Self::Syntax,
        Self::UnknownKind,
        Self::UnknownField,
        Self::Schema,
        Self::Namespace,
        Self::Repeated,
        Self::Invalid,
        Self::Unresolved,
        Self::Deprecated,
        Self::Doubtful,
    ];

    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::UnknownKind => "unknown-kind",
            Self::UnknownField => "unknown-field",
            Self::Schema => "schema",
            Self::Namespace => "namespace",
            Self::Repeated => "repeated",
            Self::Invalid => "invalid",
            Self::Unresolved => "unresolved",
            Self::Deprecated => "deprecated",
            Self::Doubtful => "doubtful",
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Syntax => "The file cannot be read as Kubernetes objects.",
            Self::UnknownKind => "The API group metallb.io has no such kind or version.",
            Self::UnknownField => "The kind has no such field.",
            Self::Schema => "The value is not one that the field may have.",
            Self::Namespace => "The object is in a namespace where it is not honoured.",
            Self::Repeated => "Two objects of one kind have the same name.",
            Self::Invalid => "The object would be refused.",
            Self::Unresolved => "The object names something that is not there.",
            Self::Deprecated => "The object uses what will go.",
            Self::Doubtful => "The object is in force, but hardly does what was meant.",
        }
    }

    pub(crate) fn level(self) -> Level {
        match self {
            Self::Syntax
            | Self::UnknownKind
            | Self::UnknownField
            | Self::Schema
            | Self::Namespace
            | Self::Invalid => Level::Error,
            Self::Repeated | Self::Unresolved | Self::Deprecated | Self::Doubtful => Level::Warning,
        }
    }
}

/// Where in the sources: which one, and which bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) source: usize,
    pub(crate) span: Range<usize>,
}

impl Place {
    /// Orders places as they are read.
    pub(crate) fn key(&self) -> (usize, usize, usize) {
        (self.source, self.span.start, self.span.end)
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    /// None for an object of the cluster.
    pub(crate) place: Option<Place>,
    /// `IPAddressPool "default"`, where one is meant.
    pub(crate) object: String,
    /// Path of the field, where one is meant.
    pub(crate) field: String,
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) help: String,
}
