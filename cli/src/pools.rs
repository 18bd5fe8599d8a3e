//! How full pools are, as text. Pure.

use std::fmt::Write;
use std::net::IpAddr;

use ferrolb_core::allocator::usage::{RangeUsage, State, usage};
use ferrolb_core::allocator::{Held, LoadBalancers, allocate};
use ferrolb_core::config::{Config, Pool};
use ferrolb_core::service::LoadBalancer;

use crate::table::table;

/// Which part of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Address to begin with.
    pub(crate) from: Option<IpAddr>,
    /// Lines at most.
    pub(crate) limit: usize,
}

/// A line for each pool.
pub(crate) fn summary(config: &Config, services: &LoadBalancers) -> String {
    let counters = allocate(config, services, &Held::default()).counters;
    let mut rows = vec![
        ["POOL", "USED", "FREE IPV4", "FREE IPV6", "LARGEST FREE RUN", "AUTO ASSIGN"].map(str::to_owned),
    ];
    for (name, pool) in config.pools() {
        let status = counters.get(name).copied().unwrap_or_default();
        let largest = usage(pool, services).iter().flat_map(RangeUsage::free).max().unwrap_or(0);
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
pub(crate) fn detail(pool: &Pool, services: &LoadBalancers, page: Page) -> String {
    let mut text = String::new();
    let mut left = page.limit;
    for range in usage(pool, services) {
        let (free, largest) = (range.free().fold(0, u128::saturating_add), range.free().max().unwrap_or(0));
        let runs = range.free().count();
        let title = format!("{}-{}", range.range.first(), range.range.last());
        let _ = writeln!(
            text,
            "{title}: {} used, {free} free in {runs} runs, the largest of {largest}",
            range.used()
        );
        let rows = range.runs.iter().filter(|run| page.from.is_none_or(|from| from <= run.last));
        for run in rows {
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
                State::Free => format!("free ({})", run.len()),
                State::KeptBack => "kept back (avoidBuggyIPs)".to_owned(),
            };
            let _ = writeln!(text, "  {addresses:<40} {state}");
        }
    }
    text
}

/// What one more Service would be given.
pub(crate) fn answer(config: &Config, mut services: LoadBalancers, service: LoadBalancer) -> String {
    let key = service.key.clone();
    services.insert(key.clone(), service);
    let mut allocation = allocate(config, &services, &Held::default());
    let Some(outcome) = allocation.outcomes.remove(&key) else { return String::new() };
    let given = outcome.assignment.map(|it| {
        let addresses: Vec<String> = it.addresses.iter().map(ToString::to_string).collect();
        format!("{key} would have {} from pool {}\n", addresses.join(" and "), it.pool)
    });
    let refused = outcome.refusal.map(|it| format!("{}: {it}\n", it.reason()));
    match (given, refused) {
        (Some(given), refused) => given + &refused.unwrap_or_default(),
        (None, refused) => format!("{key} would have no address\n") + &refused.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::config::compile;
    use ferrolb_core::resources::Resources;
    use ferrolb_core::testing::{ServiceBuilder, pool, service};

    fn config() -> Config {
        compile(&Resources::default().with_pools([
            pool("default", &["192.168.10.200-192.168.10.205", "fd00::/126"]),
            pool("wrong", &["10.0.0.9-10.0.0.1"]),
        ]))
        .config
    }

    fn services() -> LoadBalancers {
        let holding = |name: &str, addresses: &[&str]| service("demo", name).shared("k").holding(addresses);
        let all: [ServiceBuilder; 3] = [
            holding("a", &["192.168.10.201"]),
            holding("b", &["192.168.10.201"]).ports(&[("TCP", 443)]),
            holding("c", &["fd00::1"]).cluster(&["fd00:96::1"]),
        ];
        all.map(|it| it.lb()).map(|it| (it.key.clone(), it)).into()
    }

    #[test]
    fn a_line_for_each_pool() {
        let expected = "\
POOL     USED  FREE IPV4  FREE IPV6  LARGEST FREE RUN  AUTO ASSIGN
default  2     5          3          4                 true
wrong                                                  left out for an error
";
        assert_eq!(summary(&config(), &services()), expected);
    }

    #[test]
    fn addresses_page_by_page() {
        let config = config();
        let page = |from: Option<&str>, limit| {
            detail(
                &config.pools()["default"],
                &services(),
                Page { from: from.map(|it| it.parse().unwrap()), limit },
            )
        };
        let first = "\
192.168.10.200-192.168.10.205: 1 used, 5 free in 2 runs, the largest of 4
  192.168.10.200                           free (1)
  192.168.10.201                           demo/a, demo/b
there is more: --from 192.168.10.202
";
        assert_eq!(page(None, 2), first);
        let second = "\
192.168.10.200-192.168.10.205: 1 used, 5 free in 2 runs, the largest of 4
  192.168.10.202-192.168.10.205            free (4)
fd00::-fd00::3: 1 used, 3 free in 2 runs, the largest of 2
  fd00::                                   free (1)
  fd00::1                                  demo/c
  fd00::2-fd00::3                          free (2)
";
        assert_eq!(page(Some("192.168.10.202"), 10), second);
    }

    #[test]
    fn what_one_more_would_have() {
        let asks = |it: ServiceBuilder| answer(&config(), services(), it.lb());
        assert_eq!(asks(service("demo", "new")), "demo/new would have 192.168.10.200 from pool default\n");
        assert_eq!(
            asks(service("demo", "new").load_balancer_ip("192.168.10.201")),
            "demo/new would have no address\nSharingMismatch: can't change sharing key for \"demo/new\", address also in \
             use by demo/a,demo/b\n"
        );
    }
}
