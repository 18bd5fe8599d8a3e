//! `plan_service`: who announces what, seen from every node.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bgp;
mod cases;
mod laws;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrolb_api::v1beta1::{L2Advertisement, L2AdvertisementSpec, PreferredNode};
use ferrolb_core::config::{Config, Interfaces, compile};
use ferrolb_core::node::Node;
use ferrolb_core::planner::{
    Event, LinkClaims, Member, PlanInput, Protocol, Routes, Seen, ServicePlan, Wire, Withheld, claims,
    doubled, elect, plan_service, routes,
};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_core::status::service_l2_status;
use ferrolb_core::testing::{
    ServiceBuilder, endpoint, l2_advertisement, labels, match_labels, node, pool, service,
};
use proptest::prelude::*;

/// A cluster as every speaker sees it.
struct World {
    resources: Resources,
    members: BTreeSet<String>,
    interfaces: BTreeSet<String>,
    ignore_exclude_label: bool,
    withdraw_on_cordon: bool,
    services: Vec<LoadBalancer>,
}

impl World {
    fn new(nodes: &[&str]) -> Self {
        Self {
            resources: Resources::default()
                .with_pools([pool("default", &["10.20.30.0/24", "fd00::/120"])])
                .with_nodes(nodes.iter().map(|name| node(name, &[("name", name)]))),
            members: nodes.iter().map(|name| (*name).to_owned()).collect(),
            interfaces: ["eth0", "eth1"].map(str::to_owned).into(),
            ignore_exclude_label: false,
            withdraw_on_cordon: false,
            services: Vec::new(),
        }
    }

    fn ads(mut self, ads: impl IntoIterator<Item = L2Advertisement>) -> Self {
        self.resources = self.resources.with_l2_advertisements(ads);
        self
    }

    fn everywhere(self) -> Self {
        self.ads([ad("all", |_| ())])
    }

    fn label(mut self, name: &str, pairs: &[(&str, &str)]) -> Self {
        self.resources.nodes.get_mut(name).unwrap().labels.extend(labels(pairs));
        self
    }

    fn excluded(self, name: &str) -> Self {
        self.label(name, &[("node.kubernetes.io/exclude-from-external-load-balancers", "")])
    }

    fn service(mut self, service: ServiceBuilder) -> Self {
        self.services.push(service.lb());
        self
    }

    fn config(&self) -> Config {
        compile(&self.resources).config
    }

    fn with_input<T>(&self, this_node: &str, make: impl FnOnce(&PlanInput<'_>) -> T) -> T {
        let config = self.config();
        let member =
            |node: &String| (node.clone(), Member { alive: true, interfaces: Some(self.interfaces.clone()) });
        make(&PlanInput {
            config: &config,
            doubled: &doubled(&self.services),
            nodes: &self.resources.nodes,
            members: &self.members.iter().map(member).collect(),
            this_node,
            ignore_exclude_label: self.ignore_exclude_label,
            withdraw_on_cordon: self.withdraw_on_cordon,
        })
    }

    /// What a node's links are told while nobody owns anything.
    fn claims(&self, this_node: &str) -> LinkClaims {
        self.with_input(this_node, |input| claims(input, &elect(input, &self.services), &Wire::new()))
    }

    /// The wire as a node sees it once the best have claimed what is free.
    fn wire(&self, this_node: &str) -> Wire {
        let mut wire = Wire::new();
        for node in &self.members {
            for (address, claim) in self.claims(node) {
                if claim.claim.turn == Some(0) {
                    let seen =
                        if node == this_node { Seen::Here } else { Seen::Elsewhere(Some(node.clone())) };
                    assert!(wire.insert(address, seen).is_none(), "{address}: the turn of two nodes");
                }
            }
        }
        wire
    }

    fn plans(&self, this_node: &str) -> BTreeMap<ServiceKey, ServicePlan> {
        let wire = self.wire(this_node);
        self.with_input(this_node, |input| {
            let elections = elect(input, &self.services);
            let plan = |it: &LoadBalancer| ((*it.key).clone(), plan_service(input, &elections, &wire, it));
            self.services.iter().map(plan).collect()
        })
    }

    fn routes(&self, this_node: &str) -> Routes {
        routes(self.plans(this_node).values())
    }

    /// What a node announces on layer 2, and where.
    fn announced(&self, this_node: &str) -> BTreeMap<IpAddr, Interfaces> {
        let mut announced = BTreeMap::new();
        for plan in self.plans(this_node).values() {
            announced.extend(plan.announced().map(|(address, interfaces)| (address, interfaces.clone())));
        }
        announced
    }

    /// For each Service, in order: "" if this node announces all its addresses, else the reason.
    fn reasons(&self, this_node: &str) -> String {
        let plans = self.plans(this_node);
        let reason =
            |it: &LoadBalancer| plans[&*it.key].withheld().map_or("", |it| it.reason(Protocol::Layer2));
        self.services.iter().map(reason).collect::<Vec<_>>().join(",")
    }

    /// Nodes that announce something.
    fn announcers(&self) -> String {
        let nodes = self.members.iter().filter(|node| !self.announced(node).is_empty());
        nodes.cloned().collect::<Vec<_>>().join(" ")
    }
}

fn ad(name: &str, change: impl FnOnce(&mut L2AdvertisementSpec)) -> L2Advertisement {
    let mut spec = L2AdvertisementSpec::default();
    change(&mut spec);
    l2_advertisement(name, spec)
}

fn ad_on(name: &str, node: &str) -> L2Advertisement {
    ad(name, |it| it.node_selectors = vec![match_labels(&[("name", node)])])
}

fn ad_for(name: &str, apps: &[&str]) -> L2Advertisement {
    ad(name, |it| it.service_selectors = apps.iter().map(|app| match_labels(&[("app", app)])).collect())
}

/// A Service that holds 10.20.30.`last`.
fn holding(last: u8) -> ServiceBuilder {
    service("ns", &format!("s{last}")).holding(&[&format!("10.20.30.{last}")])
}

fn two() -> World {
    World::new(&["iris1", "iris2"])
}

#[track_caller]
fn expect(world: &World, iris1: &str, iris2: &str) {
    assert_eq!((world.reasons("iris1").as_str(), world.reasons("iris2").as_str()), (iris1, iris2));
}
