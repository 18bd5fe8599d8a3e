//! How long `compile` takes, and how that grows: pools with a tenth as many advertisements and peers each.
//! `hack/bench compile` runs it.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ferrolb_api::v1beta1::{BGPAdvertisementSpec, IPAddressPool};
use ferrolb_core::admission::{Candidate, Operation, admit};
use ferrolb_core::config::{Memory, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{bgp_advertisement, bgp_peer, labels, match_labels, node, pool};

/// A pool of its own addresses, one of ten zones.
fn nth_pool(index: usize) -> IPAddressPool {
    let (high, low) = (index / 256, index % 256);
    let (four, six) =
        (format!("10.{high}.{low}.0/25"), format!("2001:db8:{index:x}::1-2001:db8:{index:x}::99"));
    let mut pool = pool(&format!("pool-{index}"), &[&four, &six]);
    pool.metadata.labels = Some(labels(&[("zone", &format!("zone-{}", index % 10))]));
    pool.metadata.namespace = Some("metallb-system".to_owned());
    pool
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
        bgp_advertisement(&format!("ad-{index}"), spec)
    };
    let peer = |index: usize| {
        let mut peer = bgp_peer(&format!("peer-{index}"), &format!("172.16.{}.{}", index / 256, index % 256));
        peer.spec.node_selectors = vec![match_labels(&[("rack", &format!("rack-{}", index % 10))])];
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
        assert!(compile(&resources).diagnostics.is_empty());
        group.bench_function(BenchmarkId::from_parameter(pools), |bencher| {
            bencher.iter(|| compile(black_box(&resources)));
        });
    }
    group.finish();
}

/// One pool changes, and all is compiled again.
fn edit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("edit");
    group.sample_size(20);
    let mut resources = cluster(10_000);
    let mut memory = Memory::default();
    memory.compile(&resources);
    let mut turn = 0;
    group.bench_function(BenchmarkId::from_parameter(10_000), |bencher| {
        bencher.iter(|| {
            turn += 1;
            let mut pool = nth_pool(5_000);
            pool.spec.auto_assign = turn % 2 == 0;
            resources.pools.insert("pool-5000".to_owned(), Arc::new(pool));
            memory.compile(black_box(&resources))
        });
    });
    group.bench_function("admission", |bencher| {
        bencher.iter(|| {
            let candidate = Candidate::IpAddressPool(Arc::new(nth_pool(5_000)));
            admit(black_box(&resources), candidate, Operation::Update, "metallb-system")
        });
    });
    group.finish();
}

criterion_group!(benches, whole, edit);
criterion_main!(benches);
