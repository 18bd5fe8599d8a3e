//! The webhook's certificate: lost or spoilt it comes back, another authority may take its place, and no change
//! of the configuration is refused meanwhile. FERROLB_ROTATION_SECONDS says how long authorities are changed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use support::{NAMESPACE, Product, measured, seconds, text, throughout, until};

const SECRET: &str = "secret/metallb-webhook-cert";

fn data(product: &Product) -> Result<serde_json::Value, String> {
    let secret = product.get(&["-n", NAMESPACE, SECRET])?;
    let owner = &secret["metadata"]["ownerReferences"][0]["kind"];
    if owner == "MetalLB" { Ok(secret["data"].clone()) } else { Err(format!("owned by {owner}")) }
}

#[test]
fn a_lost_or_spoilt_certificate_comes_back_as_it_was() {
    let product = Product::ready();
    let before = until("the Secret", Duration::from_secs(10), || data(&product));
    let spoil = r#"{"data":{"tls.crt":"Z2FyYmFnZQ=="}}"#;
    for harm in [vec!["delete", SECRET], vec!["patch", SECRET, "--type=merge", "-p", spoil]] {
        product.kubectl(&[&["-n", NAMESPACE], &harm[..]].concat());
        until("the certificate is back", Duration::from_secs(20), || {
            if data(&product)? == before { Ok(()) } else { Err("it is another".to_owned()) }
        });
        let mut count = 0;
        throughout("changes are admitted", Duration::from_secs(2), || {
            count += 1;
            let look = format!("looked-at={count}");
            let change = ["-n", NAMESPACE, "annotate", "ipaddresspool", "default", "--overwrite", &look];
            product.lab.kubectl(&change).map(drop).map_err(|error| error.to_string())
        });
    }
    product.kubectl(&["-n", NAMESPACE, "annotate", "ipaddresspool", "default", "looked-at-"]);
}

const SERVICE: &str = "metallb-webhook-service.metallb-system.svc";

/// Applies a pool ten times a second until the end; how often, and what was refused.
fn apply_all_the_time(product: &Product, end: &AtomicBool) -> (u32, Vec<String>) {
    let count = AtomicU32::new(0);
    let begin = Instant::now();
    let worker = |number: u32| {
        let (count, product) = (&count, &product.lab);
        move || {
            let mut refusals = Vec::new();
            for turn in 0.. {
                let due = begin + Duration::from_millis(100) * (number + 5 * turn);
                sleep(due.saturating_duration_since(Instant::now()));
                if end.load(Ordering::Relaxed) {
                    return refusals;
                }
                let pool = format!(
                    "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: turning-{number}, namespace: {NAMESPACE}, annotations: {{turn: \"{turn}\"}}}}\nspec: {{addresses: [192.168.77.{number}/32]}}\n"
                );
                refusals.extend(product.apply(&pool).err().map(|error| error.to_string()));
                count.fetch_add(1, Ordering::Relaxed);
            }
            refusals
        }
    };
    let refusals = scope(|scope| {
        let workers: Vec<_> = (0..5).map(|number| scope.spawn(worker(number))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    (count.into_inner(), refusals)
}

/// An authority and what it signed, as the Secret has them.
fn authority() -> serde_json::Value {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Of one name with what it signs it would look self-signed.
    params.distinguished_name.push(DnType::CommonName, "another authority");
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec![SERVICE.to_owned(), format!("{SERVICE}.cluster.local")];
    let mut serving = CertificateParams::new(names).unwrap();
    serving.distinguished_name.push(DnType::CommonName, SERVICE);
    let serving = serving.signed_by(&key, &issuer).unwrap();
    json!({"ca.crt": issuer.pem(), "ca.key": issuer.key().serialize_pem(),
           "tls.crt": serving.pem(), "tls.key": key.serialize_pem()})
}

/// Whether every pod of the webhook presents what this authority signed.
fn presented_everywhere(product: &Product, authority: &std::path::Path) -> Result<(), String> {
    let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "component=webhook-server"]);
    let host = product.lab.host("k8s-master-1").unwrap();
    let authority = authority.to_str().unwrap();
    for pod in &pods {
        let address = text(&pod["status"]["podIP"]);
        let resolve = format!("{SERVICE}:9443:{address}");
        let url = format!("https://{SERVICE}:9443/");
        let curl = [
            "curl",
            "-sS",
            "-o",
            "/dev/null",
            "--max-time",
            "3",
            "--cacert",
            authority,
            "--resolve",
            &resolve,
            &url,
        ];
        let output = host.output(&curl).unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    if pods.len() == 2 { Ok(()) } else { Err(format!("{} pods", pods.len())) }
}

#[test]
fn another_authority_takes_over_and_nothing_is_refused() {
    let product = Product::ready();
    let time = seconds("FERROLB_ROTATION_SECONDS", 15);
    let before = until("the Secret", Duration::from_secs(10), || data(&product));
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let end = AtomicBool::new(false);
    let begin = Instant::now();
    let (turns, (applied, refusals)) = scope(|scope| {
        let applying = scope.spawn(|| apply_all_the_time(&product, &end));
        let mut turns = 0;
        let rotated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while begin.elapsed() < time || turns == 0 {
                let new = authority();
                let file = folder.path().join("ca.crt");
                std::fs::write(&file, new["ca.crt"].as_str().unwrap()).unwrap();
                let patch = json!({"stringData": new}).to_string();
                product.kubectl(&["-n", NAMESPACE, "patch", SECRET, "--type=merge", "-p", &patch]);
                until("the new certificate is presented", Duration::from_secs(60), || {
                    presented_everywhere(&product, &file)
                });
                turns += 1;
            }
        }));
        end.store(true, Ordering::Relaxed);
        let applied = applying.join().unwrap();
        rotated.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (turns, applied)
    });
    let took = begin.elapsed().as_secs_f64();
    measured("authorities changed under a loop of kubectl apply", turns);
    measured("applies refused meanwhile", format!("{} of {applied} in {took:.0} s", refusals.len()));
    let patch = json!({"data": before}).to_string();
    product.kubectl(&["-n", NAMESPACE, "patch", SECRET, "--type=merge", "-p", &patch]);
    for number in 0..5 {
        product.kubectl(&[
            "-n",
            NAMESPACE,
            "delete",
            "ipaddresspool",
            "--ignore-not-found",
            &format!("turning-{number}"),
        ]);
    }
    assert_eq!(refusals, Vec::<String>::new());
}
