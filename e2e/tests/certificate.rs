//! The webhook's certificate: lost or spoilt it comes back, another authority may take its place, somebody else
//! may make it, and no change of the configuration is refused meanwhile. FERROLB_ROTATION_SECONDS says how long authorities are changed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use support::load::{Applied, Load, Proxy};
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

/// A pool that nobody uses, for changes of it.
const TURNING: Applied<'_> = Applied {
    plural: "ipaddresspools",
    kind: "IPAddressPool",
    name: "turning",
    rest: r#", "spec": {"addresses": ["192.168.77.1/32"]}"#,
};

/// Does something while a pool is applied ten times a second, and by kubectl itself besides; nothing is
/// refused. How often it was applied, and by kubectl.
fn under_applies(product: &Product, limit: Duration, work: impl FnOnce()) -> (usize, u32) {
    let proxy = Proxy::start(product);
    let end = AtomicBool::new(false);
    let kubectl = || {
        let (mut count, mut refusals) = (0, Vec::new());
        while !end.load(Ordering::Relaxed) {
            let pool = format!(
                "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: turning-too, namespace: {NAMESPACE}, annotations: {{turn: \"{count}\"}}}}\nspec: {{addresses: [192.168.77.2/32]}}\n"
            );
            refusals.extend(product.lab.apply(&pool).err().map(|error| error.to_string()));
            count += 1;
        }
        (count, refusals)
    };
    let (worked, answers, (by_kubectl, refusals)) = scope(|scope| {
        let applying = scope.spawn(kubectl);
        let load = Load::start(&proxy, TURNING, 10, limit);
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        end.store(true, Ordering::Relaxed);
        (worked, load.end(), applying.join().unwrap())
    });
    worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    product.kubectl(&["-n", NAMESPACE, "delete", "ipaddresspool", "turning", "turning-too"]);
    let refused: Vec<_> = answers.iter().filter(|it| !it.is_taken()).collect();
    assert!(refused.is_empty() && refusals.is_empty(), "{refused:?} {refusals:?}");
    (answers.len(), by_kubectl)
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
fn presented_everywhere(product: &Product, authority: &Path) -> Result<(), String> {
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
    let begin = Instant::now();
    let mut turns = 0;
    let (applied, by_kubectl) = under_applies(&product, time + Duration::from_secs(120), || {
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
    });
    let took = begin.elapsed().as_secs_f64();
    measured("authorities changed under a loop of applies", turns);
    let rate = applied as f64 / took;
    measured(
        "applies refused meanwhile",
        format!("0 of {applied} ({rate:.1} a second) and 0 of {by_kubectl} by kubectl, in {took:.0} s"),
    );
    let patch = json!({"data": before}).to_string();
    product.kubectl(&["-n", NAMESPACE, "patch", SECRET, "--type=merge", "-p", &patch]);
}

/// Settings of the operator, by its environment.
fn set_environment(product: &Product, variables: &[&str]) {
    let operator = "deployment/metallb-operator-controller-manager";
    product.kubectl(&[&["-n", NAMESPACE, "set", "env", operator], variables].concat());
    product.kubectl(&["-n", NAMESPACE, "rollout", "status", operator, "--timeout=60s"]);
}

/// A Secret that somebody else fills.
const GIVEN: &str = "given-certificate";

/// Fills it from another authority, which is written to the file. Authorities that are to be trusted beside it
/// are put down there, too; all of them, as `caBundle` has them.
fn give(product: &Product, file: &Path, beside: &[&Path]) -> String {
    let mut texts = authority();
    texts.as_object_mut().unwrap().remove("ca.key");
    let own = texts["ca.crt"].as_str().unwrap().to_owned();
    std::fs::write(file, &own).unwrap();
    let others = beside.iter().map(|file| std::fs::read_to_string(file).unwrap());
    texts["bundle"] = others.fold(own, |all, one| all + &one).into();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": texts,
                        "metadata": {"name": GIVEN, "namespace": NAMESPACE}});
    product.lab.apply(&secret.to_string()).unwrap();
    text(&product.get(&["-n", NAMESPACE, "secret", GIVEN]).unwrap()["data"]["bundle"])
}

/// Waits until all present what this authority signed.
fn until_presented(product: &Product, what: &str, file: &Path) {
    let mut turn = 0;
    until(what, Duration::from_secs(120), || {
        // The kubelet looks after a changed Secret within a minute or so, and at once when a pod changes.
        turn += 1;
        let change = format!("looked-at={turn}");
        let of_webhook = ["annotate", "pods", "-l", "component=webhook-server", "--overwrite", &change];
        // Some are just going.
        let _ = product.lab.kubectl(&[&["-n", NAMESPACE], &of_webhook[..]].concat());
        presented_everywhere(product, file)
    });
}

/// As cert-manager's injector does.
fn inject(product: &Product, bundle: &str) {
    let configuration = ["validatingwebhookconfiguration", "metallb-webhook-configuration"];
    let webhooks = product.get(&configuration).unwrap()["webhooks"].as_array().unwrap().len();
    let replace = |nth| json!({"op": "replace", "path": format!("/webhooks/{nth}/clientConfig/caBundle"), "value": bundle});
    let patch = (0..webhooks).map(replace).collect::<serde_json::Value>().to_string();
    product.kubectl(&[&["patch"], &configuration[..], &["--type=json", "-p", &patch]].concat());
}

#[test]
fn a_certificate_of_others_is_taken_renewed_and_given_up_and_nothing_is_refused() {
    let product = Product::ready();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let [first, second, third, own] =
        ["first", "second", "third", "own"].map(|name| folder.path().join(name));
    let begin = Instant::now();
    let (applied, by_kubectl) = under_applies(&product, Duration::from_secs(600), || {
        give(&product, &first, &[]);
        let given = format!("WEBHOOK_CERT_SECRET={GIVEN}");
        set_environment(&product, &[&given, "WEBHOOK_CERT_CA=true"]);
        until_presented(&product, "the certificate of others is presented", &first);
        until("the webhook's own Secret is gone", Duration::from_secs(30), || {
            match product.get(&["-n", NAMESPACE, SECRET]) {
                Ok(secret) => Err(secret["metadata"].to_string()),
                Err(error) if error.contains("not found") => Ok(()),
                Err(error) => Err(error),
            }
        });
        give(&product, &second, &[]);
        until_presented(&product, "their renewed certificate is presented", &second);

        // Others tell the API server whom to trust.
        set_environment(&product, &["WEBHOOK_CERT_CA-"]);
        until_presented(&product, "it still is", &second);
        product.wait_pods_ready();
        inject(&product, &give(&product, &third, &[&second]));
        until_presented(&product, "what they renewed and told is presented", &third);

        set_environment(&product, &["WEBHOOK_CERT_SECRET-"]);
        until("the webhook's own Secret is back", Duration::from_secs(60), || {
            let template = "{{index .data \"ca.crt\" | base64decode}}";
            let output = ["-n", NAMESPACE, "get", SECRET, "-o", &format!("go-template={template}")];
            let authority = product.lab.kubectl(&output).map_err(|error| error.to_string())?;
            std::fs::write(&own, authority).map_err(|error| error.to_string())
        });
        until_presented(&product, "its own certificate is presented again", &own);
    });
    product.kubectl(&["-n", NAMESPACE, "delete", "secret", GIVEN]);
    let took = begin.elapsed().as_secs_f64();
    measured(
        "applies refused while certificates of others come, change and go",
        format!("0 of {applied} and 0 of {by_kubectl} by kubectl, in {took:.0} s"),
    );
    product.wait_available(Duration::from_secs(60));
}
