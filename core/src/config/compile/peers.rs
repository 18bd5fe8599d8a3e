//! BGP peers: their nodes, passwords and BFD profiles, and which of them are the same router for a node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use ferrolb_api::v1beta2::BGPPeer;
use k8s_openapi::api::core::v1::Secret;

use super::{Compiling, Concern};
use crate::config::diagnostic::{
    Kind, Message, ObjectRef, PASSWORD_LIMIT, PeerProblem, SECRET_KEY, SECRET_TYPE,
};
use crate::config::kept::Kept;
use crate::config::lookup::Names;
use crate::config::peers::{Neighbor, Password, Peer, Reading};
use crate::config::selectors::Finding;
use crate::config::{BfdProfile, Diagnostic};
use crate::selector::Selector;

type Findings = Vec<Finding<PeerProblem>>;

/// What tells routers apart on a node.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Router<'a> {
    neighbor: &'a Neighbor,
    vrf: Option<&'a str>,
    port: NonZeroU16,
}

/// A peer in force, as those after it see it.
struct Earlier<'a> {
    name: &'a str,
    nodes: Names,
    selectors: &'a [Selector],
}

impl Compiling<'_> {
    pub(super) fn peers(&mut self, peers: &Kept<BGPPeer, Reading>, profiles: &BTreeMap<String, BfdProfile>) {
        let mut routers: BTreeMap<Router<'_>, Vec<Earlier<'_>>> = BTreeMap::new();
        let mut in_force = Vec::with_capacity(self.resources.bgp_peers.len());
        let objects = peers.iter().map(|(name, object, reading)| (name, (&**object, &**reading)));
        for (name, (object, reading)) in self.by_age(Kind::BgpPeer, objects, |(it, _)| &it.metadata) {
            let (peer, references, findings) = reading;
            let mut findings = findings.clone();
            let readable = references.nodes.len() == object.spec.node_selectors.len();
            let nodes = self.nodes.selected_or_all(&references.nodes);
            if nodes.is_empty() && !self.nodes.is_empty() && readable {
                findings.push(("spec.nodeSelectors".to_owned(), PeerProblem::NoNode));
            }
            let concern: Concern = (readable && !references.nodes.is_empty() && !self.nodes.is_empty())
                .then(|| Arc::clone(&nodes));
            let bfd = references.bfd_profile.as_ref();
            let bfd =
                bfd.and_then(|profile| self.bfd_profile(profile, peer.as_ref(), profiles, &mut findings));
            let password = self.password(object, &mut findings);
            let reference = ObjectRef::new(Kind::BgpPeer, name);
            let message = |problem| Message::Peer { peer: name.clone(), problem };
            let left_out = self.report(&reference, &concern, findings, message);
            let Some(read) = peer.as_ref().filter(|_| !left_out) else { continue };
            let mut peer = read.clone();
            peer.bfd = bfd;
            peer.password = peer.password.or(password);
            let router = Router { neighbor: &read.neighbor, vrf: read.vrf.as_deref(), port: read.port };
            let earlier = routers.entry(router).or_default();
            let here = Earlier { name, nodes, selectors: &references.nodes };
            peer.nodes = self.without_duplicates(&peer, &here, earlier);
            earlier.push(here);
            if !peer.nodes.is_empty() || self.nodes.is_empty() {
                in_force.push((name.clone(), Arc::new(peer)));
            }
        }
        self.compiled.config.peers = in_force.into_iter().collect();
    }

    /// The nodes of a peer without those that have the same router as another peer already, which are
    /// reported.
    fn without_duplicates(&mut self, peer: &Peer, here: &Earlier<'_>, earlier: &[Earlier<'_>]) -> Names {
        let mut remaining = Arc::clone(&here.nodes);
        for other in earlier {
            let shared: Names = if Arc::ptr_eq(&here.nodes, &other.nodes) {
                Arc::clone(&here.nodes)
            } else {
                Arc::new(here.nodes.intersection(&other.nodes).cloned().collect())
            };
            // Without any node known, it is certain only where both select the same, or one selects all.
            let certain =
                here.selectors.is_empty() || other.selectors.is_empty() || here.selectors == other.selectors;
            let conflict = if self.nodes.is_empty() { certain } else { !shared.is_empty() };
            if !conflict {
                continue;
            }
            let neighbor = match &peer.vrf {
                Some(vrf) => format!("{}-{vrf}", peer.neighbor),
                None => peer.neighbor.to_string(),
            };
            let problem = PeerProblem::Duplicate { neighbor, earlier: other.name.to_owned() };
            self.compiled.diagnostics.push(Diagnostic {
                object: ObjectRef::new(Kind::BgpPeer, here.name),
                field: match &peer.neighbor {
                    Neighbor::Address(_) => "spec.peerAddress".to_owned(),
                    Neighbor::Interface(_) => "spec.interface".to_owned(),
                },
                message: Message::Peer { peer: here.name.to_owned(), problem },
                nodes: (!self.nodes.is_empty()).then(|| Arc::clone(&shared)),
            });
            remaining = Arc::new(remaining.difference(&shared).cloned().collect());
        }
        remaining
    }

    fn bfd_profile(
        &self,
        name: &str,
        peer: Option<&Peer>,
        profiles: &BTreeMap<String, BfdProfile>,
        findings: &mut Findings,
    ) -> Option<BfdProfile> {
        let path = "spec.bfdProfile".to_owned();
        let Some(profile) = profiles.get(name) else {
            let problem = match self.resources.bfd_profiles.contains_key(name) {
                true => PeerProblem::BfdProfileInvalid(name.to_owned()),
                false => PeerProblem::BfdProfileMissing(name.to_owned()),
            };
            findings.push((path, problem));
            return None;
        };
        let returns = peer.is_none_or(|peer| {
            matches!(peer.neighbor, Neighbor::Address(IpAddr::V4(_))) && !peer.ebgp_multi_hop
        });
        if profile.echo_mode && !returns {
            findings.push((path, PeerProblem::EchoNotUsed(name.to_owned())));
        }
        Some(BfdProfile { echo_mode: profile.echo_mode && returns, ..profile.clone() })
    }

    /// The password that the peer's Secret holds, where Secrets are read.
    fn password(&self, peer: &BGPPeer, findings: &mut Findings) -> Option<Password> {
        let reference = peer.spec.password_secret.as_ref()?;
        let secret = reference.name.clone().filter(|name| !name.is_empty())?;
        let namespace = peer.metadata.namespace.clone().unwrap_or_default();
        let secrets = self.resources.secrets.as_ref()?;
        let password = match secrets.get(&secret) {
            None => Err(PeerProblem::SecretMissing { namespace, secret }),
            Some(object) if object.type_.as_deref() != Some(SECRET_TYPE) => {
                Err(PeerProblem::SecretType { namespace, secret })
            }
            Some(object) => match password_in(object) {
                None => Err(PeerProblem::SecretWithoutPassword { namespace, secret }),
                Some(password) if password.len() > PASSWORD_LIMIT => {
                    Err(PeerProblem::PasswordLength(password.len()))
                }
                Some(password) => Ok(Password::new(password)),
            },
        };
        password.map_err(|problem| findings.push(("spec.passwordSecret".to_owned(), problem))).ok()
    }
}

/// Files may have the text itself.
fn password_in(secret: &Secret) -> Option<String> {
    let text = secret.string_data.as_ref().and_then(|data| data.get(SECRET_KEY)).cloned();
    let stored = || {
        let data = secret.data.as_ref()?.get(SECRET_KEY)?;
        String::from_utf8(data.0.clone()).ok()
    };
    text.or_else(stored)
}
