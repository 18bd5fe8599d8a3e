//! BGP advertisements: which pools are announced to which peers, by which nodes, and as what.

use std::collections::BTreeSet;

use ferrolb_proto::bgp::{Community, LargeCommunity};

use super::ranges::Family;
use crate::selector::{Labels, Selector, any_matches};

/// A BGP advertisement in force, resolved against pools, nodes and aliases of communities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpAdvertisement {
    /// Its name.
    pub name: String,
    /// Names of the pools it announces, also of pools that are left out. A pool that it cannot announce,
    /// because its ranges are smaller than the aggregate, is not among them.
    pub pools: BTreeSet<String>,
    /// Nodes that may announce.
    pub nodes: BTreeSet<String>,
    /// Peers it is for; none: all.
    pub peers: Option<BTreeSet<String>>,
    /// Services it is for, by label; alternatives. Empty: all.
    pub services: Vec<Selector>,
    /// Length of the prefixes that IPv4 addresses are announced as.
    pub aggregation_length: u8,
    /// Length of the prefixes that IPv6 addresses are announced as.
    pub aggregation_length_v6: u8,
    /// LOCAL_PREF, for peers of our own AS.
    pub local_preference: u32,
    /// Communities.
    pub communities: BTreeSet<Community>,
    /// Large communities.
    pub large_communities: BTreeSet<LargeCommunity>,
}

impl BgpAdvertisement {
    /// Length of the prefixes of a family.
    pub fn aggregation_length_of(&self, family: Family) -> u8 {
        match family {
            Family::V4 => self.aggregation_length,
            Family::V6 => self.aggregation_length_v6,
        }
    }

    /// Whether it is for the peer of this name.
    pub fn selects_peer(&self, peer: &str) -> bool {
        self.peers.as_ref().is_none_or(|peers| peers.contains(peer))
    }

    /// Whether it is for a Service with these labels (nodes are another question).
    pub fn selects_service(&self, labels: &Labels) -> bool {
        self.services.is_empty() || any_matches(&self.services, labels)
    }
}
