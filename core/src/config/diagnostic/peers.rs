//! What can be wrong with a BGP peer.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::super::selectors::SelectorProblem;
use super::{Name, Problem, SelectorField, Severity};
use crate::duration::{DurationError, InWords};
use crate::selector::{Repeated, SelectorError};
use crate::text::Quoted;

/// What can be wrong with a BGP peer.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerProblem {
    /// `myASN` is 0.
    MissingLocalAsn,
    /// Neither `peerASN` nor `dynamicASN`.
    MissingPeerAsn,
    /// Both of them.
    BothPeerAsns,
    /// Neither `internal` nor `external`.
    DynamicAsn(String),
    /// `localASN` is 0.
    LocalAsn,
    /// Several hops, but the same AS.
    MultiHopIbgp,
    /// Neither an address nor an interface.
    NoNeighbor,
    /// Both of them.
    BothNeighbors,
    /// No address of a router.
    Address(String),
    /// Link-local, so that an interface would have to be named.
    LinkLocal(IpAddr),
    /// The name is none that Linux lets an interface have.
    InterfaceName(String),
    /// `peerPort` is 0.
    Port,
    /// No address.
    SourceAddress(String),
    /// Of another family than the peer's address.
    SourceFamily {
        /// The source address.
        source: IpAddr,
        /// The peer's address.
        peer: IpAddr,
    },
    /// No BGP identifier.
    RouterId(String),
    /// No duration.
    Duration(DurationError),
    /// Neither 0 nor 3 to 65535 seconds.
    HoldTime(Duration),
    /// Longer than the hold time.
    KeepaliveTime {
        /// The keepalive time.
        keepalive: Duration,
        /// The hold time.
        hold: Duration,
    },
    /// Less than a second, so that it counts as none.
    HoldTimeIsNone(Duration),
    /// Not 1 to 65535 whole seconds.
    ConnectTime(Duration),
    /// Something in the list of selectors is there twice.
    Repeated(Repeated),
    /// A selector cannot be read.
    InvalidSelector {
        /// The selector.
        selector: LabelSelector,
        /// Why.
        error: SelectorError,
    },
    /// Its selectors match no Node.
    NoNode,
    /// Both a password and a Secret.
    BothPasswords {
        /// Namespace of the peer.
        namespace: String,
    },
    /// Longer than TCP MD5 allows.
    PasswordLength(usize),
    /// No such Secret.
    SecretMissing {
        /// Namespace of the peer.
        namespace: String,
        /// Name of the Secret.
        secret: String,
    },
    /// A Secret of another type.
    SecretType {
        /// Its namespace.
        namespace: String,
        /// Its name.
        secret: String,
    },
    /// A Secret without the key.
    SecretWithoutPassword {
        /// Its namespace.
        namespace: String,
        /// Its name.
        secret: String,
    },
    /// No such BFDProfile.
    BfdProfileMissing(String),
    /// A BFDProfile that is wrong itself.
    BfdProfileInvalid(String),
    /// Echo packets are for IPv4 over one hop only.
    EchoNotUsed(String),
    /// Another peer is the same router for some nodes.
    Duplicate {
        /// The router.
        neighbor: String,
        /// The other peer.
        earlier: String,
    },
    /// `disableMP`
    DisableMp,
}

/// Longest password that TCP MD5 takes (Linux).
pub(in crate::config) const PASSWORD_LIMIT: usize = 80;

impl Problem for PeerProblem {
    fn severity(&self) -> Severity {
        match self {
            Self::SecretMissing { .. } | Self::BfdProfileMissing(_) | Self::NoNode => Severity::Unresolved,
            Self::DisableMp => Severity::Deprecated,
            Self::LinkLocal(_) | Self::HoldTimeIsNone(_) | Self::EchoNotUsed(_) => Severity::Doubtful,
            _ => Severity::Invalid,
        }
    }

