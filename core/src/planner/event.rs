//! What a speaker records on Services, with the reasons and texts of MetalLB where it has any.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ferrolb_proto::ethernet::MacAddr;

use super::{Protocol, Withheld};

/// An Event that a speaker records on a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// This node began to announce.
    NodeAssigned {
        /// Its name.
        node: String,
        /// How.
        protocol: Protocol,
    },
    /// This node is the first to announce an address, but has none of its interfaces, nor has another.
    AnnounceFailed {
        /// Its name.
        node: String,
        /// The address.
        address: IpAddr,
    },
    /// A host that is no speaker has an address of the Service.
    AddressConflict {
        /// The address.
        address: IpAddr,
        /// The host's MAC.
        mac: MacAddr,
    },
    /// The kernel of this node answers for an address by itself, owner or not.
    KernelAnswers {
        /// The node's name.
        node: String,
        /// The address.
        address: IpAddr,
        /// The interface that the address stands on.
        interface: String,
    },
    /// No node may announce an address.
    NoEligibleNodes {
        /// The address.
        address: IpAddr,
        /// Why, for each node.
        withheld: BTreeMap<String, Withheld>,
    },
}

/// An Event is no list: of more nodes the number must do.
const NODES_OF_AN_EVENT: usize = 8;

impl Event {
    /// Reason of [`Self::AnnounceFailed`].
    pub const ANNOUNCE_FAILED: &str = "announceFailed";
    /// Reason of [`Self::AddressConflict`].
    pub const ADDRESS_CONFLICT: &str = "AddressConflict";
    /// Reasons of all that is said of an announcement on layer 2.
    pub const LAYER2: [&str; 4] =
        ["nodeAssigned", Self::ANNOUNCE_FAILED, Self::ADDRESS_CONFLICT, "NoEligibleNodes"];

    /// The MAC that the message of an [`Self::AddressConflict`] names.
    pub fn stranger(message: &str) -> Option<MacAddr> {
        message.split([' ', ',']).find_map(|word| word.parse().ok())
    }

    /// `reason` of the Event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NodeAssigned { .. } => "nodeAssigned",
            Self::AnnounceFailed { .. } => Self::ANNOUNCE_FAILED,
            Self::AddressConflict { .. } => Self::ADDRESS_CONFLICT,
            Self::KernelAnswers { .. } => "KernelAnswers",
            Self::NoEligibleNodes { .. } => "NoEligibleNodes",
        }
    }

    /// Whether its type is Warning rather than Normal.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::NodeAssigned { .. })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeAssigned { node, protocol } => {
                write!(f, "announcing from node \"{node}\" with protocol \"{protocol}\"")
            }
            Self::AnnounceFailed { node, address } => write!(
                f,
                "the interfaces specified by LB IP \"{address}\" doesn't exist in assigned node \"{node}\" with \
                 protocol \"{}\"",
                Protocol::Layer2
            ),
            Self::AddressConflict { address, mac } => write!(
                f,
                "another host with MAC {mac}, which is no speaker, uses address {address}: remove the address from it; \
                 until then it is not announced"
            ),
            Self::KernelAnswers { node, address, interface } => write!(
                f,
                "the kernel of node {node} answers for address {address} by itself, since it stands on interface \
                 {interface}: two nodes may answer at once; set strictARP: true for kube-proxy in IPVS mode, else \
                 remove the address from the interface"
            ),
            Self::NoEligibleNodes { address, withheld } => {
                write!(f, "no node can announce address {address}")?;
                let mut separator = ": ";
                for (node, why) in withheld.iter().take(NODES_OF_AN_EVENT) {
                    write!(f, "{separator}{node}: {why}")?;
                    separator = "; ";
                }
                match withheld.len().saturating_sub(NODES_OF_AN_EVENT) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
        }
    }
}
