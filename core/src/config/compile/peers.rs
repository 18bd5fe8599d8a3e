//! BGP peers: their nodes, passwords and BFD profiles, and which of them are the same router for a node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::v1beta2::BGPPeer;
use k8s_openapi::api::core::v1::Secret;

use super::routers::{Lost, Routers};
use super::{Compiling, Concern};
use crate::config::diagnostic::{
    Kind, Message, ObjectRef, PASSWORD_LIMIT, PeerProblem, Problem, SECRET_KEY, SECRET_TYPE,
};
use crate::config::kept::{Kept, Resolved};
use crate::config::lookup::Names;
use crate::config::peers::{Neighbor, Password, Peer, Reading};
use crate::config::selectors::Finding;
use crate::config::{BfdProfile, Diagnostic};
use crate::resources::Resources;

type Findings = Vec<Finding<PeerProblem>>;

/// What peers resolved to.
#[derive(Debug, Default)]
pub(super) struct All {
    resolved: Resolved<Reading, ResolvedPeer>,
    /// What that depends on besides: the profiles there are, those that are right with what they say.
    profiles: BTreeMap<String, Option<BfdProfile>>,
    secrets: Option<BTreeMap<String, Arc<Secret>>>,
    nodes: u64,
}

/// A peer with its nodes, password and profile, and everything that is wrong with it by itself.
#[derive(Debug)]
struct ResolvedPeer {
    /// None if it is left out.
    peer: Option<Arc<Peer>>,
    concern: Concern,
    findings: Findings,
}

impl All {
    /// Forgets what is not so any more.
    fn refresh(&mut self, resources: &Resources, profiles: &BTreeMap<String, BfdProfile>, nodes: u64) {
        let known = resources.bfd_profiles.keys();
        let profiles = known.map(|name| (name.clone(), profiles.get(name).cloned())).collect();
        if self.profiles != profiles || self.secrets != resources.secrets || self.nodes != nodes {
            let secrets = resources.secrets.clone();
            *self = Self { resolved: Resolved::default(), profiles, secrets, nodes };
        }
        self.resolved.retain(|name| resources.bgp_peers.contains_key(name));
    }
}

impl Compiling<'_> {
    pub(super) fn peers(
        &mut self,
        peers: &Kept<BGPPeer, Reading>,
        profiles: &BTreeMap<String, BfdProfile>,
        known: &mut All,
    ) {
        known.refresh(self.resources, profiles, self.nodes.version());
        let objects = peers.iter().map(|(name, object, reading)| (name, (&**object, reading)));
        let in_order = self.by_age(Kind::BgpPeer, objects, |(it, _)| &it.metadata);
        let resolved: Vec<(&String, &Reading, Arc<ResolvedPeer>)> = in_order
            .into_iter()
            .map(|(name, (object, reading))| {
                let resolve = || self.resolve_peer(object, reading, profiles);
                (name, &**reading, known.resolved.get(name, reading, |_| true, resolve))
            })
            .collect();
        let mut routers = Routers::default();
        let mut in_force = Vec::with_capacity(resolved.len());
        for (name, (_, references, _), resolved) in &resolved {
            if !resolved.findings.is_empty() {
                let message = |problem| Message::Peer { peer: (*name).clone(), problem };
                let reference = ObjectRef::new(Kind::BgpPeer, *name);
                self.report(&reference, &resolved.concern, resolved.findings.clone(), message);
            }
            let Some(peer) = &resolved.peer else { continue };
            let lost = match self.nodes.is_empty() {
                true => routers.take_anywhere(peer.router(), name, &references.nodes),
                false => routers.take(peer.router(), name, &peer.nodes),
            };
            let mut peer = Arc::clone(peer);
            if !lost.is_empty() {
                let nodes = self.without(&peer, lost);
                Arc::make_mut(&mut peer).nodes = nodes;
            }
            if !peer.nodes.is_empty() || self.nodes.is_empty() {
                in_force.push(((*name).clone(), peer));
            }
        }
        self.compiled.config.peers = in_force.into_iter().collect();
    }

    fn resolve_peer(
        &mut self,
        object: &BGPPeer,
        (peer, references, findings): &Reading,
        profiles: &BTreeMap<String, BfdProfile>,
    ) -> ResolvedPeer {
        let mut findings = findings.clone();
        let readable = references.nodes.len() == object.spec.node_selectors.len();
        let nodes = self.nodes.selected_or_all(&references.nodes);
        if nodes.is_empty() && !self.nodes.is_empty() && readable {
            findings.push(("spec.nodeSelectors".to_owned(), PeerProblem::NoNode));
        }
        let concern: Concern =
            (readable && !references.nodes.is_empty() && !self.nodes.is_empty()).then(|| Arc::clone(&nodes));
        let bfd = references.bfd_profile.as_ref();
        let bfd = bfd.and_then(|profile| self.bfd_profile(profile, peer.as_ref(), profiles, &mut findings));
        let password = self.password(object, &mut findings);
        let left_out = findings.iter().any(|(_, problem)| problem.leaves_out());
        let peer = peer.as_ref().filter(|_| !left_out).map(|read| {
            let password = read.password.clone().or(password);
            Arc::new(Peer { bfd, password, nodes, ..read.clone() })
        });
        ResolvedPeer { peer, concern, findings }
    }

    /// The nodes of a peer without those on which another has the router, which are reported.
    fn without(&mut self, peer: &Peer, lost: Lost<'_>) -> Names {
        let taken: usize = lost.iter().map(|(_, shared)| shared.len()).sum();
        let remaining = match taken < peer.nodes.len() {
            true => {
                let free = |node: &&String| lost.iter().all(|(_, shared)| !shared.contains(*node));
                Arc::new(peer.nodes.iter().filter(free).cloned().collect())
            }
            false => Names::default(),
        };
        for (earlier, shared) in lost {
            let neighbor = match &peer.vrf {
                Some(vrf) => format!("{}-{vrf}", peer.neighbor),
                None => peer.neighbor.to_string(),
            };
            let problem = PeerProblem::Duplicate { neighbor, earlier: earlier.to_owned() };
            self.compiled.diagnostics.push(Diagnostic {
                object: ObjectRef::new(Kind::BgpPeer, &peer.name),
                field: match &peer.neighbor {
                    Neighbor::Address(_) => "spec.peerAddress".to_owned(),
                    Neighbor::Interface(_) => "spec.interface".to_owned(),
                },
                message: Message::Peer { peer: peer.name.clone(), problem },
                nodes: (!self.nodes.is_empty()).then_some(shared),
            });
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
