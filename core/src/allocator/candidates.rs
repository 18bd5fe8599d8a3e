//! Which address a Service without one is given.
//!
//! An address that is reserved for the Service comes first. Then pools that are restricted and admit the
//! Service, by priority; then the others. Within a pool what is reserved for the namespace, then the lowest
//! address of the first range that has one. A Service with a sharing key takes the lowest that is free or
//! that it can share. A dual-stack pair comes from one pool where one has both families, else from two of
//! the same standing.

use std::net::IpAddr;
use std::sync::Arc;

use super::sharing::Index;
use super::{Assignment, Refusal};
use crate::config::ranges::Family;
use crate::config::{Config, Pool};
use crate::service::{Families, FamilyPolicy, LoadBalancer};

/// What the request of a Service comes to. Who prefers two addresses, of which its namespace may have one, is
/// given one.
pub(super) fn choose(
    config: &Config,
    index: &Index<'_>,
    service: &LoadBalancer,
) -> Result<Assignment, Refusal> {
    let assignment = choose_any(config, index, service)?;
    let Err(refusal) = index.check_quota(&assignment.addresses, service) else { return Ok(assignment) };
    let asks = service.requested != Ok(Vec::new());
    let one = match (service.family_policy, &assignment.addresses[..], &assignment.pools[..]) {
        (FamilyPolicy::PreferDualStack, [v4, v6], [pool, rest @ ..]) if !asks => {
            let (v4, v6) = ((*v4, pool), (*v6, rest.first().unwrap_or(pool)));
            let in_order = if service.primary_family == Family::V4 { [v4, v6] } else { [v6, v4] };
            in_order.into_iter().find(|(address, _)| index.check_quota(&[*address], service).is_ok())
        }
        _ => None,
    };
    one.map(|(address, pool)| Assignment::new(vec![address], [pool.as_str()])).ok_or(refusal)
}

/// The same, however many addresses its namespace may have.
fn choose_any(config: &Config, index: &Index<'_>, service: &LoadBalancer) -> Result<Assignment, Refusal> {
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
    index.first_reserved(pool, family, service).or_else(|| {
        pool.ranges_of(family).find_map(|range| {
            let free = index.first_free(&pool.name, range, pool.avoid_buggy_ips);
            let shared = index.first_shareable(range, service).filter(|address| pool.offers(*address));
            free.into_iter().chain(shared).min()
        })
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
        index.may_give(*address, service)?;
    }
    match &service.requested_pool {
        Some(wanted) if *wanted != pool.name => {
            Err(Refusal::RequestedPool { addresses: addresses.to_vec(), pool: wanted.clone() })
        }
        _ => Ok(Assignment::new(addresses.to_vec(), [pool.name.as_str()])),
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
        Ok(Assignment::new(addresses, [name]))
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
    if let Some(assignment) = reserved(config, index, service, families) {
        return Ok(assignment);
    }
    match first_of(&restricted(config, service), index, service, families)? {
        Some(assignment) => Ok(assignment),
        None => first_of(&open(config), index, service, families)?.ok_or(Refusal::Exhausted),
    }
}

/// What is reserved for this very Service, whether the pool gives addresses by itself or not. Where that is an
/// address of one family and the Service is to have two, the other one is the next best.
fn reserved(
    config: &Config,
    index: &Index<'_>,
    service: &LoadBalancer,
    families: Families,
) -> Option<Assignment> {
    let first = |family| {
        let reserved = config.reservations().of_service(&service.key).iter();
        reserved.filter(|it| it.range.family() == family).find_map(|it| {
            let pool = config.pools().get(&it.pool)?;
            let admitted = pool.admits(&service.key.namespace, &service.labels);
            let address = index.first_reserved(pool, family, service).filter(|_| admitted)?;
            Some((address, &**pool))
        })
    };
    let only = |(address, pool): (IpAddr, &Pool)| Assignment::new(vec![address], [pool.name.as_str()]);
    if let Families::Single(family) = families {
        return first(family).map(only);
    }
    let pair = |(v4, from): (IpAddr, &str), (v6, and): (IpAddr, &str)| {
        Some(Assignment::new(vec![v4, v6], [from, and]))
    };
    let next_best = |pool, family| second(config, index, service, pool, family);
    match (service.family_policy, first(Family::V4), first(Family::V6)) {
        (FamilyPolicy::SingleStack, ..) | (_, None, None) => None,
        (_, Some((v4, from)), Some((v6, and))) => pair((v4, &from.name), (v6, &and.name)),
        (policy, Some((v4, from)), None) => match next_best(from, Family::V6) {
            Some(v6) => pair((v4, &from.name), v6),
            None => (policy == FamilyPolicy::PreferDualStack).then(|| only((v4, from))),
        },
        (policy, None, Some((v6, from))) => match next_best(from, Family::V4) {
            Some(v4) => pair(v4, (v6, &from.name)),
            None => (policy == FamilyPolicy::PreferDualStack).then(|| only((v6, from))),
        },
    }
}

/// Pools that are restricted and admit the Service, best first.
fn restricted<'a>(config: &'a Config, service: &LoadBalancer) -> Vec<&'a Pool> {
    let admitting = config.pools().values().map(Arc::as_ref);
    let admitting = admitting.filter(|pool| pool.admits(&service.key.namespace, &service.labels));
    let mut restricted: Vec<(i64, &Pool)> = admitting
        .filter(|pool| pool.auto_assign)
        .filter_map(|pool| Some((pool.restriction.as_ref()?.rank(), pool)))
        .collect();
    restricted.sort_by_key(|(rank, pool)| (*rank, &pool.name));
    restricted.into_iter().map(|(_, pool)| pool).collect()
}

