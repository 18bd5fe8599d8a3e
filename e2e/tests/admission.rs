//! Admission beside the API server's own work: what it costs, and how soon it is back when both pods are
//! killed. FERROLB_LOAD_SECONDS says how long requests are made.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{NAMESPACE, NODES, Product, measured, seconds, until};

/// `kubectl proxy`: the API server by plain HTTP.
struct Proxy {
    process: Child,
    address: String,
}

impl Proxy {
    fn start(product: &Product) -> Self {
        let mut process =
            product.lab.kubectl_command().args(["proxy", "--port=0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An object that is applied, by its plural and content.
struct Applied {
    plural: &'static str,
    kind: &'static str,
    /// What follows the metadata.
    rest: &'static str,
}

const POOL: Applied = Applied {
    plural: "ipaddresspools",
    kind: "IPAddressPool",
    rest: r#", "spec": {"addresses": ["192.168.78.0/24"]}"#,
};
/// Of a kind that no webhook reviews.
const STATE: Applied = Applied { plural: "configurationstates", kind: "ConfigurationState", rest: "" };

/// Applies it 50 times a second, each time with another annotation; how long each took, sorted.
fn times(proxy: &Proxy, object: &Applied, time: Duration) -> Vec<Duration> {
    let Applied { plural, kind, rest } = object;
    let folder = tempfile::tempdir().unwrap();
    let mut requests = String::new();
    for turn in 0..time.as_secs() * 50 {
        let body = format!(
            r#"{{"apiVersion": "metallb.io/v1beta1", "kind": "{kind}", "metadata": {{"name": "load", "annotations": {{"turn": "{turn}"}}}}{rest}}}"#
        );
        let path = format!("apis/metallb.io/v1beta1/namespaces/{NAMESPACE}/{plural}/load");
        let separator = if turn == 0 { "" } else { "next\n" };
        write!(
            requests,
            "{separator}url = \"http://{}/{path}?fieldManager=load\"\nrequest = PATCH\nheader = \"content-type: application/apply-patch+yaml\"\ndata = {}\nsilent\noutput = /dev/null\nwrite-out = \"%{{http_code}} %{{time_total}}\\n\"\n",
            proxy.address,
            serde_json::to_string(&body).unwrap(),
        )
        .unwrap();
    }
    let file = folder.path().join("requests");
    std::fs::write(&file, requests).unwrap();
    let output = Command::new("curl")
        .args(["--rate", "50/s", "--max-time", "10", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut times: Vec<Duration> = text
        .lines()
        .map(|line| {
            let (code, time) = line.split_once(' ').unwrap();
            assert!(["200", "201"].contains(&code), "answered with {line}");
            Duration::from_secs_f64(time.parse().unwrap())
        })
        .collect();
    times.sort();
    times
}

#[test]
fn a_review_adds_little_to_an_apply() {
    let product = Product::ready();
    let time = seconds("FERROLB_LOAD_SECONDS", 5);
    let proxy = Proxy::start(&product);
    // Once each, so that connections and caches are there.
    for object in [&STATE, &POOL] {
        times(&proxy, object, Duration::from_secs(1));
    }
    let [plain, reviewed] = [&STATE, &POOL].map(|object| times(&proxy, object, time));
    for object in ["ipaddresspool", "configurationstate"] {
        product.kubectl(&["-n", NAMESPACE, "delete", object, "load"]);
    }
    let at = |times: &[Duration], percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1000.0;
    for percent in [50, 99] {
        let (plain, reviewed) = (at(&plain, percent), at(&reviewed, percent));
        measured(
            &format!("apply at 50 a second, p{percent}"),
            format!(
                "{plain:.1} ms without a webhook, {reviewed:.1} ms with, {:.1} ms more",
                reviewed - plain
            ),
        );
    }
    assert!(at(&reviewed, 99) < at(&plain, 99) + 500.0);
}

/// How long after the harm changes are admitted again, and stay so.
fn back_after(product: &Product, harm: impl FnOnce()) -> Duration {
    harm();
    let begin = Instant::now();
    let (mut good, mut since) = (0, Duration::ZERO);
    let mut turn = 0;
    until("changes are admitted again", Duration::from_secs(60), || {
        turn += 1;
        let pool = format!(
            "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: back, namespace: {NAMESPACE}, annotations: {{turn: \"{turn}\"}}}}\nspec: {{addresses: [192.168.79.0/24]}}\n"
        );
        match product.lab.apply(&pool) {
            Ok(_) => good += 1,
            Err(error) => {
                (good, since) = (0, begin.elapsed());
                return Err(error.to_string());
            }
        }
        if good < 20 { Err(format!("{good} in a row")) } else { Ok(()) }
    });
    since
}

#[test]
fn both_pods_may_be_killed() {
    let product = Product::ready();
    let killed = back_after(&product, || {
        for node in NODES {
            product.lab.host(node).unwrap().output(&["pkill", "-KILL", "--exact", "webhook"]).unwrap();
        }
    });
    measured("SIGKILL of both webhooks, last refused apply after", format!("{:.1} s", killed.as_secs_f64()));
    product.wait_available(Duration::from_secs(60));
    let deleted = back_after(&product, || {
        let pods = [
            "-n",
            NAMESPACE,
            "delete",
            "pods",
            "-l",
            "component=webhook-server",
            "--force",
            "--grace-period=0",
        ];
        product.kubectl(&pods);
    });
    measured(
        "both pods of the webhook deleted, last refused apply after",
        format!("{:.1} s", deleted.as_secs_f64()),
    );
    product.kubectl(&["-n", NAMESPACE, "delete", "ipaddresspool", "back"]);
    product.wait_available(Duration::from_secs(60));
}
