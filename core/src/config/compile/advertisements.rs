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
        let mut in_force: Vec<(BgpAdvertisement, Concern)> = Vec::new();
        for (order, (name, object)) in advertisements.into_iter().enumerate() {
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
            let mut advertisement = parsed.resolve(name, order, (pools, nodes), aliases, &mut own);
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
            in_force.push((advertisement, concern));
        }
        self.preference_clashes(&in_force);
        let named = in_force.into_iter().map(|(it, _)| (it.name.clone(), it));
        self.compiled.config.bgp_advertisements = named.collect();
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

    /// Reports advertisements that give one prefix different preferences, towards one peer from one node.
    /// Advertisements with one and the same set of pools are looked at together, so that the number of
    /// pools does not count for each of them.
    fn preference_clashes(&mut self, advertisements: &[(BgpAdvertisement, Concern)]) {
        let candidates: Vec<&(BgpAdvertisement, Concern)> =
            advertisements.iter().filter(|(it, _)| it.services.is_empty()).collect();
        let preferences: BTreeSet<u32> = candidates.iter().map(|(it, _)| it.local_preference).collect();
        if preferences.len() < 2 {
            return;
        }
        let mut groups: Vec<(&Names, Vec<&(BgpAdvertisement, Concern)>)> = Vec::new();
        let mut known: BTreeMap<*const BTreeSet<String>, usize> = BTreeMap::new();
        for candidate in candidates {
            let pools = &candidate.0.pools;
            let index = *known.entry(Arc::as_ptr(pools)).or_insert(groups.len());
            match groups.get_mut(index) {
                Some((_, group)) => group.push(candidate),
                None => groups.push((pools, vec![candidate])),
            }
        }
        let mut of_pool: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, (pools, _)) in groups.iter().enumerate() {
            for pool in pools.iter() {
                of_pool.entry(pool).or_default().push(index);
            }
        }
        // Pairs of groups with a pool in common, for each family of its addresses.
        let mut pairs: BTreeMap<(usize, usize, Family), &str> = BTreeMap::new();
        for (pool, indexes) in &of_pool {
            let families: BTreeSet<Family> = self.ranges(pool).map(|(_, range)| range.family()).collect();
            for (place, first) in indexes.iter().enumerate() {
                for second in indexes.iter().skip(place) {
                    for family in &families {
                        pairs.entry((*first, *second, *family)).or_insert(pool);
                    }
                }
            }
        }
        let mut clashes = BTreeMap::new();
        for ((first, second, family), pool) in pairs {
            let group =
                |index: usize| groups.get(index).map(|(_, group)| group.as_slice()).unwrap_or_default();
            for a in group(first) {
                for b in group(second).iter().filter(|b| clash(&a.0, &b.0, family)) {
                    let (earlier, later) = if a.0.order < b.0.order { (a, b) } else { (b, a) };
                    clashes.entry((later.0.order, earlier.0.order)).or_insert((later, earlier, pool));
                }
            }
        }
        for ((_, _), (later, earlier, pool)) in clashes {
            let problem = BgpAdvertisementProblem::LocalPreferenceClash {
                preference: later.0.local_preference,
                earlier: earlier.0.local_preference,
                earlier_advertisement: earlier.0.name.clone(),
                pool: pool.to_owned(),
            };
            let nodes = match (&later.1, &earlier.1) {
                (Some(a), Some(b)) => Some(Arc::new(a.intersection(b).cloned().collect())),
                (Some(nodes), None) | (None, Some(nodes)) => Some(Arc::clone(nodes)),
                (None, None) => None,
            };
            let advertisement = later.0.name.clone();
            self.compiled.diagnostics.push(Diagnostic {
                object: ObjectRef::new(Kind::BgpAdvertisement, &advertisement),
                field: "spec.localPref".to_owned(),
                message: Message::BgpAdvertisement { advertisement, problem },
                nodes,
            });
        }
    }
}

/// Whether both announce the same prefixes of a family, differently, towards one peer from one node.
fn clash(a: &BgpAdvertisement, b: &BgpAdvertisement, family: Family) -> bool {
    a.local_preference != b.local_preference
        && a.aggregation_length_of(family) == b.aggregation_length_of(family)
        && match (&a.peers, &b.peers) {
            (Some(a), Some(b)) => !a.is_disjoint(b),
            _ => true,
        }
        && (Arc::ptr_eq(&a.nodes, &b.nodes) || !a.nodes.is_disjoint(&b.nodes))
}
