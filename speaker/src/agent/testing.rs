//! A world for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_core::config::compile;
use ferrolb_core::planner::Member;
use ferrolb_core::resources::Resources;
use ferrolb_proto::conflict;

use super::readings::LoadBalancers;
use super::view::World;

/// Node `a` of a cluster in which a speaker lives on every node, with a configuration that has no fault.
pub(crate) fn world(resources: &Resources, services: LoadBalancers) -> World {
    let compiled = compile(resources);
    assert!(!compiled.diagnostics.iter().any(|it| it.leaves_out()), "{:?}", compiled.diagnostics);
    let alive = |node: &String| (node.clone(), Member { alive: true, interfaces: None });
    World {
        compiled: Arc::new(compiled),
        members: resources.nodes.keys().map(alive).collect(),
        nodes: resources.nodes.clone(),
        settled: true,
        speakers: Arc::new(conflict::Members::new("a".into(), BTreeMap::new())),
        wire: BTreeMap::new(),
        kernel: BTreeMap::new(),
        hold: false,
        peer_uids: BTreeMap::new(),
        unread_secrets: BTreeSet::new(),
        services,
        this_node: "a".to_owned(),
        ignore_exclude_label: false,
        withdraw_on_cordon: false,
    }
}
