//! The chart, by Helm 3 and Helm 4: installed, tested from inside, upgraded while Services are in use,
//! removed; and refused where a value is wrong.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::helm::Helm;
use support::http::{Curling, Requests};
use support::{ADDRESS, NAMESPACE, Product, measured, until};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/ferrolb");
/// What an upgrade to the same must not change; of the last one somebody else owns a field, `caBundle`.
const UNCHANGED: [&str; 4] = [
    "deployment/controller",
    "deployment/metallb-operator-webhook-server",
    "daemonset/speaker",
    "validatingwebhookconfiguration/metallb-webhook-configuration",
];

impl Helm<'_> {
    /// An upgrade while a client asks again and again: how many of its requests failed, and of how many.
    fn upgrade_in_use(&self, more: &[&str]) -> Requests {
        let client = Curling::with_patience(&self.product.lab, "client", ADDRESS, 2);
        self.release("upgrade", CHART, more).unwrap_or_else(|error| panic!("{error}"));
        client.stop()
    }

    fn generations(&self) -> Vec<Value> {
        let of = |workload| {
            self.product.get(&["-n", NAMESPACE, workload]).unwrap()["metadata"]["generation"].clone()
        };
        UNCHANGED.map(of).to_vec()
    }

    /// What the chart renders for a certificate that is given: the webhook has it, and no Secret of its own.
    fn certificate_of_others(&self) {
        let values =
            ["--set", "webhook.certificate.secret=given", "--set", "webhook.certificate.tellAuthority=true"];
        let rendered = |more: &[&str]| {
            let image: Vec<&str> = self.image.iter().map(String::as_str).collect();
            let client = ["template", "ferrolb", CHART, "--kube-version=1.34.0"];
            let arguments = [&client[..], image.as_slice(), &values, more].concat();
            self.run(&arguments).unwrap_or_else(|error| panic!("{error}"))
        };
        let without_operator = rendered(&[]);
        for wanted in [
            "- --cert-dir=/certificate\n",
            "- --cert-ca=/certificate/ca.crt\n",
            "mountPath: /certificate\n",
            "secretName: \"given\"\n",
        ] {
            assert_eq!(without_operator.matches(wanted).count(), 1, "{wanted}");
        }
        assert!(!without_operator.contains("metallb-webhook-cert"), "no Secret, and no right to it");
        let with_operator = rendered(&["--set", "operator.enabled=true"]);
        assert!(with_operator.contains("- \"--webhook-cert-secret=given\"\n        - --webhook-cert-ca\n"));
        let dry = ["upgrade", "ferrolb", CHART, "--dry-run=server"];
        let said = self.run(&[&dry, &values[..]].concat());
        said.unwrap_or_else(|error| panic!("the API server takes it: {error}"));
    }

    fn whole_life(&self, name: &str) {
        let begin = Instant::now();
        self.release("install", CHART, &[]).unwrap_or_else(|error| panic!("{error}"));
        measured(&format!("{name} install, s"), format!("{:.1}", begin.elapsed().as_secs_f64()));
        let tested =
            self.run(&["test", "ferrolb", "--timeout", "120s"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(tested.contains("Succeeded"), "{tested}");
        self.product.wait_admitting();
        for file in ["ipaddresspool.yaml", "l2advertisement.yaml"] {
            self.product.apply_sample(file);
        }
        until("the Service answers", Duration::from_secs(60), || self.product.curl());

        // The same again: nothing changes, twice.
        let before = self.generations();
        for _ in 0..2 {
            self.upgrade_in_use(&[]).assert_answered();
            assert_eq!(self.generations(), before);
        }
        // Other speakers.
        let requests = self.upgrade_in_use(&["--set", "speaker.podAnnotations.example=new"]);
        measured(&format!("{name} upgrade with new speakers, requests"), requests.told());
        requests.assert_answered();
        assert_ne!(self.generations(), before);

        self.certificate_of_others();

        let wrong = self.release("upgrade", CHART, &["--set", "speaker.tolerateMasters=true"]).unwrap_err();
        assert!(wrong.contains("tolerateMasters"), "{wrong}");
        let wrong = self.release("upgrade", CHART, &["--set", "controller.logLevel=loud"]).unwrap_err();
        assert!(wrong.contains("logLevel"), "{wrong}");

        self.run(&["uninstall", "ferrolb", "--wait"]).unwrap_or_else(|error| panic!("{error}"));
        until("nothing but definitions is left", Duration::from_secs(60), || {
            let global = "clusterroles,clusterrolebindings,validatingwebhookconfigurations";
            let label = "app.kubernetes.io/instance=ferrolb";
            let left = self.product.kubectl(&["get", global, "-l", label, "-o", "name"])
                + &self.product.kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "name"]);
            if left.trim().is_empty() { Ok(()) } else { Err(left) }
        });
        let pools = self.product.items(&["-n", NAMESPACE, "ipaddresspools"]);
        assert_eq!(pools.len(), 1, "users' pools stay");
    }
}

#[test]
fn helm_3_and_helm_4_install_upgrade_and_remove() {
    let product = Product::ready();
    let image = product.make_room();

    for version in ["helm3", "helm4"] {
        Helm::new(&product, version, &image).whole_life(version);
    }

    // The operator again, with the pools that stayed.
    product.install();
    until("the Service answers", Duration::from_secs(60), || product.curl());
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS);
}
