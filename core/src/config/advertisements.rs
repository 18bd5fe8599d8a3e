//! L2 advertisements: which pools are answered for, by which nodes, on which interfaces.
//!
//! They are kept as a flat list by name. Those that match a Service are only ever combined (nodes and
//! interfaces by union, scores by sum), so equal ones need not be de-duplicated, and one that selects
//! a pool both by name and by label counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_api::v1beta1 as api;
use ferrolb_api::well_known::annotation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::diagnostic::{AdvertisementProblem, SelectorField};
use super::lookup::{Lookup, Named, Names};
use super::selectors::{Finding, parse_list};
use crate::node::Node;
use crate::selector::{LabelSet, Selector, any_matches};

/// An L2 advertisement in force, resolved against pools and nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L2Advertisement {
    /// Its name.
    pub name: String,
    /// Names of the pools it announces, also of pools that are left out.
    pub pools: Arc<BTreeSet<String>>,
    /// Nodes that may announce.
    pub nodes: Arc<BTreeSet<String>>,
    /// Where they announce.
    pub interfaces: Interfaces,
    /// Services it is for, by label; alternatives. Empty: all.
    pub services: Vec<Selector>,
    /// Preference score of nodes, of those that may announce and have one.
    pub scores: BTreeMap<String, u64>,
    /// Whether the node that ranks best takes an address over from a living owner.
    pub preempt: bool,
}

impl L2Advertisement {
    /// Whether it is for a Service with these labels (nodes are another question).
    pub fn selects_service(&self, labels: &impl LabelSet) -> bool {
        self.services.is_empty() || any_matches(&self.services, labels)
    }
}

/// A set of network interfaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interfaces {
    /// Every interface of the node.
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
}

impl Interfaces {
    /// No interface: where a union starts.
    pub fn none() -> Self {
        Self::Named(BTreeSet::new())
    }

    /// Both together.
    #[must_use]
    pub fn union(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Named(mut names), Self::Named(more)) => {
                names.extend(more.iter().cloned());
                Self::Named(names)
            }
            _ => Self::All,
        }
    }

    /// Whether an interface is in the set.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }
}

/// What an advertisement of either kind says about pools and nodes, before they are known.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    names: Names,
    pools: Vec<Selector>,
    nodes: Vec<Selector>,
    /// A list that cannot be read altogether selects nothing for certain.
    unreadable: bool,
}

impl Selection {
    /// Reads the lists; what is wrong with them is reported.
    pub(super) fn parse(
        names: &[String],
        pools: &[LabelSelector],
        nodes: &[LabelSelector],
        findings: &mut Vec<Finding<AdvertisementProblem>>,
    ) -> Self {
        let mut seen = BTreeSet::new();
        for (index, pool) in names.iter().enumerate() {
            if !seen.insert(pool.clone()) {
                let problem = AdvertisementProblem::RepeatedPool(pool.clone());
                findings.push((format!("spec.ipAddressPools[{index}]"), problem));
            }
        }
        let pool_selectors = parse_list(pools, "spec", SelectorField::Pools, findings);
        let node_selectors = parse_list(nodes, "spec", SelectorField::Nodes, findings);
        let unreadable = pool_selectors.len() < pools.len() || node_selectors.len() < nodes.len();
        Self { names: Arc::new(seen), pools: pool_selectors, nodes: node_selectors, unreadable }
    }

    /// The pools that are selected; names of pools that do not exist are reported.
    pub(super) fn pools(
        &self,
        lookup: &mut Lookup,
        findings: &mut Vec<Finding<AdvertisementProblem>>,
    ) -> Names {
        if self.names.is_empty() && self.pools.is_empty() {
            return lookup.all();
        }
        let Named { found, unknown } = lookup.named(&self.names);
        findings.extend(
            unknown.iter().map(|name| {
                ("spec.ipAddressPools".to_owned(), AdvertisementProblem::UnknownPool(name.clone()))
            }),
        );
        if self.pools.is_empty() {
            return found;
        }
        let by_label = lookup.selected(&self.pools);
        if self.names.is_empty() {
            if by_label.is_empty() && !self.unreadable {
                findings.push(("spec.ipAddressPoolSelectors".to_owned(), AdvertisementProblem::NoPool));
            }
            return by_label;
        }
        Arc::new(found.union(&by_label).cloned().collect())
    }

