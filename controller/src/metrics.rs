//! Metrics of the controller, with MetalLB's names.

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_core::allocator::Allocation;
use ferrolb_core::config::Compiled;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

use crate::states::is_ours;

/// What the controller counts.
pub(crate) struct Metrics {
    total: [IntGaugeVec; 3],
    in_use: [IntGaugeVec; 3],
    services: IntGaugeVec,
    pools: BTreeSet<String>,
    refused: IntGaugeVec,
    reasons: BTreeSet<&'static str>,
    /// From a change to the status that follows from it.
    pub(crate) latency: Histogram,
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
        let refused = IntGaugeVec::new(
            Opts::new(
                "ferrolb_controller_refused_services",
                "Number of services without what they ask for, by reason",
            ),
            &["reason"],
        )?;
        registry.register(Box::new(refused.clone()))?;
        let latency = Histogram::with_opts(
            HistogramOpts::new(
                "ferrolb_controller_assignment_duration_seconds",
                "Time from the arrival of a change to the written status that follows from it.",
            )
            .buckets(prometheus::exponential_buckets(0.005, 2.0, 14)?),
        )?;
        registry.register(Box::new(latency.clone()))?;
        Ok(Self {
            refused,
            reasons: BTreeSet::new(),
            latency,
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

    /// Shows whether all of the configuration is in force.
    pub(crate) fn show_configuration(&self, compiled: &Compiled) {
        let invalid = compiled.diagnostics.iter().any(is_ours);
        self.config_loaded.set(1);
        self.config_stale.set(invalid.into());
    }

    /// Shows how full the pools are and who was refused; what is gone is shown no more.
    pub(crate) fn show_allocation(&mut self, allocation: &Allocation) {
        let mut services: BTreeMap<&str, i64> = BTreeMap::new();
        let mut refused: BTreeMap<&'static str, i64> = BTreeMap::new();
        for outcome in allocation.outcomes.values() {
            for pool in outcome.assignment.iter().flat_map(|it| it.pools.iter()) {
                *services.entry(pool).or_default() += 1;
            }
            if let Some(refusal) = &outcome.refusal {
                *refused.entry(refusal.reason()).or_default() += 1;
            }
        }
        self.forget_reasons(|reason| refused.contains_key(reason));
        for (reason, count) in &refused {
            self.refused.with_label_values(&[reason]).set(*count);
        }
        self.reasons = refused.into_keys().collect();
        self.forget(|pool| allocation.counters.contains_key(pool));
        for (pool, count) in &allocation.counters {
            let totals = [count.capacity(), count.v4.capacity, count.v6.capacity];
            let used = [count.assigned(), count.v4.assigned, count.v6.assigned];
            for (gauge, value) in self.total.iter().zip(totals).chain(self.in_use.iter().zip(used)) {
                gauge.with_label_values(&[pool]).set(value);
            }
            self.services.with_label_values(&[pool]).set(services.get(&**pool).copied().unwrap_or(0));
        }
        self.pools = allocation.counters.keys().cloned().collect();
    }

    /// Another process counts now; two that show the same would be added up.
    pub(crate) fn forget_pools(&mut self) {
        self.forget_reasons(|_| false);
        self.forget(|_| false);
    }

    /// One by one: a scrape in between sees what stays.
    fn forget_reasons(&mut self, is_there: impl Fn(&str) -> bool) {
        for gone in self.reasons.iter().filter(|reason| !is_there(reason)) {
            // A series that was never shown is gone as well.
            let _ = self.refused.remove_label_values(&[gone]);
        }
        self.reasons.retain(|reason| is_there(reason));
    }

    fn forget(&mut self, is_there: impl Fn(&str) -> bool) {
        for gone in self.pools.iter().filter(|pool| !is_there(pool)) {
            for gauge in self.total.iter().chain(&self.in_use).chain([&self.services]) {
                // A series that was never shown is gone as well.
                let _ = gauge.remove_label_values(&[gone]);
            }
        }
        self.pools.retain(|pool| is_there(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::allocator::{Held, allocate, by_key};
    use ferrolb_core::config::compile;
    use ferrolb_core::resources::Resources;
    use ferrolb_core::testing::{pool, service};

    fn shown(registry: &Registry) -> String {
        prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn pools_and_refusals_come_and_go() {
        let registry = Registry::new();
        let mut metrics = Metrics::register(&registry).unwrap();
        let services = by_key(["a", "b", "c"].map(|name| service("ns", name).lb()));
        let compiled = compile(&Resources::default().with_pools([pool("default", &["1.2.3.4/31"])]));
        metrics.show_configuration(&compiled);
        metrics.show_allocation(&allocate(&compiled.config, &services, &Held::default()));
        let text = shown(&registry);
        for line in [
            r#"metallb_allocator_services_allocated_total{pool="default"} 2"#,
            r#"metallb_allocator_ipv4_addresses_in_use_total{pool="default"} 2"#,
            r#"metallb_allocator_addresses_total{pool="default"} 2"#,
            r#"ferrolb_controller_refused_services{reason="Exhausted"} 1"#,
            "metallb_k8s_client_config_loaded_bool 1",
            "metallb_k8s_client_config_stale_bool 0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        // A reason that nobody has any more is gone, one of somebody else is there.
        let asking = by_key([service("ns", "a").load_balancer_ip("9.9.9.9").lb()]);
        metrics.show_allocation(&allocate(&compiled.config, &asking, &Held::default()));
        let text = shown(&registry);
        assert!(!text.contains("Exhausted"), "{text}");
        assert!(text.contains(r#"ferrolb_controller_refused_services{reason="NotInPool"} 1"#), "{text}");
        // One that stands by shows the configuration, not the pools.
        metrics.forget_pools();
        let text = shown(&registry);
        assert!(!text.contains("default") && !text.contains("reason="), "{text}");
        assert!(text.contains("metallb_k8s_client_config_loaded_bool 1"), "{text}");
    }
}
