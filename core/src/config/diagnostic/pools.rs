//! What can be wrong with a pool.

use std::fmt::{self, Display};
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::super::ranges::RangeError;
use super::super::selectors::SelectorProblem;
use super::{Name, Problem, SelectorField, Severity};
use crate::selector::{Repeated, SelectorError};
use crate::text::{self, Quoted, Style};

/// What can be wrong with a pool.
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
    /// An entry overlaps with another one, of the same or of another pool.
    Overlap {
        /// The part of it that overlaps.
        cidr: IpNet,
        /// What was there before.
        earlier: IpNet,
        /// Whose that is.
        earlier_pool: String,
    },
    /// All of an entry is reserved for something else.
    NotUsable {
        /// The entry.
        entry: String,
        /// For what.
        reserved: Reserved,
    },
    /// Some of an entry is reserved for something else, or works on one link only.
    PartlyReserved {
        /// The entry.
        entry: String,
        /// For what.
        reserved: Reserved,
    },
    /// An entry has bits beyond its length.
    HostBits {
        /// The entry.
        entry: String,
        /// What it is read as.
        cidr: IpNet,
    },
    /// Every address is one that is kept back.
    AllBuggy,
    /// It contains an address of a Node.
    NodeAddress {
        /// The address.
        address: IpAddr,
        /// The Node.
        node: String,
    },
    /// It overlaps with addresses of Pods.
    PodCidr {
        /// Those addresses.
        cidr: IpNet,
        /// The Node whose Pods have them.
        node: String,
    },
    /// It overlaps with cluster addresses of Services.
    ServiceCidr {
        /// Those addresses.
        cidr: IpNet,
    },
    /// A Namespace it is for does not exist.
    UnknownNamespace(String),
    /// No Namespace matches.
    NoNamespace,
}

/// What addresses can be reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// "This network" (RFC 6890).
    ThisNetwork,
    /// Loopback.
    Loopback,
    /// Link-local unicast.
    LinkLocal,
    /// Multicast.
    Multicast,
    /// Limited broadcast.
    Broadcast,
}

impl Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ThisNetwork => "addresses of \"this network\"",
            Self::Loopback => "loopback addresses",
            Self::LinkLocal => "link-local addresses",
            Self::Multicast => "multicast addresses",
            Self::Broadcast => "the broadcast address",
        })
    }
}

impl Problem for PoolProblem {
    fn severity(&self) -> Severity {
        match self {
            Self::MissingName
            | Self::NoPrefixes
            | Self::InvalidEntry(_)
            | Self::RepeatedNamespace
            | Self::Repeated(_)
            | Self::InvalidSelector { .. }
            | Self::Overlap { .. }
            | Self::NotUsable { .. } => Severity::Invalid,
            Self::UnknownNamespace(_) | Self::NoNamespace => Severity::Unresolved,
            Self::PartlyReserved { .. }
            | Self::HostBits { .. }
            | Self::AllBuggy
            | Self::NodeAddress { .. }
            | Self::PodCidr { .. }
            | Self::ServiceCidr { .. } => Severity::Doubtful,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        let pool = of.name;
        if let Self::Overlap { cidr, earlier, .. } = self {
            let pool = Quoted(pool);
            return write!(
                f,
                "CIDR \"{cidr}\" in pool {pool} overlaps with already defined CIDR \"{earlier}\""
            );
        }
        if self.severity() != Severity::Invalid {
            return self.write_remark(f, of);
        }
        write!(f, "parsing address pool {pool}: ")?;
        match self {
            Self::MissingName => f.write_str("missing pool name"),
            Self::NoPrefixes => f.write_str("pool has no prefixes defined"),
            Self::InvalidEntry(error) => {
                write!(f, "invalid CIDR {} in pool {}: {error}", Quoted(&error.entry), Quoted(pool))
            }
            Self::NotUsable { entry, reserved } => write!(
                f,
                "invalid CIDR {} in pool {}: {reserved} cannot be given to Services",
                Quoted(entry),
                Quoted(pool)
            ),
            Self::RepeatedNamespace => f.write_str("duplicate definition in namespaces field"),
            Self::Repeated(repeated) => repeated.fmt(f),
            Self::InvalidSelector { field, selector, error } => {
                let what = if *field == SelectorField::Namespaces { "namespace" } else { "service" };
                let selector = text::selector(Style::Plain, selector);
                write!(f, "{error}\ninvalid {what} label selector {selector} in ip pool {pool}")
            }
            _ => Ok(()),
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::MissingName => "give the pool a name".into(),
            Self::NoPrefixes => "list at least one prefix or range in spec.addresses".into(),
            Self::InvalidEntry(_) => {
                "write a prefix such as 192.168.10.0/24 or a range such as 192.168.10.200-192.168.10.220"
                    .into()
            }
            Self::RepeatedNamespace | Self::Repeated(_) => "remove the repetition".into(),
            Self::InvalidSelector { .. } => "correct the label selector".into(),
            Self::Overlap { earlier_pool, .. } => format!(
                "let the ranges of all pools be disjoint: shrink this pool or IPAddressPool {}",
                Quoted(earlier_pool)
            ),
            Self::NotUsable { .. } => "list addresses that nobody else uses and that routers forward".into(),
            Self::PartlyReserved { .. } => "leave those addresses out of the entry".into(),
            Self::HostBits { cidr, .. } => format!("write {cidr}, or a range, whichever is meant"),
            Self::AllBuggy => "add addresses, or set avoidBuggyIPs to false".into(),
            Self::NodeAddress { .. } | Self::PodCidr { .. } | Self::ServiceCidr { .. } => {
                "leave them out of the pool: two owners of an address take its traffic from each other".into()
            }
            Self::UnknownNamespace(namespace) => {
                format!("create Namespace {} or correct the name", Quoted(namespace))
            }
            Self::NoNamespace => "label a Namespace or correct the selectors".into(),
        }
    }
}

impl PoolProblem {
    /// The texts of what does not leave the pool out.
    fn write_remark(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        match self {
            Self::HostBits { entry, cidr } => write!(
                f,
                "{of}: {} is read as {cidr} ({}-{})",
                Quoted(entry),
                cidr.network(),
                cidr.broadcast()
            ),
            Self::PartlyReserved { entry, reserved } => {
                write!(f, "{of}: {} contains {reserved}, which routers do not forward", Quoted(entry))
            }
            Self::AllBuggy => {
                write!(f, "{of} has no usable address: avoidBuggyIPs keeps every one of them back")
            }
            Self::NodeAddress { address, node } => {
                write!(f, "{of} contains {address}, an address of Node {}", Quoted(node))
            }
            Self::PodCidr { cidr, node } => {
                write!(f, "{of} overlaps with {cidr}, addresses of Pods on Node {}", Quoted(node))
            }
            Self::ServiceCidr { cidr } => {
                write!(f, "{of} overlaps with {cidr}, cluster addresses of Services")
            }
            Self::UnknownNamespace(namespace) => {
                write!(f, "{of} refers to Namespace {}, which does not exist", Quoted(namespace))
            }
            Self::NoNamespace => write!(f, "namespaceSelectors of {of} match no Namespace"),
            _ => Ok(()),
        }
    }
}

impl SelectorProblem for PoolProblem {
    fn repeated(repeated: Repeated) -> Self {
        Self::Repeated(repeated)
    }

    fn invalid(field: SelectorField, selector: LabelSelector, error: SelectorError) -> Self {
        Self::InvalidSelector { field, selector, error }
    }
}
