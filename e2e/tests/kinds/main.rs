//! Every kind of the configuration at the real API server: what is applied reads back unchanged, what the
//! schema forbids is refused, `kubectl explain` explains, and the versions of `BGPPeer` are one object.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected ends there")]

mod objects;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{NAMESPACE, Product, until};

const CRD: &str = "bgppeers.metallb.io";
const DEFINITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/crd/metallb.io_bgppeers.yaml");

/// `plural.version.group`, so that nothing is converted by kubectl's choice.
fn resource(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = if kind == "community" { "communities".to_owned() } else { format!("{kind}s") };
    let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
    format!("{plural}.{version}.{group}")
}

fn stored(product: &Product, object: &Value) -> Result<Value, String> {
    let name = object["metadata"]["name"].as_str().unwrap();
    product.get(&["-n", NAMESPACE, &resource(object), name])
}

fn apply(product: &Product, object: &Value) -> String {
    product.lab.apply(&object.to_string()).unwrap_or_else(|error| panic!("{error}\n{object}"))
}

fn remove(product: &Product, objects: &[Value]) {
    // What uses others goes before them.
    let users_first: Vec<&Value> = objects.iter().rev().collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": users_first});
    product.lab.delete(&list.to_string()).unwrap();
}

#[test]
fn what_is_applied_reads_back_unchanged() {
    let product = Product::installed();
    let objects = objects::with_every_field();
    for object in &objects {
        apply(&product, object);
    }
    for object in &objects {
        assert_eq!(stored(&product, object).unwrap()["spec"], object["spec"], "{}", object["kind"]);
        let unchanged = apply(&product, object);
        assert!(unchanged.contains("unchanged"), "{unchanged}");
    }
    remove(&product, &objects);
}

#[test]
fn what_is_left_out_gets_its_default_and_nothing_else() {
    let product = Product::installed();
    let objects = objects::with_what_must_be();
    for (object, wanted) in &objects {
        apply(&product, object);
        assert_eq!(stored(&product, object).unwrap().get("spec"), wanted.as_ref(), "{object}");
    }
    remove(&product, &objects.into_iter().map(|(object, _)| object).collect::<Vec<_>>());
}

#[test]
fn the_samples_are_taken() {
    let product = Product::installed();
    let files =
        ["bfdprofile.yaml", "community.yaml", "bgppool.yaml", "bgppeer.yaml", "bgpadvertisement.yaml"];
    for file in files {
        product.apply_sample(file);
        let path = format!("{}/{file}", support::SAMPLES);
        let sample = product.kubectl(&["create", "--dry-run=client", "-o", "json", "-f", &path]);
        let sample: Value = serde_json::from_str(&sample).unwrap();
        let stored = stored(&product, &sample).unwrap();
        for (field, value) in sample["spec"].as_object().unwrap() {
            assert_eq!(&stored["spec"][field], value, "{file}");
        }
    }
    for file in files.iter().rev() {
        product.kubectl(&["delete", "-f", &format!("{}/{file}", support::SAMPLES)]);
    }
}

#[test]
fn what_the_schema_forbids_is_refused_where_it_is_applied() {
    let product = Product::installed();
    for (object, wanted) in objects::wrong() {
        let refusal = product.lab.apply(&object.to_string()).map(drop).unwrap_err().to_string();
        assert!(refusal.contains(wanted), "{object}\nwanted: {wanted}\nfound:  {refusal}");
    }
    // Rules on a change need something to change.
    let peer = |restart: bool| {
        objects::object(
            "metallb.io/v1beta2",
            "BGPPeer",
            "restarting",
            json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.99", "enableGracefulRestart": restart}),
        )
    };
    apply(&product, &peer(true));
    let refusal = product.lab.apply(&peer(false).to_string()).map(drop).unwrap_err().to_string();
    assert!(refusal.contains("EnableGracefulRestart cannot be changed after creation"), "{refusal}");
    remove(&product, &[peer(true)]);

    let status = objects::object("metallb.io/v1beta1", "ServiceBGPStatus", "bgp-test", Value::Null);
    apply(&product, &status);
    let set = |node: &str| {
        let patch =
            json!({"status": {"node": node, "serviceName": "a", "serviceNamespace": "b", "peers": ["p"]}});
        let place = ["-n", NAMESPACE, "patch", "servicebgpstatuses", "bgp-test", "--subresource=status"];
        product.lab.kubectl(&[&place[..], &["--type=merge", "-p", &patch.to_string()]].concat())
    };
    set("n1").unwrap();
    let refusal = set("n2").map(drop).unwrap_err().to_string();
    assert!(refusal.contains("Value is immutable"), "{refusal}");
    remove(&product, &[status]);
}