    /// The nodes that are selected.
    pub(super) fn nodes(
        &self,
        lookup: &mut Lookup,
        findings: &mut Vec<Finding<AdvertisementProblem>>,
    ) -> Names {
        let nodes = lookup.selected_or_all(&self.nodes);
        if nodes.is_empty() && !lookup.is_empty() && !self.unreadable {
            findings.push(("spec.nodeSelectors".to_owned(), AdvertisementProblem::NoNode));
        }
        nodes
    }

    /// Whether it is for some nodes only, as far as it can be read.
    pub(super) fn is_for_some_nodes(&self) -> bool {
        !self.nodes.is_empty() && !self.unreadable
    }
}

/// What an L2 advertisement is by itself, and what is wrong with it in itself.
pub(super) type Reading = (Parsed, Vec<Finding<AdvertisementProblem>>);

/// An L2 advertisement as far as it can be read without any other object.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) selection: Selection,
    interfaces: Interfaces,
    services: Vec<Selector>,
    preferences: Vec<(u64, Selector)>,
    preempt: bool,
}

/// Reads an L2 advertisement.
pub(super) fn parse(advertisement: &api::L2Advertisement) -> Reading {
    let spec = &advertisement.spec;
    let mut findings = Vec::new();
    let selection = Selection::parse(
        &spec.ip_address_pools,
        &spec.ip_address_pool_selectors,
        &spec.node_selectors,
        &mut findings,
    );
    let mut services = parse_list(&spec.service_selectors, "spec", SelectorField::Services, &mut findings);
    services.sort();
    let mut preferences = Vec::new();
    for (index, preferred) in spec.preferred_node_selectors.iter().enumerate() {
        match Selector::parse(&preferred.preference) {
            // The schema says 1 to 100; what got past it counts for nothing.
            Ok(selector) => preferences.push((u64::try_from(preferred.weight).unwrap_or_default(), selector)),
            Err(error) => {
                let path = format!("spec.{}[{index}].preference", SelectorField::PreferredNodes.name());
                let (field, selector) = (SelectorField::PreferredNodes, preferred.preference.clone());
                findings.push((path, AdvertisementProblem::InvalidSelector { field, selector, error }));
            }
        }
    }
    let interfaces = if spec.interfaces.is_empty() {
        Interfaces::All
    } else {
        Interfaces::Named(spec.interfaces.iter().cloned().collect())
    };
    let annotations = advertisement.metadata.annotations.as_ref();
    let preempt = annotations.and_then(|it| it.get(annotation::PREEMPT)).is_some_and(|value| value == "true");
    (Parsed { selection, interfaces, services, preferences, preempt }, findings)
}

impl Parsed {
    /// The advertisement for these pools and nodes.
    pub(super) fn resolve(
        &self,
        name: &str,
        pools: Names,
        nodes: Names,
        all_nodes: &BTreeMap<String, Node>,
    ) -> L2Advertisement {
        let mut scores = BTreeMap::new();
        for (weight, selector) in &self.preferences {
            let labelled = nodes.iter().filter_map(|node| Some((node, &all_nodes.get(node)?.labels)));
            for (node, _) in labelled.filter(|(_, labels)| selector.matches(labels)) {
                *scores.entry(node.clone()).or_default() += weight;
            }
        }
        L2Advertisement {
            name: name.to_owned(),
            pools,
            nodes,
            interfaces: self.interfaces.clone(),
            services: self.services.clone(),
            scores,
            preempt: self.preempt,
        }
    }
}
