//! What is used and what is free in a pool, range by range, for people who look at it.
//!
//! What is kept of a range grows with its Services and reservations, not with its size: where addresses that end
//! in .0 and .255 are kept back, the many runs between them are told when they are asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::LoadBalancers;
use crate::config::ranges::{Family, IpRange, from_number, is_buggy, to_number};
use crate::config::{Config, Holder, Pool, Reservations};
use crate::service::ServiceKey;

/// Who has which address, for all pools.
#[derive(Debug)]
pub struct Usage<'a> {
    reservations: &'a Reservations,
    known: BTreeMap<IpAddr, State<'a>>,
}

/// A range of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeUsage<'a> {
    /// The range.
    pub range: IpRange,
    parts: Vec<Run<'a>>,
    avoid_buggy: bool,
}

/// Addresses that follow each other and are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The lowest.
    pub first: IpAddr,
    /// The highest.
    pub last: IpAddr,
    /// What they are.
    pub state: State<'a>,
}

/// What an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// These Services have it.
    Used(Vec<&'a ServiceKey>),
    /// A host has it that is no speaker, and no Service.
    Foreign,
    /// Nobody has it.
    Free,
    /// Nobody gets it: it ends in .0 or .255, and the pool avoids these.
    KeptBack,
    /// Nobody has it, and only these may.
    Reserved {
        /// Who.
        holder: Arc<Holder>,
        /// Name of the AddressReservation.
        reservation: &'a str,
    },
}

impl Run<'_> {
    /// How many addresses; saturating.
    pub fn len(&self) -> u128 {
        (to_number(self.last) - to_number(self.first)).saturating_add(1)
    }

    /// A run is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl<'a> Usage<'a> {
    /// From what Services hold, and what speakers tell of foreign hosts.
    pub fn new(config: &'a Config, services: &'a LoadBalancers, conflicts: &BTreeSet<IpAddr>) -> Self {
        let mut known: BTreeMap<IpAddr, State<'a>> =
            conflicts.iter().map(|address| (*address, State::Foreign)).collect();
        for service in services.values().filter(|service| service.is_load_balancer) {
            for address in service.ingress.readable() {
                match known.entry(address).or_insert(State::Free) {
                    State::Used(users) => users.push(&*service.key),
                    other => *other = State::Used(vec![&*service.key]),
                }
            }
        }
        Self { reservations: config.reservations(), known }
    }

    /// Of the ranges of a pool.
    pub fn of(&self, pool: &Pool) -> Vec<RangeUsage<'a>> {
        let of_range = |range: &IpRange| {
            let parts = self.parts(range);
            RangeUsage { range: *range, parts, avoid_buggy: pool.avoid_buggy_ips }
        };
        pool.ranges.iter().map(of_range).collect()
    }

    fn parts(&self, range: &IpRange) -> Vec<Run<'a>> {
        let family = range.family();
        let mut parts = Vec::new();
        let mut next = to_number(range.first());
        let end = to_number(range.last());
        for (address, state) in self.known.range(range.first()..=range.last()) {
            let number = to_number(*address);
            if next < number {
                self.nobodys(family, (next, number - 1), &mut parts);
            }
            parts.push(Run { first: *address, last: *address, state: state.clone() });
            match number.checked_add(1) {
                Some(after) => next = after,
                None => return parts,
            }
        }
        if next <= end {
            self.nobodys(family, (next, end), &mut parts);
        }
        parts
    }

    /// The parts of addresses that nobody has.
    fn nobodys(&self, family: Family, (mut first, last): (u128, u128), parts: &mut Vec<Run<'a>>) {
        let whole = (from_number(family, first), from_number(family, last));
        for reserved in self.reservations.between(whole.0, whole.1) {
            let from = to_number(reserved.range.first()).max(first);
            let to = to_number(reserved.range.last()).min(last);
            if first < from {
                parts.push(run(family, (first, from - 1), State::Free));
            }
            let (holder, reservation) = (Arc::clone(&reserved.holder), reserved.reservation.as_str());
            parts.push(run(family, (from, to), State::Reserved { holder, reservation }));
            match to.checked_add(1) {
                Some(after) => first = after,
                None => return,
            }
        }
        if first <= last {
            parts.push(run(family, (first, last), State::Free));
        }
    }
}

impl<'a> RangeUsage<'a> {
    /// Its addresses in order: one that is used, or a run of those that are not.
    pub fn runs(&self) -> impl Iterator<Item = Run<'a>> + '_ {
        self.runs_from(self.range.first())
    }

    /// The same, from the run on that has this address.
    pub fn runs_from(&self, from: IpAddr) -> impl Iterator<Item = Run<'a>> + '_ {
        let parts = self.parts.iter().skip_while(move |part| part.last < from);
        parts.flat_map(move |part| {
            let family = Family::of(part.first);
            let splits = self.avoid_buggy && part.state == State::Free && family == Family::V4;
            let (begin, last) = (to_number(part.first), to_number(part.last));
            // The 256 addresses that `from` lies in are split from where they begin.
            let from_block = if splits { to_number(part.first.max(from)) & !255 } else { begin };
            let mut next = Some(from_block.max(begin));
            std::iter::from_fn(move || {
                let first = next.take_if(|it| *it <= last)?;
                if !splits {
                    return Some(part.clone());
                }
                let kept_back = is_buggy(from_number(family, first));
                // Up to the end of the run or of the 256 addresses that it lies in.
                let end = if kept_back { first } else { last.min(first - first % 256 + 254) };
                next = Some(end + 1);
                Some(run(family, (first, end), if kept_back { State::KeptBack } else { State::Free }))
            })
            .skip_while(move |run| run.last < from)
        })
    }

