//! Advertisements of both kinds, against pools, nodes, peers and aliases.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrolb_api::v1beta1::{BGPAdvertisement, L2Advertisement};

use super::preferences::Usable;
use super::{Compiling, Concern};
use crate::config::communities::Aliases;
use crate::config::diagnostic::{AdvertisementProblem, BgpAdvertisementProblem, Kind, Message, ObjectRef};
use crate::config::kept::{Kept, Resolved};
use crate::config::lookup::Names;
use crate::config::ranges::{Family, IpRange};
use crate::config::selectors::Finding;
use crate::config::{BgpAdvertisement, L2Advertisement as L2, advertisements, bgp_advertisements};
use crate::resources::Resources;

type Findings = Vec<Finding<BgpAdvertisementProblem>>;

/// What advertisements of both kinds resolved to.
#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) l2: Resolved<advertisements::Reading, ResolvedL2>,
    pub(super) bgp: Resolved<bgp_advertisements::Reading, ResolvedBgp>,
    /// What that depends on besides.
    aliases: Aliases,
    peers: BTreeSet<String>,
    versions: [u64; 2],
    /// Whether pools or nodes are others, so that the selections are to be compared.
    pub(super) to_compare: bool,
}

/// An L2 advertisement with its pools and nodes, and everything that is wrong with it.
#[derive(Debug)]
pub(super) struct ResolvedL2 {
    advertisement: Arc<L2>,
    findings: Vec<Finding<AdvertisementProblem>>,
}

/// A BGP advertisement with its pools and nodes, and everything that is wrong with it.
#[derive(Debug)]
pub(super) struct ResolvedBgp {
    advertisement: Arc<BgpAdvertisement>,
    concern: Concern,
    common: Vec<Finding<AdvertisementProblem>>,
    own: Findings,
}

impl All {
    /// Forgets what is not so any more; `versions` are those of pools and nodes.
    pub(super) fn refresh(&mut self, resources: &Resources, aliases: &Aliases, versions: [u64; 2]) {
        let peers = &resources.bgp_peers;
        if self.aliases != *aliases || !self.peers.iter().eq(peers.keys()) {
            let peers = peers.keys().cloned().collect();
            *self = Self { aliases: aliases.clone(), peers, ..Self::default() };
        }
        self.to_compare = self.versions != versions;
        self.versions = versions;
        self.l2.retain(|name| resources.l2_advertisements.contains_key(name));
        self.bgp.retain(|name| resources.bgp_advertisements.contains_key(name));
    }
}

