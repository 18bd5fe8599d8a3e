//! What the operator counts of itself.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::status::Rollout;

/// The operator's metrics.
#[derive(Clone)]
pub(crate) struct Metrics {
    passes: IntCounterVec,
    writes: IntCounterVec,
    repairs: IntCounterVec,
    pods: IntGaugeVec,
    degraded: IntGaugeVec,
}

impl Metrics {
    /// Registers them.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| -> prometheus::Result<IntCounterVec> {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| -> prometheus::Result<IntGaugeVec> {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        Ok(Self {
            passes: counter(
                "ferrolb_operator_passes_total",
                "Comparisons of what is installed with what is asked for, by result.",
                &["result"],
            )?,
            writes: counter(
                "ferrolb_operator_writes_total",
                "Operands applied and deleted, by kind and result.",
                &["verb", "kind", "result"],
            )?,
            repairs: counter(
                "ferrolb_operator_repairs_total",
                "Operands put right after somebody edited or deleted them.",
                &["kind", "cause"],
            )?,
            pods: gauge(
                "ferrolb_operator_component_pods",
                "Pods of each workload: those that there are to be, and those that are ready.",
                &["component", "state"],
            )?,
            degraded: gauge(
                "ferrolb_operator_degraded",
                "1 for the reason of the Degraded condition while it is True.",
                &["reason"],
            )?,
        })
    }

    /// A pass ended.
    pub(crate) fn pass(&self, went_well: bool) {
        self.passes.with_label_values(&[if went_well { "success" } else { "failure" }]).inc();
    }

    /// A write was answered.
    pub(crate) fn write(&self, verb: &str, kind: &str, went_well: bool) {
        let result = if went_well { "success" } else { "failure" };
        self.writes.with_label_values(&[verb, kind, result]).inc();
    }

    /// An operand was put right.
    pub(crate) fn repair(&self, kind: &str, cause: &str) {
        self.repairs.with_label_values(&[kind, cause]).inc();
    }

    /// How far the workloads are, and what is wrong.
    pub(crate) fn state(&self, rollouts: &[Rollout], degraded: Option<&str>) {
        for rollout in rollouts {
            let (ready, desired) = rollout.pods();
            self.pods.with_label_values(&[rollout.name(), "ready"]).set(ready.into());
            self.pods.with_label_values(&[rollout.name(), "desired"]).set(desired.into());
        }
        self.degraded.reset();
        if let Some(reason) = degraded {
            self.degraded.with_label_values(&[reason]).set(1);
        }
    }

    /// Nothing is installed.
    pub(crate) fn nothing(&self) {
        self.pods.reset();
        self.degraded.reset();
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;
    use crate::status::{Workloads, rollouts};

    #[test]
    fn what_is_over_is_not_exported_any_more() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let text = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        metrics.state(&rollouts(Workloads::default(), &[]), Some("RolloutStalled"));
        metrics.repair("DaemonSet", "edited");
        let full = text();
        assert!(full.contains(r#"ferrolb_operator_degraded{reason="RolloutStalled"} 1"#), "{full}");
        assert!(full.contains(r#"ferrolb_operator_component_pods{component="speaker",state="desired"} 0"#));
        metrics.state(&rollouts(Workloads::default(), &[]), None);
        assert!(!text().contains("RolloutStalled"));
        metrics.nothing();
        assert!(!text().contains("component_pods{"));
        assert!(text().contains(r#"ferrolb_operator_repairs_total{cause="edited",kind="DaemonSet"} 1"#));
    }
}
