//! Metrics of the webhook.

use std::time::SystemTime;

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// What the webhook counts.
pub(crate) struct Metrics {
    reviews: IntCounterVec,
    conversions: IntCounterVec,
    expiry: IntGauge,
}

impl Metrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let reviews = IntCounterVec::new(
            Opts::new("ferrolb_webhook_reviews_total", "Number of admission reviews, by kind and verdict."),
            &["kind", "verdict"],
        )?;
        let conversions = IntCounterVec::new(
            Opts::new("ferrolb_webhook_conversions_total", "Number of conversion reviews, by result."),
            &["result"],
        )?;
        let expiry = IntGauge::new(
            "ferrolb_webhook_certificate_expiry_timestamp_seconds",
            "When the serving certificate ends, in seconds since the epoch.",
        )?;
        registry.register(Box::new(reviews.clone()))?;
        registry.register(Box::new(conversions.clone()))?;
        registry.register(Box::new(expiry.clone()))?;
        Ok(Self { reviews, conversions, expiry })
    }

    pub(crate) fn reviewed(&self, kind: &str, verdict: &str) {
        self.reviews.with_label_values(&[kind, verdict]).inc();
    }

    pub(crate) fn converted(&self, success: bool) {
        self.conversions.with_label_values(&[if success { "success" } else { "failure" }]).inc();
    }

    pub(crate) fn certificate_expires(&self, at: SystemTime) {
        let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expiry.set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }
}
