//! Settings of the `MetalLB` object that take effect in running pods.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use support::http::Curling;
use support::{ADDRESS, NAMESPACE, Product, condition, measured, text, until};

fn set(product: &Product, spec: &str) {
    let patch = format!("{{\"spec\": {spec}}}");
    product.kubectl(&["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", &patch]);
}

/// The pods of the operands, each with how often it was restarted.
fn operands(product: &Product) -> BTreeSet<(String, String)> {
    let pods = product.pods();
    let operands = pods.iter().filter(|pod| pod["metadata"]["labels"]["component"] != "operator");
    let restarts =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"].to_string();
    operands.map(|pod| (text(&pod["metadata"]["name"]), restarts(pod))).collect()
}

#[test]
fn the_log_level_is_followed_by_running_pods() {
    let product = Product::ready();
    product.wait_pods_ready();
    let before = operands(&product);
    let begin = Instant::now();
    set(&product, r#"{"logLevel": "debug"}"#);
    let changed = |level: &str| {
        let wanted = format!("\"logLevel\":\"{level}\"");
        for (pod, _) in &before {
            until(&format!("{pod} logs at {level}"), Duration::from_secs(30), || {
                let log = product.kubectl(&["-n", NAMESPACE, "logs", pod, "--tail=-1"]);
                if log.contains(&wanted) { Ok(()) } else { Err("no such line".to_owned()) }
            });
        }
    };
    changed("Debug");
    measured("logLevel applied to followed by all pods, s", format!("{:.1}", begin.elapsed().as_secs_f64()));
    until("a request in the debug log", Duration::from_secs(30), || {
        support::arp::ask(&product.lab, "client", support::ADDRESS, 1);
        let log = product.kubectl(&["-n", NAMESPACE, "logs", "-l", "component=speaker", "--tail=200"]);
        if log.contains("got ARP request for service IP") { Ok(()) } else { Err("no such line".to_owned()) }
    });
    set(&product, r#"{"logLevel": null}"#);
    changed("Info");
    assert_eq!(operands(&product), before, "nobody restarted");
    let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"]).unwrap();
    assert_eq!(condition(&metallb, "Available"), Some("True"));
}

/// Names of the speakers' pods, and of those that are not ready or on their way out.
/// Their names, and the nodes on which one is going or not ready yet.
fn speakers(product: &Product) -> (BTreeSet<String>, BTreeSet<String>) {
    let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"]);
    let is_away = |pod: &&serde_json::Value| {
        condition(pod, "Ready") != Some("True") || !pod["metadata"]["deletionTimestamp"].is_null()
    };
    let names = pods.iter().map(|pod| text(&pod["metadata"]["name"])).collect();
    (names, pods.iter().filter(is_away).map(|pod| text(&pod["spec"]["nodeName"])).collect())
}

#[test]
fn speakers_are_replaced_one_by_one_while_the_service_answers() {
    let product = Product::ready();
    product.wait_pods_ready();
    let (before, _) = speakers(&product);
    let replace = |value: &str| {
        set(
            &product,
            &format!(r#"{{"speakerConfig": {{"annotations": {{"example.com/turn": "{value}"}}}}}}"#),
        );
    };
    let begin = Instant::now();
    replace("one");
    let client = Curling::with_patience(&product.lab, "client", ADDRESS, 2);
    until("every speaker is another", Duration::from_secs(180), || {
        let (now, away) = speakers(&product);
        assert!(away.len() <= 1, "more than one at a time: {away:?}");
        let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
        let done = now.is_disjoint(&before) && now.len() == before.len() && away.is_empty();
        match condition(&metallb, "Available") {
            Some("True") if done => Ok(()),
            _ => Err(metallb["status"].to_string()),
        }
    });
    measured("every speaker replaced, s", format!("{:.1}", begin.elapsed().as_secs_f64()));
    let requests = client.stop();
    measured("requests meanwhile", requests.told());
    requests.assert_answered();
    for pod in product.items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"]) {
        assert_eq!(condition(&pod, "ferrolb.io/Announcing"), Some("True"), "{}", pod["status"]);
    }
    set(&product, r#"{"speakerConfig": null}"#);
    until("as before", Duration::from_secs(180), || {
        let (now, away) = speakers(&product);
        let old: Vec<_> = product
            .items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"])
            .into_iter()
            .filter(|pod| !pod["metadata"]["annotations"]["example.com/turn"].is_null())
            .collect();
        if old.is_empty() && away.is_empty() { Ok(()) } else { Err(format!("{now:?} {away:?}")) }
    });
    product.wait_available(Duration::from_secs(60));
}
