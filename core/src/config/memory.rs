//! What a speaker remembers, so that a bad edit takes nothing down that works.
//!
//! An address that is in use outlives its pool ([`LeftOutPool`](super::LeftOutPool)), because the Service
//! says what it holds. Nothing says so of an advertisement or a peer: when an edit makes one of them
//! invalid, or what it refers to goes away, the version that was in force stays in force, with the pools
//! and nodes that it had, until the object is right again or deleted. A process that starts anew remembers
//! nothing, and leaves the object out.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

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
            |_, _| true,
        );
        recall(
            &mut self.bgp_advertisements,
            &mut config.bgp_advertisements,
            &resources.bgp_advertisements,
            |it| &it.metadata,
            |_, _| true,
        );
        recall(&mut self.peers, &mut config.peers, &resources.bgp_peers, |it| &it.metadata, stands_alone);
        compiled
    }
}

fn recall<T, K>(
    remembered: &mut Remembered<T>,
    in_force: &mut BTreeMap<String, Arc<T>>,
    objects: &BTreeMap<String, Arc<K>>,
    metadata: impl Fn(&K) -> &ObjectMeta,
    fits: impl Fn(&T, &BTreeMap<String, Arc<T>>) -> bool,
) {
    let same = |(a, (_, b)): (&Arc<T>, &(_, Arc<T>))| Arc::ptr_eq(a, b);
    if in_force.len() == remembered.len() && in_force.values().zip(remembered.values()).all(same) {
        return;
    }
    let uid = |name: &str| objects.get(name).and_then(|object| metadata(object).uid.clone());
    for (name, (of, value)) in std::mem::take(remembered) {
        let same_object = || objects.contains_key(&name) && uid(&name) == of;
        if !in_force.contains_key(&name) && same_object() && fits(&value, in_force) {
            in_force.insert(name, value);
        }
    }
    *remembered =
        in_force.iter().map(|(name, value)| (name.clone(), (uid(name), Arc::clone(value)))).collect();
}

/// Whether no peer in force is the same router for a node.
fn stands_alone(peer: &Peer, in_force: &BTreeMap<String, Arc<Peer>>) -> bool {
    in_force.values().all(|other| {
        other.neighbor != peer.neighbor
            || other.vrf != peer.vrf
            || other.port != peer.port
            || other.nodes.is_disjoint(&peer.nodes)
    })
}
