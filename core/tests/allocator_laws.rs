//! Laws of `allocate` over random histories: Services come, change and go, pools change, statuses are
//! overwritten, the controller's writes are seen late, it restarts, and a leader that was paused before
//! its writes sends them when another one has taken over. More and longer: `hack/soak`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrolb_api::v1alpha1::{AddressQuota, ReservedService};
use ferrolb_core::allocator::{Allocation, Assignment, Held, LoadBalancers, StatusWrite, allocate, by_key};
use ferrolb_core::config::{Config, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use ferrolb_core::testing::{ServiceBuilder, pool, reservation, service};
use proptest::prelude::*;

/// The pools of a moment: small, so that they run out, and sometimes wrong.
fn config(choice: usize) -> Config {
    let pools = match choice {
        0 => vec![pool("p", &["10.0.0.0/30", "fd00::/126"])],
        1 => vec![pool("p", &["10.0.0.0/30", "fd00::/126"]), pool("q", &["10.0.1.0/31"])],
        2 => vec![pool("p", &["10.0.0.2/31", "fd00::/127"]), pool("q", &["10.0.0.0/31"])],
        3 => vec![pool("p", &["10.0.0.0/30", "fd00::/126", "nonsense"]), pool("q", &["10.0.0.0/31"])],
        4 => vec![pool("p", &["10.0.0.3-10.0.0.0"])],
        5 | 6 => vec![pool("p", &["10.0.0.0/30"]), pool("q", &["fd00::/126"])],
        _ => vec![],
    };
    let mut reservations = Vec::new();
    if choice == 6 {
        let mut of_service = reservation("service", &["10.0.0.1"]);
        of_service.spec.service = Some(ReservedService { namespace: "ns".to_owned(), name: "s1".to_owned() });
        let mut of_namespace = reservation("namespace", &["10.0.0.2", "fd00::1"]);
        of_namespace.spec.namespace = Some("other".to_owned());
        let mut quota = reservation("quota", &["fd00::2"]);
        quota.spec.quotas = vec![AddressQuota { namespace: "ns".to_owned(), max_addresses: 3 }];
        reservations = vec![of_service, of_namespace, quota];
    }
    compile(&Resources::default().with_pools(pools).with_reservations(reservations)).config
}

#[derive(Clone, Debug)]
enum Step {
    /// A Service (by number) is created or replaced by one of this shape.
    Put(usize, usize),
    Delete(usize),
    Pools(usize),
    /// Strangers have these addresses (by their last parts), and no others.
    Strangers(BTreeSet<u8>),
    /// Somebody else writes another address (by its last part) into the status of a Service.
    Overwrite(usize, u8),
    /// The controller starts anew and knows statuses only.
    Restart,
    /// The leader is paused before its writes, and another one takes over.
    Pause,
    /// The leaders that were paused send their writes.
    Late,
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
        8 => (0..6usize, 0..10usize).prop_map(|(number, shape)| Step::Put(number, shape)),
        2 => (0..6usize).prop_map(Step::Delete),
        2 => (0..8usize).prop_map(Step::Pools),
        1 => prop::collection::btree_set(0..4u8, 0..3).prop_map(Step::Strangers),
        1 => (0..6usize, 0..6u8).prop_map(|(number, address)| Step::Overwrite(number, address)),
        1 => Just(Step::Restart),
        2 => Just(Step::Pause),
        2 => Just(Step::Late),
        3 => Just(Step::Wait),
    ];
    prop::collection::vec((step, any::<bool>()), 1..40)
}

#[derive(Clone)]
struct Object {
    service: ServiceBuilder,
    version: u32,
}

struct Sent {
    number: usize,
    /// Of the object that the write is for; what changed since refuses it.
    version: u32,
    write: StatusWrite,
    term: i32,
}

/// What the API server holds, what the leader's store shows of it, and what is on its way.
#[derive(Default)]
struct Cluster {
    config: usize,
    version: u32,
    stored: BTreeMap<usize, Object>,
    seen: BTreeMap<usize, Object>,
    held: Held,
    strangers: BTreeSet<IpAddr>,
    term: i32,
    paused: Vec<Sent>,
}

