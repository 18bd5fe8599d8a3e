//! What went wrong in a pass: a value, until the condition and the log spell it out.

use std::fmt;

use ferrolb_api::well_known::condition::reason;
use ferrolb_api::well_known::object;

use crate::render::{ObjectKey, Refusal, manager};

/// What went wrong in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The object asks for what cannot be done.
    Refused(Refusal),
    /// An operand could not be applied.
    Apply {
        /// Which one.
        object: ObjectKey,
        /// What the API server said.
        error: String,
    },
    /// An operand could not be deleted.
    Delete {
        /// Which one.
        object: ObjectKey,
        /// What the API server said.
        error: String,
    },
    /// An operand differs in a field that never changes, and making it anew would interrupt too much.
    Immutable {
        /// Which one.
        object: ObjectKey,
        /// Where it is.
        namespace: String,
        /// What the API server said.
        error: String,
    },
    /// Somebody changes an operand again and again.
    Contested {
        /// Which one.
        object: ObjectKey,
        /// Field manager of the other, if it is known.
        other: Option<String>,
    },
    /// The namespace refuses the speakers' pods.
    PodSecurity {
        /// Which one.
        namespace: String,
        /// What it enforces.
        level: String,
    },
    /// The API server refuses the pods of a workload.
    Pods {
        /// Which workload.
        object: ObjectKey,
        /// What the API server said.
        error: String,
    },
    /// After a speaker was replaced, something is not announced any more.
    NotAnnounced {
        /// What, the first of them.
        what: String,
        /// How many more.
        more: usize,
        /// Where the operator is.
        namespace: String,
    },
    /// A speaker's readiness gate could not be opened.
    Gate {
        /// Its pod.
        pod: String,
        /// What the API server said.
        error: String,
    },
    /// A fact that operands are made from could not be read.
    Read {
        /// What was to be read.
        what: &'static str,
        /// What the API server said.
        error: String,
    },
    /// The webhook is gone, but could not be taken out of the conversion of BGPPeers.
    Conversion {
        /// What the API server said.
        error: String,
    },
}

impl Problem {
    /// As the condition says it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Refused(Refusal::ExternalBackend | Refusal::UnknownBackend(_)) => {
                reason::UNSUPPORTED_BACKEND
            }
            Self::Refused(_) => reason::INVALID_SPEC,
            Self::Apply { .. } | Self::Conversion { .. } => reason::APPLY_FAILED,
            Self::Delete { .. } => reason::DELETE_FAILED,
            Self::Immutable { .. } => reason::IMMUTABLE_FIELD,
            Self::Contested { .. } => reason::EDIT_CONFLICT,
            Self::PodSecurity { .. } => reason::POD_SECURITY,
            Self::Pods { .. } | Self::NotAnnounced { .. } | Self::Gate { .. } => reason::ROLLOUT_STALLED,
            Self::Read { .. } => reason::READ_FAILED,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Apply { object, error } => write!(f, "{object} could not be applied: {error}"),
            Self::Delete { object, error } => write!(f, "{object} could not be deleted: {error}"),
            Self::Immutable { object, namespace, error } => {
                let kind = format!("{:?}", object.kind).to_lowercase();
                write!(
                    f,
                    "{object} differs in a field that cannot change ({error}); to have it made anew, while which \
                     nothing is announced: kubectl -n {namespace} delete {kind} {}",
                    object.name
                )
            }
            Self::Contested { object, other } => {
                let other = other.as_deref().unwrap_or("somebody");
                write!(
                    f,
                    "{object}: {other} keeps changing what the operator sets, which now waits longer each time; \
                     make {other} leave the object alone, or ask for the change in the MetalLB object"
                )
            }
            Self::PodSecurity { namespace, level } => write!(
                f,
                "namespace {namespace} enforces Pod Security level {level}, which refuses the speakers: \
                 kubectl label --overwrite namespace {namespace} {}={}",
                manager::POD_SECURITY_ENFORCE,
                manager::POD_SECURITY_LEVEL
            ),
            Self::Pods { object, error } => write!(f, "{object}: its pods are refused: {error}"),
            Self::NotAnnounced { what, more, namespace } => {
                let more = if *more == 0 { String::new() } else { format!(" (and {more} more)") };
                write!(
                    f,
                    "DaemonSet {}: the replacement of speakers has stopped, because since the last one {what}{more} is \
                     not announced any more; it goes on when that is back, or, if it is not to come back, after: \
                     kubectl -n {namespace} rollout restart deployment {}",
                    object::SPEAKER,
                    object::OPERATOR
                )
            }
            Self::Gate { pod, error } => {
                write!(f, "pod {pod} could not be told that it may count as ready: {error}")
            }
            Self::Read { what, error } => write!(f, "{what} could not be read: {error}"),
            Self::Conversion { error } => {
                write!(f, "the conversion of BGPPeers still asks the webhook, which is gone: {error}")
            }
        }
    }
}