#[test]
fn kubectl_explains_units_and_defaults() {
    let product = Product::installed();
    for (field, words) in [
        ("bfdprofiles.spec.receiveInterval", ["in milliseconds", "Default 300"]),
        ("bfdprofiles.spec.echoInterval", ["in milliseconds", "Default 50"]),
        ("bgppeers.spec.holdTime", ["\"1m30s\"", "Default 90s"]),
        ("bgppeers.spec.connectTime", ["1s to 65535s", "Default"]),
        ("bgpadvertisements.spec.aggregationLength", ["bits", "32, the default"]),
        ("ipaddresspools.spec.autoAssign", ["<boolean>", "Default true"]),
        ("ipaddresspools.spec.serviceAllocation.priority", ["lower first", "default"]),
        ("l2advertisements.spec.preferredNodeSelectors.weight", ["<integer>", "1 to 100"]),
    ] {
        let text = product.kubectl(&["explain", field]);
        // Its lines are broken anywhere.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(text.contains(word), "{field} does not say {word:?}:\n{text}");
        }
    }
}

/// How the API server converts peers.
fn strategy(product: &Product) -> Result<String, String> {
    let definition = product.get(&["crd", CRD])?;
    Ok(support::text(&definition["spec"]["conversion"]["strategy"]))
}

fn until_strategy(product: &Product, wanted: &str) {
    until(&format!("conversion strategy {wanted}"), Duration::from_secs(60), || match strategy(product)? {
        found if found == wanted => Ok(()),
        found => Err(found),
    });
}

fn peer(version: &str, spec: Value) -> Value {
    objects::object(&format!("metallb.io/{version}"), "BGPPeer", "tor", spec)
}

#[test]
fn the_versions_of_a_peer_are_one_object_and_neither_loses_anything() {
    let product = Product::installed();
    until_strategy(&product, "Webhook");
    let get =
        |version: &str| product.get(&["-n", NAMESPACE, &format!("bgppeers.{version}.metallb.io"), "tor"]);
    // Right after the registration the API server may still be without the webhook's endpoints.
    let old = peer("v1beta1", json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.99"}));
    let applied = until("the older version is taken", Duration::from_secs(30), || {
        product.lab.apply(&old.to_string()).map_err(|error| error.to_string())
    });
    assert!(applied.contains("created"), "{applied}");
    let spec = get("v1beta2").unwrap()["spec"].clone();
    let wanted = json!({
        "myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.99", "peerPort": 179, "holdTime": "0s",
        "keepaliveTime": "0s", "disableMP": false, "dualStackAddressFamily": false,
    });
    assert_eq!(spec, wanted);
    remove(&product, &[old]);

    let full = peer("v1beta2", objects::peer_spec());
    apply(&product, &full);
    assert_eq!(get("v1beta1").unwrap()["spec"].get("vrf"), None);
    let patch = json!({"spec": {"holdTime": "30s", "keepaliveTime": "10s"}}).to_string();
    product.kubectl(&[
        "-n",
        NAMESPACE,
        "patch",
        "bgppeers.v1beta1.metallb.io",
        "tor",
        "--type=merge",
        "-p",
        &patch,
    ]);
    let mut wanted = full["spec"].clone();
    wanted["holdTime"] = json!("30s");
    wanted["keepaliveTime"] = json!("10s");
    let after = get("v1beta2").unwrap();
    assert_eq!(after["spec"], wanted);
    assert_eq!(after["metadata"]["annotations"].get("ferrolb.io/kept-for-v1beta2"), None);
    remove(&product, &[full]);
}

#[test]
fn peers_outlive_the_webhook_and_their_definition_goes_when_it_is_deleted() {
    let product = Product::installed();
    until_strategy(&product, "Webhook");
    let kept = peer("v1beta2", json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.99"}));
    apply(&product, &kept);

    // Removed as it should be: nobody is asked any more.
    product.kubectl(&["-n", NAMESPACE, "delete", "metallb", "metallb", "--timeout=60s"]);
    until_strategy(&product, "None");
    product.kubectl(&["-n", NAMESPACE, "get", "bgppeers.v1beta1.metallb.io", "tor"]);

    // Dead: the API server asks, and nobody answers.
    product.apply_sample("metallb.yaml");
    product.wait_available(Duration::from_secs(120));
    until_strategy(&product, "Webhook");
    let scale = |to: &str| {
        let deployment = "deployment/metallb-operator-controller-manager";
        product.kubectl(&["-n", NAMESPACE, "scale", deployment, &format!("--replicas={to}")]);
    };
    scale("0");
    until("the operator's pod is gone", Duration::from_secs(60), || {
        let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "control-plane=controller-manager"]);
        if pods.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
    product.kubectl(&["-n", NAMESPACE, "delete", "deployment/metallb-operator-webhook-server"]);
    until("the webhook's pods are gone", Duration::from_secs(60), || {
        let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "component=webhook-server"]);
        if pods.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
    assert_eq!(strategy(&product).as_deref(), Ok("Webhook"), "nobody is left to take it out");
    product.kubectl(&["-n", NAMESPACE, "get", "bgppeers.v1beta2.metallb.io", "tor"]);
    let begin = std::time::Instant::now();
    product.kubectl(&["delete", "crd", CRD, "--timeout=60s"]);
    support::measured(
        "deletion of the CRD with a dead webhook",
        format!("{:.1} s", begin.elapsed().as_secs_f64()),
    );

    product.kubectl(&["apply", "-f", DEFINITION]);
    scale("1");
    product.wait_available(Duration::from_secs(120));
    until_strategy(&product, "Webhook");
}
