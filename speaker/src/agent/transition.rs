//! What changed between two plans, for logs and metrics.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_core::planner::{Protocol, ServicePlan, Withheld};
use ferrolb_core::service::ServiceKey;

use super::scope::differing;
use super::view::ServicePlans;

/// Something that people look for in logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// These addresses are announced from now on.
    Announced {
        /// Of which Service.
        service: ServiceKey,
        /// From which pool.
        pool: String,
        /// The addresses.
        addresses: BTreeSet<IpAddr>,
    },
    /// These are not announced any more.
    Withdrawn {
        /// Of which Service.
        service: ServiceKey,
        /// From which pool.
        pool: String,
        /// The addresses.
        addresses: BTreeSet<IpAddr>,
        /// Why.
        reason: Withheld,
    },
}

impl Transition {
    /// The Service concerned.
    pub fn service(&self) -> &ServiceKey {
        match self {
            Self::Announced { service, .. } | Self::Withdrawn { service, .. } => service,
        }
    }

    /// The addresses concerned.
    pub fn addresses(&self) -> &BTreeSet<IpAddr> {
        match self {
            Self::Announced { addresses, .. } | Self::Withdrawn { addresses, .. } => addresses,
        }
    }
}

/// Compares what plans announce by a protocol; withdrawals come first, as they happen.
pub fn transitions(before: &ServicePlans, now: &ServicePlans, protocol: Protocol) -> Vec<Transition> {
    let (mut withdrawn, mut announced) = (Vec::new(), Vec::new());
    for service in differing(before, now, Arc::ptr_eq) {
        let (before, now) = (before.get(service), now.get(service));
        let addresses = |plan: Option<&Arc<ServicePlan>>| {
            plan.map(|plan| plan.announced_by(protocol)).unwrap_or_default()
        };
        let pool = |plan: Option<&Arc<ServicePlan>>| plan.and_then(|it| it.pool.clone()).unwrap_or_default();
        let (had, has) = (addresses(before), addresses(now));
        let mut lost: Vec<(Withheld, BTreeSet<IpAddr>)> = Vec::new();
        for address in had.difference(&has) {
            let reason = reason(now.map(Arc::as_ref), protocol, *address);
            match lost.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, addresses)) => drop(addresses.insert(*address)),
                None => lost.push((reason, BTreeSet::from([*address]))),
            }
        }
        withdrawn.extend(lost.into_iter().map(|(reason, addresses)| Transition::Withdrawn {
            service: service.clone(),
            pool: pool(before),
            addresses,
            reason,
        }));
        let gained: BTreeSet<IpAddr> = has.difference(&had).copied().collect();
        if !gained.is_empty() {
            announced.push(Transition::Announced {
                service: service.clone(),
                pool: pool(now),
                addresses: gained,
            });
        }
    }
    withdrawn.append(&mut announced);
    withdrawn
}

fn reason(plan: Option<&ServicePlan>, protocol: Protocol, address: IpAddr) -> Withheld {
    match plan {
        None => Withheld::ServiceDeleted,
        // An address that the plan says nothing of is not the Service's any more.
        Some(plan) => plan.withheld_from(protocol, address).cloned().unwrap_or(Withheld::AddressesChanged),
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_core::config::Interfaces;
    use ferrolb_core::planner::{AddressPlan, Layer2Plan};

    use super::*;

    fn key() -> ServiceKey {
        ServiceKey { namespace: "default".to_owned(), name: "hello".to_owned() }
    }

    fn set(addresses: &str) -> BTreeSet<IpAddr> {
        addresses.split_whitespace().map(|ip| ip.parse().unwrap()).collect()
    }

    /// `plus` are announced, `minus` are lost to another node.
    fn plan(plus: &str, minus: &str) -> ServicePlan {
        let decide = |ip: IpAddr, decision| (ip, AddressPlan { decision });
        let here = set(plus).into_iter().map(|ip| decide(ip, Ok(Interfaces::All)));
        let elsewhere = set(minus)
            .into_iter()
            .map(|ip| decide(ip, Err(Withheld::NotElected { winner: Some("other".into()) })));
        let addresses = here.chain(elsewhere).collect();
        let pool = Some("pool".to_owned());
        let bgp = Err(Withheld::NodeNotSelected);
        ServicePlan { service: key(), pool, layer2: Ok(Layer2Plan { addresses }), bgp }
    }

    fn told(before: Option<ServicePlan>, now: Option<ServicePlan>) -> Vec<String> {
        let plans =
            |plan: Option<ServicePlan>| plan.into_iter().map(|plan| (key(), Arc::new(plan))).collect();
        let (before, now): (ServicePlans, ServicePlans) = (plans(before), plans(now));
        let list = |addresses: &BTreeSet<IpAddr>| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let protocol = Protocol::Layer2;
        transitions(&before, &now, protocol)
            .iter()
            .map(|transition| match transition {
                Transition::Announced { addresses, pool, .. } => format!("+{} {pool}", list(addresses)),
                Transition::Withdrawn { addresses, reason, .. } => {
                    format!("-{} {}", list(addresses), reason.reason(protocol))
                }
            })
            .collect()
    }

    #[test]
    fn each_change_is_told_once_with_its_reason() {
        let failed = |withheld: Withheld| {
            let bgp = Err(withheld.clone());
            ServicePlan { service: key(), pool: None, layer2: Err(withheld), bgp }
        };
        for (before, now, expected) in [
            (None, Some(plan("10.0.0.1", "")), vec!["+10.0.0.1 pool"]),
            (Some(plan("10.0.0.1", "")), Some(plan("10.0.0.1", "")), vec![]),
            (Some(plan("10.0.0.1", "")), None, vec!["-10.0.0.1 serviceDeleted"]),
            (Some(plan("10.0.0.1", "")), Some(plan("", "10.0.0.1")), vec!["-10.0.0.1 notOwner"]),
            (
                Some(plan("10.0.0.1", "")),
                Some(plan("10.0.0.2", "")),
                vec!["-10.0.0.1 loadBalancerIPChanged", "+10.0.0.2 pool"],
            ),
            (
                Some(plan("10.0.0.1 10.0.0.2 fd00::1", "")),
                Some(plan("fd00::1", "10.0.0.1")),
                vec!["-10.0.0.1 notOwner", "-10.0.0.2 loadBalancerIPChanged"],
            ),
            (Some(plan("10.0.0.1", "")), Some(failed(Withheld::NoIp)), vec!["-10.0.0.1 noIPAllocated"]),
            (None, Some(failed(Withheld::NoIp)), vec![]),
            (None, Some(plan("", "10.0.0.1")), vec![]),
        ] {
            assert_eq!(told(before.clone(), now.clone()), expected, "{before:?} -> {now:?}");
        }
    }
}
