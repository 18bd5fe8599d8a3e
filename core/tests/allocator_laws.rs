//! Laws of `allocate` over random histories: Services come, change and go, pools change, writes are
//! seen at once, later, or not before the controller restarts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use ferrolb_core::allocator::{Allocation, Assignment, Held, LoadBalancers, StatusWrite, allocate};
use ferrolb_core::config::{Config, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_core::testing::{ServiceBuilder, pool, service};
use proptest::prelude::*;

/// The pools of a moment: small, so that they run out, and sometimes wrong.
fn config(choice: usize) -> Config {
    let pools = match choice {
        0 => vec![pool("p", &["10.0.0.0/30", "fd00::/126"])],
        1 => vec![pool("p", &["10.0.0.0/30", "fd00::/126"]), pool("q", &["10.0.1.0/31"])],
        2 => vec![pool("p", &["10.0.0.2/31", "fd00::/127"]), pool("q", &["10.0.0.0/31"])],
        3 => vec![pool("p", &["10.0.0.0/30", "fd00::/126", "nonsense"]), pool("q", &["10.0.0.0/31"])],
        4 => vec![pool("p", &["10.0.0.3-10.0.0.0"])],
        _ => vec![],
    };
    compile(&Resources::default().with_pools(pools)).config
}

#[derive(Clone, Debug)]
enum Step {
    /// A Service (by number) is created or replaced by one of this shape.
    Put(usize, usize),
    Delete(usize),
    Pools(usize),
    /// The controller starts anew and knows statuses only.
    Restart,
    /// Nothing but a pass.
    Wait,
}

fn shape(number: usize, shape: usize) -> ServiceBuilder {
    let it = service("ns", &format!("s{number}"));
    match shape {
        0 => it,
        1 => it.cluster(&["fd00:96::1"]),
        2 => it.cluster(&["10.96.0.1", "fd00:96::1"]).policy("PreferDualStack"),
        3 => it.cluster(&["10.96.0.1", "fd00:96::1"]).policy("RequireDualStack"),
        4 => it.shared("k").ports(&[("TCP", 80 + i32::try_from(number).unwrap())]),
        5 => it.shared("k"),
        6 => it.shared("k").local(true).selector(&[("app", "x")]).ports(&[("UDP", 53)]),
        7 => it.annotations(&[("metallb.io/loadBalancerIPs", "10.0.0.1")]),
        8 => it.annotations(&[("metallb.io/address-pool", "q")]),
        _ => it.kind("ClusterIP"),
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, bool)>> {
    let step = prop_oneof![
        6 => (0..6usize, 0..10usize).prop_map(|(number, shape)| Step::Put(number, shape)),
        1 => (0..6usize).prop_map(Step::Delete),
        1 => (0..6usize).prop_map(Step::Pools),
        1 => Just(Step::Restart),
        2 => Just(Step::Wait),
    ];
    prop::collection::vec((step, any::<bool>()), 1..40)
}

/// What the API server holds, and what the controller's store shows of it.
struct Cluster {
    config: usize,
    stored: BTreeMap<usize, ServiceBuilder>,
    seen: BTreeMap<usize, ServiceBuilder>,
    held: Held,
}

impl Cluster {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Put(number, kind) => {
                let mut put = shape(*number, *kind);
                // What somebody applies keeps the status.
                if let Some(before) = self.stored.get(number) {
                    let lb = before.clone().lb();
                    let addresses = lb.ingress.addresses().unwrap();
                    let assignment = lb.recorded_pool.map(|pool| Assignment { addresses, pool });
                    put = put.written(&StatusWrite { uid: String::new(), assignment });
                }
                self.stored.insert(*number, put);
            }
            Step::Delete(number) => {
                self.stored.remove(number);
            }
            Step::Pools(choice) => self.config = *choice,
            Step::Restart => {
                self.held = Held::default();
                self.catch_up();
            }
            Step::Wait => {}
        }
    }

    fn services(&self) -> LoadBalancers {
        self.seen.values().map(|it| it.clone().lb()).map(|it| (it.key.clone(), it)).collect()
    }

    /// The store shows everything.
    fn catch_up(&mut self) {
        self.seen = self.stored.clone();
        for key in self.services().into_keys() {
            self.held.forget(&key);
        }
    }

    fn write(&mut self, allocation: &Allocation) {
        for (number, stored) in &mut self.stored {
            let key = ServiceKey { namespace: "ns".to_owned(), name: format!("s{number}") };
            let write = allocation.outcomes.get(&key).and_then(|it| it.write.clone());
            if let Some(write) = write {
                *stored = stored.clone().written(&write);
                self.held.record(key, write);
            }
        }
    }
}

