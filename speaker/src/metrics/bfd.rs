//! Metrics of BFD sessions, under the names that MetalLB's FRR mode has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

const LABELS: [&str; 2] = ["peer", "vrf"];

/// All of them.
#[derive(Clone, Debug)]
pub struct BfdMetrics {
    up: IntGaugeVec,
    input: IntCounterVec,
    output: IntCounterVec,
    echo_input: IntCounterVec,
    echo_output: IntCounterVec,
    ups: IntCounterVec,
    downs: IntCounterVec,
    notifications: IntCounterVec,
    discarded: IntCounter,
    /// How many sessions have the labels: one that ends may still be there when its successor has begun.
    known: Arc<Mutex<BTreeMap<[String; 2], usize>>>,
}

/// Those of one session, as long as it exists.
#[derive(Debug)]
pub(crate) struct BfdSeries {
    all: BfdMetrics,
    labels: [String; 2],
    up: IntGauge,
    input: IntCounter,
    output: IntCounter,
    echo_input: IntCounter,
    echo_output: IntCounter,
    ups: IntCounter,
    downs: IntCounter,
    notifications: IntCounter,
}

impl BfdMetrics {
    /// Makes them and shows them in `registry`.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounterVec::new(Opts::new(format!("metallb_bfd_{name}"), help), &LABELS)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let up =
            IntGaugeVec::new(Opts::new("metallb_bfd_session_up", "1 while the BFD session is up."), &LABELS)?;
        registry.register(Box::new(up.clone()))?;
        let discarded = IntCounter::new(
            "ferrolb_bfd_discarded_total",
            "Packets to the ports of BFD that were malformed, from too far away, or for no session.",
        )?;
        registry.register(Box::new(discarded.clone()))?;
        Ok(Self {
            discarded,
            up,
            input: counter("control_packet_input", "BFD control packets received.")?,
            output: counter("control_packet_output", "BFD control packets sent.")?,
            echo_input: counter("echo_packet_input", "BFD echo packets that came back.")?,
            echo_output: counter("echo_packet_output", "BFD echo packets sent.")?,
            ups: counter("session_up_events", "How often the BFD session came up.")?,
            downs: counter("session_down_events", "How often the BFD session went down.")?,
            notifications: counter(
                "zebra_notifications",
                "How often BGP was told that the BFD session came up or went down.",
            )?,
            known: Arc::default(),
        })
    }

    /// A packet was for no session.
    pub(crate) fn discarded(&self) {
        self.discarded.inc();
    }

    /// The series of a session.
    pub(crate) fn session(&self, peer: &str, vrf: &str) -> BfdSeries {
        let labels = [peer.to_owned(), vrf.to_owned()];
        *self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(labels.clone()).or_default() += 1;
        let of = |counter: &IntCounterVec| counter.with_label_values(&[peer, vrf]);
        BfdSeries {
            labels,
            up: self.up.with_label_values(&[peer, vrf]),
            input: of(&self.input),
            output: of(&self.output),
            echo_input: of(&self.echo_input),
            echo_output: of(&self.echo_output),
            ups: of(&self.ups),
            downs: of(&self.downs),
            notifications: of(&self.notifications),
            all: self.clone(),
        }
    }
}

impl BfdSeries {
    pub(crate) fn up(&self) {
        self.up.set(1);
        self.ups.inc();
    }

    pub(crate) fn down(&self) {
        self.up.set(0);
        self.downs.inc();
    }

    pub(crate) fn received(&self) {
        self.input.inc();
    }

    pub(crate) fn sent(&self) {
        self.output.inc();
    }

    pub(crate) fn echo_received(&self) {
        self.echo_input.inc();
    }

    pub(crate) fn echo_sent(&self) {
        self.echo_output.inc();
    }

    pub(crate) fn notified(&self) {
        self.notifications.inc();
    }
}

impl Drop for BfdSeries {
    fn drop(&mut self) {
        let BfdMetrics {
            up, input, output, echo_input, echo_output, ups, downs, notifications, known, ..
        } = &self.all;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sessions) = known.get_mut(&self.labels) else { return };
        *sessions -= 1;
        if *sessions > 0 {
            return;
        }
        known.remove(&self.labels);
        // An error says that there is no such series.
        let _ = up.remove_label_values(&self.labels);
        for counter in [input, output, echo_input, echo_output, ups, downs, notifications] {
            let _ = counter.remove_label_values(&self.labels);
        }
    }
}
