//! What changed between two passes, told to people: log lines that they grep for, Events, and the gauge
//! of announced addresses. The difference is a pure function of the plans before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::well_known::reporter;
use ferrolb_core::planner::{Event, LAYER2, ServicePlan, Withheld};
use ferrolb_core::service::ServiceKey;
use ferrolb_runtime::event::{EventQueue, EventType, reference};
use ferrolb_runtime::log::list;
use k8s_openapi::api::core::v1::Service;
use kube::Client;

use crate::metrics::Metrics;

type Plans = BTreeMap<ServiceKey, ServicePlan>;

/// One thing that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Transition<'a> {
    /// This node began to announce.
    Announced { service: &'a ServiceKey, pool: &'a str, addresses: BTreeSet<IpAddr>, first: bool },
    /// It stopped.
    Withdrawn { service: &'a ServiceKey, pool: &'a str, addresses: BTreeSet<IpAddr>, reason: Withheld },
    /// It owns an address and has none of the interfaces to announce it on.
    Failed { service: &'a ServiceKey, address: IpAddr },
}

/// Tells what changed.
pub(crate) struct Reporter {
    node: String,
    queue: EventQueue,
    metrics: Metrics,
}

impl Reporter {
    pub(crate) fn new(client: Client, node: &str, metrics: Metrics) -> Self {
        let queue = EventQueue::start(client, reporter::SPEAKER, node);
        Self { node: node.to_owned(), queue, metrics }
    }

    /// Tells the difference between two passes.
    pub(crate) fn tell(
        &self,
        before: &Plans,
        after: &Plans,
        object: impl Fn(&ServiceKey) -> Option<Arc<Service>>,
    ) {
        for transition in transitions(before, after) {
            self.log(&transition);
            let (service, event) = match transition {
                Transition::Announced { service, first: true, .. } => {
                    (service, Event::NodeAssigned { node: self.node.clone(), protocol: LAYER2 })
                }
                Transition::Failed { service, address } => {
                    (service, Event::AnnounceFailed { node: self.node.clone(), address })
                }
                Transition::Announced { .. } | Transition::Withdrawn { .. } => continue,
            };
            if let Some(object) = object(service) {
                let type_ = if event.is_warning() { EventType::Warning } else { EventType::Normal };
                self.queue.send(reference(&*object), type_, event.reason(), event.to_string());
            }
        }
    }

    fn log(&self, transition: &Transition<'_>) {
        match transition {
            Transition::Announced { service, pool, addresses, .. } => {
                self.count(service, addresses, true);
                tracing::info!(
                    event = "serviceAnnounced",
                    %service,
                    ips = list(addresses),
                    pool,
                    protocol = LAYER2,
                    "service has IP, announcing"
                );
            }
            Transition::Withdrawn { service, pool, addresses, reason } => {
                self.count(service, addresses, false);
                tracing::info!(
                    event = "serviceWithdrawn",
                    %service,
                    ip = list(addresses),
                    ips = list(addresses),
                    pool,
                    protocol = LAYER2,
                    reason = reason.reason(),
                    detail = %reason,
                    "withdrawing service announcement"
                );
            }
            Transition::Failed { service, address } => tracing::warn!(
                op = "SetBalancer",
                %service,
                ip = %address,
                protocol = LAYER2,
                "the node has none of the interfaces that the address is to be announced on"
            ),
        }
    }

    fn count(&self, service: &ServiceKey, addresses: &BTreeSet<IpAddr>, announced: bool) {
        for address in addresses {
            self.metrics.set_announced(&service.to_string(), &self.node, *address, announced);
        }
    }
}

fn transitions<'a>(before: &'a Plans, after: &'a Plans) -> Vec<Transition<'a>> {
    let services: BTreeSet<&ServiceKey> = before.keys().chain(after.keys()).collect();
    let mut transitions = Vec::new();
    for service in services {
        let (old, new) = (before.get(service), after.get(service));
        let (was, is) = (announced(old), announced(new));
        let pool = |plan: Option<&'a ServicePlan>| plan.and_then(|it| it.pool.as_deref()).unwrap_or_default();
        let mut lost: BTreeMap<&'static str, (BTreeSet<IpAddr>, Withheld)> = BTreeMap::new();
        for address in was.difference(&is) {
            let reason = reason(new, *address);
            lost.entry(reason.reason()).or_insert_with(|| (BTreeSet::new(), reason)).0.insert(*address);
        }
        transitions.extend(lost.into_values().map(|(addresses, reason)| Transition::Withdrawn {
            service,
            pool: pool(old),
            addresses,
            reason,
        }));
        let gained: BTreeSet<IpAddr> = is.difference(&was).copied().collect();
        if !gained.is_empty() {
            let first = was.is_empty();
            transitions.push(Transition::Announced { service, pool: pool(new), addresses: gained, first });
        }
        let failed = failed(new).difference(&failed(old)).copied().collect::<Vec<_>>();
        transitions.extend(failed.into_iter().map(|address| Transition::Failed { service, address }));
    }
    transitions
}

