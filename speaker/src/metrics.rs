//! Metrics of the speaker, under MetalLB's names. A series goes when what it counts is withdrawn.

mod bfd;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferrolb_core::planner::Protocol;
use ferrolb_proto::conflict::Liveness;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

pub use bfd::BfdMetrics;
pub(crate) use bfd::BfdSeries;

/// All of them.
#[derive(Debug)]
pub struct Metrics {
    announced: IntGaugeVec,
    requests: IntCounterVec,
    responses: IntCounterVec,
    gratuitous: IntCounterVec,
    updates: IntCounter,
    update_errors: IntCounter,
    config_loaded: IntGauge,
    config_stale: IntGauge,
    membership_dropped: IntCounterVec,
    session_up: IntGaugeVec,
    session_updates: IntCounterVec,
    session_announced: IntGaugeVec,
    session_pending: IntGaugeVec,
    members: IntGaugeVec,
    takeovers: Histogram,
    conflicts: IntCounter,
    probes: IntCounter,
    /// Addresses that have series, and on how many links they are owned. A frame on its way while its
    /// address is withdrawn must not bring the series back.
    counted: Mutex<BTreeMap<IpAddr, usize>>,
}

/// What a BGP session comes to at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionNumbers {
    /// Whether it is established.
    pub(crate) up: bool,
    /// Routes that the peer has.
    pub(crate) announced: usize,
    /// Routes that it is to have.
    pub(crate) wanted: usize,
    /// UPDATEs sent since the last look.
    pub(crate) updates: u64,
}

