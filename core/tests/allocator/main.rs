//! `allocate`, table by table: a world of pools and Services, passes, and the writes applied to the
//! Services as the API server would.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod one;
mod pools;
mod reserved;
mod several;
mod specific;
mod told;

use ferrolb_api::v1beta1::IPAddressPool;
use ferrolb_core::allocator::{Allocation, Held, LoadBalancers, Outcome, PoolCounters, allocate, by_key};
use ferrolb_core::config::{Config, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::ServiceKey;
use ferrolb_core::testing::{ServiceBuilder, dual_pool, on_request, pool, restricted, service};

fn config(pools: impl IntoIterator<Item = IPAddressPool>) -> Config {
    compile(&Resources::default().with_pools(pools)).config
}

fn buggy(name: &str, entries: &[&str]) -> IPAddressPool {
    let mut object = pool(name, entries);
    object.spec.avoid_buggy_ips = true;
    object
}

/// Services and what the controller remembers of them.
#[derive(Default)]
struct World {
    services: Vec<ServiceBuilder>,
    held: Held,
    /// Of the leader that makes the passes.
    term: i32,
}

impl World {
    fn with(services: impl IntoIterator<Item = ServiceBuilder>) -> Self {
        Self { services: services.into_iter().collect(), held: Held::default(), term: 1 }
    }

    fn lbs(&self) -> LoadBalancers {
        by_key(self.services.iter().map(|it| it.clone().lb()))
    }

    /// One pass; what it writes is seen by the next.
    fn pass(&mut self, config: &Config) -> Allocation {
        let allocation = allocate(config, &self.lbs(), &self.held);
        self.held.accept(&allocation);
        for service in &mut self.services {
            if let Some(write) = &allocation.outcomes.get(&service.clone().lb().key).unwrap().write {
                *service = service.clone().written(write, self.term);
            }
        }
        allocation
    }

    /// Passes until nothing is written any more; what each Service has then.
    fn settle(&mut self, config: &Config) -> Vec<String> {
        for _ in 0..3 {
            if self.pass(config).outcomes.values().all(|outcome| outcome.write.is_none()) {
                return self.services.iter().map(|it| it.clone().lb().ingress.texts().join(" ")).collect();
            }
        }
        panic!("the passes do not come to rest");
    }

    fn change(&mut self, index: usize, change: impl FnOnce(ServiceBuilder) -> ServiceBuilder) {
        let service = self.services.remove(index);
        self.services.insert(index, change(service));
    }
}

/// "Warning reason: text" for each Event.
fn events(outcome: &Outcome) -> Vec<String> {
    let kind = |warning| if warning { "Warning" } else { "Normal" };
    outcome.events.iter().map(|it| format!("{} {}: {it}", kind(it.is_warning()), it.reason())).collect()
}

fn dual_config() -> Config {
    config(dual_pool())
}

const V6: &[&str] = &["fd00:96::1"];
const DUAL: &[&str] = &["10.96.0.1", "fd00:96::1"];

fn named(name: &str) -> ServiceBuilder {
    service("ns", name)
}

fn asking(name: &str, address: &str) -> ServiceBuilder {
    named(name).annotations(&[("metallb.io/loadBalancerIPs", address)])
}

fn why(allocation: &Allocation, name: &str) -> String {
    let key = ServiceKey { namespace: "ns".to_owned(), name: name.to_owned() };
    allocation.outcomes.get(&key).unwrap().refusal.as_ref().map(ToString::to_string).unwrap_or_default()
}
