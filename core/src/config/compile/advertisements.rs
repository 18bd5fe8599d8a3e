//! Advertisements of both kinds, against pools, nodes, peers and aliases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Compiling, Concern};
use crate::config::communities::Aliases;
use crate::config::diagnostic::{BgpAdvertisementProblem, Diagnostic, Kind, Message, ObjectRef};
use crate::config::lookup::Names;
use crate::config::ranges::{Family, IpRange};
use crate::config::selectors::Finding;
use crate::config::{BgpAdvertisement, advertisements, bgp_advertisements};

type Findings = Vec<Finding<BgpAdvertisementProblem>>;

impl Compiling<'_> {
    pub(super) fn l2_advertisements(&mut self) {
        let resources = self.resources;
        for (name, object) in &resources.l2_advertisements {
            let (parsed, mut findings) = advertisements::parse(object);
            let pools = parsed.selection.pools(&mut self.pools, &mut findings);
            let nodes = parsed.selection.nodes(&mut self.nodes, &mut findings);
            let reference = ObjectRef::new(Kind::L2Advertisement, name);
            let message = |problem| Message::Advertisement { advertisement: reference.clone(), problem };
            if !self.report(&reference, &None, findings, message) {
                let advertisement = parsed.resolve(name, pools, nodes, &resources.nodes);
                self.compiled.config.l2_advertisements.insert(name.clone(), advertisement);
            }
        }
    }

    pub(super) fn bgp_advertisements(&mut self, aliases: &Aliases) {
        let resources = self.resources;
        let advertisements =
            self.by_age(Kind::BgpAdvertisement, &resources.bgp_advertisements, |it| &it.metadata);
        let mut in_force: Vec<Usable> = Vec::new();
        for (name, object) in advertisements {
            let (parsed, mut common, mut own) = bgp_advertisements::parse(object);
            let pools = parsed.selection.pools(&mut self.pools, &mut common);
            let nodes = parsed.selection.nodes(&mut self.nodes, &mut common);
            let concern: Concern =
                (parsed.selection.is_for_some_nodes() && !self.nodes.is_empty()).then(|| Arc::clone(&nodes));
            let unknown = parsed.peers.iter().flatten().filter(|it| !resources.bgp_peers.contains_key(*it));
            own.extend(
                unknown.map(|peer| {
                    ("spec.peers".to_owned(), BgpAdvertisementProblem::UnknownPeer(peer.clone()))
                }),
            );
            let mut advertisement = parsed.resolve(name, (pools, nodes), aliases, &mut own);
            let reference = ObjectRef::new(Kind::BgpAdvertisement, name);
            let common_message =
                |problem| Message::Advertisement { advertisement: reference.clone(), problem };
            let message = |problem| Message::BgpAdvertisement { advertisement: name.clone(), problem };
            let left_out = self.report(&reference, &concern, common, common_message)
                | self.report(&reference, &concern, own, message);
            if left_out {
                continue;
            }
            let (pools, too_specific) = self.that_fit(&advertisement);
            advertisement.pools = pools;
            self.report(&reference, &concern, too_specific, message);
            in_force.push(Usable { advertisement, concern, left_out: false });
        }
        let clashes = self.preference_clashes(&in_force);
        self.without_clashes(&mut in_force, clashes);
        let in_force = in_force.into_iter().filter(|it| !it.left_out).map(|it| it.advertisement);
        self.compiled.config.bgp_advertisements = in_force.map(|it| (it.name.clone(), it)).collect();
    }

    /// The ranges of a pool, in force or not, with their entries.
    fn ranges(&self, pool: &str) -> impl Iterator<Item = (&str, IpRange)> {
        let entries = self.resources.pools.get(pool).map(|it| it.spec.addresses.as_slice());
        let entries = entries.unwrap_or_default().iter();
        entries.filter_map(|entry| Some((entry.as_str(), entry.parse().ok()?)))
    }

    /// The pools whose addresses can be announced as prefixes of these lengths; the others are reported.
    fn that_fit(&self, advertisement: &BgpAdvertisement) -> (Names, Findings) {
        let mut findings = Findings::new();
        if advertisement.aggregation_length >= 32 && advertisement.aggregation_length_v6 >= 128 {
            return (Arc::clone(&advertisement.pools), findings);
        }
        let mut fitting = BTreeSet::new();
        for pool in advertisement.pools.iter() {
            let before = findings.len();
            for (entry, range) in self.ranges(pool) {
                let length = advertisement.aggregation_length_of(range.family());
                let block = range.cidrs().map(|cidr| cidr.prefix_len()).min().unwrap_or_default();
                if length < block {
                    let field = match range.family() {
                        Family::V4 => "spec.aggregationLength",
                        Family::V6 => "spec.aggregationLengthV6",
                    };
                    let (pool, entry) = (pool.clone(), entry.to_owned());
                    let problem = BgpAdvertisementProblem::TooSpecific { pool, entry, block, length };
                    findings.push((field.to_owned(), problem));
                }
            }
            if findings.len() == before {
                fitting.insert(pool.clone());
            }
        }
        (Arc::new(fitting), findings)
    }

    /// Pairs of advertisements that give one prefix different preferences, towards one peer from one node: the
    /// later and the earlier one, by place, with a pool of both. Only those that have a peer in common are
    /// looked at.
    fn preference_clashes(&self, advertisements: &[Usable]) -> BTreeMap<(usize, usize), String> {
        let candidates: Vec<(usize, &BgpAdvertisement)> = advertisements
            .iter()
            .enumerate()
            .map(|(place, it)| (place, &it.advertisement))
            .filter(|(_, it)| it.services.is_empty())
            .collect();
        let preferences: BTreeSet<u32> = candidates.iter().map(|(_, it)| it.local_preference).collect();
        let mut clashes = BTreeMap::new();
        if preferences.len() < 2 {
            return clashes;
        }
        let mut compare = |earlier: &(usize, &BgpAdvertisement), later: &(usize, &BgpAdvertisement)| {
            let pair = (later.0, earlier.0);
            if !clashes.contains_key(&pair)
                && let Some(pool) = self.clash(earlier.1, later.1)
            {
                clashes.insert(pair, pool.to_owned());
            }
        };
        let mut of_peer: BTreeMap<&str, Vec<&(usize, &BgpAdvertisement)>> = BTreeMap::new();
        for (index, candidate) in candidates.iter().enumerate() {
            match &candidate.1.peers {
                None => {
                    let (before, after) = candidates.split_at(index);
                    before.iter().for_each(|earlier| compare(earlier, candidate));
                    after.iter().skip(1).for_each(|later| compare(candidate, later));
                }
                Some(peers) => {
                    for peer in peers {
                        let others = of_peer.entry(peer).or_default();
                        others.iter().for_each(|earlier| compare(earlier, candidate));
                        others.push(candidate);
                    }
                }
            }
        }
        clashes
    }

    /// A pool that both announce as the same prefixes, differently, from one node.
    fn clash<'p>(&self, a: &'p BgpAdvertisement, b: &'p BgpAdvertisement) -> Option<&'p str> {
        let same_length = |family| a.aggregation_length_of(family) == b.aggregation_length_of(family);
        let (v4, v6) = (same_length(Family::V4), same_length(Family::V6));
        let same_nodes = || Arc::ptr_eq(&a.nodes, &b.nodes) || !a.nodes.is_disjoint(&b.nodes);
        if a.local_preference == b.local_preference || !(v4 || v6) || !same_nodes() {
            return None;
        }
        let (few, many) = if a.pools.len() <= b.pools.len() { (a, b) } else { (b, a) };
        let mut common = few.pools.iter().filter(|pool| many.pools.contains(*pool));
        let of_family = |family| if family == Family::V4 { v4 } else { v6 };
        let clashing = common.find(|pool| self.ranges(pool).any(|(_, range)| of_family(range.family())));
        clashing.map(String::as_str)
    }

    /// Reports clashes, and takes from the later one the nodes that have both.
    fn without_clashes(&mut self, advertisements: &mut [Usable], clashes: BTreeMap<(usize, usize), String>) {
        for ((later, earlier), pool) in clashes {
            let Some((before, rest)) = advertisements.split_at_mut_checked(later) else { continue };
            let (Some(earlier), Some(later)) = (before.get(earlier), rest.first_mut()) else { continue };
            let (of_earlier, of_later) = (&earlier.advertisement, &mut later.advertisement);
            let shared: BTreeSet<String> = of_later.nodes.intersection(&of_earlier.nodes).cloned().collect();
            let nodes_known = !self.nodes.is_empty();
            // It may have lost those nodes to another one by now, or be left out itself.
            if earlier.left_out || (nodes_known && shared.is_empty()) {
                continue;
            }
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
    }
}

/// An advertisement that is right in itself.
struct Usable {
    advertisement: BgpAdvertisement,
    concern: Concern,
    left_out: bool,
}
