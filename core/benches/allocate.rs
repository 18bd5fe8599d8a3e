//! How long it takes to give addresses: one more in a pool of any fill, and everything anew.
//!
//! The Services are mixed: every tenth asks for an address of its own, every fifth shares under one of a
//! thousand keys, the others take what they get.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use ferrolb_core::allocator::{Held, LoadBalancers, allocate, by_key};
use ferrolb_core::config::{Config, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{ServiceBuilder, pool, service};

const FIRST: u32 = 10 << 24;

fn config(addresses: u32) -> Config {
    let last = Ipv4Addr::from(FIRST + addresses - 1);
    let entry = if addresses == 1 << 24 { "10.0.0.0/8".to_owned() } else { format!("10.0.0.0-{last}") };
    compile(&Resources::default().with_pools([pool("p", &[&entry])])).config
}

fn mixed(number: u32) -> ServiceBuilder {
    let it = service("ns", &format!("s{number:06}")).uid(&format!("u{number}"));
    match number % 10 {
        0 => it.annotations(&[("metallb.io/loadBalancerIPs", &Ipv4Addr::from(FIRST + number).to_string())]),
        1 | 2 => it
            .shared(&format!("key-{}", number % 1000))
            .ports(&[("TCP", 80 + i32::try_from(number % 7).unwrap_or(0))]),
        _ => it,
    }
}

/// The Services as they are after they were all given an address.
fn assigned(config: &Config, count: u32) -> LoadBalancers {
    let waiting: Vec<ServiceBuilder> = (0..count).map(mixed).collect();
    let allocation = allocate(config, &by_key(waiting.iter().map(|it| it.clone().lb())), &Held::default());
    by_key(waiting.into_iter().map(|service| {
        let lb = service.clone().lb();
        let write = allocation.outcomes.get(&lb.key).and_then(|it| it.write.clone());
        write.map_or(lb, |write| service.written(&write, 1).lb())
    }))
}

/// All wait and are given addresses, in one pass.
fn from_nothing(c: &mut Criterion) {
    let mut group = c.benchmark_group("all wait");
    let config = config(1 << 24);
    for count in [10_000, 50_000, 100_000] {
        let services = by_key((0..count).map(|it| mixed(it).lb()));
        group.bench_with_input(BenchmarkId::from_parameter(count), &services, |b, services| {
            b.iter(|| black_box(allocate(&config, services, &Held::default())));
        });
    }
    group.finish();
}

/// All have their addresses: a pass that changes nothing.
fn at_rest(c: &mut Criterion) {
    let mut group = c.benchmark_group("all have");
    let config = config(1 << 24);
    for count in [10_000, 50_000, 100_000] {
        let services = assigned(&config, count);
        let mut held = Held::default();
        held.accept(&allocate(&config, &services, &held));
        group.bench_with_input(BenchmarkId::from_parameter(count), &services, |b, services| {
            b.iter(|| black_box(allocate(&config, services, &held)));
        });
    }
    group.finish();
}

/// A hundred more in a pool that is so many percent full with 50,000 Services: compare the lines.
fn by_fill(c: &mut Criterion) {
    let mut group = c.benchmark_group("50000 and 100 more, by fill in percent");
    for percent in [1, 50, 90, 99] {
        let held_addresses = 49_000;
        let config = config(held_addresses * 100 / percent + 200);
        let mut services = assigned(&config, 50_000);
        services.extend(by_key((50_000..50_100).map(|it| mixed(it * 10 + 3).lb())));
        group.bench_with_input(BenchmarkId::from_parameter(percent), &services, |b, services| {
            b.iter_batched(
                Held::default,
                |held| black_box(allocate(&config, services, &held)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5))
}

criterion_group! { name = benches; config = criterion(); targets = from_nothing, at_rest, by_fill }
criterion_main!(benches);
