//! What changed between two plans, for logs and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrolb_core::planner::{Protocol, ServicePlan, Withheld};
use ferrolb_core::service::ServiceKey;

/// What is announced from here: the addresses of each Service, and their pool.
pub type Announced = BTreeMap<ServiceKey, (BTreeSet<IpAddr>, String)>;

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

/// What the plans announce by a protocol.
pub fn announced(plans: &BTreeMap<ServiceKey, ServicePlan>, protocol: Protocol) -> Announced {
    let announced = plans.iter().map(|(key, plan)| {
        (key.clone(), (plan.announced_by(protocol), plan.pool.clone().unwrap_or_default()))
    });
    announced.filter(|(_, (addresses, _))| !addresses.is_empty()).collect()
}

/// Compares; withdrawals come first, as they happen. `plans` are those that `now` was made of.
pub fn transitions(
    before: &Announced,
    now: &Announced,
    plans: &BTreeMap<ServiceKey, ServicePlan>,
    protocol: Protocol,
) -> Vec<Transition> {
    let none = BTreeSet::new();
    let mut transitions = Vec::new();
    for (service, (had, pool)) in before {
        let has = now.get(service).map_or(&none, |(addresses, _)| addresses);
        let mut lost: Vec<(Withheld, BTreeSet<IpAddr>)> = Vec::new();
        for address in had.difference(has) {
            let reason = reason(plans.get(service), protocol, *address);
            match lost.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, addresses)) => drop(addresses.insert(*address)),
                None => lost.push((reason, BTreeSet::from([*address]))),
            }
        }
        transitions.extend(lost.into_iter().map(|(reason, addresses)| Transition::Withdrawn {
            service: service.clone(),
            pool: pool.clone(),
            addresses,
            reason,
        }));
    }
    for (service, (has, pool)) in now {
        let had = before.get(service).map_or(&none, |(addresses, _)| addresses);
        let gained: BTreeSet<IpAddr> = has.difference(had).copied().collect();
        if !gained.is_empty() {
            transitions.push(Transition::Announced {
                service: service.clone(),
                pool: pool.clone(),
                addresses: gained,
            });
        }
    }
    transitions
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
        let plans = |plan: Option<ServicePlan>| plan.into_iter().map(|plan| (key(), plan)).collect();
        let (before, now): (BTreeMap<_, _>, BTreeMap<_, _>) = (plans(before), plans(now));
        let list = |addresses: &BTreeSet<IpAddr>| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let protocol = Protocol::Layer2;
        transitions(&announced(&before, protocol), &announced(&now, protocol), &now, protocol)
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