fn announced(plan: Option<&ServicePlan>) -> BTreeSet<IpAddr> {
    plan.into_iter().flat_map(|plan| plan.announced()).map(|(address, _)| address).collect()
}

/// Addresses that this node owns without an interface for them.
fn failed(plan: Option<&ServicePlan>) -> BTreeSet<IpAddr> {
    let layer2 = plan.and_then(|plan| plan.layer2.as_ref().ok());
    let addresses = layer2.into_iter().flat_map(|layer2| &layer2.addresses);
    addresses
        .filter(|(_, plan)| matches!(plan.decision, Err(Withheld::NoInterface { .. })))
        .map(|(address, _)| *address)
        .collect()
}

/// Why an address is not announced any more.
fn reason(plan: Option<&ServicePlan>, address: IpAddr) -> Withheld {
    match plan.map(|plan| &plan.layer2) {
        None => Withheld::ServiceDeleted,
        Some(Err(withheld)) => withheld.clone(),
        Some(Ok(layer2)) => layer2
            .addresses
            .get(&address)
            .and_then(|plan| plan.decision.as_ref().err().cloned())
            .unwrap_or(Withheld::AddressesChanged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::config::Interfaces;
    use ferrolb_core::planner::{AddressPlan, Layer2Plan};

    fn key() -> ServiceKey {
        ServiceKey { namespace: "demo".into(), name: "hello".into() }
    }

    fn plans(addresses: &[(&str, Result<Interfaces, Withheld>)]) -> Plans {
        let plan = |decision: &Result<Interfaces, Withheld>| AddressPlan { owner: None, decision: decision.clone() };
        let addresses =
            addresses.iter().map(|(address, decision)| (address.parse().unwrap(), plan(decision))).collect();
        let plan = ServicePlan {
            service: key(),
            pool: Some("default".into()),
            layer2: Ok(Layer2Plan { addresses }),
        };
        [(key(), plan)].into()
    }

    fn told(before: &Plans, after: &Plans) -> Vec<String> {
        transitions(before, after)
            .into_iter()
            .map(|it| match it {
                Transition::Announced { addresses, first, .. } => format!("announced {addresses:?} {first}"),
                Transition::Withdrawn { addresses, reason, .. } => {
                    format!("withdrawn {addresses:?} {}", reason.reason())
                }
                Transition::Failed { address, .. } => format!("failed {address}"),
            })
            .collect()
    }

    #[test]
    fn only_transitions_are_told_each_with_its_reason() {
        let (none, here) = (Plans::new(), plans(&[("192.0.2.1", Ok(Interfaces::All))]));
        let elsewhere = plans(&[("192.0.2.1", Err(Withheld::NotElected { winner: Some("b".into()) }))]);
        let other = plans(&[("192.0.2.2", Ok(Interfaces::All))]);
        let nowhere = plans(&[("192.0.2.1", Err(Withheld::NoInterface { wanted: BTreeSet::new() }))]);
        assert_eq!(told(&none, &here), ["announced {192.0.2.1} true"]);
        assert!(told(&here, &here).is_empty());
        assert_eq!(told(&here, &elsewhere), ["withdrawn {192.0.2.1} notOwner"]);
        assert_eq!(told(&here, &none), ["withdrawn {192.0.2.1} serviceDeleted"]);
        assert_eq!(
            told(&here, &other),
            ["withdrawn {192.0.2.1} loadBalancerIPChanged", "announced {192.0.2.2} false"]
        );
        assert_eq!(told(&elsewhere, &nowhere), ["failed 192.0.2.1"]);
        assert!(told(&nowhere, &nowhere).is_empty());
    }
}
