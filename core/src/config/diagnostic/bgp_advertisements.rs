//! What can be wrong with a BGP advertisement alone.

use std::fmt;

use super::communities::VALUE_REMEDY;
use super::{CommunityValueError, Name, Problem, Severity};
use crate::config::ranges::Family;
use crate::text::Quoted;

/// What can be wrong with a BGP advertisement, besides
/// [`AdvertisementProblem`](super::AdvertisementProblem).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BgpAdvertisementProblem {
    /// A community is there twice.
    RepeatedCommunity(String),
    /// A peer is there twice.
    RepeatedPeer(String),
    /// It selects Services, so that no prefix can stand for several of them.
    AggregateOfSelected(Family),
    /// No address has so many bits, or it is negative.
    AggregationLength {
        /// Of which family.
        family: Family,
        /// The length.
        length: i64,
    },
    /// It does not fit 32 bits.
    LocalPreference(i64),
    /// A community cannot be read.
    Community {
        /// As written.
        community: String,
        /// Why.
        error: CommunityValueError,
    },
    /// No Community has an alias of this name.
    UnknownAlias(String),
    /// No such BGPPeer.
    UnknownPeer(String),
    /// A prefix of this length around an address of the pool would contain addresses that are not in the
    /// pool.
    TooSpecific {
        /// The pool.
        pool: String,
        /// Its entry.
        entry: String,
        /// Length of the largest block of the entry.
        block: u8,
        /// Length to announce.
        length: u8,
    },
    /// Another advertisement gives the same prefixes another preference, towards the same peers from the same
    /// nodes.
    LocalPreferenceClash {
        /// Here.
        preference: u32,
        /// There.
        earlier: u32,
        /// The other advertisement.
        earlier_advertisement: String,
        /// A pool that both announce.
        pool: String,
    },
}

impl Problem for BgpAdvertisementProblem {
    fn severity(&self) -> Severity {
        match self {
            Self::UnknownAlias(_) | Self::UnknownPeer(_) => Severity::Unresolved,
            Self::RepeatedCommunity(_)
            | Self::RepeatedPeer(_)
            | Self::AggregateOfSelected(_)
            | Self::AggregationLength { .. }
            | Self::LocalPreference(_)
            | Self::Community { .. }
            | Self::TooSpecific { .. }
            | Self::LocalPreferenceClash { .. } => Severity::Invalid,
        }
    }

    fn leaves_out(&self) -> bool {
        !matches!(self, Self::UnknownPeer(_))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        match self {
            Self::RepeatedCommunity(it) => write!(f, "duplicate definition of community {}", Quoted(it)),
            Self::RepeatedPeer(it) => write!(f, "duplicate definition of peers {}", Quoted(it)),
            Self::AggregateOfSelected(family) => {
                let field = length_field(*family);
                write!(
                    f,
                    "serviceSelectors and {field} are mutually exclusive, both cannot be set in {}",
                    of.name
                )
            }
            Self::AggregationLength { family, length } => {
                let family = match family {
                    Family::V4 => "IPv4",
                    Family::V6 => "IPv6",
                };
                write!(f, "invalid aggregation length {length} for {family}")
            }
            Self::LocalPreference(value) => {
                write!(f, "invalid local preference {value}, must be in 0-4294967295 range")
            }
            Self::Community { community, error } => {
                write!(f, "{error}\ninvalid community {} in BGP advertisement", Quoted(community))
            }
            Self::UnknownAlias(alias) => write!(
                f,
                "{}\ninvalid community {} in BGP advertisement",
                CommunityValueError::Format(alias.clone()),
                Quoted(alias)
            ),
            Self::UnknownPeer(peer) => {
                write!(f, "{of} refers to BGPPeer {}, which does not exist", Quoted(peer))
            }
            Self::TooSpecific { entry, block, length, .. } => write!(
                f,
                "invalid aggregation length {length}: prefix {block} in this pool is more specific than the \
                 aggregation length for addresses {entry}"
            ),
            Self::LocalPreferenceClash { preference, earlier, .. } => write!(
                f,
                "invalid local preference {preference}: local preferernce {earlier} was already set for the \
                 same type of BGP update. Check existing BGP advertisements with common pools and aggregation \
                 lengths"
            ),
        }
    }

    fn names_object(&self) -> bool {
        match self {
            // MetalLB's tests compare the text of an unknown alias as a whole.
            Self::AggregateOfSelected(_) | Self::UnknownPeer(_) | Self::UnknownAlias(_) => true,
            Self::RepeatedCommunity(_)
            | Self::RepeatedPeer(_)
            | Self::AggregationLength { .. }
            | Self::LocalPreference(_)
            | Self::Community { .. }
            | Self::TooSpecific { .. }
            | Self::LocalPreferenceClash { .. } => false,
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::RepeatedCommunity(_) | Self::RepeatedPeer(_) => "remove the repetition".into(),
            Self::AggregateOfSelected(family) => {
                format!("remove {} or serviceSelectors", length_field(*family))
            }
            Self::AggregationLength { family, .. } => {
                let bits = if *family == Family::V4 { 32 } else { 128 };
                format!("set {} to a number up to {bits}", length_field(*family))
            }
            Self::LocalPreference(_) => "set localPref to a number from 0 to 4294967295".into(),
            Self::Community { .. } => VALUE_REMEDY.into(),
            Self::UnknownAlias(alias) => {
                format!("add the alias {} to a Community, or {VALUE_REMEDY}", Quoted(alias))
            }
            Self::UnknownPeer(peer) => format!("create BGPPeer {} or correct the name", Quoted(peer)),
            Self::TooSpecific { pool, block, .. } => format!(
                "announce prefixes of length {block} or more, or give IPAddressPool {} larger entries",
                Quoted(pool)
            ),
            Self::LocalPreferenceClash { earlier_advertisement, pool, .. } => format!(
                "both this and BGPAdvertisement {} announce IPAddressPool {}: give them the same localPref, or \
                 different peers, nodes or aggregation lengths",
                Quoted(earlier_advertisement),
                Quoted(pool)
            ),
        }
    }
}

fn length_field(family: Family) -> &'static str {
    match family {
        Family::V4 => "aggregationLength",
        Family::V6 => "aggregationLengthV6",
    }
}
