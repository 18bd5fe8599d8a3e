//! The pools in force, by name and by address.
//!
//! A configuration that was handed out holds its table, so that a new one is needed after an edit. To copy
//! ten thousand pools for one is what an edit would mostly cost; so the table before the last one, which
//! nobody holds any more, is brought up to date instead.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::Pool;
use super::ranges::{Family, IpRange, to_number};

/// Where an address stands among all.
pub(super) type Key = (Family, u128);

pub(super) fn key(address: IpAddr) -> Key {
    (Family::of(address), to_number(address))
}

/// Ranges that share no address, by where they start, each with its pool.
pub(super) type ByAddress = BTreeMap<Key, (IpRange, Arc<Pool>)>;

/// The pools in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    by_name: BTreeMap<String, Arc<Pool>>,
    by_address: ByAddress,
}

impl Table {
    pub(super) fn by_name(&self) -> &BTreeMap<String, Arc<Pool>> {
        &self.by_name
    }

    /// The pool that an address belongs to.
    pub(super) fn around(&self, address: IpAddr) -> Option<&Pool> {
        let (_, (range, pool)) = self.by_address.range(..=key(address)).next_back()?;
        range.contains(address).then_some(&**pool)
    }

    /// The ranges that share addresses with this one, in order, each with its pool.
    pub(super) fn overlapping(&self, range: &IpRange) -> impl Iterator<Item = &(IpRange, Arc<Pool>)> {
        let (first, last) = (key(range.first()), key(range.last()));
        let before = self.by_address.range(..first).next_back();
        let before = before.filter(|(_, (earlier, _))| earlier.contains(range.first()));
        before.into_iter().chain(self.by_address.range(first..=last)).map(|(_, it)| it)
    }

    fn remove(&mut self, name: &str) {
        let ranges = self.by_name.remove(name).into_iter().flat_map(|pool| pool.ranges.clone());
        ranges.for_each(|range| drop(self.by_address.remove(&key(range.first()))));
    }

    fn insert(&mut self, pool: &Arc<Pool>) {
        self.by_name.insert(pool.name.clone(), Arc::clone(pool));
        let entry = |range: &IpRange| (key(range.first()), (*range, Arc::clone(pool)));
        self.by_address.extend(pool.ranges.iter().map(entry));
    }
}

/// The newest table, and the one before.
#[derive(Debug, Default)]
pub(super) struct Tables {
    newest: Arc<Table>,
    /// With the names in which the newest differs from it.
    before: Option<(Arc<Table>, BTreeSet<String>)>,
}

impl Tables {
    pub(super) fn is_empty(&self) -> bool {
        self.newest.by_name.is_empty()
    }

    /// The first table, all at once: a sorted map is made faster from a list in order than one by one.
    pub(super) fn fill<'p>(
        &mut self,
        pools: impl Iterator<Item = &'p Arc<Pool>>,
        ranges: impl Iterator<Item = (IpRange, &'p Arc<Pool>)>,
    ) -> Arc<Table> {
        let by_name = pools.map(|pool| (pool.name.clone(), Arc::clone(pool))).collect();
        let by_address =
            ranges.map(|(range, pool)| (key(range.first()), (range, Arc::clone(pool)))).collect();
        *self = Self { newest: Arc::new(Table { by_name, by_address }), before: None };
        Arc::clone(&self.newest)
    }

    /// The table in which these names have the pools that they have now, if any.
    pub(super) fn update<'p>(
        &mut self,
        names: BTreeSet<String>,
        pool: impl Fn(&str) -> Option<&'p Arc<Pool>>,
    ) -> Arc<Table> {
        if names.is_empty() {
            return Arc::clone(&self.newest);
        }
        let (mut table, missed) = match self.before.take() {
            Some((before, missed)) if Arc::strong_count(&before) == 1 => (before, missed),
            _ => (Arc::clone(&self.newest), BTreeSet::new()),
        };
        let changed = Arc::make_mut(&mut table);
        // First all that go: those that come may have their addresses.
        let all: BTreeSet<&String> = names.union(&missed).collect();
        all.iter().for_each(|name| changed.remove(name));
        all.iter().filter_map(|name| pool(name)).for_each(|pool| changed.insert(pool));
        self.before = Some((std::mem::replace(&mut self.newest, table), names));
        Arc::clone(&self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, range: &str) -> Arc<Pool> {
        Arc::new(Pool {
            name: name.to_owned(),
            ranges: vec![range.parse().unwrap()],
            auto_assign: true,
            avoid_buggy_ips: false,
            restriction: None,
        })
    }

    #[test]
    fn tables_that_were_handed_out_never_change() {
        let pools = [
            [("a", "10.0.0.0/24"), ("b", "10.0.1.0/24"), ("c", "10.0.2.0/24")],
            // They change places.
            [("a", "10.0.1.0/24"), ("b", "10.0.0.0/24"), ("c", "10.0.2.0/24")],
            [("a", "10.0.1.0/24"), ("b", "10.0.0.0/24"), ("d", "10.0.2.0/25")],
            [("a", "10.0.1.0/24"), ("b", "10.0.9.0/24"), ("d", "10.0.2.0/25")],
        ];
        for held in [0, 1, 9] {
            let mut tables = Tables::default();
            let mut handed_out = Vec::new();
            for state in &pools {
                let state: BTreeMap<&str, Arc<Pool>> =
                    state.iter().map(|(name, range)| (*name, pool(name, range))).collect();
                let names = ["a", "b", "c", "d"].map(str::to_owned).into();
                let table = tables.update(names, |name| state.get(name));
                let mut expected = Table::default();
                state.values().for_each(|pool| expected.insert(pool));
                assert_eq!(*table, expected);
                handed_out.push((table, expected));
                let first = handed_out.len().saturating_sub(held);
                handed_out.drain(..first);
                assert!(handed_out.iter().all(|(table, expected)| **table == *expected));
            }
        }
    }
}
