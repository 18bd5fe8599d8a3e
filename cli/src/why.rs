//! A chain of explanation as text and as JSON. Pure.

use std::fmt::Write;

use ferrolb_core::explain::{Chain, NodeVerdict, Step, Verdict};
use ferrolb_core::planner::Protocol;
use serde_json::{Value, json};

use crate::table::table;

/// The form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// What is said of a Service in one line.
pub(crate) fn headline(chain: &Chain) -> String {
    match &chain.verdict {
        Verdict::Blocked(step) => step.to_string(),
        Verdict::Announced { layer2, bgp } => {
            let by = [("on layer 2", layer2), ("by BGP", bgp)];
            let by = by.into_iter().filter(|(_, nodes)| !nodes.is_empty());
            let by = by.map(|(how, nodes)| {
                format!("{how} from {}", nodes.iter().cloned().collect::<Vec<_>>().join(", "))
            });
            let by: Vec<String> = by.collect();
            format!("Service {}: announced {}", chain.service, by.join(" and "))
        }
    }
}

/// For people: the headline, then the chain.
pub(crate) fn text(chain: &Chain) -> String {
    let mut text = headline(chain) + "\n\n";
    let addresses: Vec<String> = chain.addresses.iter().map(ToString::to_string).collect();
    let address = match (addresses.is_empty(), chain.pools.is_empty()) {
        (true, _) => "none".to_owned(),
        (false, false) => {
            format!("{} from IPAddressPool {}", addresses.join(" and "), chain.pools.join(" and "))
        }
        (false, true) => format!("{}, of no pool", addresses.join(" and ")),
    };
    let mut rows = vec![["Service".to_owned(), chain.service.to_string()], ["Address".to_owned(), address]];
    rows.extend(
        chain
            .refusal
            .as_ref()
            .map(|(reason, message)| ["Refused".to_owned(), format!("{reason}: {message}")]),
    );
    let advertisements: Vec<String> =
        chain.advertisements.iter().map(|it| format!("{} {}", it.kind, it.name)).collect();
    if !chain.pools.is_empty() {
        let list = if advertisements.is_empty() { "none".to_owned() } else { advertisements.join(", ") };
        rows.push(["Advertised".to_owned(), list]);
    }
    text += &table(&rows);
    if !chain.layer2.is_empty() {
        let mut rows = vec![["NODE", "LAYER 2", "BGP"].map(str::to_owned)];
        for (node, layer2) in &chain.layer2 {
            let bgp = chain
                .bgp
                .get(node)
                .map(|it| verdict(it, |peers| format!("announces to {}", peers.join(", "))));
            rows.push([node.clone(), verdict(layer2, |()| "announces".to_owned()), bgp.unwrap_or_default()]);
        }
        let _ = write!(text, "\n{}", table(&rows));
    }
    for (title, lines) in [
        ("Remarks", chain.remarks.iter().map(Step::to_string).collect::<Vec<_>>()),
        ("Warnings", chain.warnings.iter().map(|it| format!("{}: {}", it.reason, it.message)).collect()),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{title}\n  {}", lines.join("\n  "));
        }
    }
    text
}

fn verdict<T>(verdict: &NodeVerdict<T>, announces: impl Fn(&T) -> String) -> String {
    match verdict {
        NodeVerdict::Announces(what) => announces(what),
        NodeVerdict::Withheld(withheld) => withheld.to_string(),
        NodeVerdict::NoSpeaker => "no speaker runs here".to_owned(),
        NodeVerdict::SpeakerNotReady => "the speaker is not ready".to_owned(),
    }
}

/// For programs.
pub(crate) fn json(chain: &Chain) -> Value {
    let announced = matches!(chain.verdict, Verdict::Announced { .. });
    let first = match &chain.verdict {
        Verdict::Blocked(step) => Some(of_step(step)),
        Verdict::Announced { .. } => None,
    };
    let nodes = chain.layer2.iter().map(|(node, layer2)| {
        let bgp =
            chain.bgp.get(node).map(|it| of_verdict(it, Protocol::Bgp, |peers| json!({"peers": peers})));
        let layer2 = of_verdict(layer2, Protocol::Layer2, |()| json!({}));
        json!({"node": node, "layer2": layer2, "bgp": bgp})
    });
    json!({
        "service": chain.service.to_string(),
        "announced": announced,
        "headline": headline(chain),
        "first": first,
        "addresses": chain.addresses,
        "pools": chain.pools,
        "refusal": chain.refusal.as_ref().map(|(reason, message)| json!({"reason": reason, "message": message})),
        "advertisements": chain.advertisements.iter()
            .map(|it| json!({"kind": it.kind.to_string(), "name": it.name}))
            .collect::<Vec<_>>(),
        "nodes": nodes.collect::<Vec<_>>(),
        "remarks": chain.remarks.iter().map(of_step).collect::<Vec<_>>(),
        "warnings": chain.warnings.iter()
            .map(|it| json!({"reason": it.reason, "message": it.message}))
            .collect::<Vec<_>>(),
    })
}

fn of_step(step: &Step) -> Value {
    json!({"object": step.object, "field": step.field, "message": step.message, "remedy": step.remedy})
}

fn of_verdict<T>(of: &NodeVerdict<T>, protocol: Protocol, more: impl Fn(&T) -> Value) -> Value {
    let withheld = |reason: &str| json!({"announces": false, "reason": reason, "message": verdict(of, |_| String::new())});
    match of {
        NodeVerdict::Announces(what) => {
            let mut value = more(what);
            value["announces"] = json!(true);
            value
        }
        NodeVerdict::Withheld(it) => withheld(it.reason(protocol)),
        NodeVerdict::NoSpeaker => withheld("noSpeaker"),
        NodeVerdict::SpeakerNotReady => withheld("speakerNotReady"),
    }
}

#[cfg(test)]
mod tests;
