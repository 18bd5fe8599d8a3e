//! All Services at a glance, as text and as JSON. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use ferrolb_core::explain::{Chain, Cluster, Explainer, Verdict};
use serde_json::{Value, json};

use crate::table::table;
use crate::why::headline;

/// What there is to tell.
#[derive(Debug)]
pub(crate) struct Status<'a> {
    cluster: &'a Cluster,
    chains: Vec<Chain>,
}

impl<'a> Status<'a> {
    /// Of a cluster.
    pub(crate) fn of(cluster: &'a Cluster) -> Self {
        let explainer = Explainer::new(cluster);
        let services = cluster.services.values().filter(|service| service.is_load_balancer);
        Self { cluster, chains: services.map(|service| explainer.chain(service, &[])).collect() }
    }

    /// Services that nobody announces.
    fn blocked(&self) -> impl Iterator<Item = &Chain> {
        self.chains.iter().filter(|chain| matches!(chain.verdict, Verdict::Blocked(_)))
    }

    /// Whether every Service is announced.
    pub(crate) fn is_well(&self) -> bool {
        self.blocked().next().is_none()
    }

    fn headline(&self) -> String {
        let (all, blocked) = (self.chains.len(), self.blocked().count());
        format!("{} of {all} Services of type LoadBalancer are announced", all - blocked)
    }

    /// Per node: how many Services on layer 2, and how many by BGP.
    fn by_node(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut counts: BTreeMap<&str, (usize, usize)> =
            self.cluster.nodes.keys().map(|node| (node.as_str(), (0, 0))).collect();
        for chain in &self.chains {
            let Verdict::Announced { layer2, bgp } = &chain.verdict else { continue };
            for node in layer2 {
                counts.entry(node).or_default().0 += 1;
            }
            for node in bgp {
                counts.entry(node).or_default().1 += 1;
            }
        }
        counts
    }

    fn speaker(&self, node: &str) -> &'static str {
        match self.cluster.speakers.get(node) {
            Some(true) => "ready",
            Some(false) => "not ready",
            None => "none",
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = self.headline() + "\n\n";
        let controller = if self.cluster.controller_ready { "ready" } else { "not ready" };
        let findings = self.cluster.compiled.diagnostics.len();
        let configuration = match findings {
            0 => "nothing is wrong".to_owned(),
            _ => format!("{findings} findings: kubectl ferrolb lint --cluster"),
        };
        text += &table(&[
            ["Controller".to_owned(), controller.to_owned()],
            ["Configuration".to_owned(), configuration],
        ]);
        let mut rows = vec![["NODE", "SPEAKER", "LAYER 2", "BGP"].map(str::to_owned)];
        rows.extend(self.by_node().into_iter().map(|(node, (layer2, bgp))| {
            [node.to_owned(), self.speaker(node).to_owned(), layer2.to_string(), bgp.to_string()]
        }));
        let _ = write!(text, "\n{}", table(&rows));
        if !self.is_well() {
            text += "\nNot announced\n";
            for chain in self.blocked() {
                let _ = writeln!(text, "  {}: {}", chain.service, headline(chain));
            }
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let nodes = self.by_node().into_iter().map(|(node, (layer2, bgp))| {
            json!({"node": node, "speaker": self.speaker(node), "layer2": layer2, "bgp": bgp})
        });
        json!({
            "headline": self.headline(),
            "controllerReady": self.cluster.controller_ready,
            "findings": self.cluster.compiled.diagnostics.len(),
            "nodes": nodes.collect::<Vec<_>>(),
            "services": self.chains.iter().map(crate::why::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_core::allocator::by_key;
    use ferrolb_core::config::compile;
    use ferrolb_core::resources::Resources;
    use ferrolb_core::testing::{l2_advertisement, node, pool, service};

    use super::*;

    #[test]
    fn services_are_counted_by_node_and_the_others_say_why() {
        let resources = Resources::default()
            .with_pools([pool("lan", &["192.0.2.0/24"])])
            .with_l2_advertisements([l2_advertisement("all", Default::default())])
            .with_nodes([node("a", &[]), node("b", &[])]);
        let announced = service("demo", "web").holding(&["192.0.2.1"]).ready_on(&["a"]).lb();
        let idle = service("demo", "idle").holding(&["192.0.2.2"]).lb();
        let cluster = Cluster {
            compiled: compile(&resources),
            nodes: resources.nodes,
            speakers: [("a".to_owned(), true)].into(),
            controller_ready: true,
            layer2: [((*announced.key).clone(), ["a".to_owned()].into())].into(),
            services: by_key([announced, idle]),
            ..Cluster::default()
        };
        let status = Status::of(&cluster);
        assert!(!status.is_well());
        let text = status.text();
        let first = "1 of 2 Services of type LoadBalancer are announced\n\nController     ready\n";
        assert!(text.starts_with(first), "{text}");
        for line in [
            "a     ready    1        0\n",
            "b     none     0        0\n",
            "  demo/idle: Service demo/idle, spec.selector: no endpoint",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let json = status.json();
        assert_eq!(json["nodes"][0], json!({"node": "a", "speaker": "ready", "layer2": 1, "bgp": 0}));
        assert_eq!(json["services"].as_array().map(Vec::len), Some(2));
    }
}
