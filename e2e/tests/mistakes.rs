//! MetalLB objects that ask for what cannot be: they are refused, or the status says what is wrong and where;
//! what ran goes on, and all is well when the mistake is taken back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{NAMESPACE, Product, condition, text, until};

struct Mistake {
    spec: Value,
    /// Condition, its status, its reason.
    condition: (&'static str, &'static str, &'static str),
    says: &'static [&'static str],
}

fn mistakes() -> Vec<Mistake> {
    let nowhere = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["none"]}]}],
    }}});
    let degraded = |reason| ("Degraded", "True", reason);
    vec![
        Mistake {
            spec: json!({"nodeSelector": {"rack": "none"}}),
            condition: ("Available", "True", "NoSpeakerNodes"),
            says: &["no node matches nodeSelector"],
        },
        Mistake {
            spec: json!({"nodeSelector": {"two words": "none"}}),
            condition: degraded("ApplyFailed"),
            says: &["DaemonSet speaker", "nodeSelector", "two words"],
        },
        Mistake {
            spec: json!({"controllerConfig": {"affinity": nowhere}}),
            condition: degraded("RolloutStalled"),
            says: &["Deployment controller", "Unschedulable", "node affinity"],
        },
        Mistake {
            spec: json!({"controllerConfig": {"priorityClassName": "none-such"}}),
            condition: degraded("RolloutStalled"),
            says: &["Deployment controller", "none-such"],
        },
    ]
}

/// Refused at once, with these words.
fn refused() -> Vec<(Value, &'static str)> {
    let seconds = json!([{"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]);
    vec![
        (json!({"bgpBackend": "quagga"}), "must be one of native, frr, frr-k8s, frr-k8s-external"),
        (json!({"controllerTolerations": seconds}), "ControllerToleration"),
        (json!({"logLevel": "loud"}), "spec.logLevel"),
        (json!({"controllerReplicas": 0}), "spec.controllerReplicas"),
    ]
}

fn patch(product: &Product, spec: &Value) -> Result<String, String> {
    let patch = json!({"spec": spec}).to_string();
    let patch = ["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", &patch];
    product.lab.kubectl(&patch).map_err(|error| error.to_string())
}

/// `spec` without what is in it.
fn taken_back(spec: &Value) -> Value {
    spec.as_object().unwrap().keys().map(|key| (key.clone(), Value::Null)).collect()
}

#[test]
fn what_cannot_be_is_named_and_taken_back_without_a_trace() {
    let product = Product::ready();
    for (spec, says) in refused() {
        let said = patch(&product, &spec).unwrap_err();
        assert!(said.contains(says), "{spec}: {said}");
    }
    let second = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "metadata": {"name": "second", "namespace": NAMESPACE},
    });
    let said = product.lab.apply(&second.to_string()).unwrap_err().to_string();
    assert!(said.contains("the operator honours one MetalLB object only: name it metallb"), "{said}");
    for Mistake { spec, condition: (type_, status, reason), says } in mistakes() {
        patch(&product, &spec).unwrap_or_else(|error| panic!("{error}"));
        until(&format!("{spec} is named"), Duration::from_secs(60), || {
            let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
            let conditions = metallb["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|it| it["type"] == type_);
            let message = found.map(|it| text(&it["message"])).unwrap_or_default();
            let named = condition(&metallb, type_) == Some(status)
                && found.is_some_and(|it| it["reason"] == reason)
                && says.iter().all(|word| message.contains(word));
            if named { Ok(()) } else { Err(format!("{conditions:#?}")) }
        });
        if spec.get("nodeSelector").is_none() {
            product.curl().unwrap_or_else(|error| panic!("while {spec}: {error}"));
        }
        patch(&product, &taken_back(&spec)).unwrap_or_else(|error| panic!("{error}"));
        until(&format!("{spec} is taken back"), Duration::from_secs(60), || {
            let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
            let upgradeable = condition(&metallb, "Upgradeable") == Some("True");
            let generation = &metallb["metadata"]["generation"];
            let conditions = metallb["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let seen = conditions.iter().all(|it| it["observedGeneration"] == *generation);
            if upgradeable && seen { Ok(()) } else { Err(metallb["status"].to_string()) }
        });
    }
    elsewhere(&product);
    until("the Service answers", Duration::from_secs(60), || product.curl());
}

/// An object in a namespace where no operator is.
fn elsewhere(product: &Product) {
    let object = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "MetalLB",
        "metadata": {"name": "metallb", "namespace": "demo"}, "spec": {"nodeSelector": {"rack": "none"}},
    });
    product.lab.apply(&object.to_string()).unwrap();
    until("it is told where it belongs", Duration::from_secs(30), || {
        let metallb = product.get(&["-n", "demo", "metallb", "metallb"])?;
        let message = text(&metallb["status"]["conditions"][3]["message"]);
        let named = condition(&metallb, "Degraded") == Some("True")
            && condition(&metallb, "Available") == Some("False")
            && message.contains("create it there by the name metallb, and: kubectl -n demo delete metallb")
            && message.contains(NAMESPACE);
        if named { Ok(()) } else { Err(metallb["status"].to_string()) }
    });
    let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"]).unwrap();
    assert_eq!(condition(&metallb, "Upgradeable"), Some("True"), "{}", metallb["status"]);
    product.kubectl(&["-n", "demo", "delete", "metallb", "metallb", "--timeout=30s"]);
}
