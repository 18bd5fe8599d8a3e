//! L2 advertisements: which pools are answered for, by which nodes, on which interfaces.
//!
//! They are kept as a flat list by name. Those that match a Service are only ever combined (nodes and
//! interfaces by union, scores by sum), so equal ones need not be de-duplicated, and one that selects
//! a pool both by name and by label counts once.

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_api::v1beta1 as api;
use ferrolb_api::well_known::annotation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::diagnostic::{AdvertisementProblem, SelectorField};
use super::selectors::{Finding, SelectorProblem, parse_list};
use crate::node::Node;
use crate::selector::{Labels, Repeated, Selector, SelectorError, any_matches};

/// An L2 advertisement in force, resolved against pools and nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L2Advertisement {
    /// Its name.
    pub name: String,
    /// Names of the pools it announces, also of pools that are left out.
    pub pools: BTreeSet<String>,
    /// Nodes that may announce.
    pub nodes: BTreeSet<String>,
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
    pub fn selects_service(&self, labels: &Labels) -> bool {
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

/// What the advertisement says about pools, before pools are known.
pub(super) struct PoolSelection {
    names: BTreeSet<String>,
    selectors: Vec<Selector>,
}

impl PoolSelection {
    pub(super) fn resolve<'a>(&self, pools: impl Iterator<Item = (&'a str, &'a Labels)>) -> BTreeSet<String> {
        let all = self.names.is_empty() && self.selectors.is_empty();
        pools
            .filter(|(name, labels)| {
                all || self.names.contains(*name) || any_matches(&self.selectors, labels)
            })
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }
}

/// The advertisement as far as it can be read (without its pools), and everything that is wrong with
/// it in itself.
pub(super) fn parse(
    advertisement: &api::L2Advertisement,
    nodes: &BTreeMap<String, Node>,
) -> (L2Advertisement, PoolSelection, Vec<Finding<AdvertisementProblem>>) {
    let spec = &advertisement.spec;
    let mut findings = Vec::new();
    let mut names = BTreeSet::new();
    for (index, pool) in spec.ip_address_pools.iter().enumerate() {
        if !names.insert(pool.clone()) {
            let problem = AdvertisementProblem::RepeatedPool(pool.clone());
            findings.push((format!("spec.ipAddressPools[{index}]"), problem));
        }
    }
    let pool_selectors = selectors(&spec.ip_address_pool_selectors, SelectorField::Pools, &mut findings);
    let node_selectors = selectors(&spec.node_selectors, SelectorField::Nodes, &mut findings);
    let services = selectors(&spec.service_selectors, SelectorField::Services, &mut findings);
    let nodes: BTreeMap<&String, &Node> = nodes
        .iter()
        .filter(|(_, node)| spec.node_selectors.is_empty() || any_matches(&node_selectors, &node.labels))
        .collect();
    let mut scores = BTreeMap::new();
    for (index, preferred) in spec.preferred_node_selectors.iter().enumerate() {
        let path = || format!("spec.{}[{index}].preference", SelectorField::PreferredNodes.name());
        match Selector::parse(&preferred.preference) {
            Ok(selector) => {
                // The schema says 1 to 100; what got past it counts for nothing.
                let weight = u64::try_from(preferred.weight).unwrap_or_default();
                for (name, _) in nodes.iter().filter(|(_, node)| selector.matches(&node.labels)) {
                    *scores.entry((*name).clone()).or_default() += weight;
                }
            }
            Err(error) => {
                let (field, selector) = (SelectorField::PreferredNodes, preferred.preference.clone());
                findings.push((path(), AdvertisementProblem::InvalidSelector { field, selector, error }));
            }
        }
    }
    let annotations = advertisement.metadata.annotations.as_ref();
    let parsed = L2Advertisement {
        name: advertisement.metadata.name.clone().unwrap_or_default(),
        pools: BTreeSet::new(),
        nodes: nodes.into_keys().cloned().collect(),
        interfaces: if spec.interfaces.is_empty() {
            Interfaces::All
        } else {
            Interfaces::Named(spec.interfaces.iter().cloned().collect())
        },
        services,
        scores,
        preempt: annotations.and_then(|it| it.get(annotation::PREEMPT)).is_some_and(|value| value == "true"),
    };
    (parsed, PoolSelection { names, selectors: pool_selectors }, findings)
}

fn selectors(
    selectors: &[LabelSelector],
    field: SelectorField,
    findings: &mut Vec<Finding<AdvertisementProblem>>,
) -> Vec<Selector> {
    let mut parsed = parse_list(selectors, "spec", field, findings);
    parsed.sort();
    parsed
}

impl SelectorProblem for AdvertisementProblem {
    fn repeated(repeated: Repeated) -> Self {
        Self::Repeated(repeated)
    }

    fn invalid(field: SelectorField, selector: LabelSelector, error: SelectorError) -> Self {
        Self::InvalidSelector { field, selector, error }
    }
}
