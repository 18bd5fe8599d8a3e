//! Pools: which of them are in force.
//!
//! Nearly all have addresses that no other has. Only where ranges share an address it matters which pool is
//! older, so only those are put in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_api::v1beta1::IPAddressPool;
use ipnet::IpNet;

use super::Compiling;
use super::cluster::Cluster;
use crate::config::diagnostic::{Kind, Message, ObjectRef, PoolProblem, Problem};
use crate::config::kept::{Changes, Kept};
use crate::config::lookup::Labelled;
use crate::config::pools::{self, LeftOutPool, Parsed};
use crate::config::ranges::IpRange;
use crate::config::selectors::Finding;
use crate::config::table::{ByAddress, Key, Table, Tables, key};
use crate::selector::Labels;

/// The ranges of all pools that can be read, in order, whether they are in force or not.
#[derive(Debug, Default)]
struct Ranges(Vec<Span>);

#[derive(Debug)]
struct Span {
    range: IpRange,
    of: Arc<Parsed>,
}

impl Ranges {
    /// Follows the readings of the pools.
    fn update(&mut self, changes: Changes<Parsed>) {
        let gone: BTreeSet<*const Parsed> = changes.gone.iter().map(Arc::as_ptr).collect();
        if !gone.is_empty() {
            self.0.retain(|span| !gone.contains(&Arc::as_ptr(&span.of)));
        }
        self.0.extend(
            changes
                .new
                .iter()
                .flat_map(|of| of.ranges().map(|(_, range)| Span { range, of: Arc::clone(of) })),
        );
        // Mostly sorted already, which this kind of sorting makes use of.
        self.0.sort_by_key(|span| span.range);
    }

    /// Names of the pools with a range that shares an address with another range.
    fn contested(&self) -> BTreeSet<&str> {
        let mut contested = BTreeSet::new();
        let mut reach: Option<&Span> = None;
        for span in &self.0 {
            match reach {
                Some(before) if span.range.first() <= before.range.last() => {
                    contested.extend([before.of.pool.name.as_str(), span.of.pool.name.as_str()]);
                    if before.range.last() < span.range.last() {
                        reach = Some(span);
                    }
                }
                _ => reach = Some(span),
            }
        }
        contested
    }
}

/// Reads a pool, and reports what of the cluster it overlaps with.
pub(super) fn read(pool: &IPAddressPool, namespaces: &BTreeMap<String, Labels>, cluster: &Cluster) -> Parsed {
    let mut parsed = pools::parse(pool, namespaces);
    let mut findings = Vec::new();
    cluster.check(|| parsed.ranges(), &mut findings);
    parsed.findings.extend(findings);
    parsed
}

/// What is kept of the pools as a whole.
#[derive(Debug, Default)]
pub(super) struct Pools {
    ranges: Ranges,
    tables: Tables,
    /// Those that are others than in the newest table.
    touched: BTreeSet<String>,
    /// Those with which something is wrong in themselves.
    flawed: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

impl Changes<Parsed> {
    /// What selectors see of those that are no more, and of those that are new.
    pub(super) fn labelled(&self) -> (Vec<Labelled>, Vec<Labelled>) {
        let labelled = |readings: &[Arc<Parsed>]| {
            let mut labelled: Vec<Labelled> = readings.iter().map(|it| it.labelled.clone()).collect();
            labelled.sort();
            labelled
        };
        (labelled(&self.gone), labelled(&self.new))
    }
}

impl Pools {
    /// Follows the readings. Who is left out is found later.
    pub(super) fn update(&mut self, changes: Changes<Parsed>) {
        if changes.gone.is_empty() && changes.new.is_empty() {
            return;
        }
        for gone in &changes.gone {
            self.flawed.remove(&gone.pool.name);
        }
        for new in changes.new.iter().filter(|it| !it.findings.is_empty()) {
            self.flawed.insert(new.pool.name.clone());
        }
        if !self.tables.is_empty() {
            let names = changes.gone.iter().chain(&changes.new).map(|it| it.pool.name.clone());
            self.touched.extend(names);
        }
        self.ranges.update(changes);
    }

