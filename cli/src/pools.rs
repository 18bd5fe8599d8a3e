//! How full pools are, as text. Pure.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_core::allocator::usage::{RangeUsage, State, Usage};
use ferrolb_core::allocator::{Held, LoadBalancers, allocate};
use ferrolb_core::config::{Config, Pool};
use ferrolb_core::service::LoadBalancer;

use crate::table::table;

/// What the answers rest on.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) config: Config,
    /// Those that the controller handles.
    pub(crate) services: LoadBalancers,
    /// What hosts have that are no speakers.
    pub(crate) conflicts: BTreeSet<IpAddr>,
}

impl Observed {
    fn usage(&self) -> Usage<'_> {
        Usage::new(&self.config, &self.services, &self.conflicts)
    }
}

/// Which part of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Address to begin with.
    pub(crate) from: Option<IpAddr>,
    /// Lines at most.
    pub(crate) limit: usize,
}

/// A line for each pool.
pub(crate) fn summary(observed: &Observed) -> String {
    let (config, usage) = (&observed.config, observed.usage());
    let counters = allocate(config, &observed.services, &Held::default()).counters;
    let mut rows = vec![
        ["POOL", "USED", "FREE IPV4", "FREE IPV6", "LARGEST FREE RUN", "AUTO ASSIGN"].map(str::to_owned),
    ];
    for (name, pool) in config.pools() {
        let status = counters.get(name).copied().unwrap_or_default();
        let largest = usage.of(pool).iter().flat_map(RangeUsage::free).max().unwrap_or(0);
        rows.push([
            name.clone(),
            status.assigned().to_string(),
            status.v4.available().to_string(),
            status.v6.available().to_string(),
            largest.to_string(),
            pool.auto_assign.to_string(),
        ]);
    }
    for name in config.left_out_pools().keys() {
        let mut row = ["", "", "", "", "", "left out for an error"].map(str::to_owned);
        row[0].clone_from(name);
        rows.push(row);
    }
    table(&rows)
}

/// The addresses of a pool, by range.
pub(crate) fn detail(observed: &Observed, pool: &Pool, page: Page) -> String {
    let mut text = String::new();
    let mut left = page.limit;
    let ranges = observed.usage().of(pool);
    // The list goes through the ranges in the order in which they are given from.
    let begin = page.from.and_then(|from| ranges.iter().position(|it| it.range.contains(from)));
    for range in ranges.iter().skip(begin.unwrap_or(0)) {
        let (mut free, mut largest, mut runs) = (0u128, 0, 0);
        for length in range.free() {
            (free, largest, runs) = (free.saturating_add(length), length.max(largest), runs + 1);
        }
        let title = format!("{}-{}", range.range.first(), range.range.last());
        let _ = writeln!(
            text,
            "{title}: {} used, {free} free in {runs} runs, the largest of {largest}",
            range.used()
        );
        let from = page.from.filter(|from| range.range.contains(*from));
        for run in range.runs_from(from.unwrap_or(range.range.first())) {
            if left == 0 {
                let _ = writeln!(text, "there is more: --from {}", run.first);
                return text;
            }
            left -= 1;
            let addresses = if run.first == run.last {
                run.first.to_string()
            } else {
                format!("{}-{}", run.first, run.last)
            };
            let state = match &run.state {
                State::Used(services) => {
                    services.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                }
                State::Foreign => "used by a host outside the cluster".to_owned(),
                State::Free => format!("free ({})", run.len()),
                State::KeptBack => "kept back (avoidBuggyIPs)".to_owned(),
                State::Reserved { holder, reservation } => {
                    format!("reserved for {holder} ({}, AddressReservation {reservation})", run.len())
                }
            };
            let _ = writeln!(text, "  {addresses:<40} {state}");
        }
    }
    text
}

