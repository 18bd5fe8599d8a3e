//! Metrics of the controller, with MetalLB's names.

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_core::allocator::PoolCounters;
use prometheus::{IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

/// What the controller counts.
pub(crate) struct Metrics {
    total: [IntGaugeVec; 3],
    in_use: [IntGaugeVec; 3],
    services: IntGaugeVec,
    pools: BTreeSet<String>,
    /// Decisions made.
    pub(crate) updates: IntCounter,
    /// Writes that failed.
    pub(crate) update_errors: IntCounter,
    /// Whether a configuration was read.
    pub(crate) config_loaded: IntGauge,
    /// Whether an object is left out of it.
    pub(crate) config_stale: IntGauge,
}

impl Metrics {
    /// Registers all of them.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let by_pool = |name: &str, help: &str| {
            let gauge = IntGaugeVec::new(Opts::new(format!("metallb_allocator_{name}"), help), &["pool"])?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone())).map(|()| counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        Ok(Self {
            total: [
                by_pool("addresses_total", "Number of usable IP addresses, per pool")?,
                by_pool("ipv4_addresses_total", "Number of usable IPV4 addresses, per pool")?,
                by_pool("ipv6_addresses_total", "Number of usable IPV6 addresses, per pool")?,
            ],
            in_use: [
                by_pool("addresses_in_use_total", "Number of IP addresses in use, per pool")?,
                by_pool("ipv4_addresses_in_use_total", "Number of IPV4 addresses in use, per pool")?,
                by_pool("ipv6_addresses_in_use_total", "Number of IPV6 addresses in use, per pool")?,
            ],
            services: by_pool("services_allocated_total", "Number of services allocated, per pool")?,
            pools: BTreeSet::new(),
            updates: counter(
                "metallb_k8s_client_updates_total",
                "Number of k8s object updates that have been processed.",
            )?,
            update_errors: counter(
                "metallb_k8s_client_update_errors_total",
                "Number of k8s object updates that failed for some reason.",
            )?,
            config_loaded: gauge(
                "metallb_k8s_client_config_loaded_bool",
                "1 if the MetalLB configuration was successfully loaded at least once.",
            )?,
            config_stale: gauge(
                "metallb_k8s_client_config_stale_bool",
                "1 if running on a stale configuration, because the latest config failed to load.",
            )?,
        })
    }

    /// Shows how full the pools are; what is gone is shown no more.
    pub(crate) fn show_pools(
        &mut self,
        counters: &BTreeMap<String, PoolCounters>,
        services: &BTreeMap<String, i64>,
    ) {
        for gone in self.pools.iter().filter(|pool| !counters.contains_key(*pool)) {
            for gauge in self.total.iter().chain(&self.in_use).chain([&self.services]) {
                // A series that was never shown is gone as well.
                let _ = gauge.remove_label_values(&[gone]);
            }
        }
        for (pool, count) in counters {
            let totals = [count.capacity(), count.v4.capacity, count.v6.capacity];
            let used = [count.assigned(), count.v4.assigned, count.v6.assigned];
            for (gauge, value) in self.total.iter().zip(totals).chain(self.in_use.iter().zip(used)) {
                gauge.with_label_values(&[pool]).set(value);
            }
            self.services.with_label_values(&[pool]).set(services.get(pool).copied().unwrap_or(0));
        }
        self.pools = counters.keys().cloned().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_come_and_go() {
        let registry = Registry::new();
        let mut metrics = Metrics::register(&registry).unwrap();
        let counters = [("default".to_owned(), PoolCounters::default())].into();
        metrics.show_pools(&counters, &[("default".to_owned(), 2)].into());
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(text.contains(r#"metallb_allocator_services_allocated_total{pool="default"} 2"#), "{text}");
        metrics.show_pools(&BTreeMap::new(), &BTreeMap::new());
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(!text.contains("default"), "{text}");
    }
}