    /// Those that are in force when these are left out.
    fn without(&mut self, left_out: BTreeSet<String>, readings: &Kept<IPAddressPool, Parsed>) -> Arc<Table> {
        if self.tables.is_empty() {
            let in_force = |reading: &Parsed| !left_out.contains(&reading.pool.name);
            let pools = readings.iter().map(|(_, _, reading)| reading).filter(|it| in_force(it));
            let ranges = self.ranges.0.iter().filter(|span| in_force(&span.of));
            let (pools, ranges) = (pools.map(|it| &it.pool), ranges.map(|span| (span.range, &span.of.pool)));
            let table = self.tables.fill(pools, ranges);
            self.left_out = left_out;
            return table;
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.extend(self.left_out.symmetric_difference(&left_out).cloned());
        self.left_out = left_out;
        let in_force = |name: &str| readings.get(name).filter(|_| !self.left_out.contains(name));
        self.tables.update(touched, |name| in_force(name).map(|(_, _, reading)| &reading.pool))
    }
}

impl<'a> Compiling<'a> {
    pub(super) fn address_pools(&mut self, kept: &mut Pools) {
        let mut overlaps = self.overlaps(&kept.ranges.contested());
        let mut left_out = BTreeSet::new();
        let suspects: BTreeSet<&str> =
            kept.flawed.iter().map(String::as_str).chain(overlaps.keys().copied()).collect();
        for (name, _, parsed) in suspects.into_iter().filter_map(|name| self.readings.get(name)) {
            let overlaps = overlaps.remove(name.as_str()).unwrap_or_default();
            let findings = parsed.findings.iter().cloned().chain(overlaps).collect();
            let message = |problem| Message::Pool { pool: name.clone(), problem };
            let reference = ObjectRef::new(Kind::IpAddressPool, name);
            if self.report(&reference, &None, findings, message) {
                let trace = LeftOutPool {
                    name: name.clone(),
                    ranges: parsed.pool.ranges.clone(),
                    has_unreadable_entries: parsed.unreadable,
                };
                self.compiled.config.left_out.insert(name.clone(), trace);
                left_out.insert(name.clone());
            }
        }
        self.compiled.config.pools = kept.without(left_out, self.readings);
    }

    /// What pools that share addresses with others, or twice have the same, lose to the older ones. Who is
    /// left out takes nothing from others.
    fn overlaps(&self, contested: &BTreeSet<&str>) -> BTreeMap<&'a str, Vec<Finding<PoolProblem>>> {
        let pools = self.readings;
        let contested = contested.iter().filter_map(|name| pools.get(name));
        let objects = contested.map(|(name, object, parsed)| (name, (&**object, parsed)));
        let in_order = self.by_age(Kind::IpAddressPool, objects, |(object, _)| &object.metadata);
        let mut claimed = ByAddress::new();
        let mut overlaps = BTreeMap::new();
        for (name, (_, parsed)) in in_order {
            let (own, findings) = claim(parsed, &claimed);
            if findings.is_empty() && !parsed.findings.iter().any(|(_, problem)| problem.leaves_out()) {
                claimed.extend(own);
            }
            overlaps.insert(name.as_str(), findings);
        }
        overlaps
    }
}

/// The ranges of a pool, keyed by where they start. What overlaps, with the pools in force or within
/// the pool itself, is reported, once for each entry.
fn claim(parsed: &Parsed, in_force: &ByAddress) -> (ByAddress, Vec<Finding<PoolProblem>>) {
    let (mut own, mut findings) = (ByAddress::new(), Vec::new());
    for (place, range) in parsed.ranges() {
        let earlier = overlapping(in_force, &range).or_else(|| overlapping(&own, &range));
        if let Some((earlier_range, earlier_pool)) = earlier {
            let (cidr, earlier) = first_common(&range, earlier_range);
            let problem = PoolProblem::Overlap { cidr, earlier, earlier_pool: earlier_pool.name.clone() };
            findings.push((format!("spec.addresses[{place}]"), problem));
        } else {
            own.insert(key(range.first()), (range, Arc::clone(&parsed.pool)));
        }
    }
    (own, findings)
}

/// The lowest range of `claimed` (whose ranges are disjoint) that shares an address with `range`.
pub(super) fn overlapping<'a, T>(
    claimed: &'a BTreeMap<Key, (IpRange, T)>,
    range: &IpRange,
) -> Option<&'a (IpRange, T)> {
    let (first, last) = (key(range.first()), key(range.last()));
    let before = claimed.range(..=first).next_back().map(|(_, it)| it);
    before
        .filter(|(earlier, _)| earlier.contains(range.first()))
        .or_else(|| claimed.range(first..=last).next().map(|(_, it)| it))
}

/// The first prefixes of two overlapping ranges that overlap.
fn first_common(a: &IpRange, b: &IpRange) -> (IpNet, IpNet) {
    let common = a.first().max(b.first());
    let around = |range: &IpRange| {
        // The common address lies in both ranges, so in one of the prefixes of each.
        range.cidrs().find(|cidr| cidr.contains(&common)).unwrap_or_else(|| IpNet::from(common))
    };
    (around(a), around(b))
}
