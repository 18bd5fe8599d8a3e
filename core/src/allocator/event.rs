//! Events that the controller records on Services, with the reasons and texts of MetalLB.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::Refusal;
use crate::service::{FamilyError, RequestError, ServiceKey, UnknownAnnotation};
use crate::text::{Quoted, quoted_list};

/// An Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The Service was given addresses.
    Assigned(Arc<[IpAddr]>),
    /// It was given a second one, of the other family.
    AssignedAdditional(IpAddr),
    /// There is no second one for it.
    AdditionalFailed(Refusal),
    /// It may not keep what it held.
    Cleared {
        /// The Service.
        service: Arc<ServiceKey>,
        /// Why not.
        refusal: Refusal,
    },
    /// There is no address for it.
    AllocationFailed {
        /// The Service.
        service: Arc<ServiceKey>,
        /// Why not.
        refusal: Refusal,
    },
    /// What it asks for cannot be understood; it keeps what it holds.
    RequestInvalid(RequestError),
    /// It requires two families and has one.
    NotEnoughClusterIps(Vec<String>),
    /// What its status holds is not an address of each family at most.
    StatusFamilies(Vec<String>, FamilyError),
    /// Its cluster addresses are not an address of each family at most.
    ClusterFamilies(Vec<String>, FamilyError),
    /// It carries an annotation of the deprecated prefix.
    DeprecatedAnnotation(String),
    /// It carries an annotation of one of our prefixes that nobody reads.
    UnknownAnnotation(UnknownAnnotation),
    /// It holds an address that was given to another Service as well, and is not the one to keep it.
    GivenTwice(Refusal),
    /// Somebody else wrote its status.
    Overwritten {
        /// What was given to it.
        given: Vec<IpAddr>,
        /// What the status says.
        found: Vec<String>,
        /// Who did, by the name of a field manager.
        by: Option<String>,
    },
    /// Somebody else (by the name of its field manager) insists on writing its status.
    Contested(String),
}

impl Event {
    /// Reason of [`Self::Assigned`].
    pub const ASSIGNED: &str = "IPAllocated";
    /// Reason of [`Self::Contested`].
    pub const CONTESTED: &str = "StatusContested";

    /// `reason` of the Event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Assigned(_) | Self::AssignedAdditional(_) => Self::ASSIGNED,
            Self::AdditionalFailed(_) => "AdditionalAssignFailed",
            Self::Cleared { .. } => "ClearAssignment",
            Self::AllocationFailed { .. } => "AllocationFailed",
            Self::RequestInvalid(_) => "LoadBalancerFailed",
            Self::NotEnoughClusterIps(_) => "not enough clusterips",
            Self::StatusFamilies(..) => "nolbIPsIPFamily",
            Self::ClusterFamilies(..) => "noclusterIPsIPFamily",
            Self::DeprecatedAnnotation(_) => "deprecatedAnnotation",
            Self::UnknownAnnotation(_) => "UnknownAnnotation",
            Self::GivenTwice(_) => "AddressGivenTwice",
            Self::Overwritten { .. } => "StatusOverwritten",
            Self::Contested(_) => Self::CONTESTED,
        }
    }

    /// Whether its type is Warning rather than Normal.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::Assigned(_)
            | Self::AssignedAdditional(_)
            | Self::AdditionalFailed(_)
            | Self::Cleared { .. } => false,
            Self::AllocationFailed { .. }
            | Self::RequestInvalid(_)
            | Self::NotEnoughClusterIps(_)
            | Self::StatusFamilies(..)
            | Self::ClusterFamilies(..)
            | Self::DeprecatedAnnotation(_)
            | Self::UnknownAnnotation(_)
            | Self::GivenTwice(_)
            | Self::Overwritten { .. }
            | Self::Contested(_) => true,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assigned(addresses) => write!(f, "Assigned IP {}", quoted_list(addresses)),
            Self::AssignedAdditional(address) => write!(f, "Assigned additional IP \"{address}\""),
            Self::AdditionalFailed(refusal) => {
                write!(f, "cannot assign additional IP in PreferDualStack: {refusal}")
            }
            Self::Cleared { service, refusal } => write!(
                f,
                "current IP for \"{service}\" not allowed by config, will attempt for new IP assignment: {refusal}"
            ),
            Self::AllocationFailed { service, refusal } => {
                write!(f, "Failed to allocate IP for \"{service}\": {refusal}")
            }
            Self::RequestInvalid(error) => write!(f, "invalid requested loadbalancer IPs: {error}"),
            Self::NotEnoughClusterIps(ips) => {
                write!(f, "Service requires dual stack but not enough clusterips [{}]", ips.join(" "))
            }
            Self::StatusFamilies(ips, error) => {
                write!(f, "Failed to retrieve LBIPs IPFamily for {}: {error}", quoted_list(ips))
            }
            Self::ClusterFamilies(ips, error) => {
                let first = ips.first().map(String::as_str).unwrap_or_default();
                write!(f, "Failed to retrieve ClusterIPs IPFamily for {} {first}: {error}", quoted_list(ips))
            }
            Self::DeprecatedAnnotation(key) => write!(f, "Service uses deprecated annotation {key}"),
            Self::UnknownAnnotation(UnknownAnnotation { key, nearest }) => {
                write!(f, "annotation {key} means nothing, did you mean {nearest}?")
            }
            Self::GivenTwice(refusal) => {
                write!(f, "two controllers gave the same address, this Service has to give it up: {refusal}")
            }
            Self::Overwritten { given, found, by } => {
                write!(f, "status was overwritten with {} by ", quoted_list(found))?;
                match by {
                    Some(name) => Quoted(name).fmt(f)?,
                    None => f.write_str("another writer")?,
                }
                write!(f, ", restoring {}", quoted_list(given))
            }
            Self::Contested(writer) => write!(
                f,
                "status is written by {} again and again, leaving it to them for now: set \
                 spec.loadBalancerClass so that one load balancer handles the Service",
                Quoted(writer)
            ),
        }
    }
}
