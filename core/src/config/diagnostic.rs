//! What is wrong with an object, as data: the object, the field, and a message whose text is the one
//! that MetalLB's users know and search for.

use std::fmt::{self, Display};

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::ranges::RangeError;
use crate::selector::{Repeated, SelectorError};
use crate::text::{self, Quoted, Style};

/// One finding of [`compile`](super::compile).
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The object that is to be changed.
    pub object: ObjectRef,
    /// Path of the field inside it, such as `spec.addresses[0]`.
    pub field: String,
    /// What is wrong.
    pub message: Message,
}

impl Diagnostic {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self.message {
            Message::Pool { .. } | Message::PoolOverlap { .. } | Message::Advertisement { .. } => {
                Severity::Invalid
            }
            Message::UnknownPool { .. } => Severity::Unresolved,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match &self.message {
            Message::Pool { problem, .. } => problem.remedy().to_owned(),
            Message::PoolOverlap { earlier_pool, .. } => format!(
                "let the ranges of all pools be disjoint: shrink this pool or IPAddressPool {}",
                Quoted(earlier_pool)
            ),
            Message::Advertisement { problem, .. } => problem.remedy().to_owned(),
            Message::UnknownPool { pool, .. } => {
                format!("create IPAddressPool {} or correct the name", Quoted(pool))
            }
        }
    }
}

/// The message; where its text does not say which object is meant, with the object after it.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)?;
        match &self.message {
            Message::Advertisement { problem, .. } if !problem.names_object() => {
                write!(f, " ({})", self.object)
            }
            _ => Ok(()),
        }
    }
}

/// An object of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, Quoted(&self.name))
    }
}

/// Kinds that make up the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `IPAddressPool`
    IpAddressPool,
    /// `L2Advertisement`
    L2Advertisement,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IpAddressPool => "IPAddressPool",
            Self::L2Advertisement => "L2Advertisement",
        })
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object is left out; admission denies it.
    Invalid,
    /// It names something that is not there (yet); admission warns.
    Unresolved,
    /// It works, but not for ever; admission warns.
    Deprecated,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A pool is wrong in itself.
    Pool {
        /// Name of the pool.
        pool: String,
        /// What is wrong.
        problem: PoolProblem,
    },
    /// An entry of a pool overlaps with another one, of the same or of another pool.
    PoolOverlap {
        /// Name of the pool.
        pool: String,
        /// The part of it that overlaps.
        cidr: IpNet,
        /// What was there before.
        earlier: IpNet,
        /// Whose that is.
        earlier_pool: String,
    },
    /// An L2 advertisement is wrong in itself.
    Advertisement {
        /// Name of the advertisement.
        advertisement: String,
        /// What is wrong.
        problem: AdvertisementProblem,
    },
    /// An L2 advertisement names a pool that does not exist.
    UnknownPool {
        /// Name of the advertisement.
        advertisement: String,
        /// Name of the pool.
        pool: String,
    },
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool { pool, problem } => {
                write!(f, "parsing address pool {pool}: ")?;
                problem.write(f, pool)
            }
            Self::PoolOverlap { pool, cidr, earlier, .. } => write!(
                f,
                "CIDR \"{cidr}\" in pool {} overlaps with already defined CIDR \"{earlier}\"",
                Quoted(pool)
            ),
            Self::Advertisement { advertisement, problem } => problem.write(f, advertisement),
            Self::UnknownPool { advertisement, pool } => write!(
                f,
                "L2Advertisement {} refers to IPAddressPool {}, which does not exist",
                Quoted(advertisement),
                Quoted(pool)
            ),
        }
    }
}

/// What can be wrong with a pool in itself.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolProblem {
    /// It has no name.
    MissingName,
    /// It has no addresses.
    NoPrefixes,
    /// An entry cannot be read.
    InvalidEntry(RangeError),
    /// A namespace is listed twice.
    RepeatedNamespace,
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
}

impl PoolProblem {
    fn write(&self, f: &mut fmt::Formatter<'_>, pool: &str) -> fmt::Result {
        match self {
            Self::MissingName => f.write_str("missing pool name"),
            Self::NoPrefixes => f.write_str("pool has no prefixes defined"),
            Self::InvalidEntry(error) => {
                write!(f, "invalid CIDR {} in pool {}: {error}", Quoted(&error.entry), Quoted(pool))
            }
            Self::RepeatedNamespace => f.write_str("duplicate definition in namespaces field"),
            Self::Repeated(repeated) => repeated.fmt(f),
            Self::InvalidSelector { field, selector, error } => {
                let what = if *field == SelectorField::Namespaces { "namespace" } else { "service" };
                let selector = text::selector(Style::Plain, selector);
                write!(f, "{error}\ninvalid {what} label selector {selector} in ip pool {pool}")
            }
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::MissingName => "give the pool a name",
            Self::NoPrefixes => "list at least one prefix or range in spec.addresses",
            Self::InvalidEntry(_) => {
                "write a prefix such as 192.168.10.0/24 or a range such as 192.168.10.200-192.168.10.220"
            }
            Self::RepeatedNamespace | Self::Repeated(_) => "remove the repetition",
            Self::InvalidSelector { .. } => "correct the label selector",
        }
    }
}

/// Which list of selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorField {
    /// `namespaceSelectors`
    Namespaces,
    /// `serviceSelectors`
    Services,
    /// `nodeSelectors`
    Nodes,
    /// `ipAddressPoolSelectors`
    Pools,
    /// `preferredNodeSelectors`
    PreferredNodes,
}

impl SelectorField {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaceSelectors",
            Self::Services => "serviceSelectors",
            Self::Nodes => "nodeSelectors",
            Self::Pools => "ipAddressPoolSelectors",
            Self::PreferredNodes => "preferredNodeSelectors",
        }
    }
}

/// What can be wrong with an advertisement in itself.
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
}

impl AdvertisementProblem {
    fn write(&self, f: &mut fmt::Formatter<'_>, advertisement: &str) -> fmt::Result {
        match self {
            Self::RepeatedPool(pool) => write!(f, "duplicate definition of ipAddressPools {}", Quoted(pool)),
            Self::Repeated(repeated) => repeated.fmt(f),
            Self::InvalidSelector { field, selector, error } => {
                let selector = text::selector(Style::Plain, selector);
                match field {
                    SelectorField::Services => write!(
                        f,
                        "invalid service selector {selector}: {error}\nfailed to parse service selector for {advertisement}"
                    ),
                    SelectorField::PreferredNodes => write!(
                        f,
                        "{error}\ninvalid preferred node selector {selector}\n\
                         failed to parse preferred node selectors for {advertisement}"
                    ),
                    SelectorField::Nodes => write!(
                        f,
                        "{error}\ninvalid label selector {selector}\nfailed to parse node selector for {advertisement}"
                    ),
                    SelectorField::Pools | SelectorField::Namespaces => {
                        write!(f, "{error}\ninvalid label selector {selector}")
                    }
                }
            }
        }
    }

    /// Whether the text says which advertisement is meant.
    fn names_object(&self) -> bool {
        match self {
            Self::RepeatedPool(_) | Self::Repeated(_) => false,
            Self::InvalidSelector { field, .. } => {
                !matches!(field, SelectorField::Pools | SelectorField::Namespaces)
            }
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::RepeatedPool(_) | Self::Repeated(_) => "remove the repetition",
            Self::InvalidSelector { .. } => "correct the label selector",
        }
    }
}
