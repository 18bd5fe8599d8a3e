//! Addresses that several Services hold although they cannot share them: each is announced for the Service
//! only that keeps it ([`crate::allocator::holder`]), until the controller has given the others new ones.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::allocator::holder::yielding;
use crate::service::{LoadBalancer, ServiceKey};

/// For each such address the Services that it is not announced for, each with one that has it instead.
pub type Doubled = BTreeMap<IpAddr, BTreeMap<ServiceKey, ServiceKey>>;

/// Finds them among all Services.
pub fn doubled<'a>(services: impl IntoIterator<Item = &'a LoadBalancer>) -> Doubled {
    let mut holders: BTreeMap<IpAddr, Vec<&LoadBalancer>> = BTreeMap::new();
    for service in services.into_iter().filter(|service| service.is_load_balancer) {
        for address in service.ingress.readable() {
            holders.entry(address).or_default().push(service);
        }
    }
    let several = holders.into_iter().filter(|(_, services)| services.len() > 1);
    let yielding = several.map(|(address, services)| {
        let yielding = yielding(services).into_iter();
        (address, yielding.map(|(service, keeper)| ((*service.key).clone(), (*keeper.key).clone())).collect())
    });
    yielding.filter(|(_, services): &(_, BTreeMap<_, _>)| !services.is_empty()).collect()
}
