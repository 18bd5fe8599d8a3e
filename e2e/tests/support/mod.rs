//! What the tests of the product share: the lab with the product in it, waits on conditions, and what is
//! printed when one of them fails.

#![expect(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::unwrap_used,
    reason = "each test file is a crate, uses a part of this, and fails by panicking"
)]

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ferrolb_e2e::layout::Layout;
use ferrolb_e2e::product::OPERATOR;
use ferrolb_e2e::progress::Progress;
use ferrolb_e2e::{Lab, Lock};
use serde_json::Value;

pub mod arp;
pub mod helm;
pub mod http;
pub mod load;
pub mod metrics;

/// Namespace of the product.
pub const NAMESPACE: &str = "metallb-system";
/// Address of the demo's Service.
pub const ADDRESS: &str = "192.168.10.200";
/// An address of the pool that no Service has.
pub const UNUSED: &str = "192.168.10.219";
/// Where announcing nodes are (the control plane carries the exclude label).
pub const WORKERS: [&str; 2] = ["k8s-node-1", "k8s-node-2"];
/// All nodes.
pub const NODES: [&str; 3] = ["k8s-master-1", "k8s-node-1", "k8s-node-2"];

/// Where the samples are.
pub const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/samples");

/// The running product, with the samples applied and the Service reachable.
pub struct Product {
    pub lab: Lab,
    /// Nobody else uses the lab meanwhile.
    _session: Lock,
}

impl Product {
    /// The lab that is up, with the product and the demo's objects in it.
    pub fn ready() -> Self {
        let product = Self::installed();
        for file in ["ipaddresspool.yaml", "l2advertisement.yaml", "hello.yaml", "hello-lb.yaml"] {
            product.apply_sample(file);
        }
        product.kubectl(&["-n", "demo", "rollout", "status", "deployment/hello", "--timeout=120s"]);
        until("the Service answers", Duration::from_secs(60), || product.curl());
        until("a ServiceL2Status", Duration::from_secs(30), || product.owner());
        product
    }

    /// The lab that is up, with the product available and nothing else.
    pub fn installed() -> Self {
        let lab = Lab::open(&Layout::from_env()).unwrap_or_else(|error| {
            panic!("{error}\nThese tests need the lab with the product: hack/test, or hack/lab up && hack/image && hack/lab install")
        });
        let session = lab.hold("tests of the product", &Progress::new(), Duration::from_secs(1800));
        let product = Self { lab, _session: session.unwrap_or_else(|error| panic!("{error}")) };
        // A test before that failed may have left it removed.
        if product.get(&["crd", "metallbs.metallb.io"]).is_err() {
            product.install();
        }
        product.apply_sample("metallb.yaml");
        product.wait_available(Duration::from_secs(120));
        product.wait_admitting();
        product
    }

    /// The pods of the webhook may be ready before the API server's node forwards to them, and before it is
    /// asked at all.
    pub fn wait_admitting(&self) {
        let bad = format!("{SAMPLES}/bad-pool.yaml");
        until("the webhook judges changes", Duration::from_secs(60), || {
            match self.lab.kubectl(&["apply", "--dry-run=server", "-f", &bad]) {
                Err(error) if error.to_string().contains("denied the request") => Ok(()),
                Err(error) => Err(error.to_string()),
                Ok(_) => Err("a wrong pool was admitted".to_owned()),
            }
        });
    }

    pub fn wait_available(&self, limit: Duration) {
        until("MetalLB is Available", limit, || {
            let metallb = self.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
            match condition(&metallb, "Available") {
                Some("True") => Ok(()),
                _ => Err(metallb["status"].to_string()),
            }
        });
    }

    pub fn apply_sample(&self, file: &str) {
        self.kubectl(&["apply", "-f", &format!("{SAMPLES}/{file}")]);
    }

