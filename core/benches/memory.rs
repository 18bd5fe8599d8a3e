//! What the controller's process holds for many Services: what it reads of them as they are listed, and a pass in
//! which all of them are given addresses. Prints the growth of the resident memory, at its highest.

use ferrolb_core::allocator::{Held, LoadBalancers, allocate, by_key};
use ferrolb_core::config::compile;
use ferrolb_core::resources::Resources;
use ferrolb_core::service::LoadBalancer;
use ferrolb_core::testing::pool;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

#[expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "measures this process, and ends if it cannot"
)]
fn highest_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// As the API server returns it, without what stores drop.
#[expect(clippy::unwrap_used, reason = "ends if the object is none")]
fn stored(number: usize) -> Service {
    let address = format!("10.{}.{}.{}", 96 + number / 65536, number / 256 % 256, number % 256);
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("service-{number:06}"), "namespace": format!("namespace-{:03}", number % 200),
            "uid": format!("3f1b7c1e-6e0f-4a52-9f0e-{number:012}"), "resourceVersion": (100_000 + number).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app.kubernetes.io/name": format!("app-{number}"), "app.kubernetes.io/part-of": "shop"},
        },
        "spec": {
            "type": "LoadBalancer", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None", "allocateLoadBalancerNodePorts": true,
            "selector": {"app.kubernetes.io/name": format!("app-{number}")},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30000},
                      {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 8443, "nodePort": 30001}],
        },
        "status": {"loadBalancer": {}},
    }))
    .unwrap()
}

fn main() {
    const COUNT: usize = 50_000;
    let before = highest_resident_kib();
    let services: LoadBalancers = by_key((0..COUNT).map(|number| LoadBalancer::new(&stored(number), [])));
    let of_view = highest_resident_kib();
    let config = compile(&Resources::default().with_pools([pool("p", &["10.0.0.0/8"])])).config;
    let mut held = Held::default();
    let allocation = allocate(&config, &services, &held);
    held.accept(&allocation);
    for (key, outcome) in allocation.outcomes.iter() {
        if let Some(write) = &outcome.write {
            held.record(std::sync::Arc::clone(key), write.clone());
        }
    }
    let of_pass = highest_resident_kib();
    let mib = |kib: u64| kib / 1024;
    println!(
        "memory of {COUNT} Services, MiB: {} what is read of them, {} a pass in which all are given addresses; \
         together {}",
        mib(of_view - before),
        mib(of_pass - of_view),
        mib(of_pass - before)
    );
}
