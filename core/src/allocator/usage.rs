//! What is used and what is free in a pool, range by range, for people who look at it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::LoadBalancers;
use crate::config::ranges::{Family, IpRange, from_number, is_buggy, to_number};
use crate::config::{Holder, Pool, Reservations};
use crate::service::ServiceKey;

/// A range of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeUsage {
    /// The range.
    pub range: IpRange,
    /// Its addresses in order: one that is used, or a run of free ones.
    pub runs: Vec<Run>,
}

/// Addresses that follow each other and are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The lowest.
    pub first: IpAddr,
    /// The highest.
    pub last: IpAddr,
    /// What they are.
    pub state: State,
}

/// What an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// These Services have it.
    Used(Vec<ServiceKey>),
    /// Nobody has it.
    Free,
    /// Nobody gets it: it ends in .0 or .255, and the pool avoids these.
    KeptBack,
    /// Nobody has it, and only these may.
    Reserved {
        /// Who.
        holder: Arc<Holder>,
        /// Name of the AddressReservation.
        reservation: String,
    },
}

impl Run {
    /// How many addresses; saturating.
    pub fn len(&self) -> u128 {
        (to_number(self.last) - to_number(self.first)).saturating_add(1)
    }

    /// A run is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl RangeUsage {
    /// How many addresses are used.
    pub fn used(&self) -> usize {
        self.runs.iter().filter(|run| matches!(run.state, State::Used(_))).count()
    }

    /// Lengths of the free runs.
    pub fn free(&self) -> impl Iterator<Item = u128> {
        self.runs.iter().filter(|run| run.state == State::Free).map(Run::len)
    }
}

/// Of one pool.
pub fn usage(pool: &Pool, reservations: &Reservations, services: &LoadBalancers) -> Vec<RangeUsage> {
    let mut users: BTreeMap<IpAddr, Vec<ServiceKey>> = BTreeMap::new();
    for service in services.values().filter(|service| service.is_load_balancer) {
        for address in service.ingress.readable() {
            users.entry(address).or_default().push(service.key.clone());
        }
    }
    let unused = Unused { pool, reservations };
    pool.ranges.iter().map(|range| RangeUsage { range: *range, runs: runs(&unused, range, &users) }).collect()
}

fn runs(unused: &Unused<'_>, range: &IpRange, users: &BTreeMap<IpAddr, Vec<ServiceKey>>) -> Vec<Run> {
    let family = range.family();
    let mut runs = Vec::new();
    let mut next = to_number(range.first());
    let end = to_number(range.last());
    for (address, services) in users.range(range.first()..=range.last()) {
        let number = to_number(*address);
        if next < number {
            unused.runs(family, (next, number - 1), &mut runs);
        }
        runs.push(Run { first: *address, last: *address, state: State::Used(services.clone()) });
        match number.checked_add(1) {
            Some(after) => next = after,
            None => return runs,
        }
    }
    if next <= end {
        unused.runs(family, (next, end), &mut runs);
    }
    runs
}

/// What is to be said of addresses that nobody has.
struct Unused<'a> {
    pool: &'a Pool,
    reservations: &'a Reservations,
}

impl Unused<'_> {
    /// Their runs.
    fn runs(&self, family: Family, (mut first, last): (u128, u128), runs: &mut Vec<Run>) {
        let of_family = self.reservations.all().filter(|it| it.range.family() == family);
        for reserved in of_family {
            let from = to_number(reserved.range.first()).max(first);
            let to = to_number(reserved.range.last()).min(last);
            if from > to {
                continue;
            }
            if first < from {
                open(self.pool, family, (first, from - 1), runs);
            }
            let (holder, reservation) = (Arc::clone(&reserved.holder), reserved.reservation.clone());
            runs.push(run(family, (from, to), State::Reserved { holder, reservation }));
            match to.checked_add(1) {
                Some(after) => first = after,
                None => return,
            }
        }
        if first <= last {
            open(self.pool, family, (first, last), runs);
        }
    }
}

fn run(family: Family, (first, last): (u128, u128), state: State) -> Run {
    Run { first: from_number(family, first), last: from_number(family, last), state }
}

/// The runs of addresses that nobody has and nobody reserved.
fn open(pool: &Pool, family: Family, (mut first, last): (u128, u128), runs: &mut Vec<Run>) {
    let run = |first, last, state| run(family, (first, last), state);
    if !pool.avoid_buggy_ips || family == Family::V6 {
        runs.push(run(first, last, State::Free));
        return;
    }
    while first <= last {
        let kept_back = is_buggy(from_number(family, first));
        // Up to the end of the run or of the 256 addresses that it lies in.
        let end = match first % 256 {
            0 | 255 => first,
            _ => last.min(first - first % 256 + 254),
        };
        runs.push(run(first, end, if kept_back { State::KeptBack } else { State::Free }));
        first = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let services = services.iter().map(|it| it.clone().lb()).map(|it| (it.key.clone(), it)).collect();
        let runs =
            usage(&config.pools()["p"], config.reservations(), &services).into_iter().flat_map(|it| it.runs);
        runs.map(|run| match &run.state {
            State::Used(services) => {
                let names: Vec<&str> = services.iter().map(|it| it.name.as_str()).collect();
                format!("{} {}", run.first, names.join(","))
            }
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
                "10.0.0.10-10.0.0.11 free 2",
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
}