impl Metrics {
    /// Makes them and shows them in `registry`.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let by_ip = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &["ip"]);
        let by_peer = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &["peer"]);
        let metrics = Self {
            announced: IntGaugeVec::new(
                Opts::new("metallb_speaker_announced", "Addresses of Services that this node announces."),
                &["service", "protocol", "node", "ip"],
            )?,
            requests: by_ip(
                "metallb_layer2_requests_received",
                "ARP requests and Neighbor Solicitations for an announced address.",
            )?,
            responses: by_ip("metallb_layer2_responses_sent", "Answers to them.")?,
            gratuitous: by_ip(
                "metallb_layer2_gratuitous_sent",
                "Gratuitous ARP frames and unsolicited Neighbor Advertisements.",
            )?,
            updates: IntCounter::new(
                "metallb_k8s_client_updates_total",
                "Passes over what the cluster holds.",
            )?,
            update_errors: IntCounter::new(
                "metallb_k8s_client_update_errors_total",
                "Writes to the API server that failed and are tried again.",
            )?,
            config_loaded: IntGauge::new(
                "metallb_k8s_client_config_loaded_bool",
                "1 once a configuration is in force.",
            )?,
            config_stale: IntGauge::new(
                "metallb_k8s_client_config_stale_bool",
                "1 while an object of the configuration is left out.",
            )?,
            membership_dropped: IntCounterVec::new(
                Opts::new(
                    "ferrolb_speaker_membership_dropped_total",
                    "Datagrams of the membership that were dropped: foreign, forged, malformed or unsent.",
                ),
                &["reason"],
            )?,
            session_up: by_peer("metallb_bgp_session_up", "1 while the BGP session is established.")?,
            session_updates: IntCounterVec::new(
                Opts::new("metallb_bgp_updates_total", "BGP UPDATE messages sent."),
                &["peer"],
            )?,
            session_announced: by_peer(
                "metallb_bgp_announced_prefixes_total",
                "Prefixes that the BGP peer was sent and has.",
            )?,
            session_pending: by_peer(
                "metallb_bgp_pending_prefixes_total",
                "Prefixes that the BGP peer should have.",
            )?,
            members: IntGaugeVec::new(
                Opts::new("ferrolb_speaker_members", "Speakers that this one knows, by what it believes of them."),
                &["state"],
            )?,
            takeovers: Histogram::with_opts(
                HistogramOpts::new(
                    "ferrolb_layer2_takeover_seconds",
                    "From the moment that an address was free, or its owner in doubt, until this node announced it.",
                )
                .buckets(vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0]),
            )?,
            conflicts: IntCounter::new(
                "ferrolb_layer2_conflicts_total",
                "How often another host claimed an address that this node owned.",
            )?,
            probes: IntCounter::new("ferrolb_layer2_probes_sent_total", "Questions whether an address is taken.")?,
            counted: Mutex::default(),
        };
        registry.register(Box::new(metrics.members.clone()))?;
        registry.register(Box::new(metrics.takeovers.clone()))?;
        registry.register(Box::new(metrics.conflicts.clone()))?;
        registry.register(Box::new(metrics.probes.clone()))?;
        for gauge in [&metrics.session_up, &metrics.session_announced, &metrics.session_pending] {
            registry.register(Box::new(gauge.clone()))?;
        }
        registry.register(Box::new(metrics.session_updates.clone()))?;
        registry.register(Box::new(metrics.announced.clone()))?;
        for counter in
            [&metrics.requests, &metrics.responses, &metrics.gratuitous, &metrics.membership_dropped]
        {
            registry.register(Box::new(counter.clone()))?;
        }
        registry.register(Box::new(metrics.updates.clone()))?;
        registry.register(Box::new(metrics.update_errors.clone()))?;
        registry.register(Box::new(metrics.config_loaded.clone()))?;
        registry.register(Box::new(metrics.config_stale.clone()))?;
        Ok(metrics)
    }

    /// What there is to say of the BGP session with a peer.
    pub(crate) fn session(&self, peer: &str, numbers: SessionNumbers) {
        let gauge = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.session_up.with_label_values(&[peer]).set(i64::from(numbers.up));
        self.session_updates.with_label_values(&[peer]).inc_by(numbers.updates);
        self.session_announced.with_label_values(&[peer]).set(gauge(numbers.announced));
        self.session_pending.with_label_values(&[peer]).set(gauge(numbers.wanted));
    }

    /// There is no session with the peer any more.
    pub(crate) fn forget_session(&self, peer: &str) {
        for gauge in [&self.session_up, &self.session_announced, &self.session_pending] {
            let _ = gauge.remove_label_values(&[peer]);
        }
        let _ = self.session_updates.remove_label_values(&[peer]);
    }

    /// A Service's address is announced from here, or not any more.
    pub(crate) fn set_announced(
        &self,
        service: &str,
        protocol: Protocol,
        node: &str,
        ip: IpAddr,
        announced: bool,
    ) {
        let labels = [service, protocol.name(), node, &ip.to_string()];
        if announced {
            self.announced.with_label_values(&labels).set(1);
        } else {
            // An error says that there is no such series.
            let _ = self.announced.remove_label_values(&labels);
        }
    }

    /// An address is owned on one link more, or less; it has series as long as it is owned on any.
    pub(crate) fn count(&self, ip: IpAddr, owned: bool) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if owned {
            *counted.entry(ip).or_default() += 1;
            return;
        }
        let Some(links) = counted.get_mut(&ip) else { return };
        *links -= 1;
        if *links == 0 {
            counted.remove(&ip);
            let label = ip.to_string();
            for series in [&self.requests, &self.responses, &self.gratuitous] {
                // An error says that there is no such series.
                let _ = series.remove_label_values(&[&label]);
            }
        }
    }

    /// How all speakers are believed to be.
    pub(crate) fn set_members(&self, all: impl Iterator<Item = Liveness>) {
        let mut counts = [("alive", 0), ("suspect", 0), ("dead", 0), ("left", 0)];
        for liveness in all {
            let [alive, suspect, dead, left] = &mut counts;
            let (_, count) = match liveness {
                Liveness::Alive => alive,
                Liveness::Suspect => suspect,
                Liveness::Dead => dead,
                Liveness::Left => left,
            };
            *count += 1;
        }
        for (state, count) in counts {
            self.members.with_label_values(&[state]).set(count);
        }
    }

    /// This node took an address, so long after it was free.
    pub(crate) fn took_over(&self, after: Duration) {
        self.takeovers.observe(after.as_secs_f64());
    }

    /// Another host claims an address of this node.
    pub(crate) fn contested(&self) {
        self.conflicts.inc();
    }

    /// A probe was sent.
    pub(crate) fn probed(&self) {
        self.probes.inc();
    }

    /// A question for `ip` was answered, or the answer could not be sent.
    pub(crate) fn question(&self, ip: IpAddr, answered: bool) {
        self.add(&self.requests, ip);
        if answered {
            self.add(&self.responses, ip);
        }
    }

    /// An announcement of `ip` was sent.
    pub(crate) fn gratuitous(&self, ip: IpAddr) {
        self.add(&self.gratuitous, ip);
    }

    fn add(&self, counter: &IntCounterVec, ip: IpAddr) {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.contains_key(&ip) {
            counter.with_label_values(&[&ip.to_string()]).inc();
        }
    }

    /// One pass over everything, with its verdict on the configuration.
    pub(crate) fn planned(&self, valid: bool) {
        self.updates.inc();
        self.config_loaded.set(1);
        self.config_stale.set(i64::from(!valid));
    }

    /// A write failed.
    pub(crate) fn write_failed(&self) {
        self.update_errors.inc();
    }

    /// A datagram of the membership was dropped.
    pub(crate) fn membership_dropped(&self, reason: &str) {
        self.membership_dropped.with_label_values(&[reason]).inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn series_go_when_the_address_is_withdrawn() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let text = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let ip = "192.168.10.200".parse().unwrap();
        metrics.set_announced("default/hello-lb", Protocol::Layer2, "k8s-node-2", ip, true);
        metrics.count(ip, true);
        metrics.question(ip, true);
        metrics.question(ip, false);
        metrics.gratuitous(ip);
        for line in [
            "metallb_speaker_announced{ip=\"192.168.10.200\",node=\"k8s-node-2\",protocol=\"layer2\",service=\"default/hello-lb\"} 1",
            "metallb_layer2_requests_received{ip=\"192.168.10.200\"} 2",
            "metallb_layer2_responses_sent{ip=\"192.168.10.200\"} 1",
            "metallb_layer2_gratuitous_sent{ip=\"192.168.10.200\"} 1",
        ] {
            assert!(text().contains(line), "{line} in\n{}", text());
        }
        metrics.set_announced("default/hello-lb", Protocol::Layer2, "k8s-node-2", ip, false);
        metrics.count(ip, false);
        metrics.question(ip, true);
        assert!(!text().contains("192.168.10.200"), "{}", text());
    }

    #[test]
    fn a_session_has_series_as_long_as_its_peer_is_configured() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let text = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let numbers = SessionNumbers { up: true, announced: 3, wanted: 4, updates: 2 };
        metrics.session("192.168.10.1:179", numbers);
        metrics.session("192.168.10.1:179", SessionNumbers { updates: 1, ..numbers });
        for line in [
            "metallb_bgp_session_up{peer=\"192.168.10.1:179\"} 1",
            "metallb_bgp_updates_total{peer=\"192.168.10.1:179\"} 3",
            "metallb_bgp_announced_prefixes_total{peer=\"192.168.10.1:179\"} 3",
            "metallb_bgp_pending_prefixes_total{peer=\"192.168.10.1:179\"} 4",
        ] {
            assert!(text().contains(line), "{line} in\n{}", text());
        }
        metrics.forget_session("192.168.10.1:179");
        assert!(!text().contains("192.168.10.1"), "{}", text());
    }

    #[test]
    fn the_configuration_is_loaded_and_may_be_stale() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        metrics.planned(false);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(text.contains("metallb_k8s_client_config_loaded_bool 1"), "{text}");
        assert!(text.contains("metallb_k8s_client_config_stale_bool 1"), "{text}");
    }
}
