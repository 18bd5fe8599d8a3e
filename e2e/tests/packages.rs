//! The ways to install beside the operator: the single file without it, and the way from there to the
//! operator while Services are in use.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::http::Curling;
use support::{ADDRESS, NAMESPACE, Product, measured, text, until};

const NATIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/manifests/ferrolb-native.yaml");
const WORKLOADS: [&str; 3] =
    ["deployment/controller", "deployment/metallb-operator-webhook-server", "daemonset/speaker"];

/// The file, with the image that this lab has.
fn native(product: &Product) -> String {
    let operator = ["-n", NAMESPACE, "deployment", "metallb-operator-controller-manager"];
    let operator = product.get(&operator).unwrap_or_else(|error| panic!("{error}"));
    let image = text(&operator["spec"]["template"]["spec"]["containers"][0]["image"]);
    let file = std::fs::read_to_string(NATIVE).unwrap();
    let shipped = file.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap().to_owned();
    file.replace(&shipped, &image)
}

fn wait_rolled_out(product: &Product) {
    for workload in WORKLOADS {
        product.kubectl(&["-n", NAMESPACE, "rollout", "status", workload, "--timeout=120s"]);
    }
}

fn key(product: &Product) -> Value {
    let secret = product.get(&["-n", NAMESPACE, "secret", "metallb-memberlist"]).unwrap();
    secret["data"]["secretkey"].clone()
}

fn generations(product: &Product) -> Vec<Value> {
    let generation =
        |workload| product.get(&["-n", NAMESPACE, workload]).unwrap()["metadata"]["generation"].clone();
    WORKLOADS.map(generation).to_vec()
}

#[test]
fn one_file_installs_without_the_operator_which_can_take_over_later() {
    let product = Product::ready();
    product.remove_metallb();

    let file = native(&product);
    let begin = Instant::now();
    product.lab.apply(&file).unwrap_or_else(|error| panic!("{error}"));
    wait_rolled_out(&product);
    measured("file applied to everything ready, s", format!("{:.1}", begin.elapsed().as_secs_f64()));
    until("the Service answers", Duration::from_secs(60), || product.curl());
    let made = key(&product);
    assert!(made.as_str().is_some_and(|key| key.len() > 100), "{made}");
    // The webhook is asked.
    let wrong = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: wrong, namespace: metallb-system}\nspec: {addresses: [none]}\n";
    let refusal = until("the webhook refuses", Duration::from_secs(30), || match product.lab.apply(wrong) {
        Err(error) if error.to_string().contains("denied the request") => Ok(error.to_string()),
        other => Err(format!("{other:?}")),
    });
    assert!(refusal.contains("none"), "{refusal}");

    // Again: nothing changes, and what was made in the cluster stays.
    let before = generations(&product);
    product.lab.apply(&file).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((generations(&product), key(&product)), (before, made.clone()));

    // The operator takes over what is there, one speaker after the other.
    let client = Curling::with_patience(&product.lab, "client", ADDRESS, 2);
    product.apply_sample("metallb.yaml");
    until("the operator has everything", Duration::from_secs(180), || {
        let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
        match support::condition(&metallb, "Available") {
            Some("True") => Ok(()),
            _ => Err(metallb["status"].to_string()),
        }
    });
    measured("requests while the operator took over", client.stop().told());
    assert_eq!(key(&product), made, "the speakers still find each other");
    for workload in WORKLOADS {
        let object = product.get(&["-n", NAMESPACE, workload]).unwrap();
        assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "MetalLB", "{workload}");
        let init = &object["spec"]["template"]["spec"]["initContainers"];
        assert!(init.is_null(), "{workload}: what only the file had is gone, not {init}");
    }
    let events = product.items(&["-n", NAMESPACE, "events"]);
    let told = events.iter().filter(|event| event["reason"] == "OperandTakenOver");
    assert!(told.clone().any(|event| text(&event["message"]).contains("DaemonSet speaker")), "{events:?}");
    product.wait_pods_ready();
    until("the Service answers", Duration::from_secs(30), || product.curl());
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS);
}
