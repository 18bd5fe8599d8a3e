//! From an earlier build to this one while a client asks twenty times a second, by the single file and by Helm. The
//! earlier build lies in the folder FERROLB_PREVIOUS (`hack/upgrade` makes it): its image, `config` and `charts`.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use support::helm::Helm;
use support::http::Curling;
use support::{ADDRESS, NAMESPACE, Product, condition, measured, text, until};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const IMAGE: &str = "target/image/ferrolb.tar";
const FILE: &str = "config/manifests/ferrolb.yaml";
const CHART: &str = "charts/ferrolb";

/// A build: where its files are, and its image in the lab.
struct Build {
    folder: PathBuf,
    image: String,
}

impl Build {
    fn of(product: &Product, folder: &Path) -> Self {
        let names = product.lab.push(&folder.join(IMAGE)).unwrap_or_else(|error| panic!("{error}"));
        let image = product.lab.pinned(&names[0]).unwrap_or_else(|error| panic!("{error}"));
        Self { folder: folder.to_owned(), image }
    }

    fn path(&self, part: &str) -> String {
        self.folder.join(part).display().to_string()
    }

    /// The single file, with the image of this build.
    fn file(&self, product: &Product) -> String {
        let shipped = std::fs::read_to_string(self.folder.join(FILE)).unwrap();
        let named = shipped.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap();
        let file = product.lab.layout.dir.join("ferrolb.yaml");
        std::fs::write(&file, shipped.replace(named, &self.image)).unwrap();
        file.display().to_string()
    }
}

/// Room for the earlier build; both builds.
fn builds(product: &Product) -> (Build, Build) {
    let previous = std::env::var("FERROLB_PREVIOUS").expect("FERROLB_PREVIOUS: hack/upgrade sets it");
    product.make_room();
    let builds = (Build::of(product, Path::new(&previous)), Build::of(product, Path::new(CHECKOUT)));
    assert_ne!(builds.0.image, builds.1.image, "both builds are the same");
    builds
}

/// Every pod is of this build and ready, and none is on its way out.
fn wait_for(product: &Product, build: &Build) {
    until("everything is of the build", Duration::from_secs(240), || {
        let metallb = product.get(&["-n", NAMESPACE, "metallb", "metallb"])?;
        if condition(&metallb, "Upgradeable") != Some("True") {
            return Err(metallb["status"].to_string());
        }
        let pods = product.pods();
        let is_settled = |pod: &serde_json::Value| {
            pod["spec"]["containers"][0]["image"] == build.image
                && condition(pod, "Ready") == Some("True")
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let kept = pods.iter().filter(|pod| text(&pod["status"]["phase"]) != "Succeeded");
        let others: Vec<String> =
            kept.filter(|pod| !is_settled(pod)).map(|pod| text(&pod["metadata"]["name"])).collect();
        if others.is_empty() && pods.len() >= 6 { Ok(()) } else { Err(format!("{others:?}")) }
    });
}

/// The earlier build by `old`, the demo's Service, then this one by `new` while a client asks.
fn upgrade(
    way: &str,
    product: &Product,
    (before, after): &(Build, Build),
    old: impl FnOnce(),
    new: impl FnOnce(),
) {
    old();
    product.apply_sample("metallb.yaml");
    wait_for(product, before);
    product.wait_admitting();
    for file in ["ipaddresspool.yaml", "l2advertisement.yaml"] {
        product.apply_sample(file);
    }
    until("the Service answers", Duration::from_secs(60), || product.curl());

    let client = Curling::start(&product.lab, "client", ADDRESS);
    let begin = Instant::now();
    new();
    wait_for(product, after);
    let took = begin.elapsed().as_secs_f64();
    let requests = client.stop();
    measured(&format!("upgrade by {way}, {took:.0} s, requests"), requests.told());
    requests.assert_answered();
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS);
}

/// The lab as it was.
fn as_before(product: &Product) {
    product.install();
    for file in ["ipaddresspool.yaml", "l2advertisement.yaml"] {
        product.apply_sample(file);
    }
    until("the Service answers", Duration::from_secs(60), || product.curl());
}

#[test]
#[ignore = "needs an earlier build: hack/upgrade"]
fn by_the_single_file() {
    let product = Product::ready();
    let builds = builds(&product);
    let apply = |build: &Build| {
        product.kubectl(&["apply", "--server-side", "-f", &build.file(&product)]);
    };
    upgrade("the single file", &product, &builds, || apply(&builds.0), || apply(&builds.1));
    product.kubectl(&["delete", "--timeout=60s", "-f", &builds.1.file(&product)]);
    as_before(&product);
}

#[test]
#[ignore = "needs an earlier build: hack/upgrade"]
fn by_helm() {
    let product = Product::ready();
    let builds = builds(&product);
    let release = |verb: &str, build: &Build| {
        let helm = Helm::new(&product, "helm3", &build.image);
        let with_operator = ["--set", "operator.enabled=true"];
        let released = helm.release(verb, &build.path(CHART), &with_operator);
        released.unwrap_or_else(|error| panic!("{error}"));
    };
    upgrade("Helm", &product, &builds, || release("install", &builds.0), || release("upgrade", &builds.1));
    product.remove_metallb();
    let helm = Helm::new(&product, "helm3", &builds.1.image);
    helm.run(&["uninstall", "ferrolb", "--wait"]).unwrap_or_else(|error| panic!("{error}"));
    as_before(&product);
}
