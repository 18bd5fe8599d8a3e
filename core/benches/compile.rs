//! How long `compile` takes, and how that grows: pools with a tenth as many advertisements and peers each.
//! `hack/bench compile` runs it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ferrolb_api::v1beta1::{BGPAdvertisementSpec, IPAddressPool};
use ferrolb_core::admission::{Admission, Candidate, Operation, Verdict};
use ferrolb_core::config::{Memory, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{bgp_advertisement, bgp_peer, labels, match_labels, node, pool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// A pool of its own addresses, one of ten zones.
fn nth_pool(index: usize) -> IPAddressPool {
    let (high, low) = (index / 256, index % 256);
    let (four, six) =
        (format!("10.{high}.{low}.0/25"), format!("2001:db8:{index:x}::1-2001:db8:{index:x}::99"));
    let mut pool = pool(&format!("pool-{index}"), &[&four, &six]);
    pool.metadata.labels = Some(labels(&[("zone", &format!("zone-{}", index % 10))]));
    pool.metadata.namespace = Some("metallb-system".to_owned());
    pool.metadata.creation_timestamp = created(index);
    pool
}

/// In another order than the names.
fn created(index: usize) -> Option<Time> {
    let second = i64::try_from(index * 7_919 % 10_007).unwrap_or_default();
    Timestamp::from_second(second).ok().map(Time)
}

/// So many pools, a tenth as many advertisements (some by name, some by label, some of all; of three
/// preferences) and as many peers, on 50 nodes.
fn cluster(pools: usize) -> Resources {
    let advertisement = |index: usize| {
        let mut spec = BGPAdvertisementSpec {
            local_pref: i64::try_from(index % 3).ok(),
            peers: vec![format!("peer-{index}")],
            node_selectors: vec![match_labels(&[("rack", &format!("rack-{}", index % 10))])],
            ..Default::default()
        };
        match index % 10 {
            0 => {
                spec.ip_address_pool_selectors =
                    vec![match_labels(&[("zone", &format!("zone-{}", index / 10 % 10))])]
            }
            1 => {}
            _ => spec.ip_address_pools = (0..10).map(|nth| format!("pool-{}", index * 10 + nth)).collect(),
        }
        let mut advertisement = bgp_advertisement(&format!("ad-{index}"), spec);
        advertisement.metadata.creation_timestamp = created(index);
        advertisement
    };
    let peer = |index: usize| {
        let mut peer = bgp_peer(&format!("peer-{index}"), &format!("172.16.{}.{}", index / 256, index % 256));
        peer.spec.node_selectors = vec![match_labels(&[("rack", &format!("rack-{}", index % 10))])];
        peer.metadata.creation_timestamp = created(index);
        peer
    };
    let nodes =
        (0..50).map(|index| node(&format!("node-{index}"), &[("rack", &format!("rack-{}", index % 10))]));
    Resources::default()
        .with_pools((0..pools).map(nth_pool))
        .with_bgp_advertisements((0..pools / 10).map(advertisement))
        .with_bgp_peers((0..pools / 10).map(peer))
        .with_nodes(nodes)
}

fn whole(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(20);
    for pools in [1_000, 10_000, 40_000] {
        let resources = cluster(pools);
        let mut times: Vec<Duration> = (0..11)
            .map(|_| {
                let began = worked();
                assert!(compile(&resources).diagnostics.is_empty());
                worked() - began
            })
            .collect();
        times.sort();
        println!(
            "compile, {pools} pools: 11 times, half worked up to {:?}, the fastest {:?}",
            times[5], times[0]
        );
        group.bench_function(BenchmarkId::from_parameter(pools), |bencher| {
            bencher.iter(|| compile(black_box(&resources)));
        });
    }
    group.finish();
}

/// One object changes, appears or goes.
fn change(resources: &mut Resources, turn: usize) {
    let index = turn * 97 % 10_000;
    match turn % 5 {
        0 => {
            let mut pool = nth_pool(index);
            pool.spec.auto_assign = false;
            resources.pools.insert(format!("pool-{index}"), Arc::new(pool));
        }
        1 => {
            let address = format!("172.17.{}.{}", turn / 256, turn % 256);
            let mut peer = bgp_peer(&format!("peer-{}", index / 10), &address);
            peer.spec.node_selectors = vec![match_labels(&[("rack", "rack-1")])];
            resources.bgp_peers.insert(format!("peer-{}", index / 10), Arc::new(peer));
        }
        2 => {
            let name = format!("ad-{}", index / 10);
            let peers = vec![format!("peer-{}", index / 10)];
            let spec = BGPAdvertisementSpec { local_pref: Some(7), peers, ..Default::default() };
            resources.bgp_advertisements.insert(name.clone(), Arc::new(bgp_advertisement(&name, spec)));
        }
        // It overlaps with the one that it was made from.
        3 => {
            let mut pool = nth_pool(index);
            pool.metadata.name = Some(format!("more-{turn}"));
            resources.pools.insert(format!("more-{turn}"), Arc::new(pool));
        }
        _ => drop(resources.pools.remove(&format!("pool-{index}"))),
    }
}

/// How long this thread has been on a processor: what others run beside it counts less than by the clock.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn worked() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = times.split(' ').next().and_then(|it| it.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// One object changes, and all is compiled again.
fn edit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("edit");
    group.sample_size(20);
    let mut resources = cluster(10_000);
    let mut memory = Memory::default();
    let mut last = memory.compile(&resources);
    let mut times = vec![Vec::new(); 5];
    for turn in 0..100 {
        change(&mut resources, turn);
        let began = worked();
        let compiled = memory.compile(&resources);
        times[turn % 5].push(worked() - began);
        last = compiled;
    }
    let kinds = ["pool changed", "peer changed", "advertisement changed", "pool made", "pool deleted"];
    for (kind, times) in kinds.iter().zip(&mut times) {
        times.sort();
        println!("edit, {kind}: 20 times, half worked up to {:?}, the slowest {:?}", times[10], times[19]);
    }
    assert!(!last.diagnostics.is_empty());
    let mut resources = cluster(10_000);
    memory.compile(&resources);
    let mut turn = 0;
    group.bench_function("10000 pools, one of them", |bencher| {
        bencher.iter(|| {
            turn += 1;
            let mut pool = nth_pool(5_000);
            pool.spec.auto_assign = turn % 2 == 0;
            resources.pools.insert("pool-5000".to_owned(), Arc::new(pool));
            memory.compile(black_box(&resources))
        });
    });
    group.finish();
}

/// One review after the other, each of what is stored afterwards.
fn admission(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("admission");
    group.sample_size(20);
    for (what, kept) in [("one of many reviews", true), ("the first", false)] {
        let mut resources = cluster(10_000);
        let mut admission = Admission::default();
        let mut turn = 0;
        group.bench_function(what, |bencher| {
            bencher.iter(|| {
                turn += 1;
                let mut pool = nth_pool(turn * 97 % 10_000);
                pool.spec.auto_assign = turn % 2 == 0;
                let pool = Arc::new(pool);
                if !kept {
                    admission = Admission::default();
                }
                let candidate = Candidate::IpAddressPool(Arc::clone(&pool));
                let verdict =
                    admission.admit(black_box(&resources), candidate, Operation::Update, "metallb-system");
                assert_eq!(verdict, Verdict::allowed());
                resources = std::mem::take(&mut resources).with_pools([pool]);
            });
        });
    }
    group.finish();
}

/// Advertisements of all pools and to all peers, each with a preference of its own: nothing clashes, since
/// each is for a node, a peer or a pool of its own.
fn preferences(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000 preferences, each of its own");
    group.sample_size(10);
    let resources = cluster(1_000);
    let names = (0..1_000).map(|nth| node(&format!("n-{nth}"), &[("n", &format!("n-{nth}"))]));
    let resources = resources.with_nodes(names);
    for what in ["node", "peer", "pool"] {
        let advertisement = |nth: usize| {
            let mut spec = BGPAdvertisementSpec { local_pref: i64::try_from(nth).ok(), ..Default::default() };
            match what {
                "node" => spec.node_selectors = vec![match_labels(&[("n", &format!("n-{nth}"))])],
                "peer" => spec.peers = vec![format!("more-{nth}")],
                _ => spec.ip_address_pools = vec![format!("pool-{nth}")],
            }
            bgp_advertisement(&format!("ad-{nth}"), spec)
        };
        let mut resources = resources.clone();
        resources.bgp_advertisements.clear();
        let resources = resources.with_bgp_advertisements((0..1_000).map(advertisement));
        group.bench_function(what, |bencher| bencher.iter(|| compile(black_box(&resources))));
    }
    group.finish();
}

/// Peers that are one router, each for a node of its own: there is nothing to report. And all for all nodes:
/// each but the first is reported once.
fn routers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000 peers of one router");
    group.sample_size(10);
    let names = (0..1_000).map(|nth| node(&format!("n-{nth}"), &[("n", &format!("n-{nth}"))]));
    let nodes = Resources::default().with_nodes(names);
    for (what, apart) in [("on a node each", true), ("on all nodes", false)] {
        let peer = |nth: usize| {
            let mut peer = bgp_peer(&format!("peer-{nth}"), "172.16.0.1");
            if apart {
                peer.spec.node_selectors = vec![match_labels(&[("n", &format!("n-{nth}"))])];
            }
            peer
        };
        let resources = nodes.clone().with_bgp_peers((0..1_000).map(peer));
        assert_eq!(compile(&resources).diagnostics.len(), if apart { 0 } else { 999 });
        group.bench_function(what, |bencher| bencher.iter(|| compile(black_box(&resources))));
    }
    group.finish();
}

criterion_group!(benches, whole, edit, admission, preferences, routers);
criterion_main!(benches);