    /// The plug-in `kubectl ferrolb`, built beside the tests (`cargo build -p kubectl-ferrolb`): its status
    /// and what it printed.
    pub fn plugin(&self, arguments: &[&str]) -> (i32, String) {
        let tests = std::env::current_exe().unwrap();
        let plugin = tests.parent().and_then(Path::parent).unwrap().join("kubectl-ferrolb");
        assert!(plugin.exists(), "build it first: cargo build -p kubectl-ferrolb ({})", plugin.display());
        let output = Command::new(plugin)
            .args(arguments)
            .env("PATH", self.lab.layout.tool("").as_os_str())
            .env("KUBECONFIG", self.lab.layout.kubeconfig())
            .env("KUBECACHEDIR", self.lab.layout.kubectl_cache())
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&printed).into_owned())
    }

    /// What `hack/lab install` applied: operator and CRDs, with the lab's image.
    pub fn manifests(&self) -> String {
        self.lab.layout.dir.join("install").display().to_string()
    }

    /// The whole product again, as it was.
    pub fn install(&self) {
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", &self.manifests()]);
        self.lab.wait_deployment(NAMESPACE, OPERATOR, &Progress::quiet(), Duration::from_secs(120)).unwrap();
        self.apply_sample("metallb.yaml");
        self.wait_available(Duration::from_secs(120));
        self.wait_admitting();
    }

    /// Removes the `MetalLB` object, and waits until nothing of what the operator made is left.
    pub fn remove_metallb(&self) {
        self.kubectl(&["-n", NAMESPACE, "delete", "metallb", "metallb", "--timeout=60s"]);
        let managed = ["-l", "app.kubernetes.io/managed-by=metallb-operator", "-o", "name"];
        let kinds =
            "secrets,deployments,daemonsets,clusterroles,clusterrolebindings,validatingwebhookconfigurations";
        let pods = ["-n", NAMESPACE, "get", "pods", "-l", "component!=operator", "-o", "name"];
        until("all operands are gone", Duration::from_secs(90), || {
            let left = self.kubectl(&pods)
                + &self.kubectl(&[&["-n", NAMESPACE, "get", kinds][..], &managed].concat());
            if left.trim().is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// How many operators there are.
    pub fn scale_operator(&self, replicas: usize) {
        let replicas = format!("--replicas={replicas}");
        self.kubectl(&["-n", NAMESPACE, "scale", &format!("deployment/{OPERATOR}"), &replicas]);
        if replicas == "--replicas=0" {
            until("no operator", Duration::from_secs(60), || {
                let pods = ["-n", NAMESPACE, "get", "pods", "-l", "component=operator", "-o", "name"];
                let left = self.kubectl(&pods);
                if left.trim().is_empty() { Ok(()) } else { Err(left) }
            });
        }
    }

    /// Removes the product for another way to install it, and makes the namespace for that; the product's
    /// image, by digest.
    pub fn make_room(&self) -> String {
        let operator = self.get(&["-n", NAMESPACE, "deployment", OPERATOR]).unwrap();
        self.kubectl(&["delete", "--timeout=60s", "-k", &self.manifests()]);
        self.kubectl(&["create", "namespace", NAMESPACE]);
        self.kubectl(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged"]);
        text(&operator["spec"]["template"]["spec"]["containers"][0]["image"])
    }

    /// What `hack/setup` builds for checks lies beside the lab's Kubernetes.
    pub fn check_tools(&self) -> PathBuf {
        self.lab.layout.tool("kubectl").ancestors().nth(3).unwrap().join("tools")
    }

    /// kubectl that must succeed.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.lab.kubectl(arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn get(&self, arguments: &[&str]) -> Result<Value, String> {
        self.lab.get_json(arguments).map_err(|error| error.to_string())
    }

    pub fn items(&self, arguments: &[&str]) -> Vec<Value> {
        let list = self.get(arguments).unwrap_or_else(|error| panic!("{error}"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// One request of the client to the demo's Service; what answered.
    pub fn curl(&self) -> Result<String, String> {
        let client = self.lab.host("client").map_err(|error| error.to_string())?;
        let url = format!("http://{ADDRESS}/hostname");
        client.curl(&url, Duration::from_secs(2)).map_err(|error| error.to_string())
    }

    /// The node that says it announces the demo's Service.
    pub fn owner(&self) -> Result<String, String> {
        let statuses = self.get(&["-n", NAMESPACE, "servicel2statuses"])?;
        let items = statuses["items"].as_array().cloned().unwrap_or_default();
        let of_demo: Vec<&str> = items
            .iter()
            .filter(|item| item["status"]["serviceName"] == "hello-lb")
            .filter_map(|item| item["status"]["node"].as_str())
            .collect();
        match of_demo.as_slice() {
            [node] => Ok((*node).to_owned()),
            other => Err(format!("ServiceL2Status of {other:?}")),
        }
    }

    /// The product's pods.
    pub fn pods(&self) -> Vec<Value> {
        self.items(&["-n", NAMESPACE, "pods"])
    }

    /// How often each container of the product was restarted, by pod.
    pub fn restarts(&self) -> Vec<(String, i64)> {
        let restarts = |pod: &Value| {
            let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
            statuses.iter().filter_map(|status| status["restartCount"].as_i64()).sum()
        };
        self.pods().iter().map(|pod| (text(&pod["metadata"]["name"]), restarts(pod))).collect()
    }

    pub fn wait_nodes_ready(&self) {
        until("all nodes Ready", Duration::from_secs(90), || {
            let ready = self.lab.ready_nodes().map_err(|error| error.to_string())?;
            if ready.len() == NODES.len() { Ok(()) } else { Err(format!("Ready: {ready:?}")) }
        });
    }

    pub fn wait_pods_ready(&self) {
        until("all pods of the product Ready", Duration::from_secs(120), || {
            let pods = self.get(&["-n", NAMESPACE, "pods"])?;
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            let unready: Vec<String> = pods
                .iter()
                .filter(|pod| condition(pod, "Ready") != Some("True"))
                .map(|pod| text(&pod["metadata"]["name"]))
                .collect();
            if unready.is_empty() { Ok(()) } else { Err(format!("not Ready: {unready:?}")) }
        });
    }
}

/// On failure, what explains it.
impl Drop for Product {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let show = |title: &str, arguments: &[&str]| {
            let output = self.lab.kubectl(arguments).unwrap_or_else(|error| error.to_string());
            eprintln!("--- {title}\n{output}");
        };
        show("nodes", &["get", "nodes", "-o", "wide"]);
        show("pods", &["get", "pods", "-A", "-o", "wide"]);
        show("services", &["get", "services", "-A", "-o", "wide"]);
        let kinds = "metallbs,ipaddresspools,l2advertisements,configurationstates,servicel2statuses";
        show("our objects", &["-n", NAMESPACE, "get", kinds, "-o", "wide"]);
        show("conditions", &["-n", NAMESPACE, "get", "metallb", "metallb", "-o", "jsonpath={.status}"]);
        show("events", &["get", "events", "-A", "--sort-by=.lastTimestamp"]);
        for component in ["operator", "controller", "speaker", "webhook-server"] {
            let selector = format!("component={component}");
            show(
                &format!("log of {component}"),
                &["-n", NAMESPACE, "logs", "-l", &selector, "--tail=40", "--prefix"],
            );
        }
        // The next test begins with everything healed.
        let _ = self.lab.heal_all(&Progress::quiet());
    }
}

/// Looks at a condition until it holds; fails the test with the last reason why not.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(value) => return value,
            Err(seen) => assert!(
                begin.elapsed() < limit,
                "waited {} s for: {what}\nlast seen: {seen}",
                begin.elapsed().as_secs()
            ),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Looks for a while and fails as soon as something does not hold.
pub fn throughout(what: &str, time: Duration, mut look: impl FnMut() -> Result<(), String>) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        if let Err(seen) = look() {
            panic!(
                "did not hold throughout, after {:.1} s: {what}\nseen: {seen}",
                begin.elapsed().as_secs_f64()
            );
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The status of a condition.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == type_)?["status"].as_str()
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// How long something is done: what the environment says, for long runs, or this.
pub fn seconds(variable: &str, default: u64) -> Duration {
    let given = std::env::var(variable).ok().map(|text| text.parse().unwrap());
    Duration::from_secs(given.unwrap_or(default))
}

/// How often what is measured is repeated: once, or as often as the variable `RUNS` says.
pub fn runs() -> usize {
    std::env::var("RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Figures of several runs: the median, the 95th percentile (nearest rank) and the greatest.
pub fn measured_all(what: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let rank = |percent: usize| values.get((values.len() * percent).div_ceil(100).saturating_sub(1));
    let of = |percent| rank(percent).copied().unwrap_or(f64::NAN);
    let (p50, p95, max) = (of(50), of(95), of(100));
    measured(what, format!("p50 {p50:.2}, p95 {p95:.2}, max {max:.2} over {} runs", values.len()));
}

/// A figure for the reader of the test's output.
pub fn measured(what: &str, value: impl Display) {
    println!("measured: {what}: {value}");
}
