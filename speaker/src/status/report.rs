//! What there is to say, made from a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::v1beta1::{ServiceBGPStatusStatus, ServiceL2StatusStatus};
use ferrolb_core::config::Diagnostic;
use ferrolb_core::planner::ownership::rank;
use ferrolb_core::planner::{Election, Event, Protocol, ServicePlan, Withheld, is_for_bgp};
use ferrolb_core::service::ServiceKey;
use ferrolb_core::status::{self, service_bgp_status, service_l2_status};

use crate::agent::view::{Plan, World};

/// What to say of the present plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What is wrong with the configuration.
    pub diagnostics: Vec<Diagnostic>,
    /// What is announced; nothing is known as long as nothing was planned.
    pub services: Option<ServiceReports>,
    /// Addresses that strangers have, as this node's links see it.
    pub conflicts: BTreeSet<IpAddr>,
    /// Nodes whose speakers look after their objects themselves.
    pub living: BTreeSet<String>,
}

/// What to say of Services. Of one that is the same as before nothing changed.
pub type ServiceReports = BTreeMap<ServiceKey, Arc<ServiceReport>>;

/// What to say of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceReport {
    /// Identity of the Service, for Events.
    pub uid: String,
    /// What is announced from here on layer 2, if anything.
    pub layer2: Option<ServiceL2StatusStatus>,
    /// To whom it is announced by BGP, if to anybody.
    pub bgp: Option<ServiceBGPStatusStatus>,
    /// What this node is to record, as long as it holds.
    pub events: BTreeSet<Event>,
}

impl Report {
    /// Of a plan and what it was made of. Of a Service whose plan was taken over from the one `before`, what was
    /// said is taken over too.
    pub fn new(
        plan: &Plan,
        diagnostics: &[Diagnostic],
        world: &World,
        before: Option<(&Plan, &Self)>,
    ) -> Self {
        let before = before.filter(|(before, _)| before.kernel == plan.kernel);
        let before = before.and_then(|(plan, said)| Some((plan, said.services.as_ref()?)));
        let said = |key: &ServiceKey, it: &Arc<ServicePlan>| {
            let (plan, said) = before?;
            plan.services.get(key).filter(|before| Arc::ptr_eq(before, it)).map(|_| said.get(key).cloned())
        };
        let services = plan.services.iter().filter_map(|(key, it)| {
            let report =
                said(key, it).unwrap_or_else(|| ServiceReport::new(key, it, plan, world).map(Arc::new))?;
            Some((key.clone(), report))
        });
        let living = world.members.iter().filter(|(_, member)| member.alive).map(|(node, _)| node.clone());
        Self {
            diagnostics: diagnostics.to_vec(),
            services: world.settled.then(|| services.collect()),
            conflicts: status::conflicts(&plan.wire),
            living: living.collect(),
        }
    }
}

impl ServiceReport {
    /// Of a Service of a plan; none where there is nothing to say.
    fn new(key: &ServiceKey, planned: &ServicePlan, plan: &Plan, world: &World) -> Option<Self> {
        let layer2 = service_l2_status(planned, &world.this_node);
        let bgp = service_bgp_status(planned, &world.this_node);
        let events = events(planned, plan, world);
        let anything = layer2.is_some() || bgp.is_some() || !events.is_empty();
        let uid = || world.services.get(key).map(|service| service.uid.to_string()).unwrap_or_default();
        anything.then(|| Self { uid: uid(), layer2, bgp, events })
    }
}

