//! Which address a Service without one is given.
//!
//! Pools that are restricted and admit the Service come first, by priority; then the others. Within a
//! pool the lowest address of the first range that has one. A Service with a sharing key takes the
//! lowest that is free or that it can share. A dual-stack pair comes from one pool.

use std::net::IpAddr;
use std::sync::Arc;

use super::sharing::Index;
use super::{Assignment, Refusal};
use crate::config::ranges::Family;
use crate::config::{Config, Pool};
use crate::service::{Families, FamilyPolicy, LoadBalancer};

/// What the request of a Service comes to.
pub(super) fn choose(
    config: &Config,
    index: &Index<'_>,
    service: &LoadBalancer,
) -> Result<Assignment, Refusal> {
    let requested = service.requested.as_ref().map_err(|error| Refusal::Request(error.clone()))?;
    let families = service.families.as_ref().map_err(|error| Refusal::ClusterFamilies(error.clone()))?;
    if !requested.is_empty() {
        return these(config, index, service, *families, requested);
    }
    match &service.requested_pool {
        Some(name) => from_pool(config, index, service, *families, name),
        None => automatic(config, index, service, *families),
    }
}

/// The address of a family that a pool would give to the Service.
pub(super) fn next(index: &Index<'_>, pool: &Pool, family: Family, service: &LoadBalancer) -> Option<IpAddr> {
    pool.ranges_of(family).find_map(|range| {
        let free = index.first_free(&pool.name, range, pool.avoid_buggy_ips);
        let shared = index.first_shareable(range, service).filter(|address| pool.offers(*address));
        free.into_iter().chain(shared).min()
    })
}

fn these(
    config: &Config,
    index: &Index<'_>,
    service: &LoadBalancer,
    families: Families,
    addresses: &[IpAddr],
) -> Result<Assignment, Refusal> {
    if Families::of(addresses) != Ok(families) {
        return Err(Refusal::RequestedFamilies(addresses.to_vec()));
    }
    let pool = config.pool_with(addresses).ok_or_else(|| not_in_pool(addresses))?;
    if !pool.admits(&service.key.namespace, &service.labels) {
        return Err(Refusal::NotAdmitted(pool.name.clone()));
    }
    for address in addresses {
        index.check(*address, service)?;
    }
    match &service.requested_pool {
        Some(wanted) if *wanted != pool.name => {
            Err(Refusal::RequestedPool { addresses: addresses.to_vec(), pool: wanted.clone() })
        }
        _ => Ok(Assignment { addresses: addresses.to_vec(), pool: pool.name.clone() }),
    }
}

pub(super) fn not_in_pool(addresses: &[IpAddr]) -> Refusal {
    Refusal::NotInPool(addresses.iter().copied().map(Some).collect())
}

fn from_pool(
    config: &Config,
    index: &Index<'_>,
    service: &LoadBalancer,
    families: Families,
    name: &str,
) -> Result<Assignment, Refusal> {
    let pool = config.pools().get(name).ok_or_else(|| Refusal::UnknownPool(name.to_owned()))?;
    let v4 = next(index, pool, Family::V4, service);
    let v6 = next(index, pool, Family::V6, service);
    if v4.or(v6).is_none() {
        return Err(Refusal::PoolExhausted(name.to_owned()));
    }
    let addresses = match families {
        Families::Single(family) => {
            let address = if family == Family::V4 { v4 } else { v6 };
            vec![address.ok_or_else(|| Refusal::NotInPool(vec![None]))?]
        }
        Families::Dual => match (service.family_policy, v4, v6) {
            (FamilyPolicy::RequireDualStack | FamilyPolicy::PreferDualStack, Some(v4), Some(v6)) => {
                vec![v4, v6]
            }
            (FamilyPolicy::PreferDualStack, _, _) => v4.or(v6).into_iter().collect(),
            _ => return Err(Refusal::NoDualStack(name.to_owned())),
        },
    };
    if pool.admits(&service.key.namespace, &service.labels) {
        Ok(Assignment { addresses, pool: name.to_owned() })
    } else {
        Err(Refusal::NotAdmitted(name.to_owned()))
    }
}

fn automatic(
    config: &Config,
    index: &Index<'_>,
    service: &LoadBalancer,
    families: Families,
) -> Result<Assignment, Refusal> {
    let auto = || config.pools().values().map(Arc::as_ref).filter(|pool| pool.auto_assign);
    let mut restricted: Vec<(i64, &Pool)> = auto()
        .filter(|pool| pool.admits(&service.key.namespace, &service.labels))
        .filter_map(|pool| Some((pool.restriction.as_ref()?.rank(), pool)))
        .collect();
    restricted.sort_by_key(|(rank, pool)| (*rank, &pool.name));
    let restricted: Vec<&Pool> = restricted.into_iter().map(|(_, pool)| pool).collect();
    let open: Vec<&Pool> = auto().filter(|pool| pool.restriction.is_none()).collect();
    match first_of(&restricted, index, service, families)? {
        Some(assignment) => Ok(assignment),
        None => first_of(&open, index, service, families)?.ok_or(Refusal::Exhausted),
    }
}

/// What the first pool of a list that can serve the Service gives.
fn first_of(
    pools: &[&Pool],
    index: &Index<'_>,
    service: &LoadBalancer,
    families: Families,
) -> Result<Option<Assignment>, Refusal> {
    let single = |family| {
        pools.iter().find_map(|pool| {
            let addresses = vec![next(index, pool, family, service)?];
            Some(Assignment { addresses, pool: pool.name.clone() })
        })
    };
    let family = match families {
        Families::Single(family) => return Ok(single(family)),
        Families::Dual => service.primary_family,
    };
    let pair = pools.iter().find_map(|pool| {
        let v4 = next(index, pool, Family::V4, service)?;
        let v6 = next(index, pool, Family::V6, service)?;
        Some(Assignment { addresses: vec![v4, v6], pool: pool.name.clone() })
    });
    match (service.family_policy, pair) {
        // Two cluster addresses but no wish for two: MetalLB takes this for a contradiction.
        (FamilyPolicy::SingleStack, Some(pair)) => Err(Refusal::NoDualStack(pair.pool)),
        (FamilyPolicy::PreferDualStack, None) => Ok(single(family).or_else(|| single(family.other()))),
        (_, pair) => Ok(pair),
    }
}
