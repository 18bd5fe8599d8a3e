//! What can be wrong with a reservation.

use std::fmt;

use ipnet::IpNet;

use super::super::ranges::{IpRange, RangeError};
use super::{Name, Problem, Severity};
use crate::text::Quoted;

/// What can be wrong with a reservation.
#[derive(Clone, Debug, PartialEq)]
pub enum ReservationProblem {
    /// It has neither addresses nor quotas.
    Nothing,
    /// It is for a Service and for a namespace.
    TwoHolders,
    /// A name is empty.
    Empty {
        /// Where.
        field: String,
    },
    /// An entry cannot be read.
    InvalidEntry(RangeError),
    /// An entry is a CIDR with bits beyond its length.
    HostBits {
        /// The entry.
        entry: String,
        /// What it is read as.
        cidr: IpNet,
    },
    /// An entry shares addresses with another one, of the same or of another reservation.
    Overlap {
        /// The entry.
        range: IpRange,
        /// Name of the reservation that has them.
        earlier: String,
    },
    /// A quota is negative.
    NegativeQuota(i64),
    /// No pool in force has any address of an entry.
    NotInPool(IpRange),
    /// Pools in force have some addresses of an entry only.
    PartlyInPool(IpRange),
    /// A namespace does not exist.
    UnknownNamespace(String),
    /// It names somebody, but no addresses.
    HolderOfNothing,
}

impl Problem for ReservationProblem {
    fn severity(&self) -> Severity {
        match self {
            Self::Nothing
            | Self::TwoHolders
            | Self::Empty { .. }
            | Self::InvalidEntry(_)
            | Self::Overlap { .. }
            | Self::NegativeQuota(_) => Severity::Invalid,
            Self::NotInPool(_) | Self::UnknownNamespace(_) => Severity::Unresolved,
            Self::HostBits { .. } | Self::PartlyInPool(_) | Self::HolderOfNothing => Severity::Doubtful,
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Nothing => "give addresses, quotas or both".into(),
            Self::TwoHolders => "remove spec.service or spec.namespace".into(),
            Self::Empty { field } => format!("set {field}, or leave out what it is part of"),
            Self::InvalidEntry(_) => {
                "write an address, a CIDR such as 192.168.10.0/28 or a range such as 192.168.10.5-192.168.10.9"
                    .into()
            }
            Self::Overlap { earlier, .. } => {
                format!("take the addresses out here or in AddressReservation {}", Quoted(earlier))
            }
            Self::HostBits { cidr, .. } => format!("write {cidr}, the address alone, or a range, whichever is meant"),
            Self::NegativeQuota(_) => "write 0 or more".into(),
            Self::NotInPool(_) | Self::PartlyInPool(_) => {
                "add the addresses to an IPAddressPool, or reserve addresses of one".into()
            }
            Self::UnknownNamespace(_) => "create the namespace, or correct the name".into(),
            Self::HolderOfNothing => "add spec.addresses, or remove spec.service and spec.namespace".into(),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "{of} reserves nothing: it has neither addresses nor quotas"),
            Self::TwoHolders => {
                write!(f, "{of} is for a Service and for a namespace, it can be for one of them")
            }
            Self::Empty { field } => write!(f, "{of}: {field} is empty"),
            Self::InvalidEntry(error) => write!(f, "{of}: {error}"),
            Self::HostBits { entry, cidr } => write!(
                f,
                "{of}: {} is read as {cidr} ({}-{})",
                Quoted(entry),
                cidr.network(),
                cidr.broadcast()
            ),
            Self::Overlap { range, earlier } => {
                write!(f, "{of}: {range} shares addresses with AddressReservation {}", Quoted(earlier))
            }
            Self::NegativeQuota(limit) => write!(f, "{of}: maxAddresses is {limit}"),
            Self::NotInPool(range) => write!(f, "{of}: no IPAddressPool in force has addresses of {range}"),
            Self::PartlyInPool(range) => {
                write!(f, "{of}: some addresses of {range} are in no IPAddressPool in force")
            }
            Self::UnknownNamespace(namespace) => {
                write!(f, "{of} refers to Namespace {}, which does not exist", Quoted(namespace))
            }
            Self::HolderOfNothing => write!(f, "{of} names whom addresses are for, but no addresses"),
        }
    }
}