/// What this node has to say of a Service. What concerns all nodes is said by one of them.
fn events(service: &ServicePlan, plan: &Plan, world: &World) -> BTreeSet<Event> {
    let node = || world.this_node.clone();
    let mut events = BTreeSet::new();
    for protocol in [Protocol::Layer2, Protocol::Bgp] {
        if !service.announced_by(protocol).is_empty() {
            events.insert(Event::NodeAssigned { node: node(), protocol });
        }
    }
    for (address, it) in service.layer2.iter().flat_map(|plan| &plan.addresses) {
        let election = plan.elections.get(address);
        if let Some(interface) = plan.kernel.get(address) {
            events.insert(Event::KernelAnswers {
                node: node(),
                address: *address,
                interface: interface.clone(),
            });
        }
        let speaks = |of: &mut dyn Iterator<Item = &String>| {
            let living = of.filter(|node| world.members.get(*node).is_some_and(|it| it.alive));
            rank(*address, living.map(|node| (node.as_str(), 0))).first().map(|(node, _)| *node)
                == Some(world.this_node.as_str())
        };
        if let Err(Withheld::AddressConflict { mac }) = &it.decision
            && election.is_some_and(|it| speaks(&mut it.candidates.iter().map(|(node, _)| node)))
        {
            events.insert(Event::AddressConflict { address: *address, mac: *mac });
        }
        let Some(Election { withheld, candidates, .. }) = election.map(Arc::as_ref) else { continue };
        if !candidates.is_empty() {
            continue;
        }
        let without = |it: &(&String, &Withheld)| matches!(it.1, Withheld::NoInterface { .. });
        let lacking: Vec<&String> = withheld.iter().filter(without).map(|(node, _)| node).collect();
        if speaks(&mut lacking.iter().copied()) {
            events.insert(Event::AnnounceFailed { node: node(), address: *address });
        } else if lacking.is_empty()
            && !is_left_to_bgp(withheld, &service.service, *address, world)
            && speaks(&mut world.members.keys())
        {
            events.insert(Event::NoEligibleNodes { address: *address, withheld: withheld.clone() });
        }
    }
    events
}

/// Whether nobody asked for layer 2, but somebody did for BGP: there is no node then that should be able.
fn is_left_to_bgp(
    withheld: &BTreeMap<String, Withheld>,
    service: &ServiceKey,
    address: IpAddr,
    world: &World,
) -> bool {
    withheld.values().all(|why| *why == Withheld::NoMatchingAdvertisement)
        && world.services.get(service).is_some_and(|it| is_for_bgp(&world.compiled.config, it, address))
}

#[cfg(test)]
mod tests {
    use ferrolb_api::v1beta1::{BGPAdvertisementSpec, L2AdvertisementSpec};
    use ferrolb_core::resources::Resources;
    use ferrolb_core::testing::{
        bgp_advertisement, bgp_peer, l2_advertisement, match_labels, node, pool, service,
    };

    use super::*;
    use crate::agent::testing::world;
    use crate::agent::view::plan;

    /// With an advertisement for BGP alone no node has to be able on layer 2.
    #[test]
    fn a_warning_that_nobody_can_announce_is_for_what_somebody_is_to_announce() {
        let nowhere = || vec![match_labels(&[("rack", "none")])];
        let l2 = || {
            l2_advertisement("l2", L2AdvertisementSpec { node_selectors: nowhere(), ..Default::default() })
        };
        let bgp = |spec| bgp_advertisement("bgp", spec);
        let elsewhere = BGPAdvertisementSpec { node_selectors: nowhere(), ..Default::default() };
        let other = BGPAdvertisementSpec { ip_address_pools: vec!["other".to_owned()], ..Default::default() };
        for (l2, bgp, told) in [
            (None, None, true),
            (Some(l2()), None, true),
            (None, Some(bgp(BGPAdvertisementSpec::default())), false),
            (Some(l2()), Some(bgp(BGPAdvertisementSpec::default())), false),
            (None, Some(bgp(elsewhere)), false),
            (None, Some(bgp(other)), true),
        ] {
            let resources = Resources::default()
                .with_pools([pool("pool", &["10.0.0.0/24"]), pool("other", &["10.0.1.0/24"])])
                .with_l2_advertisements(l2)
                .with_bgp_advertisements(bgp)
                .with_bgp_peers([bgp_peer("router", "10.9.0.1")])
                .with_nodes([node("a", &[])]);
            let service = service("demo", "hello").holding(&["10.0.0.1"]).ready_on(&["a"]).lb();
            let world = world(&resources, [(ServiceKey::clone(&service.key), Arc::new(service))].into());
            let report = Report::new(&plan(&world, None, &Plan::default()), &[], &world, None);
            let events = report.services.iter().flatten().flat_map(|(_, it)| &it.events);
            let warned = events.filter(|it| it.is_warning()).count();
            assert_eq!(warned, usize::from(told), "{:?}", resources.bgp_advertisements);
        }
    }
}