    /// How many addresses are used.
    pub fn used(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part.state, State::Used(_))).count()
    }

    /// Lengths of the free runs.
    pub fn free(&self) -> impl Iterator<Item = u128> + '_ {
        self.runs().filter(|run| run.state == State::Free).map(|run| run.len())
    }
}

fn run(family: Family, (first, last): (u128, u128), state: State<'_>) -> Run<'_> {
    Run { first: from_number(family, first), last: from_number(family, last), state }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::by_key;
    use crate::config::compile;
    use crate::resources::Resources;
    use crate::testing::{ServiceBuilder, pool, reservation, service};

    fn shown(entries: &[&str], avoid_buggy: bool, services: &[ServiceBuilder]) -> Vec<String> {
        shown_with(entries, avoid_buggy, services, false)
    }

    fn shown_with(
        entries: &[&str],
        avoid_buggy: bool,
        services: &[ServiceBuilder],
        reserving: bool,
    ) -> Vec<String> {
        let mut object = pool("p", entries);
        object.spec.avoid_buggy_ips = avoid_buggy;
        let mut kept = reservation("kept", &["10.0.0.5-10.0.0.9", "fd00::1"]);
        kept.spec.namespace = Some("shop".to_owned());
        let reservations = reserving.then_some(kept);
        let resources = Resources::default().with_pools([object]).with_reservations(reservations);
        let config = compile(&resources).config;
        let services = by_key(services.iter().map(|it| it.clone().lb()));
        let usage = Usage::new(&config, &services, &["10.0.0.11".parse().unwrap()].into());
        let ranges = usage.of(&config.pools()["p"]);
        let runs: Vec<Run<'_>> = ranges.iter().flat_map(RangeUsage::runs).collect();
        for run in &runs {
            // Wherever the list begins, it goes on as the whole one does.
            let whole = runs.iter().skip_while(|it| *it != run);
            for from in [run.first, run.last] {
                let part = ranges.iter().filter(|it| it.range.contains(from));
                let rest: Vec<Run<'_>> = part.flat_map(|it| it.runs_from(from)).collect();
                assert!(rest.iter().eq(whole.clone().take(rest.len())), "{from}: {rest:?}");
            }
        }
        runs.iter()
            .map(|run| match &run.state {
                State::Used(services) => {
                    let names: Vec<&str> = services.iter().map(|it| it.name.as_str()).collect();
                    format!("{} {}", run.first, names.join(","))
                }
                State::Foreign => format!("{} foreign", run.first),
                State::Free => format!("{}-{} free {}", run.first, run.last, run.len()),
                State::KeptBack => format!("{}-{} kept back", run.first, run.last),
                State::Reserved { holder, reservation } => {
                    format!("{}-{} for {holder} by {reservation}", run.first, run.last)
                }
            })
            .collect()
    }

    #[test]
    fn reserved_addresses_are_shown_as_such() {
        let holding = service("shop", "a").holding(&["10.0.0.7"]);
        assert_eq!(
            shown_with(&["10.0.0.4-10.0.0.11", "fd00::/127"], false, &[holding], true),
            [
                "10.0.0.4-10.0.0.4 free 1",
                "10.0.0.5-10.0.0.6 for namespace shop by kept",
                "10.0.0.7 a",
                "10.0.0.8-10.0.0.9 for namespace shop by kept",
                "10.0.0.10-10.0.0.10 free 1",
                "10.0.0.11 foreign",
                "fd00::-fd00:: free 1",
                "fd00::1-fd00::1 for namespace shop by kept",
            ]
        );
    }

    #[test]
    fn every_address_is_in_one_run() {
        let holding = |name: &str, address: &str| service("ns", name).holding(&[address]);
        assert_eq!(
            shown(
                &["10.0.0.0/29", "fd00::/127"],
                false,
                &[
                    holding("a", "10.0.0.2"),
                    holding("b", "10.0.0.2"),
                    holding("c", "10.0.0.7"),
                    holding("d", "9.9.9.9")
                ]
            ),
            [
                "10.0.0.0-10.0.0.1 free 2",
                "10.0.0.2 a,b",
                "10.0.0.3-10.0.0.6 free 4",
                "10.0.0.7 c",
                "fd00::-fd00::1 free 2"
            ]
        );
        assert_eq!(
            shown(&["10.0.0.253-10.0.1.2"], true, &[holding("a", "10.0.1.1")]),
            [
                "10.0.0.253-10.0.0.254 free 2",
                "10.0.0.255-10.0.0.255 kept back",
                "10.0.1.0-10.0.1.0 kept back",
                "10.0.1.1 a",
                "10.0.1.2-10.0.1.2 free 1"
            ]
        );
        let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(shown(&["::/0"], false, &[holding("a", all), holding("b", "::")]).len(), 3);
    }

    #[test]
    fn a_huge_pool_is_told_piece_by_piece() {
        let mut object = pool("p", &["0.0.0.0/0"]);
        object.spec.avoid_buggy_ips = true;
        let config = compile(&Resources::default().with_pools([object])).config;
        let services = by_key([service("ns", "a").holding(&["10.1.2.3"]).lb()]);
        let usage = Usage::new(&config, &services, &BTreeSet::new());
        let [range] = &usage.of(&config.pools()["p"])[..] else { panic!("one range") };
        assert_eq!((range.used(), range.parts.len()), (1, 3));
        let from = range.runs_from("10.1.2.3".parse().unwrap()).take(3);
        let shown: Vec<String> = from.map(|run| format!("{} {}", run.first, run.len())).collect();
        assert_eq!(shown, ["10.1.2.3 1", "10.1.2.4 251", "10.1.2.255 1"]);
    }
}