/// Pools that are for everybody.
fn open(config: &Config) -> Vec<&Pool> {
    let pools = config.pools().values().map(Arc::as_ref);
    pools.filter(|pool| pool.auto_assign && pool.restriction.is_none()).collect()
}

/// The address of the other family for a Service that holds one of `pool`: from there, or from a pool of the
/// same standing where the Service asks for nothing in particular. With the name of its pool.
pub(super) fn second<'a>(
    config: &'a Config,
    index: &Index<'_>,
    service: &LoadBalancer,
    pool: &'a Pool,
    family: Family,
) -> Option<(IpAddr, &'a str)> {
    let asks = service.requested_pool.is_some() || service.requested != Ok(Vec::new());
    let others = match (asks || !pool.auto_assign, &pool.restriction) {
        (true, _) => Vec::new(),
        (false, Some(_)) => restricted(config, service),
        (false, None) => open(config),
    };
    let mut pools = std::iter::once(pool).chain(others);
    pools.find_map(|pool| Some((next(index, pool, family, service)?, pool.name.as_str())))
}

/// What the first pool of a list that can serve the Service gives.
fn first_of(
    pools: &[&Pool],
    index: &Index<'_>,
    service: &LoadBalancer,
    families: Families,
) -> Result<Option<Assignment>, Refusal> {
    let first = |family| {
        pools.iter().find_map(|pool| Some((next(index, pool, family, service)?, pool.name.as_str())))
    };
    let single = |family| first(family).map(|(address, pool)| Assignment::new(vec![address], [pool]));
    let family = match families {
        Families::Single(family) => return Ok(single(family)),
        Families::Dual => service.primary_family,
    };
    let pair = pools.iter().find_map(|pool| {
        let v4 = next(index, pool, Family::V4, service)?;
        let v6 = next(index, pool, Family::V6, service)?;
        Some((vec![v4, v6], pool.name.as_str()))
    });
    match (service.family_policy, pair) {
        // Two cluster addresses but no wish for two: MetalLB takes this for a contradiction.
        (FamilyPolicy::SingleStack, Some((_, pool))) => Err(Refusal::NoDualStack(pool.to_owned())),
        (FamilyPolicy::SingleStack, None) => Ok(None),
        (_, Some((pair, pool))) => Ok(Some(Assignment::new(pair, [pool]))),
        (policy, None) => match (first(Family::V4), first(Family::V6)) {
            (Some((v4, from)), Some((v6, and))) => Ok(Some(Assignment::new(vec![v4, v6], [from, and]))),
            _ if policy == FamilyPolicy::RequireDualStack => Ok(None),
            _ => Ok(single(family).or_else(|| single(family.other()))),
        },
    }
}
