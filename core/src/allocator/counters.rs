//! How full pools are: the status of `IPAddressPool` and the metrics of the controller.

use std::collections::BTreeMap;

use ferrolb_api::v1beta1::IPAddressPoolStatus;

use super::sharing::Index;
use crate::config::ranges::Family;
use crate::config::{Config, Pool};

/// Counts of one family. Saturating, since a pool may have more addresses than fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyCounters {
    /// Addresses that the pool may give.
    pub capacity: i64,
    /// Distinct addresses that Services have.
    pub assigned: i64,
}

impl FamilyCounters {
    /// What is left. Never negative: with addresses held that the pool may not give (any more), there
    /// may be more in use than usable.
    pub fn available(&self) -> i64 {
        self.capacity.saturating_sub(self.assigned).max(0)
    }
}

/// Counts of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// IPv4 addresses.
    pub v4: FamilyCounters,
    /// IPv6 addresses.
    pub v6: FamilyCounters,
}

impl PoolCounters {
    fn of(pool: &Pool) -> Self {
        let family = |family| {
            let usable = pool
                .ranges_of(family)
                .map(|range| if pool.avoid_buggy_ips { range.len() - range.buggy() } else { range.len() });
            let capacity = usable.fold(0u128, u128::saturating_add);
            FamilyCounters { capacity: i64::try_from(capacity).unwrap_or(i64::MAX), assigned: 0 }
        };
        Self { v4: family(Family::V4), v6: family(Family::V6) }
    }

    /// As the status of the pool shows it.
    pub fn status(&self) -> IPAddressPoolStatus {
        IPAddressPoolStatus {
            assigned_ipv4: self.v4.assigned,
            assigned_ipv6: self.v6.assigned,
            available_ipv4: self.v4.available(),
            available_ipv6: self.v6.available(),
        }
    }

    /// Addresses of both families that the pool may give.
    pub fn capacity(&self) -> i64 {
        self.v4.capacity.saturating_add(self.v6.capacity)
    }

    /// Addresses of both families that Services have.
    pub fn assigned(&self) -> i64 {
        self.v4.assigned.saturating_add(self.v6.assigned)
    }
}

pub(super) fn count(config: &Config, index: &Index<'_>) -> BTreeMap<String, PoolCounters> {
    let mut counters: BTreeMap<String, PoolCounters> =
        config.pools().iter().map(|(name, pool)| (name.clone(), PoolCounters::of(pool))).collect();
    for address in index.addresses() {
        if let Some(counters) = config.pool_around(address).and_then(|pool| counters.get_mut(&pool.name)) {
            let family = if address.is_ipv4() { &mut counters.v4 } else { &mut counters.v6 };
            family.assigned = family.assigned.saturating_add(1);
        }
    }
    counters
}
