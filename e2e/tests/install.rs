//! One object installs the product, what is broken is repaired, and deleting the object removes it all.

mod support;

use std::time::{Duration, Instant};

use support::{ADDRESS, NAMESPACE, Product, condition, measured, text, until};

/// Namespaced and cluster-scoped kinds that the operator installs.
const OPERANDS: &str =
    "deployments,daemonsets,services,serviceaccounts,configmaps,secrets,roles,rolebindings";
const GLOBAL_OPERANDS: &str = "clusterroles,clusterrolebindings,validatingwebhookconfigurations";
const MANAGED: &str = "app.kubernetes.io/managed-by=metallb-operator";

#[test]
fn the_object_installs_repairs_and_removes_the_product() {
    let product = Product::ready();

    // Removal: nothing is left, the Service keeps what it was told.
    product.kubectl(&["-n", NAMESPACE, "delete", "metallb", "metallb", "--timeout=60s"]);
    until("all operands are gone", Duration::from_secs(90), || {
        let left = product.kubectl(&["-n", NAMESPACE, "get", OPERANDS, "-l", MANAGED, "-o", "name"])
            + &product.kubectl(&["-n", NAMESPACE, "get", "secrets", "-o", "name"])
            + &product.kubectl(&["get", GLOBAL_OPERANDS, "-l", MANAGED, "-o", "name"])
            + &product.kubectl(&["-n", NAMESPACE, "get", "pods", "-l", "component!=operator", "-o", "name"]);
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    });
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS);

    // Installation.
    let begin = Instant::now();
    product.apply_sample("metallb.yaml");
    product.wait_available(Duration::from_secs(120));
    let available = begin.elapsed();
    measured("applied to Available, s", format!("{:.1}", available.as_secs_f64()));
    assert!(available < Duration::from_secs(30), "{available:?}");
    let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"]).unwrap();
    for (type_, status) in
        [("Available", "True"), ("Upgradeable", "True"), ("Progressing", "False"), ("Degraded", "False")]
    {
        assert_eq!(condition(&metallb, type_), Some(status), "{type_}: {}", metallb["status"]);
    }
    product.wait_pods_ready();
    let restarts = product.restarts();
    assert!(operator_only(&restarts), "{restarts:?}");
    let since = format!("--since={}s", begin.elapsed().as_secs() + 1);
    for component in ["operator", "controller", "speaker", "webhook-server"] {
        let selector = format!("component={component}");
        let log = product.kubectl(&["-n", NAMESPACE, "logs", "-l", &selector, "--tail=-1", &since]);
        let errors: Vec<&str> = log.lines().filter(|line| line.contains(r#""level":"error""#)).collect();
        assert!(errors.is_empty(), "{component}: {errors:?}");
    }
    until("the Service answers", Duration::from_secs(30), || product.curl());
    until("its announcement is told", Duration::from_secs(30), || product.owner());

    // Repair, without waiting for a resync.
    repaired(&product, "deployment/controller", &["-n", NAMESPACE, "delete", "deployment", "controller"]);
    let edit = r#"{"spec":{"template":{"spec":{"hostNetwork":false}}}}"#;
    product.kubectl(&["-n", NAMESPACE, "patch", "daemonset", "speaker", "--type=merge", "-p", edit]);
    until("the edit is undone", Duration::from_secs(20), || {
        let speaker = product.get(&["-n", NAMESPACE, "daemonset", "speaker"])?;
        match speaker["spec"]["template"]["spec"]["hostNetwork"].as_bool() {
            Some(true) => Ok(()),
            other => Err(format!("hostNetwork is {other:?}")),
        }
    });
    let role = format!("{NAMESPACE}:speaker");
    repaired(&product, &format!("clusterrole/{role}"), &["delete", "clusterrole", &role]);
    product.wait_pods_ready();
    product.wait_available(Duration::from_secs(90));
    until("the Service answers", Duration::from_secs(30), || product.curl());
}

/// Restarts of the operator are other tests' doing.
fn operator_only(restarts: &[(String, i64)]) -> bool {
    restarts.iter().all(|(pod, count)| *count == 0 || pod.contains("controller-manager"))
}

fn repaired(product: &Product, object: &str, deletion: &[&str]) {
    let uid = |product: &Product| {
        let get = ["-n", NAMESPACE, "get", object, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found"];
        product.kubectl(&get)
    };
    let before = uid(product);
    product.kubectl(deletion);
    until(&format!("{object} is back"), Duration::from_secs(20), || {
        let now = uid(product);
        if !now.is_empty() && now != before { Ok(()) } else { Err(format!("uid {now:?}")) }
    });
}

/// A second or misnamed object is refused with what to do.
#[test]
fn only_the_object_of_the_right_name_is_accepted() {
    let product = Product::installed();
    let other =
        "apiVersion: metallb.io/v1beta1\nkind: MetalLB\nmetadata: {name: other, namespace: metallb-system}\n";
    let refusal = product.lab.apply(other).unwrap_err().to_string();
    assert!(refusal.contains("name it metallb"), "{refusal}");
    let names = product.items(&["-n", NAMESPACE, "metallbs"]);
    let names: Vec<String> = names.iter().map(|it| text(&it["metadata"]["name"])).collect();
    assert_eq!(names, ["metallb"]);
}

#[test]
fn kubectl_explain_is_useful() {
    let product = Product::installed();
    for (path, expected) in [
        ("ipaddresspool.spec.addresses", "inclusive ranges"),
        ("l2advertisement.spec.interfaces", "network interfaces"),
        ("metallb.spec.nodeSelector", "get a speaker"),
        ("configurationstate.status.errorSummary", "what is wrong"),
        ("servicel2status.status.interfaces", "Interfaces that answer"),
    ] {
        let text = product.kubectl(&["explain", path]);
        assert!(text.to_lowercase().contains(&expected.to_lowercase()), "{path}:\n{text}");
    }
}
