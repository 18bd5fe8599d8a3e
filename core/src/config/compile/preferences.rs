//! BGP advertisements that give one prefix different preferences, towards one peer from one node: the older
//! one keeps the node.
//!
//! Who has a peer, a pool and a node in common is found by sorting the advertisements into ever smaller
//! groups, and a group of one preference is done with. So what clashes costs, not what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Compiling, Concern};
use crate::config::BgpAdvertisement;
use crate::config::diagnostic::{BgpAdvertisementProblem, Diagnostic, Kind, Message, ObjectRef};
use crate::config::ranges::Family;

/// An advertisement that is right in itself.
pub(super) struct Usable {
    pub(super) advertisement: Arc<BgpAdvertisement>,
    pub(super) concern: Concern,
    pub(super) left_out: bool,
}

/// Places of advertisements in the order of their age.
type Group = Vec<usize>;

impl Compiling<'_> {
    /// Takes from the later of two that clash the nodes that have both, and reports it.
    pub(super) fn without_clashes(&mut self, advertisements: &mut [Usable]) {
        let groups = groups(advertisements, !self.nodes.is_empty());
        let mut groups_of: BTreeMap<usize, Vec<&Group>> = BTreeMap::new();
        for group in &groups {
            for place in group {
                groups_of.entry(*place).or_default().push(group);
            }
        }
        for (place, groups) in groups_of {
            let before = groups.into_iter().flat_map(|group| group.iter().take_while(|it| **it < place));
            let earlier: BTreeSet<usize> = before.copied().collect();
            let Some((before, rest)) = advertisements.split_at_mut_checked(place) else { continue };
            let Some(later) = rest.first_mut() else { continue };
            for earlier in earlier.into_iter().filter_map(|place| before.get(place)) {
                if later.left_out {
                    break;
                }
                self.settle(earlier, later);
            }
        }
    }

    fn settle(&mut self, earlier: &Usable, later: &mut Usable) {
        let (of_earlier, of_later) = (&earlier.advertisement, &later.advertisement);
        // It may have lost the common nodes to another one by now, or be left out itself.
        let apart = !self.nodes.is_empty() && of_later.nodes.is_disjoint(&of_earlier.nodes);
        if earlier.left_out || apart {
            return;
        }
        let Some(pool) = self.clash(of_earlier, of_later).map(ToOwned::to_owned) else { return };
        let shared: BTreeSet<String> = of_later.nodes.intersection(&of_earlier.nodes).cloned().collect();
        let of_later = Arc::make_mut(&mut later.advertisement);
        let remaining: BTreeSet<String> = of_later.nodes.difference(&shared).cloned().collect();
        later.left_out |= remaining.is_empty();
        of_later.nodes = Arc::new(remaining);
        let problem = BgpAdvertisementProblem::LocalPreferenceClash {
            preference: of_later.local_preference,
            earlier: of_earlier.local_preference,
            earlier_advertisement: of_earlier.name.clone(),
            pool,
        };
        let everywhere = later.concern.is_none() && earlier.concern.is_none();
        let advertisement = of_later.name.clone();
        self.compiled.diagnostics.push(Diagnostic {
            object: ObjectRef::new(Kind::BgpAdvertisement, &advertisement),
            field: "spec.localPref".to_owned(),
            message: Message::BgpAdvertisement { advertisement, problem },
            nodes: (!everywhere).then(|| Arc::new(shared)),
        });
    }

    /// A pool that both announce as the same prefixes, differently, to one peer.
    fn clash<'p>(&self, a: &'p BgpAdvertisement, b: &'p BgpAdvertisement) -> Option<&'p str> {
        let same_length = |family| a.aggregation_length_of(family) == b.aggregation_length_of(family);
        let (v4, v6) = (same_length(Family::V4), same_length(Family::V6));
        let same_peer = match (&a.peers, &b.peers) {
            (Some(a), Some(b)) => !a.is_disjoint(b),
            _ => true,
        };
        if a.local_preference == b.local_preference || !(v4 || v6) || !same_peer {
            return None;
        }
        let (few, many) = if a.pools.len() <= b.pools.len() { (a, b) } else { (b, a) };
        let mut common = few.pools.iter().filter(|pool| many.pools.contains(*pool));
        let of_family = |family| if family == Family::V4 { v4 } else { v6 };
        let clashing = common.find(|pool| self.ranges(pool).any(|range| of_family(range.family())));
        clashing.map(String::as_str)
    }
}

/// Those that have a peer, a pool and, where nodes are known, a node in common, and not one preference.
fn groups(advertisements: &[Usable], nodes_known: bool) -> BTreeSet<Group> {
    let get = |place: usize| advertisements.get(place).map(|it| &*it.advertisement);
    let preferences = |group: &Group| {
        let different: BTreeSet<_> =
            group.iter().filter_map(|place| Some(get(*place)?.local_preference)).collect();
        different.len()
    };
    let of_any_service = |(_, it): &(usize, &Usable)| it.advertisement.services.is_empty();
    let all: Group =
        advertisements.iter().enumerate().filter(of_any_service).map(|(place, _)| place).collect();
    let mut groups = BTreeSet::from([all]);
    let mut split = |set: &dyn Fn(&BgpAdvertisement) -> Option<Set<'_>>| {
        let disputed = std::mem::take(&mut groups).into_iter().filter(|it| preferences(it) > 1);
        groups =
            disputed.flat_map(|group| with_something_in_common(&group, |it| get(it).and_then(set))).collect();
    };
    split(&|it| it.peers.as_ref());
    split(&|it| Some(&it.pools));
    if nodes_known {
        split(&|it| Some(&it.nodes));
    }
    groups.retain(|group| preferences(group) > 1);
    groups
}

type Set<'s> = &'s BTreeSet<String>;

/// The largest groups whose members all have some element in common. Who has no set has every element. A
/// group that is looked at pair by pair with less effort than all its elements stays as it is.
fn with_something_in_common<'s>(members: &Group, set: impl Fn(usize) -> Option<Set<'s>>) -> BTreeSet<Group> {
    let mut of_every: Group = Vec::new();
    // Mostly many have the very same set, which is looked at once.
    let mut sharing: BTreeMap<*const BTreeSet<String>, (Set<'s>, Group)> = BTreeMap::new();
    for member in members {
        match set(*member) {
            None => of_every.push(*member),
            Some(set) => sharing.entry(std::ptr::from_ref(set)).or_insert((set, Vec::new())).1.push(*member),
        }
    }
    let elements: usize = sharing.values().map(|(set, _)| set.len()).sum();
    if members.len().saturating_pow(2) < elements {
        return BTreeSet::from([members.clone()]);
    }
    let mut having: BTreeMap<&str, Vec<*const BTreeSet<String>>> = BTreeMap::new();
    for (key, (set, _)) in &sharing {
        for element in *set {
            having.entry(element).or_default().push(*key);
        }
    }
    let mut combinations: BTreeSet<Vec<*const BTreeSet<String>>> = having.into_values().collect();
    combinations.insert(Vec::new());
    let group = |combination: Vec<*const BTreeSet<String>>| {
        let groups = combination.iter().filter_map(|key| sharing.get(key)).map(|(_, group)| group);
        let mut group: Group = groups.flatten().chain(&of_every).copied().collect();
        group.sort_unstable();
        group
    };
    combinations.into_iter().map(group).filter(|group| group.len() > 1).collect()
}