impl Compiling<'_> {
    pub(super) fn l2_advertisements(
        &mut self,
        advertisements: &Kept<L2Advertisement, advertisements::Reading>,
        known: &mut All,
    ) {
        let mut in_force = Vec::with_capacity(self.resources.l2_advertisements.len());
        for (name, _, reading) in advertisements.iter() {
            // Scores of nodes follow their labels, too.
            let holds = |_: &ResolvedL2| !known.to_compare;
            let resolved = known.l2.get(name, reading, holds, || self.resolve_l2(name, reading));
            let reference = || ObjectRef::new(Kind::L2Advertisement, name);
            let message = |problem| Message::Advertisement { advertisement: reference(), problem };
            let findings = resolved.findings.clone();
            if findings.is_empty() || !self.report(&reference(), &None, findings, message) {
                in_force.push((name.clone(), Arc::clone(&resolved.advertisement)));
            }
        }
        self.compiled.config.l2_advertisements = in_force.into_iter().collect();
    }

    fn resolve_l2(&mut self, name: &str, (parsed, findings): &advertisements::Reading) -> ResolvedL2 {
        let mut findings = findings.clone();
        let pools = parsed.selection.pools(self.pools, &mut findings);
        let nodes = parsed.selection.nodes(self.nodes, &mut findings);
        let advertisement = Arc::new(parsed.resolve(name, pools, nodes, &self.resources.nodes));
        ResolvedL2 { advertisement, findings }
    }

    pub(super) fn bgp_advertisements(
        &mut self,
        advertisements: &Kept<BGPAdvertisement, bgp_advertisements::Reading>,
        aliases: &Aliases,
        known: &mut All,
    ) {
        let objects = advertisements.iter().map(|(name, object, reading)| (name, (&**object, reading)));
        let in_order = self.by_age(Kind::BgpAdvertisement, objects, |(object, _)| &object.metadata);
        let mut in_force: Vec<Usable> = Vec::with_capacity(in_order.len());
        for (name, (_, reading)) in in_order {
            let selection = &reading.0.selection;
            let same = !known.to_compare || {
                let (pools, nodes) = (
                    selection.pools(self.pools, &mut Vec::new()),
                    selection.nodes(self.nodes, &mut Vec::new()),
                );
                known.bgp.peek(name).is_some_and(|it| {
                    Arc::ptr_eq(&it.advertisement.pools, &pools)
                        && Arc::ptr_eq(&it.advertisement.nodes, &nodes)
                })
            };
            let resolved =
                known.bgp.get(name, reading, |_| same, || self.resolve_bgp(name, reading, aliases));
            let ResolvedBgp { advertisement, concern, common, own } = &*resolved;
            let (mut advertisement, concern) = (Arc::clone(advertisement), concern.clone());
            let reference = ObjectRef::new(Kind::BgpAdvertisement, name);
            let common_message =
                |problem| Message::Advertisement { advertisement: reference.clone(), problem };
            let message = |problem| Message::BgpAdvertisement { advertisement: name.clone(), problem };
            let left_out = self.report(&reference, &concern, common.clone(), common_message)
                | self.report(&reference, &concern, own.clone(), message);
            if left_out {
                continue;
            }
            if let Some((pools, too_specific)) = self.that_fit(&advertisement) {
                Arc::make_mut(&mut advertisement).pools = pools;
                self.report(&reference, &concern, too_specific, message);
            }
            in_force.push(Usable { advertisement, concern, left_out: false });
        }
        self.without_clashes(&mut in_force);
        let in_force = in_force.into_iter().filter(|it| !it.left_out).map(|it| it.advertisement);
        self.compiled.config.bgp_advertisements = in_force.map(|it| (it.name.clone(), it)).collect();
    }

    fn resolve_bgp(
        &mut self,
        name: &str,
        (parsed, common, own): &bgp_advertisements::Reading,
        aliases: &Aliases,
    ) -> ResolvedBgp {
        let (mut common, mut own) = (common.clone(), own.clone());
        let pools = parsed.selection.pools(self.pools, &mut common);
        let nodes = parsed.selection.nodes(self.nodes, &mut common);
        let concern: Concern =
            (parsed.selection.is_for_some_nodes() && !self.nodes.is_empty()).then(|| Arc::clone(&nodes));
        let peers = &self.resources.bgp_peers;
        let unknown = parsed.peers.iter().flatten().filter(|it| !peers.contains_key(*it));
        own.extend(
            unknown.map(|peer| ("spec.peers".to_owned(), BgpAdvertisementProblem::UnknownPeer(peer.clone()))),
        );
        let advertisement = Arc::new(parsed.resolve(name, (pools, nodes), aliases, &mut own));
        ResolvedBgp { advertisement, concern, common, own }
    }

    /// The ranges of a pool, in force or not.
    pub(super) fn ranges(&self, pool: &str) -> impl Iterator<Item = IpRange> {
        self.readings
            .get(pool)
            .into_iter()
            .flat_map(|(_, _, reading)| reading.ranges())
            .map(|(_, range)| range)
    }

    /// The pools whose addresses can be announced as prefixes of these lengths, and what is wrong with the
    /// others; none if all can.
    fn that_fit(&self, advertisement: &BgpAdvertisement) -> Option<(Names, Findings)> {
        let mut findings = Findings::new();
        if advertisement.aggregation_length >= 32 && advertisement.aggregation_length_v6 >= 128 {
            return None;
        }
        let mut unfit = BTreeSet::new();
        for (pool, object, reading) in advertisement.pools.iter().filter_map(|pool| self.readings.get(pool)) {
            let too_specific = |family| {
                reading.block(family).is_some_and(|it| advertisement.aggregation_length_of(family) < it)
            };
            if !too_specific(Family::V4) && !too_specific(Family::V6) {
                continue;
            }
            unfit.insert(pool);
            for (place, range) in reading.ranges() {
                let length = advertisement.aggregation_length_of(range.family());
                let block = range.shortest_prefix();
                if length < block {
                    let field = match range.family() {
                        Family::V4 => "spec.aggregationLength",
                        Family::V6 => "spec.aggregationLengthV6",
                    };
                    let entry = object.spec.addresses.get(place).cloned().unwrap_or_default();
                    let problem =
                        BgpAdvertisementProblem::TooSpecific { pool: pool.clone(), entry, block, length };
                    findings.push((field.to_owned(), problem));
                }
            }
        }
        let fitting = advertisement.pools.iter().filter(|pool| !unfit.contains(pool)).cloned();
        (!unfit.is_empty()).then(|| (Arc::new(fitting.collect()), findings))
    }
}
