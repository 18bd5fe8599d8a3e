//! Which of the peers that are the same router keeps it: on each node the oldest.
//!
//! Each peer asks once, the oldest first, and what it cannot have is looked up node by node. So peers of one
//! router cost what they select, not what their pairs are; those that select the same nodes share one answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::lookup::Names;
use crate::config::peers::Router;
use crate::selector::Selector;

/// Who has which router so far.
#[derive(Default)]
pub(super) struct Routers<'a>(BTreeMap<Router<'a>, Holders<'a>>);

/// Nodes on which an older peer has the router, and which one.
pub(super) type Lost<'a> = Vec<(&'a str, Names)>;

#[derive(Default)]
struct Holders<'a> {
    names: Vec<&'a str>,
    /// Places in `names`.
    by_node: BTreeMap<String, usize>,
    /// What a peer with these nodes loses. Whoever had them first took what was free, so it stays the same.
    answers: BTreeMap<*const BTreeSet<String>, (Names, Lost<'a>)>,
    /// Where no node is known: places by what is selected.
    by_selectors: BTreeMap<&'a [Selector], usize>,
}

impl<'a> Routers<'a> {
    /// The peer has the router from now on, on these nodes but those that it is told.
    pub(super) fn take(&mut self, router: Router<'a>, peer: &'a str, nodes: &Names) -> Lost<'a> {
        self.0.entry(router).or_default().take(peer, nodes)
    }

    /// The same where no node is known: whether a node gets both is certain only where both select the same,
    /// or one of them selects all.
    pub(super) fn take_anywhere(
        &mut self,
        router: Router<'a>,
        peer: &'a str,
        selectors: &'a [Selector],
    ) -> Lost<'a> {
        let holders = self.0.entry(router).or_default();
        let of = |selectors: &[Selector]| holders.by_selectors.get(selectors).copied();
        let any = || (selectors.is_empty() && !holders.names.is_empty()).then_some(0);
        let holder = of(selectors).or_else(|| of(&[])).or_else(any).and_then(|it| holders.names.get(it));
        if let Some(holder) = holder {
            return vec![(holder, Names::default())];
        }
        holders.by_selectors.insert(selectors, holders.names.len());
        holders.names.push(peer);
        Lost::new()
    }
}

impl<'a> Holders<'a> {
    fn take(&mut self, peer: &'a str, nodes: &Names) -> Lost<'a> {
        if let Some((_, lost)) = self.answers.get(&Arc::as_ptr(nodes)) {
            return lost.clone();
        }
        // Mostly the router is of one peer alone, and its nodes need not be looked at one by one.
        if self.names.is_empty() {
            self.names.push(peer);
            self.answers.insert(Arc::as_ptr(nodes), (Arc::clone(nodes), vec![(peer, Arc::clone(nodes))]));
            return Lost::new();
        }
        self.spell_out();
        let here = self.names.len();
        self.names.push(peer);
        let mut by_holder: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for node in nodes.iter() {
            let holder = *self.by_node.entry(node.clone()).or_insert(here);
            by_holder.entry(holder).or_default().insert(node.clone());
        }
        let own = by_holder.remove(&here).map(|nodes| (peer, Arc::new(nodes)));
        let named = |(place, nodes)| Some((*self.names.get(place)?, Arc::new(nodes)));
        let lost: Lost<'a> = by_holder.into_iter().filter_map(named).collect();
        let later = lost.iter().cloned().chain(own).collect();
        self.answers.insert(Arc::as_ptr(nodes), (Arc::clone(nodes), later));
        lost
    }

    /// Puts down the nodes of the first peer, which was alone so far.
    fn spell_out(&mut self) {
        if self.by_node.is_empty()
            && let Some((nodes, _)) = self.answers.values().next()
        {
            self.by_node = nodes.iter().map(|node| (node.clone(), 0)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::peers::Neighbor;

    fn names(of: &[&str]) -> Names {
        Arc::new(of.iter().map(|name| (*name).to_owned()).collect())
    }

    fn texts(lost: Lost<'_>) -> Vec<String> {
        let text = |nodes: Names| nodes.iter().cloned().collect::<Vec<_>>().join("+");
        lost.into_iter().map(|(holder, nodes)| format!("{holder}: {}", text(nodes))).collect()
    }

    #[test]
    fn a_node_is_of_the_first_that_asks() {
        let neighbor = Neighbor::Interface("eth1".to_owned());
        let router = || Router { neighbor: &neighbor, vrf: None, port: std::num::NonZeroU16::MIN };
        let (few, all) = (names(&["n1", "n2"]), names(&["n1", "n2", "n3"]));
        let mut routers = Routers::default();
        for (peer, nodes, lost) in [
            ("a", &few, vec![]),
            ("b", &few, vec!["a: n1+n2"]),
            ("c", &all, vec!["a: n1+n2"]),
            ("d", &all, vec!["a: n1+n2", "c: n3"]),
            ("e", &names(&["n3", "n4"]), vec!["c: n3"]),
            ("f", &names(&[]), vec![]),
            // The same nodes in a set of its own.
            ("g", &names(&["n3", "n4"]), vec!["c: n3", "e: n4"]),
        ] {
            assert_eq!(texts(routers.take(router(), peer, nodes)), lost, "{peer}");
        }
    }
}
