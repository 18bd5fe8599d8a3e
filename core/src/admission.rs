//! Whether a change of the configuration is admitted.
//!
//! Decided here: a candidate is denied for what is wrong with itself, never for what is already wrong
//! with other objects, and its whole list of faults is told at once. Where it overlaps with a stored
//! pool the candidate is to blame, however old it is. References to things that do not exist (yet)
//! and deprecated uses are warnings, so that objects can be created in any order. An object that is
//! being deleted is let through: all that may still change is its finalizers.

use std::sync::Arc;

use ferrolb_api::v1beta1::{IPAddressPool, L2Advertisement};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config::{Kind, ObjectRef, Severity, compile_with_last};
use crate::resources::Resources;

/// An object that somebody wants to store.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidate {
    /// A pool.
    IpAddressPool(Arc<IPAddressPool>),
    /// An advertisement.
    L2Advertisement(Arc<L2Advertisement>),
}

impl Candidate {
    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::IpAddressPool(pool) => &pool.metadata,
            Self::L2Advertisement(advertisement) => &advertisement.metadata,
        }
    }

    fn reference(&self) -> ObjectRef {
        let kind = match self {
            Self::IpAddressPool(_) => Kind::IpAddressPool,
            Self::L2Advertisement(_) => Kind::L2Advertisement,
        };
        ObjectRef { kind, name: self.metadata().name.clone().unwrap_or_default() }
    }
}

/// What is to be done with the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It replaces what is stored under its name.
    Update,
    /// It goes.
    Delete,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Stored, with these remarks to whoever asked.
    Allowed {
        /// The remarks.
        warnings: Vec<String>,
    },
    /// Refused.
    Denied {
        /// Why.
        message: String,
    },
}

/// Judges a change. `existing` is what is stored in `namespace`, the namespace of the product.
pub fn admit(existing: &Resources, candidate: Candidate, operation: Operation, namespace: &str) -> Verdict {
    let metadata = candidate.metadata();
    // What lies in another namespace is not in force anyway, so a stray object may still be edited.
    if operation == Operation::Create && metadata.namespace.as_deref() != Some(namespace) {
        return Verdict::Denied { message: format!("resource must be created in {namespace} namespace") };
    }
    if operation == Operation::Delete || metadata.deletion_timestamp.is_some() {
        return Verdict::Allowed { warnings: Vec::new() };
    }
    let reference = candidate.reference();
    let last_pool = match candidate {
        Candidate::IpAddressPool(_) => Some(reference.name.as_str()),
        Candidate::L2Advertisement(_) => None,
    };
    let resources = match candidate {
        Candidate::IpAddressPool(pool) => existing.clone().with_pools([pool]),
        Candidate::L2Advertisement(it) => existing.clone().with_l2_advertisements([it]),
    };
    let compiled = compile_with_last(&resources, last_pool);
    let own = compiled.diagnostics.iter().filter(|it| it.object == reference);
    let (invalid, remarks): (Vec<_>, Vec<_>) = own.partition(|it| it.severity() == Severity::Invalid);
    if invalid.is_empty() {
        Verdict::Allowed { warnings: remarks.iter().map(|it| it.message.to_string()).collect() }
    } else {
        let messages: Vec<String> = invalid.iter().map(|it| it.message.to_string()).collect();
        Verdict::Denied { message: messages.join("\n") }
    }
}