impl Cluster {
    fn store(&mut self, number: usize, service: ServiceBuilder) {
        self.version += 1;
        self.stored.insert(number, Object { service, version: self.version });
    }

    fn take(&mut self, step: &Step) {
        self.happen(step);
        self.held.set_conflicts(self.strangers.clone());
    }

    fn happen(&mut self, step: &Step) {
        match step {
            Step::Put(number, kind) => {
                let put = match self.stored.get(number) {
                    None => shape(*number, *kind).uid(&format!("uid-{}", self.version)),
                    // What somebody applies keeps the status and our annotations.
                    Some(before) => shape(*number, *kind).with_state_of(&before.service),
                };
                self.store(*number, put);
            }
            Step::Delete(number) => {
                self.stored.remove(number);
            }
            Step::Pools(choice) => self.config = *choice,
            Step::Strangers(last) => self.strangers = last.iter().map(|it| [10, 0, 0, *it].into()).collect(),
            Step::Overwrite(number, address) => {
                // What we did not give is whatever its status says.
                let given = |it: &&Object| it.service.clone().lb().grant.is_some();
                let Some(object) = self.stored.get(number).filter(given) else { return };
                let service = object.service.clone().holding(&[&format!("10.0.0.{address}")]);
                self.store(*number, service);
            }
            Step::Restart => self.held = Held::default(),
            Step::Pause => {
                for (number, write) in self.writes(&self.pass()) {
                    let version = self.seen[&number].version;
                    self.paused.push(Sent { number, version, write, term: self.term });
                }
                self.held = Held::default();
                self.term += 1;
            }
            Step::Late => {
                for sent in std::mem::take(&mut self.paused) {
                    let Some(object) = self.stored.get(&sent.number) else { continue };
                    if object.version == sent.version {
                        let service = object.service.clone().written(&sent.write, sent.term);
                        self.store(sent.number, service);
                    }
                }
            }
            Step::Wait => {}
        }
    }

    fn services(&self) -> LoadBalancers {
        by_key(self.seen.values().map(|it| it.service.clone().lb()))
    }

    fn pass(&self) -> Allocation {
        allocate(&config(self.config), &self.services(), &self.held)
    }

    /// The store shows everything.
    fn catch_up(&mut self) {
        self.seen = self.stored.clone();
        for key in self.services().into_keys() {
            self.held.forget(&key);
        }
    }

    fn writes(&self, allocation: &Allocation) -> Vec<(usize, StatusWrite)> {
        let of = |number: &usize| Some((*number, allocation.outcomes.get(&key(*number))?.write.clone()?));
        self.seen.keys().filter_map(of).collect()
    }

    /// The leader writes; what changed behind its store refuses. Returns who was not written.
    fn write(&mut self, allocation: &Allocation) -> BTreeSet<ServiceKey> {
        let mut refused = BTreeSet::new();
        for (number, write) in self.writes(allocation) {
            let seen = self.seen[&number].version;
            if let Some(object) = self.stored.get(&number).filter(|it| it.version == seen) {
                let service = object.service.clone().written(&write, self.term);
                self.store(number, service);
                self.held.record(key(number), write);
            } else {
                refused.insert(key(number));
            }
        }
        refused
    }
}

fn key(number: usize) -> ServiceKey {
    ServiceKey { namespace: "ns".to_owned(), name: format!("s{number}") }
}

fn addresses(assignment: Option<&Assignment>) -> Vec<IpAddr> {
    assignment.map(|it| it.addresses.to_vec()).unwrap_or_default()
}

fn given(allocation: &Allocation, key: &ServiceKey) -> Vec<IpAddr> {
    addresses(allocation.outcomes.get(key).and_then(|it| it.assignment.as_ref()))
}

fn may_share(a: &LoadBalancer, b: &LoadBalancer) -> bool {
    a.sharing.allows(&b.sharing) && a.ports.is_disjoint(&b.ports)
}

