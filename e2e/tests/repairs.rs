//! What the operator installed is edited and deleted at random, and is as it was within moments. How often:
//! FERROLB_REPAIRS, 30 by default.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::http::Curling;
use support::{ADDRESS, NAMESPACE, Product, measured, text, until};

const KINDS: &str = "roles,rolebindings,clusterroles,clusterrolebindings,configmaps,secrets,services,\
    serviceaccounts,poddisruptionbudgets,deployments,daemonsets,validatingwebhookconfigurations";
const MANAGED: &str = "app.kubernetes.io/managed-by=metallb-operator";
/// The operator takes more edits of one object for a quarrel, and waits longer each time.
const EDITS_OF_ONE: usize = 5;
const LIMIT: Duration = Duration::from_secs(2);

/// A generator of numbers that a failed run can be repeated with.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// An edit of something that the operator sets, and where to look for it.
fn edit(kind: &str) -> (Value, &'static str) {
    match kind {
        "ConfigMap" => (json!({"data": {"logLevel": "edited", "excludel2.yaml": "edited"}}), "/data"),
        "Deployment" | "DaemonSet" => {
            (json!({"spec": {"revisionHistoryLimit": 9}}), "/spec/revisionHistoryLimit")
        }
        "PodDisruptionBudget" => (json!({"spec": {"maxUnavailable": 0}}), "/spec/maxUnavailable"),
        "Role" | "ClusterRole" => (json!({"rules": []}), "/rules"),
        "Service" => (json!({"spec": {"selector": {"component": "edited"}}}), "/spec/selector"),
        _ => (
            json!({"metadata": {"labels": {"app.kubernetes.io/version": "edited"}}}),
            "/metadata/labels/app.kubernetes.io~1version",
        ),
    }
}

#[test]
fn edits_and_deletions_are_undone_while_services_answer() {
    let count = std::env::var("FERROLB_REPAIRS").map_or(30, |count| count.parse().unwrap());
    let seed = std::process::id().into();
    println!("seed {seed}");
    let (mut random, product) = (Random(seed), Product::ready());
    let operands = product.items(&["-n", NAMESPACE, KINDS, "-l", MANAGED]);
    assert!(operands.len() > 20, "{}", operands.len());
    let (mut times, mut edits) = (Vec::new(), BTreeMap::<usize, usize>::new());
    let client = Curling::with_patience(&product.lab, "client", ADDRESS, 2);
    while times.len() < count {
        let number = random.below(operands.len());
        let operand = &operands[number];
        let (kind, name) = (text(&operand["kind"]), text(&operand["metadata"]["name"]));
        let edited = edits.entry(number).or_default();
        // Without speakers nobody answers; and the tokens of running pods are those of their account.
        let may_go = !["DaemonSet", "ServiceAccount"].contains(&kind.as_str());
        if (random.below(2) == 0 || *edited >= EDITS_OF_ONE) && may_go {
            times.push(deleted(&product, &kind, &name));
        } else if *edited < EDITS_OF_ONE {
            *edited += 1;
            times.push(undone(&product, &kind, &name));
        }
    }
    let requests = client.stop();
    measured("requests while operands were edited and deleted", requests.told());
    requests.assert_answered();
    times.sort();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let line = format!(
        "{} ms, p95 {} ms, longest {} ms",
        at(50).as_millis(),
        at(95).as_millis(),
        at(100).as_millis()
    );
    measured(&format!("{count} edits and deletions undone, p50"), line);
    assert!(at(95) < LIMIT, "{times:?}");
    product.wait_pods_ready();
    product.wait_available(Duration::from_secs(120));
    product.wait_admitting();
}

#[test]
fn of_two_operators_one_works_and_the_other_takes_over() {
    let product = Product::ready();
    product.scale_operator(2);
    product.wait_pods_ready();
    let lease = product.get(&["-n", NAMESPACE, "lease", "metallb.io.metallboperator"]).unwrap();
    let holder = text(&lease["spec"]["holderIdentity"]);
    product.kubectl(&["-n", NAMESPACE, "delete", "pod", &holder, "--grace-period=0", "--force"]);
    let (kind, name) = ("configmap", "metallb-excludel2");
    let took = deleted(&product, kind, name);
    measured(
        "operator killed, until the other has undone a deletion, s",
        format!("{:.1}", took.as_secs_f64()),
    );
    let lease = product.get(&["-n", NAMESPACE, "lease", "metallb.io.metallboperator"]).unwrap();
    assert_ne!(text(&lease["spec"]["holderIdentity"]), holder);
    product.scale_operator(1);
    product.wait_pods_ready();
    product.wait_available(Duration::from_secs(60));
}

fn object(product: &Product, kind: &str, name: &str) -> Result<Value, String> {
    product.get(&["-n", NAMESPACE, kind, name])
}

fn deleted(product: &Product, kind: &str, name: &str) -> Duration {
    let uid = object(product, kind, name).unwrap()["metadata"]["uid"].clone();
    product.kubectl(&["-n", NAMESPACE, "delete", kind, name, "--wait=false"]);
    let begin = Instant::now();
    until(&format!("{kind} {name} is back"), Duration::from_secs(30), || {
        let now = object(product, kind, name)?;
        if now["metadata"]["uid"] == uid { Err("not deleted yet".to_owned()) } else { Ok(()) }
    });
    begin.elapsed()
}

fn undone(product: &Product, kind: &str, name: &str) -> Duration {
    let (patch, place) = edit(kind);
    let before = object(product, kind, name).unwrap().pointer(place).cloned();
    product.kubectl(&["-n", NAMESPACE, "patch", kind, name, "--type=merge", "-p", &patch.to_string()]);
    let begin = Instant::now();
    until(&format!("{kind} {name} is as it was"), Duration::from_secs(30), || {
        let now = object(product, kind, name)?;
        // What an edit added and nobody else sets may stay.
        let is_back = match (now.pointer(place), &before) {
            (Some(Value::Object(now)), Some(Value::Object(before))) => {
                before.iter().all(|(key, value)| now.get(key) == Some(value))
            }
            (now, before) => now == before.as_ref(),
        };
        if is_back { Ok(()) } else { Err(now.pointer(place).map(ToString::to_string).unwrap_or_default()) }
    });
    begin.elapsed()
}
