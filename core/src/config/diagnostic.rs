//! What is wrong with an object, as data: the object, the field, and a message whose text is the one
//! that MetalLB's users know and search for. The problems of each kind are in a file named like the one
//! that finds them.

mod advertisements;
mod bfd;
mod bgp_advertisements;
mod communities;
mod peers;
mod pools;
mod reservations;

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::sync::Arc;

pub use self::advertisements::AdvertisementProblem;
pub use self::bfd::{BfdField, BfdProblem};
pub use self::bgp_advertisements::BgpAdvertisementProblem;
pub use self::communities::{CommunityProblem, CommunityValueError};
pub use self::peers::PeerProblem;
pub(super) use self::peers::{PASSWORD_LIMIT, SECRET_KEY, SECRET_TYPE};
pub use self::pools::{PoolProblem, Reserved};
pub use self::reservations::ReservationProblem;
use crate::text::Quoted;

/// One finding of [`compile`](super::compile).
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The object that is to be changed.
    pub object: ObjectRef,
    /// Path of the field inside it, such as `spec.addresses[0]`.
    pub field: String,
    /// What is wrong.
    pub message: Message,
    /// Nodes that the object is for; none: all.
    pub nodes: Option<Arc<BTreeSet<String>>>,
}

impl Diagnostic {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.message.problem().1.severity()
    }

    /// Whether the object, or the part of it that is meant, is not in force.
    pub fn leaves_out(&self) -> bool {
        self.message.problem().1.leaves_out()
    }

    /// Whether the field has a text that is not of its kind, which strictly typed clients cannot even read.
    pub fn is_unreadable(&self) -> bool {
        self.message.problem().1.is_unreadable()
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        self.message.problem().1.remedy()
    }

    /// Whether the speaker of this node has to do with it.
    pub fn concerns(&self, node: &str) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }
}

/// The message; where its text does not say which object is meant, with the object after it.
impl Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)?;
        if self.message.problem().1.names_object() { Ok(()) } else { write!(f, " ({})", self.object) }
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

impl ObjectRef {
    /// Of a kind, by name.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }
}

impl Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, Quoted(&self.name))
    }
}

/// Kinds that make up the configuration, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `BFDProfile`
    BfdProfile,
    /// `BGPPeer`
    BgpPeer,
    /// `Community`
    Community,
    /// `IPAddressPool`
    IpAddressPool,
    /// `AddressReservation`
    AddressReservation,
    /// `L2Advertisement`
    L2Advertisement,
    /// `BGPAdvertisement`
    BgpAdvertisement,
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BfdProfile => "BFDProfile",
            Self::BgpPeer => "BGPPeer",
            Self::Community => "Community",
            Self::IpAddressPool => "IPAddressPool",
            Self::AddressReservation => "AddressReservation",
            Self::L2Advertisement => "L2Advertisement",
            Self::BgpAdvertisement => "BGPAdvertisement",
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
    /// It is in force, but hardly what was meant; admission warns.
    Doubtful,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// With a pool.
    Pool {
        /// Its name.
        pool: String,
        /// What.
        problem: PoolProblem,
    },
    /// With a reservation.
    Reservation {
        /// Its name.
        reservation: String,
        /// What.
        problem: ReservationProblem,
    },
    /// With an advertisement, of either kind.
    Advertisement {
        /// The advertisement.
        advertisement: ObjectRef,
        /// What.
        problem: AdvertisementProblem,
    },
    /// With a BGP advertisement.
    BgpAdvertisement {
        /// Its name.
        advertisement: String,
        /// What.
        problem: BgpAdvertisementProblem,
    },
    /// With a BGP peer.
    Peer {
        /// Its name.
        peer: String,
        /// What.
        problem: PeerProblem,
    },
    /// With a BFD profile.
    BfdProfile {
        /// Its name.
        profile: String,
        /// What.
        problem: BfdProblem,
    },
    /// With an alias of a community.
    Community {
        /// Name of the alias.
        alias: String,
        /// What.
        problem: CommunityProblem,
    },
}

impl Message {
    /// The name that its text may need, and the problem.
    fn problem(&self) -> (Name<'_>, &dyn Problem) {
        match self {
            Self::Pool { pool, problem } => (Name { kind: Kind::IpAddressPool, name: pool }, problem),
            Self::Reservation { reservation, problem } => {
                (Name { kind: Kind::AddressReservation, name: reservation }, problem)
            }
            Self::Advertisement { advertisement: ObjectRef { kind, name }, problem } => {
                (Name { kind: *kind, name }, problem)
            }
            Self::BgpAdvertisement { advertisement, problem } => {
                (Name { kind: Kind::BgpAdvertisement, name: advertisement }, problem)
            }
            Self::Peer { peer, problem } => (Name { kind: Kind::BgpPeer, name: peer }, problem),
            Self::BfdProfile { profile, problem } => {
                (Name { kind: Kind::BfdProfile, name: profile }, problem)
            }
            Self::Community { alias, problem } => (Name { kind: Kind::Community, name: alias }, problem),
        }
    }
}

impl Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, problem) = self.problem();
        problem.write(f, name)
    }
}

/// An object as a text names it.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    kind: Kind,
    name: &'a str,
}

/// `BGPPeer "a"`
impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, Quoted(self.name))
    }
}

/// What every problem can say of itself.
pub(super) trait Problem {
    fn severity(&self) -> Severity;

    /// Something that is only unresolved may still leave out what depends on it.
    fn leaves_out(&self) -> bool {
        self.severity() == Severity::Invalid
    }

    /// Whether a text is not of the kind that its field has.
    fn is_unreadable(&self) -> bool {
        false
    }

    fn remedy(&self) -> String;

    /// Writes the text.
    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result;

    /// Whether the text says which object is meant.
    fn names_object(&self) -> bool {
        true
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