/// No address twice, except by sharing.
fn assert_once(
    services: &LoadBalancers,
    held: impl Fn(&LoadBalancer) -> Vec<IpAddr>,
) -> Result<(), TestCaseError> {
    let services: Vec<&LoadBalancer> = services.values().map(|it| &**it).collect();
    for (index, a) in services.iter().enumerate() {
        let own = held(a);
        for b in &services[index + 1..] {
            let twice = held(b).iter().any(|address| own.contains(address));
            prop_assert!(!twice || may_share(a, b), "{} and {}: {own:?}", a.key, b.key);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn laws(history in steps()) {
        let mut cluster = Cluster::default();
        let mut before: Option<(usize, LoadBalancers, Allocation)> = None;
        for (step, seen_at_once) in &history {
            cluster.take(step);
            let lagging = !seen_at_once && matches!(step, Step::Wait | Step::Pools(_) | Step::Late);
            if !lagging {
                cluster.catch_up();
            }
            let services = cluster.services();
            let config = config(cluster.config);
            let allocation = cluster.pass();

            assert_once(&services, |service| given(&allocation, &service.key))?;
            let mut used: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
            for (key, service) in &services {
                let own = given(&allocation, key);
                let known = ["p", "q", "p,q", "q,p"]
                    .iter()
                    .any(|recorded| config.pools_holding(&own, Some(recorded)).is_some());
                prop_assert!(own.is_empty() || known, "{key} holds {own:?} out of nowhere");
                prop_assert!(own.is_empty() || service.is_load_balancer);
                prop_assert!(
                    !own.is_empty() || !service.is_load_balancer || allocation.outcomes.get(key).unwrap().refusal.is_some(),
                    "{key} has nothing and is not told why"
                );
                let recorded = cluster.held.recorded().filter(|(of, _)| **of == **key);
                let recorded = recorded.flat_map(|(_, write)| addresses(write.assignment.as_ref()));
                let granted = service.grant.iter().flat_map(|grant| grant.addresses.clone());
                let had: BTreeSet<IpAddr> =
                    service.ingress.readable().chain(granted).chain(recorded).collect();
                for address in own.iter().filter(|it| !had.contains(it)) {
                    prop_assert!(!cluster.strangers.contains(address), "{key} is given a stranger's {address}");
                    let reserved = config.reservations().against(*address, key);
                    prop_assert!(reserved.is_none(), "{key} is given {address}: {reserved:?}");
                }
                for address in own {
                    if let Some(pool) = config.pool_around(address) {
                        used.entry(pool.name.clone()).or_default().insert(address);
                    }
                }
            }
            for (name, counters) in &allocation.counters {
                let recount = used.get(name).map_or(0, |it| i64::try_from(it.len()).unwrap());
                prop_assert_eq!(counters.assigned(), recount, "{}", name);
                prop_assert!(counters.v4.available() >= 0 && counters.v6.available() >= 0);
            }
            // Held stays held: nobody who changed nothing loses anything while the pools stay.
            if let Some((pools, earlier, result)) = &before {
                for (key, service) in earlier {
                    let unchanged = services.get(key).is_some_and(|now| {
                        let state = LoadBalancer::clone(now);
                        LoadBalancer {
                            ingress: state.ingress,
                            recorded_pool: state.recorded_pool,
                            grant: state.grant,
                            condition: state.condition,
                            ..LoadBalancer::clone(service)
                        } == **now
                    });
                    if *pools == cluster.config && unchanged && !matches!(step, Step::Restart) {
                        let now = given(&allocation, key);
                        let had = given(result, key);
                        prop_assert!(had.iter().all(|it| now.contains(it)), "{key}: {had:?} became {now:?}");
                    }
                }
            }
            cluster.held.accept(&allocation);
            // A second pass on the same view, after the writes, changes nothing more.
            let refused = cluster.write(&allocation);
            if !lagging {
                let again = allocate(&config, &services, &cluster.held);
                for (key, outcome) in again.outcomes.iter() {
                    prop_assert_eq!(&outcome.write, &None, "{}", key);
                    prop_assert_eq!(&outcome.assignment, &allocation.outcomes.get(key).unwrap().assignment, "{}", key);
                }
                // And the API server holds no address twice, whatever came late.
                let stored = by_key(cluster.stored.values().map(|it| it.service.clone().lb()));
                if !config.has_no_pools() {
                    assert_once(&stored, |service| service.ingress.readable().collect())?;
                }
            }
            let written = services.into_iter().filter(|(key, _)| !refused.contains(&**key)).collect();
            before = Some((cluster.config, written, allocation));
        }
    }
}