fn addresses(allocation: &Allocation, key: &ServiceKey) -> Vec<IpAddr> {
    let assignment = allocation.outcomes.get(key).and_then(|it| it.assignment.as_ref());
    assignment.map(|it| it.addresses.clone()).unwrap_or_default()
}

fn may_share(a: &LoadBalancer, b: &LoadBalancer) -> bool {
    a.sharing.allows(&b.sharing) && a.ports.is_disjoint(&b.ports)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn laws(history in steps()) {
        let mut cluster =
            Cluster { config: 0, stored: BTreeMap::new(), seen: BTreeMap::new(), held: Held::default() };
        let mut before: Option<(usize, LoadBalancers, Allocation)> = None;
        for (step, seen_at_once) in &history {
            cluster.take(step);
            // Creations, changes and deletions are seen; our own writes perhaps not yet.
            let lagging = cluster.seen.clone();
            cluster.seen = cluster.stored.clone();
            if !seen_at_once && matches!(step, Step::Wait | Step::Pools(_)) {
                cluster.seen = lagging;
            } else {
                cluster.catch_up();
            }
            let services = cluster.services();
            let config = config(cluster.config);
            let allocation = allocate(&config, &services, &cluster.held);

            let keys: Vec<&ServiceKey> = services.keys().collect();
            for (index, a) in keys.iter().enumerate() {
                let own = addresses(&allocation, a);
                for b in &keys[index + 1..] {
                    let twice = own.iter().any(|address| addresses(&allocation, b).contains(address));
                    prop_assert!(!twice || may_share(&services[*a], &services[*b]), "{a} and {b}: {own:?}");
                }
                for address in &own {
                    let known = config.pool_with(&own).is_some()
                        || config.left_out_pool_with(&own, Some("p")).is_some()
                        || config.left_out_pool_with(&own, Some("q")).is_some();
                    prop_assert!(known, "{a} holds {address} out of nowhere");
                }
                if !own.is_empty() {
                    prop_assert!(services[*a].is_load_balancer);
                }
            }
            // Held stays held: nobody who changed nothing loses anything while the pools stay.
            if let Some((pools, earlier, result)) = &before {
                for (key, service) in earlier {
                    let unchanged = services.get(key).is_some_and(|now| {
                        LoadBalancer { ingress: now.ingress.clone(), recorded_pool: now.recorded_pool.clone(), ..service.clone() } == *now
                    });
                    if *pools == cluster.config && unchanged && !matches!(step, Step::Restart) {
                        let now = addresses(&allocation, key);
                        let had = addresses(result, key);
                        prop_assert!(had.iter().all(|it| now.contains(it)), "{key}: {had:?} became {now:?}");
                    }
                }
            }
            cluster.held.accept(&allocation);
            cluster.write(&allocation);
            // A second pass on the same view changes nothing more.
            let again = allocate(&config, &services, &cluster.held);
            for (key, outcome) in &again.outcomes {
                prop_assert_eq!(&outcome.write, &None, "{}", key);
                prop_assert_eq!(&outcome.assignment, &allocation.outcomes[key].assignment, "{}", key);
            }
            before = Some((cluster.config, services, allocation));
        }
    }
}
