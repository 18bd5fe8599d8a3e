//! What metallb-operator installed becomes the operator's: one node after the other, nothing
//! of others is touched, and afterwards all is as if it had been the operator's from the start.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod objects;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{NAMESPACE, Product, condition, measured, text, until};

const WORKLOADS: [&str; 3] =
    ["deployment/controller", "deployment/metallb-operator-webhook-server", "daemonset/speaker"];

/// Names of all that carries the operator's labels.
fn inventory(product: &Product) -> BTreeSet<String> {
    let kinds = "serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,configmaps,secrets,services,\
        networkpolicies,poddisruptionbudgets,deployments,daemonsets,validatingwebhookconfigurations";
    let label = "app.kubernetes.io/managed-by=metallb-operator";
    let names = product.kubectl(&["-n", NAMESPACE, "get", kinds, "-l", label, "-o", "name"]);
    names.lines().map(ToOwned::to_owned).collect()
}

/// What the workloads say of their pods, and the webhooks of whom they ask for what.
fn wanted(product: &Product) -> Vec<Value> {
    let mut wanted: Vec<Value> = WORKLOADS
        .iter()
        .map(|workload| product.get(&["-n", NAMESPACE, workload]).unwrap()["spec"].clone())
        .collect();
    let registration =
        product.get(&["validatingwebhookconfiguration", "metallb-webhook-configuration"]).unwrap();
    for webhook in registration["webhooks"].as_array().unwrap() {
        let mut webhook = webhook.clone();
        webhook["clientConfig"].as_object_mut().unwrap().remove("caBundle");
        wanted.push(webhook);
    }
    wanted
}

fn create(product: &Product, verb: &[&str], objects: &Value) {
    let file = product.lab.layout.dir.join("takeover.json");
    std::fs::write(&file, objects.to_string()).unwrap();
    product.kubectl(&[verb, &["-f", &file.display().to_string()]].concat());
}

/// Waits until the operator has everything; of the speakers at most one is away at a time.
fn wait_taken_over(product: &Product, limit: Duration) {
    until("the operator has everything", limit, || {
        let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "component=speaker"]);
        let is_away = |pod: &&Value| {
            condition(pod, "Ready") != Some("True") || !pod["metadata"]["deletionTimestamp"].is_null()
        };
        let away: BTreeSet<String> =
            pods.iter().filter(is_away).map(|pod| text(&pod["spec"]["nodeName"])).collect();
        assert!(away.len() <= 1, "more than one at a time: {away:?}");
        let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
        match condition(&metallb, "Upgradeable") {
            Some("True") => Ok(()),
            _ => Err(metallb["status"].to_string()),
        }
    });
}

#[test]
fn what_metallb_operator_left_is_taken_over_and_ends_as_if_it_had_been_ours() {
    let product = Product::ready();
    let (plain, inventory_before) = (wanted(&product), inventory(&product));
    product.remove_metallb();
    product.scale_operator(0);
    product.apply_sample("metallb.yaml");
    let owner = product.get(&["-n", NAMESPACE, "metallb", "metallb"]).unwrap()["metadata"]["uid"].clone();
    let key = "a key that speakers have".repeat(6);
    create(&product, &["apply"], &objects::installed());
    let theirs = ["apply", "--server-side", "--field-manager=metallb-operator"];
    create(&product, &theirs, &objects::applied(&owner, &key));
    create(&product, &["create", "--field-manager=manager"], &objects::workloads(&owner));
    for workload in WORKLOADS {
        product.kubectl(&["-n", NAMESPACE, "rollout", "status", workload, "--timeout=120s"]);
    }

    let begin = Instant::now();
    product.scale_operator(1);
    wait_taken_over(&product, Duration::from_secs(180));
    measured("operator started to everything taken over, s", format!("{:.1}", begin.elapsed().as_secs_f64()));
    assert_eq!(inventory(&product), inventory_before);
    assert_eq!(wanted(&product), plain, "no container, field or webhook of theirs is left");
    let secret = product.get(&["-n", NAMESPACE, "secret", "metallb-memberlist"]).unwrap();
    let kept = product.kubectl(&[
        "-n",
        NAMESPACE,
        "get",
        "secret",
        "metallb-memberlist",
        "-o",
        "go-template={{.data.secretkey | base64decode}}",
    ]);
    assert_eq!(kept, key, "{secret}");
    for name in objects::STAYS {
        product.get(&["-n", NAMESPACE, name]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let events = product.items(&["-n", NAMESPACE, "events"]);
    let told =
        |event: &&Value| event["reason"] == "OperandTakenOver" && text(&event["message"]).contains("manager");
    for workload in ["Deployment controller", "DaemonSet speaker"] {
        assert!(events.iter().filter(told).any(|it| text(&it["message"]).contains(workload)), "{events:?}");
    }
    product.wait_admitting();
    until("the Service answers", Duration::from_secs(60), || product.curl());
    for name in objects::STAYS {
        product.kubectl(&["-n", NAMESPACE, "delete", name]);
    }
}
