//! What a speaker remembers, so that a bad edit takes nothing down that works.
//!
//! An address that is in use outlives its pool ([`LeftOutPool`](super::LeftOutPool)), because the Service
//! says what it holds. Nothing says so of an advertisement or a peer: when an edit makes one of them
//! invalid, or what it refers to goes away, the version that was in force stays in force, with the pools
//! and nodes that it had, until the object is right again or deleted. A process that starts anew remembers
//! nothing, and leaves the object out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::peers::Router;
use super::{BgpAdvertisement, Compiled, Compiler, L2Advertisement, Peer};
use crate::resources::Resources;

/// Compiles, and remembers what was in force.
#[derive(Debug, Default)]
pub struct Memory {
    compiler: Compiler,
    l2_advertisements: Remembered<L2Advertisement>,
    bgp_advertisements: Remembered<BgpAdvertisement>,
    peers: Remembered<Peer>,
}

/// The versions in force, with the identity of their objects.
type Remembered<T> = BTreeMap<String, (Option<String>, Arc<T>)>;

impl Memory {
    /// As [`compile`](super::compile), but what was in force before and is left out now stays in force. The diagnostics are
    /// the same.
    pub fn compile(&mut self, resources: &Resources) -> Compiled {
        let mut compiled = self.compiler.compile(resources);
        let config = &mut compiled.config;
        recall(
            &mut self.l2_advertisements,
            &mut config.l2_advertisements,
            &resources.l2_advertisements,
            |it| &it.metadata,
            |_, _| {},
        );
        recall(
            &mut self.bgp_advertisements,
            &mut config.bgp_advertisements,
            &resources.bgp_advertisements,
            |it| &it.metadata,
            |_, _| {},
        );
        recall(&mut self.peers, &mut config.peers, &resources.bgp_peers, |it| &it.metadata, standing_alone);
        compiled
    }
}

/// What was in force, is not any more, and is still an object of the same identity; `choose` leaves of them
/// those that may be in force beside the others.
fn recall<T, K>(
    remembered: &mut Remembered<T>,
    in_force: &mut BTreeMap<String, Arc<T>>,
    objects: &BTreeMap<String, Arc<K>>,
    metadata: impl Fn(&K) -> &ObjectMeta,
    choose: impl Fn(&mut Vec<(String, Arc<T>)>, &BTreeMap<String, Arc<T>>),
) {
    let same = |(a, (_, b)): (&Arc<T>, &(_, Arc<T>))| Arc::ptr_eq(a, b);
    if in_force.len() == remembered.len() && in_force.values().zip(remembered.values()).all(same) {
        return;
    }
    let uid = |name: &str| objects.get(name).and_then(|object| metadata(object).uid.clone());
    let mut recalled = Vec::new();
    for (name, (of, value)) in std::mem::take(remembered) {
        if !in_force.contains_key(&name) && objects.contains_key(&name) && uid(&name) == of {
            recalled.push((name, value));
        }
    }
    choose(&mut recalled, in_force);
    in_force.extend(recalled);
    *remembered =
        in_force.iter().map(|(name, value)| (name.clone(), (uid(name), Arc::clone(value)))).collect();
}

/// Leaves the peers that on none of their nodes are the same router as one in force, or as one before them.
fn standing_alone(recalled: &mut Vec<(String, Arc<Peer>)>, in_force: &BTreeMap<String, Arc<Peer>>) {
    let peers: Vec<Arc<Peer>> = recalled.iter().map(|(_, peer)| Arc::clone(peer)).collect();
    let mut taken: BTreeMap<Router<'_>, BTreeSet<&String>> =
        peers.iter().map(|peer| (peer.router(), BTreeSet::new())).collect();
    for peer in in_force.values() {
        if let Some(nodes) = taken.get_mut(&peer.router()) {
            nodes.extend(peer.nodes.iter());
        }
    }
    let mut alone = peers.iter().map(|peer| {
        let nodes = taken.entry(peer.router()).or_default();
        let alone = peer.nodes.iter().all(|node| !nodes.contains(node));
        nodes.extend(peer.nodes.iter().filter(|_| alone));
        alone
    });
    recalled.retain(|_| alone.next().unwrap_or_default());
}
