//! What can be wrong with an advertisement of either kind.

use std::fmt::{self, Display};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::super::selectors::SelectorProblem;
use super::{Name, Problem, SelectorField, Severity};
use crate::selector::{Repeated, SelectorError};
use crate::text::{self, Quoted, Style};

/// What can be wrong with an advertisement of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AdvertisementProblem {
    /// A pool is named twice.
    RepeatedPool(String),
    /// Something in a list of selectors is there twice.
    Repeated(Repeated),
    /// A selector cannot be read.
    InvalidSelector {
        /// The list it is in.
        field: SelectorField,
        /// The selector.
        selector: LabelSelector,
        /// Why.
        error: SelectorError,
    },
    /// It names a pool that does not exist.
    UnknownPool(String),
    /// It names no pool, and its selectors match none.
    NoPool,
    /// Its selectors match no Node.
    NoNode,
}

impl Problem for AdvertisementProblem {
    fn severity(&self) -> Severity {
        match self {
            Self::RepeatedPool(_) | Self::Repeated(_) | Self::InvalidSelector { .. } => Severity::Invalid,
            Self::UnknownPool(_) | Self::NoPool | Self::NoNode => Severity::Unresolved,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        let name = of.name;
        match self {
            Self::RepeatedPool(pool) => write!(f, "duplicate definition of ipAddressPools {}", Quoted(pool)),
            Self::Repeated(repeated) => repeated.fmt(f),
            Self::InvalidSelector { field, selector, error } => {
                let selector = text::selector(Style::Plain, selector);
                match field {
                    SelectorField::Services => write!(
                        f,
                        "invalid service selector {selector}: {error}\nfailed to parse service selector for {name}"
                    ),
                    SelectorField::PreferredNodes => write!(
                        f,
                        "{error}\ninvalid preferred node selector {selector}\n\
                         failed to parse preferred node selectors for {name}"
                    ),
                    SelectorField::Nodes => write!(
                        f,
                        "{error}\ninvalid label selector {selector}\nfailed to parse node selector for {name}"
                    ),
                    SelectorField::Pools | SelectorField::Namespaces => {
                        write!(f, "{error}\ninvalid label selector {selector}")
                    }
                }
            }
            Self::UnknownPool(pool) => {
                write!(f, "{of} refers to IPAddressPool {}, which does not exist", Quoted(pool))
            }
            Self::NoPool => write!(f, "ipAddressPoolSelectors of {of} match no IPAddressPool"),
            Self::NoNode => write!(f, "nodeSelectors of {of} match no Node"),
        }
    }

    fn names_object(&self) -> bool {
        match self {
            Self::RepeatedPool(_) | Self::Repeated(_) => false,
            Self::InvalidSelector { field, .. } => {
                !matches!(field, SelectorField::Pools | SelectorField::Namespaces)
            }
            Self::UnknownPool(_) | Self::NoPool | Self::NoNode => true,
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::RepeatedPool(_) | Self::Repeated(_) => "remove the repetition".into(),
            Self::InvalidSelector { .. } => "correct the label selector".into(),
            Self::UnknownPool(pool) => {
                format!("create IPAddressPool {} or correct the name", Quoted(pool))
            }
            Self::NoPool => "label an IPAddressPool or correct the selectors".into(),
            Self::NoNode => "label a Node or correct the selectors".into(),
        }
    }
}

impl SelectorProblem for AdvertisementProblem {
    fn repeated(repeated: Repeated) -> Self {
        Self::Repeated(repeated)
    }

    fn invalid(field: SelectorField, selector: LabelSelector, error: SelectorError) -> Self {
        Self::InvalidSelector { field, selector, error }
    }
}