    fn leaves_out(&self) -> bool {
        match self {
            Self::SecretMissing { .. } | Self::BfdProfileMissing(_) => true,
            other => other.severity() == Severity::Invalid,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, of: Name<'_>) -> fmt::Result {
        let peer = of.name;
        match self {
            Self::BfdProfileMissing(profile) => {
                return write!(f, "peer {peer} referencing non existing bfd profile {profile}");
            }
            Self::BfdProfileInvalid(profile) => {
                return write!(f, "peer {peer} referencing invalid bfd profile {profile}");
            }
            Self::Duplicate { neighbor, earlier } => {
                return write!(
                    f,
                    "peer {neighbor} already exists: {of} and BGPPeer {} select the same node",
                    Quoted(earlier)
                );
            }
            Self::Duration(error) => return error.fmt(f),
            Self::LinkLocal(address) => {
                return write!(f, "{of}: {address} is link-local, which is not reached without an interface");
            }
            Self::HoldTimeIsNone(hold) => {
                return write!(
                    f,
                    "{of}: holdTime {} counts as 0: a dead peer is not noticed",
                    InWords(*hold)
                );
            }
            Self::NoNode => return write!(f, "nodeSelectors of {of} match no Node"),
            Self::EchoNotUsed(profile) => {
                return write!(
                    f,
                    "{of}: echoMode of BFDProfile {} is not used, it exists for IPv4 over one hop only",
                    Quoted(profile)
                );
            }
            Self::DisableMp => {
                return f.write_str(
                    "disable mp is deprecated and has no effect since it's the default behavior now",
                );
            }
            _ => {}
        }
        write!(f, "parsing peer {peer} ")?;
        self.write_parsing(f, peer)
    }

    fn names_object(&self) -> bool {
        !matches!(self, Self::Duration(_) | Self::DisableMp)
    }

    fn is_unreadable(&self) -> bool {
        matches!(self, Self::Duration(_))
    }

    fn remedy(&self) -> String {
        match self {
            Self::MissingLocalAsn => "set myASN to the number of your own autonomous system".into(),
            Self::MissingPeerAsn | Self::BothPeerAsns => "set either peerASN or dynamicASN".into(),
            Self::DynamicAsn(_) => "set dynamicASN to internal or external".into(),
            Self::LocalAsn => "set localASN to a number from 1, or remove it".into(),
            Self::MultiHopIbgp => {
                "remove ebgpMultiHop: sessions within an AS may always be several hops long".into()
            }
            Self::NoNeighbor | Self::BothNeighbors => "set either peerAddress or interface".into(),
            Self::Address(_) => "set peerAddress to the IP address of the router".into(),
            Self::LinkLocal(_) => "set interface instead of peerAddress".into(),
            Self::InterfaceName(_) => {
                "name a network interface: up to 15 characters, no slash, no space".into()
            }
            Self::Port => "set peerPort to the TCP port of the router, or remove it".into(),
            Self::SourceAddress(_) => "set sourceAddress to an IP address of the node, or remove it".into(),
            Self::SourceFamily { .. } => "give sourceAddress and peerAddress the same IP family".into(),
            Self::RouterId(_) => "set routerID to an IPv4 address other than 0.0.0.0, or remove it".into(),
            Self::Duration(_) => "write a duration such as 90s or 1m30s".into(),
            Self::HoldTime(_) => "set holdTime to 0s or to 3s up to 65535s".into(),
            Self::KeepaliveTime { .. } => "set keepaliveTime to a third of holdTime, or remove it".into(),
            Self::HoldTimeIsNone(_) => "set holdTime to 0s if that is meant, else to 3s or more".into(),
            Self::ConnectTime(_) => "set connectTime to whole seconds from 1s to 65535s".into(),
            Self::Repeated(_) => "remove the repetition".into(),
            Self::InvalidSelector { .. } => "correct the label selector".into(),
            Self::NoNode => "label a Node or correct the selectors".into(),
            Self::BothPasswords { .. } => "remove password or passwordSecret".into(),
            Self::PasswordLength(_) => format!("choose a password of up to {PASSWORD_LIMIT} bytes"),
            Self::SecretMissing { secret, .. } => {
                format!("create Secret {} of type {SECRET_TYPE} or correct the name", Quoted(secret))
            }
            Self::SecretType { secret, .. } => {
                format!("create Secret {} anew with type {SECRET_TYPE}", Quoted(secret))
            }
            Self::SecretWithoutPassword { secret, .. } => {
                format!("add the key {SECRET_KEY} to Secret {}", Quoted(secret))
            }
            Self::BfdProfileMissing(profile) => {
                format!("create BFDProfile {} or correct the name", Quoted(profile))
            }
            Self::BfdProfileInvalid(profile) => format!("correct BFDProfile {}", Quoted(profile)),
            Self::EchoNotUsed(_) => "use a profile without echoMode for this peer".into(),
            Self::Duplicate { earlier, .. } => format!(
                "delete this peer or BGPPeer {}, or let their nodeSelectors select different nodes",
                Quoted(earlier)
            ),
            Self::DisableMp => "remove disableMP".into(),
        }
    }
}

/// Type and key of Secrets with passwords.
pub(in crate::config) const SECRET_TYPE: &str = "kubernetes.io/basic-auth";
pub(in crate::config) const SECRET_KEY: &str = "password";

impl PeerProblem {
    /// The texts that begin with `parsing peer <name> `.
    fn write_parsing(&self, f: &mut fmt::Formatter<'_>, peer: &str) -> fmt::Result {
        let timers = "invalid BGPPeer timers: ";
        match self {
            Self::MissingLocalAsn => f.write_str("missing local ASN"),
            Self::MissingPeerAsn => f.write_str("missing peer ASN and dynamicASN"),
            Self::BothPeerAsns => f.write_str("both peer ASN and dynamicASN specified"),
            Self::DynamicAsn(value) => write!(f, "invalid dynamicASN {value}"),
            Self::LocalAsn => f.write_str("invalid localASN 0"),
            Self::MultiHopIbgp => f.write_str("invalid ebgp-multihop parameter set for an ibgp peer"),
            Self::NoNeighbor => f.write_str("peer has no Address or Interface specified"),
            Self::BothNeighbors => f.write_str("peer has both Address and Interface specified"),
            Self::Address(value) => write!(f, "invalid BGPPeer address {}", Quoted(value)),
            Self::InterfaceName(value) => write!(f, "invalid interface name {}", Quoted(value)),
            Self::Port => f.write_str("invalid peerPort 0"),
            Self::SourceAddress(value) => write!(f, "invalid source IP {}", Quoted(value)),
            Self::SourceFamily { source, peer } => {
                write!(f, "invalid source IP \"{source}\": not of the family of peer address \"{peer}\"")
            }
            Self::RouterId(value) => write!(f, "invalid router ID {}", Quoted(value)),
            Self::HoldTime(hold) if hold.as_secs() > u64::from(u16::MAX) => {
                write!(f, "{timers}invalid hold time \"{}\": must be at most 65535s", InWords(*hold))
            }
            Self::HoldTime(hold) => {
                write!(f, "{timers}invalid hold time \"{}\": must be 0 or >=3s", InWords(*hold))
            }
            Self::KeepaliveTime { keepalive, hold } => write!(
                f,
                "{timers}invalid keepaliveTime \"{}\", must be lower than holdTime \"{}\"",
                InWords(*keepalive),
                InWords(*hold)
            ),
            Self::ConnectTime(time) => {
                write!(f, "invalid connect time \"{}\": must be whole seconds, 1s to 65535s", InWords(*time))
            }
            Self::Repeated(repeated) => repeated.fmt(f),
            Self::InvalidSelector { error, .. } => {
                write!(f, "{error}\nfailed to convert peer {peer} node selector")
            }
            Self::BothPasswords { namespace } => write!(
                f,
                "can not have both password and secret ref set in peer config {}/{}",
                Quoted(namespace),
                Quoted(peer)
            ),
            Self::PasswordLength(length) => {
                write!(f, "password of {length} bytes, TCP MD5 takes up to {PASSWORD_LIMIT}")
            }
            Self::SecretMissing { namespace, .. } => write!(
                f,
                "secret ref not found for peer config {}/{}\n{}",
                Quoted(namespace),
                Quoted(peer),
                SecretContext(peer)
            ),
            Self::SecretType { namespace, secret } => write!(
                f,
                "secret type mismatch on {}/{}, type \"{SECRET_TYPE}\" is expected \n{}",
                Quoted(namespace),
                Quoted(secret),
                SecretContext(peer)
            ),
            Self::SecretWithoutPassword { namespace, secret } => write!(
                f,
                "password not specified in the secret {}/{}\n{}",
                Quoted(namespace),
                Quoted(secret),
                SecretContext(peer)
            ),
            _ => Ok(()),
        }
    }
}

/// The second line of problems with a Secret.
struct SecretContext<'a>(&'a str);

impl Display for SecretContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to parse peer {} password secret", self.0)
    }
}

impl SelectorProblem for PeerProblem {
    fn repeated(repeated: Repeated) -> Self {
        Self::Repeated(repeated)
    }

    fn invalid(_: SelectorField, selector: LabelSelector, error: SelectorError) -> Self {
        Self::InvalidSelector { selector, error }
    }
}