/// What one more Service would be given.
pub(crate) fn answer(observed: Observed, service: LoadBalancer) -> String {
    let Observed { config, mut services, conflicts } = observed;
    let key = Arc::clone(&service.key);
    services.insert(Arc::clone(&key), Arc::new(service));
    let mut held = Held::default();
    held.set_conflicts(conflicts);
    let allocation = allocate(&config, &services, &held);
    let Some(outcome) = allocation.outcomes.get(&key) else { return String::new() };
    let given = outcome.assignment.as_ref().map(|it| {
        let addresses: Vec<String> = it.addresses.iter().map(ToString::to_string).collect();
        format!("{key} would have {} from pool {}\n", addresses.join(" and "), it.pools.join(" and "))
    });
    let refused = outcome.refusal.as_ref().map(|it| format!("{}: {it}\n", it.reason()));
    match (given, refused) {
        (Some(given), refused) => given + &refused.unwrap_or_default(),
        (None, refused) => format!("{key} would have no address\n") + &refused.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::allocator::by_key;
    use ferrolb_core::config::compile;
    use ferrolb_core::resources::Resources;
    use ferrolb_core::testing::{ServiceBuilder, pool, service};

    fn observed() -> Observed {
        let pools = [
            pool("default", &["192.168.10.200-192.168.10.205", "fd00::/126"]),
            pool("wrong", &["10.0.0.9-10.0.0.1"]),
        ];
        let holding = |name: &str, addresses: &[&str]| service("demo", name).shared("k").holding(addresses);
        let all: [ServiceBuilder; 3] = [
            holding("a", &["192.168.10.201"]),
            holding("b", &["192.168.10.201"]).ports(&[("TCP", 443)]),
            holding("c", &["fd00::1"]).cluster(&["fd00:96::1"]),
        ];
        Observed {
            config: compile(&Resources::default().with_pools(pools)).config,
            services: by_key(all.map(|it| it.lb())),
            conflicts: ["192.168.10.204".parse().unwrap()].into(),
        }
    }

    #[test]
    fn a_line_for_each_pool() {
        let expected = "\
POOL     USED  FREE IPV4  FREE IPV6  LARGEST FREE RUN  AUTO ASSIGN
default  2     5          3          2                 true
wrong                                                  left out for an error
";
        assert_eq!(summary(&observed()), expected);
    }

    #[test]
    fn addresses_page_by_page() {
        let observed = observed();
        let page = |from: Option<&str>, limit| {
            let page = Page { from: from.map(|it| it.parse().unwrap()), limit };
            detail(&observed, &observed.config.pools()["default"], page)
        };
        let first = "\
192.168.10.200-192.168.10.205: 1 used, 4 free in 3 runs, the largest of 2
  192.168.10.200                           free (1)
  192.168.10.201                           demo/a, demo/b
there is more: --from 192.168.10.202
";
        assert_eq!(page(None, 2), first);
        let second = "\
192.168.10.200-192.168.10.205: 1 used, 4 free in 3 runs, the largest of 2
  192.168.10.202-192.168.10.203            free (2)
  192.168.10.204                           used by a host outside the cluster
  192.168.10.205                           free (1)
fd00::-fd00::3: 1 used, 3 free in 2 runs, the largest of 2
  fd00::                                   free (1)
  fd00::1                                  demo/c
  fd00::2-fd00::3                          free (2)
";
        assert_eq!(page(Some("192.168.10.202"), 10), second);
        let last = second.lines().skip(4).collect::<Vec<_>>();
        assert_eq!(page(Some("fd00::"), 10).lines().collect::<Vec<_>>(), last);
    }

    #[test]
    fn what_one_more_would_have() {
        let asks = |it: ServiceBuilder| answer(observed(), it.lb());
        assert_eq!(asks(service("demo", "new")), "demo/new would have 192.168.10.200 from pool default\n");
        assert_eq!(
            asks(service("demo", "new").load_balancer_ip("192.168.10.201")),
            "demo/new would have no address\nSharingMismatch: can't change sharing key for \"demo/new\", address also in \
             use by demo/a,demo/b\n"
        );
        assert_eq!(
            asks(service("demo", "new").load_balancer_ip("192.168.10.204")),
            "demo/new would have no address\nAddressConflict: a host outside the cluster uses \"192.168.10.204\": remove \
             it there, or ask for another address\n"
        );
    }
}
