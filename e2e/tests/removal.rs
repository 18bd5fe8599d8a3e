//! Whatever is deleted first, everything goes, soon, and can come again.

mod support;

use std::time::{Duration, Instant};

use ferrolb_e2e::product::OPERATOR;
use support::{NAMESPACE, Product, measured, until};

/// Longest time until nothing is left.
const LIMIT: Duration = Duration::from_secs(60);
/// What belongs to no namespace.
const GLOBAL: &str =
    "namespaces,clusterroles,clusterrolebindings,validatingwebhookconfigurations,customresourcedefinitions";

/// Waits until there is nothing of us, but for what `allowed` accepts.
fn nothing_left(product: &Product, order: &str, begin: Instant, allowed: impl Fn(&str) -> bool) {
    until(&format!("nothing is left, {order}"), LIMIT, || {
        let all = product.kubectl(&["get", GLOBAL, "-o", "name"]);
        let ours = |line: &&str| line.contains("metallb") || line.contains("ferrolb");
        let mut left: Vec<String> =
            all.lines().filter(ours).filter(|line| !allowed(line)).map(ToOwned::to_owned).collect();
        let inside = ["-n", NAMESPACE, "get", "deployments,daemonsets,pods,services,secrets,configmaps"];
        let query = [&inside[..], &["-l", "app=metallb,component!=operator", "-o", "name"]].concat();
        left.extend(product.kubectl(&query).lines().map(ToOwned::to_owned));
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    });
    let took = begin.elapsed();
    measured(&format!("{order}, until nothing is left, s"), format!("{:.1}", took.as_secs_f64()));
    assert!(took < LIMIT, "{order}: {took:?}");
}

/// What was applied by hand stays when only what the operator made goes.
fn applied_by_hand(line: &str) -> bool {
    line.starts_with("customresourcedefinition")
        || line.contains("metallb-manager-role")
        || line == format!("namespace/{NAMESPACE}")
}

#[test]
fn every_order_of_deletion_ends_clean() {
    let product = Product::ready();
    let delete = |arguments: &[&str]| {
        product.kubectl(&[&["delete", "--timeout=60s"], arguments].concat());
    };

    let begin = Instant::now();
    delete(&["-k", &product.manifests()]);
    nothing_left(&product, "everything at once", begin, |_| false);
    product.install();

    let begin = Instant::now();
    let kinds = product.kubectl(&["get", "crd", "-o", "name"]);
    let kinds: Vec<&str> =
        kinds.lines().filter(|kind| kind.contains(".metallb.io") || kind.contains(".ferrolb.io")).collect();
    delete(&kinds);
    nothing_left(&product, "the definitions of our kinds first", begin, |line| {
        applied_by_hand(line) && !line.starts_with("customresourcedefinition")
    });
    product.install();

    // The operator is away while its object goes, and tidies up when it is back.
    product.scale_operator(0);
    let begin = Instant::now();
    delete(&["-n", NAMESPACE, "metallb", "metallb"]);
    product.scale_operator(1);
    nothing_left(&product, "the object while the operator is away", begin, applied_by_hand);
    product.install();

    let begin = Instant::now();
    delete(&["-n", NAMESPACE, "deployment", OPERATOR]);
    delete(&["-k", &product.manifests(), "--ignore-not-found"]);
    nothing_left(&product, "the operator first", begin, |_| false);
    product.install();

    // Of what belongs to no namespace, some may stay until the definitions go; nothing hangs.
    let begin = Instant::now();
    delete(&["namespace", NAMESPACE]);
    nothing_left(&product, "the namespace first", begin, |line| !line.starts_with("namespace/"));
    delete(&["-k", &product.manifests(), "--ignore-not-found"]);
    nothing_left(&product, "the rest after the namespace", begin, |_| false);
    product.install();
    for file in ["ipaddresspool.yaml", "l2advertisement.yaml"] {
        product.apply_sample(file);
    }
    until("the Service answers", Duration::from_secs(60), || product.curl());
}
