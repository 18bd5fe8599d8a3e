//! Whether a change of the configuration is admitted.
//!
//! Decided here:
//! - a candidate is denied for what is wrong with itself, never for what is already wrong with other
//!   objects, and its whole list of faults is told at once;
//! - where it and a stored object exclude each other the candidate is to blame, however old it is;
//! - references to things that do not exist (yet), deprecated uses and doubts are warnings, so that objects
//!   can be created in any order; so is what a change does to other objects;
//! - deleting is denied only where it would take BFD away from a peer;
//! - an object that is being deleted is let through: all that may still change is its finalizers.

mod metallb;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{
    BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement, MetalLB,
};
use ferrolb_api::v1beta2::BGPPeer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config::{Compiler, Diagnostic, Kind, ObjectRef, Severity};
use crate::resources::Resources;

/// An object that somebody wants to store or to delete.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidate {
    /// A pool.
    IpAddressPool(Arc<IPAddressPool>),
    /// A reservation.
    AddressReservation(Arc<AddressReservation>),
    /// An L2 advertisement.
    L2Advertisement(Arc<L2Advertisement>),
    /// A BGP advertisement.
    BgpAdvertisement(Arc<BGPAdvertisement>),
    /// A BGP peer.
    BgpPeer(Arc<BGPPeer>),
    /// A BFD profile.
    BfdProfile(Arc<BFDProfile>),
    /// Aliases of communities.
    Community(Arc<Community>),
    /// What is to be installed, and what was, if anything.
    MetalLb {
        /// From now on.
        object: Arc<MetalLB>,
        /// Until now.
        old: Option<Arc<MetalLB>>,
    },
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
    /// Refused, since a text in it is not of the kind that its field has: a duration, say. To clients that is
    /// a malformed request.
    Unreadable {
        /// Why.
        message: String,
    },
}

impl Verdict {
    /// Without remarks.
    pub fn allowed() -> Self {
        Self::Allowed { warnings: Vec::new() }
    }
}

/// Judges a change. `existing` is what is stored in `namespace`, the namespace of the product.
pub fn admit(existing: &Resources, candidate: Candidate, operation: Operation, namespace: &str) -> Verdict {
    Admission::default().admit(existing, candidate, operation, namespace)
}

/// Judges one change after the other: what was read of objects that are still the same ones is kept.
#[derive(Debug, Default)]
pub struct Admission {
    compiler: Compiler,
}

impl Admission {
    /// As [`admit`].
    pub fn admit(
        &mut self,
        existing: &Resources,
        candidate: Candidate,
        operation: Operation,
        namespace: &str,
    ) -> Verdict {
        let metadata = candidate.metadata();
        let Some(kind) = candidate.kind() else { return metallb::admit(&candidate, operation) };
        let reference = ObjectRef::new(kind, metadata.name.clone().unwrap_or_default());
        if metadata.namespace.as_deref() != Some(namespace) {
            // What lies elsewhere is not in force anyway, so a stray object may still be edited and deleted.
            return match operation {
                Operation::Create => {
                    Verdict::Denied { message: format!("resource must be created in {namespace} namespace") }
                }
                Operation::Update => Verdict::Allowed {
                    warnings: vec![format!(
                        "{reference} is not in force: it is not in namespace {namespace}"
                    )],
                },
                Operation::Delete => Verdict::allowed(),
            };
        }
        let mut warnings = Vec::new();
        let mut resources = existing.clone();
        if operation == Operation::Delete {
            if let Some(message) = deletion_breaks(existing, &candidate) {
                return Verdict::Denied { message };
            }
            warnings.extend(held_addresses(&candidate));
            candidate.take_out_of(&mut resources);
        } else if metadata.deletion_timestamp.is_some() {
            return Verdict::allowed();
        } else {
            resources = candidate.put_into(resources);
        }
        let compiled = self.compiler.compile_with_last(&resources, Some(&reference));
        let (own, others): (Vec<_>, Vec<_>) =
            compiled.diagnostics.into_iter().partition(|it| it.object == reference);
        let invalid: Vec<&Diagnostic> = own.iter().filter(|it| it.severity() == Severity::Invalid).collect();
        if !invalid.is_empty() {
            let message = messages(invalid.iter().copied()).join("\n");
            return match invalid.iter().any(|it| it.is_unreadable()) {
                true => Verdict::Unreadable { message },
                false => Verdict::Denied { message },
            };
        }
        warnings.extend(messages(&own));
        // What is found with others now and was not before.
        let others = others.into_iter().filter(matters).collect::<Vec<_>>();
        if !others.is_empty() {
            let known = self.compiler.compile(existing).diagnostics;
            let mut count = BTreeMap::new();
            for text in known.iter().filter(|it| matters(it)).map(ToString::to_string) {
                *count.entry(text).or_insert(0) += 1;
            }
            warnings.extend(told(others.iter().map(ToString::to_string).filter(|text| {
                let left = count.get_mut(text).filter(|left| **left > 0);
                left.map(|left| *left -= 1).is_none()
            })));
        }
        Verdict::Allowed { warnings }
    }
}

