//! BGP advertisements: which pools are announced to which peers, by which nodes, and as what.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrolb_api::v1beta1 as api;
use ferrolb_proto::bgp::{Community, LargeCommunity};

use super::advertisements::Selection;
use super::communities::{Aliases, AnyCommunity};
use super::diagnostic::{AdvertisementProblem, BgpAdvertisementProblem, SelectorField};
use super::lookup::Names;
use super::ranges::Family;
use super::selectors::{Finding, parse_list};
use crate::selector::{LabelSet, Selector, any_matches};

/// A BGP advertisement in force, resolved against pools, nodes and aliases of communities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpAdvertisement {
    /// Its name.
    pub name: String,
    /// Names of the pools it announces, also of pools that are left out. A pool that it cannot announce,
    /// because its ranges are smaller than the aggregate, is not among them.
    pub pools: Arc<BTreeSet<String>>,
    /// Nodes that may announce.
    pub nodes: Arc<BTreeSet<String>>,
    /// Peers it is for; none: all.
    pub peers: Option<BTreeSet<String>>,
    /// Services it is for, by label; alternatives. Empty: all.
    pub services: Vec<Selector>,
    /// Length of the prefixes that IPv4 addresses are announced as.
    pub aggregation_length: u8,
    /// Length of the prefixes that IPv6 addresses are announced as.
    pub aggregation_length_v6: u8,
    /// LOCAL_PREF, for peers of our own AS.
    pub local_preference: u32,
    /// Communities.
    pub communities: BTreeSet<Community>,
    /// Large communities.
    pub large_communities: BTreeSet<LargeCommunity>,
}

impl BgpAdvertisement {
    /// Length of the prefixes of a family.
    pub fn aggregation_length_of(&self, family: Family) -> u8 {
        match family {
            Family::V4 => self.aggregation_length,
            Family::V6 => self.aggregation_length_v6,
        }
    }

    /// Whether it is for the peer of this name.
    pub fn selects_peer(&self, peer: &str) -> bool {
        self.peers.as_ref().is_none_or(|peers| peers.contains(peer))
    }

    /// Whether it is for a Service with these labels (nodes are another question).
    pub fn selects_service(&self, labels: &impl LabelSet) -> bool {
        self.services.is_empty() || any_matches(&self.services, labels)
    }
}

/// What a BGP advertisement is by itself, and what is wrong with it in itself: as with any advertisement, and
/// as with one for BGP.
pub(super) type Reading = (Parsed, Common, Own);

/// A BGP advertisement as far as it can be read without any other object.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) selection: Selection,
    pub(super) peers: Option<BTreeSet<String>>,
    services: Vec<Selector>,
    aggregation_length: u8,
    aggregation_length_v6: u8,
    local_preference: u32,
    communities: Vec<(String, String)>,
}

type Own = Vec<Finding<BgpAdvertisementProblem>>;
type Common = Vec<Finding<AdvertisementProblem>>;

/// Reads a BGP advertisement.
pub(super) fn parse(advertisement: &api::BGPAdvertisement) -> Reading {
    let spec = &advertisement.spec;
    let (mut common, mut own) = (Vec::new(), Vec::new());
    let selection = Selection::parse(
        &spec.ip_address_pools,
        &spec.ip_address_pool_selectors,
        &spec.node_selectors,
        &mut common,
    );
    let mut services = parse_list(&spec.service_selectors, "spec", SelectorField::Services, &mut common);
    services.sort();
    let communities =
        once_each(&spec.communities, "communities", BgpAdvertisementProblem::RepeatedCommunity, &mut own);
    let peers = once_each(&spec.peers, "peers", BgpAdvertisementProblem::RepeatedPeer, &mut own);
    let selects_services = !spec.service_selectors.is_empty();
    let mut length = |family, field: &str, length: i64, bits: u8| {
        let path = || format!("spec.{field}");
        if selects_services && length != i64::from(bits) {
            own.push((path(), BgpAdvertisementProblem::AggregateOfSelected(family)));
        }
        let read = u8::try_from(length).ok().filter(|it| *it <= bits);
        if read.is_none() {
            own.push((path(), BgpAdvertisementProblem::AggregationLength { family, length }));
        }
        read.unwrap_or(bits)
    };
    let aggregation_length = length(Family::V4, "aggregationLength", spec.aggregation_length, 32);
    let aggregation_length_v6 = length(Family::V6, "aggregationLengthV6", spec.aggregation_length_v6, 128);
    let preference = spec.local_pref.unwrap_or_default();
    let local_preference = u32::try_from(preference).unwrap_or_else(|_| {
        own.push(("spec.localPref".to_owned(), BgpAdvertisementProblem::LocalPreference(preference)));
        0
    });
    let parsed = Parsed {
        selection,
        peers: (!peers.is_empty()).then(|| peers.into_iter().map(|(_, peer)| peer).collect()),
        services,
        aggregation_length,
        aggregation_length_v6,
        local_preference,
        communities,
    };
    (parsed, common, own)
}

/// The texts of a list with their paths, without repetitions, which are reported.
fn once_each(
    texts: &[String],
    field: &str,
    repeated: fn(String) -> BgpAdvertisementProblem,
    findings: &mut Own,
) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let path = format!("spec.{field}[{index}]");
        if seen.insert(text) {
            kept.push((path, text.clone()));
        } else {
            findings.push((path, repeated(text.clone())));
        }
    }
    kept
}

impl Parsed {
    /// The advertisement for these pools and nodes, with the communities that can be read: an alias counts
    /// before its text does. The others are reported.
    pub(super) fn resolve(
        &self,
        name: &str,
        (pools, nodes): (Names, Names),
        aliases: &Aliases,
        findings: &mut Own,
    ) -> BgpAdvertisement {
        let mut communities = BTreeSet::new();
        let mut large_communities = BTreeSet::new();
        for (path, text) in &self.communities {
            let read = aliases.get(text).map_or_else(|| text.parse(), |community| Ok(*community));
            match read {
                Ok(AnyCommunity::Standard(community)) => drop(communities.insert(community)),
                Ok(AnyCommunity::Large(community)) => drop(large_communities.insert(community)),
                Err(error) => {
                    let problem = match text.contains(':') {
                        true => BgpAdvertisementProblem::Community { community: text.clone(), error },
                        false => BgpAdvertisementProblem::UnknownAlias(text.clone()),
                    };
                    findings.push((path.clone(), problem));
                }
            }
        }
        BgpAdvertisement {
            name: name.to_owned(),
            pools,
            nodes,
            peers: self.peers.clone(),
            services: self.services.clone(),
            aggregation_length: self.aggregation_length,
            aggregation_length_v6: self.aggregation_length_v6,
            local_preference: self.local_preference,
            communities,
            large_communities,
        }
    }
}