/// Doubts about an object are the affair of whoever edits it.
fn matters(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic.severity(), Severity::Invalid | Severity::Unresolved)
}

/// So many faults are told at most: an object of megabytes could have a hundred thousand.
const TOLD: usize = 50;

fn messages<'a>(diagnostics: impl IntoIterator<Item = &'a Diagnostic>) -> Vec<String> {
    told(diagnostics.into_iter().map(|it| it.message.to_string()))
}

/// The first texts, and how many there are beside them.
fn told(mut texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut told: Vec<String> = texts.by_ref().take(TOLD).collect();
    let more = texts.count();
    told.extend((more > 0).then(|| format!("and {more} more")));
    told
}

/// Why the candidate must not be deleted.
fn deletion_breaks(existing: &Resources, candidate: &Candidate) -> Option<String> {
    let Candidate::BfdProfile(profile) = candidate else { return None };
    let profile = profile.metadata.name.as_deref()?;
    let user = existing.bgp_peers.iter().find(|(_, peer)| peer.spec.bfd_profile.as_deref() == Some(profile));
    user.map(|(peer, _)| format!("failed to delete BFDProfile {profile}, used by BGPPeer {peer}"))
}

/// What a pool that goes takes from Services.
fn held_addresses(candidate: &Candidate) -> Option<String> {
    let Candidate::IpAddressPool(pool) = candidate else { return None };
    let status = pool.status.as_ref()?;
    let held = status.assigned_ipv4.saturating_add(status.assigned_ipv6);
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    (held > 0).then(|| {
        format!(
            "IPAddressPool \"{name}\" is in use: Services lose the addresses that they hold from it ({held})"
        )
    })
}

impl Candidate {
    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::IpAddressPool(it) => &it.metadata,
            Self::AddressReservation(it) => &it.metadata,
            Self::L2Advertisement(it) => &it.metadata,
            Self::BgpAdvertisement(it) => &it.metadata,
            Self::BgpPeer(it) => &it.metadata,
            Self::BfdProfile(it) => &it.metadata,
            Self::Community(it) => &it.metadata,
            Self::MetalLb { object, .. } => &object.metadata,
        }
    }

    /// Its kind, if it is of the configuration.
    fn kind(&self) -> Option<Kind> {
        Some(match self {
            Self::IpAddressPool(_) => Kind::IpAddressPool,
            Self::AddressReservation(_) => Kind::AddressReservation,
            Self::L2Advertisement(_) => Kind::L2Advertisement,
            Self::BgpAdvertisement(_) => Kind::BgpAdvertisement,
            Self::BgpPeer(_) => Kind::BgpPeer,
            Self::BfdProfile(_) => Kind::BfdProfile,
            Self::Community(_) => Kind::Community,
            Self::MetalLb { .. } => return None,
        })
    }

    /// What is stored with it.
    fn put_into(self, resources: Resources) -> Resources {
        match self {
            Self::IpAddressPool(it) => resources.with_pools([it]),
            Self::AddressReservation(it) => resources.with_reservations([it]),
            Self::L2Advertisement(it) => resources.with_l2_advertisements([it]),
            Self::BgpAdvertisement(it) => resources.with_bgp_advertisements([it]),
            Self::BgpPeer(it) => resources.with_bgp_peers([it]),
            Self::BfdProfile(it) => resources.with_bfd_profiles([it]),
            Self::Community(it) => resources.with_communities([it]),
            Self::MetalLb { .. } => resources,
        }
    }

    /// Leaves what is stored without it.
    fn take_out_of(&self, resources: &mut Resources) {
        let name = self.metadata().name.as_deref().unwrap_or_default();
        match self {
            Self::IpAddressPool(_) => drop(resources.pools.remove(name)),
            Self::AddressReservation(_) => drop(resources.reservations.remove(name)),
            Self::L2Advertisement(_) => drop(resources.l2_advertisements.remove(name)),
            Self::BgpAdvertisement(_) => drop(resources.bgp_advertisements.remove(name)),
            Self::BgpPeer(_) => drop(resources.bgp_peers.remove(name)),
            Self::BfdProfile(_) => drop(resources.bfd_profiles.remove(name)),
            Self::Community(_) => drop(resources.communities.remove(name)),
            Self::MetalLb { .. } => {}
        }
    }
}
