//! The Operator Lifecycle Manager itself: a catalog, a subscription, the product by one MetalLB object, an
//! upgrade through the channel while the Service is in use, removal.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ferrolb_e2e::image::{self, ImageFile, ImageName};
use ferrolb_e2e::progress::Progress;
use serde_json::{Value, json};
use support::http::Curling;
use support::{ADDRESS, NAMESPACE, Product, measured, until};

const OLM: &str = "olm";
/// Of the Service range, and of nobody else: the lab has no names of Services.
const CATALOG_ADDRESS: &str = "10.96.77.7";
const PATIENCE: Duration = Duration::from_secs(120);

struct Olm<'a> {
    product: &'a Product,
    tools: PathBuf,
    folder: PathBuf,
    /// The product's, by digest.
    image: String,
}

impl<'a> Olm<'a> {
    fn new(product: &'a Product, image: &str) -> Self {
        let tools = product.check_tools().join("olm");
        assert!(tools.join("opm").exists(), "{} is missing: hack/setup builds it", tools.display());
        let folder = product.lab.layout.dir.join("olm");
        std::fs::create_dir_all(&folder).unwrap();
        Self { product, tools, folder, image: image.to_owned() }
    }

    /// An image with these files in the lab's registry.
    fn push(&self, reference: &str, files: &[(&str, &Path)]) {
        let archive = self.folder.join("image.tar");
        let file = |(target, source): &(&str, &Path)| ImageFile {
            target: (*target).to_owned(),
            source: source.to_path_buf(),
        };
        let files: Vec<ImageFile> = files.iter().map(file).collect();
        image::write(&archive, &files, &[ImageName::new(reference)]).unwrap();
        self.product.lab.push(&archive).unwrap_or_else(|error| panic!("{error}"));
    }

    /// What `kubectl ferrolb package` writes, as if this were another version.
    fn package(&self, part: &str, version: &str, more: &[&str]) -> PathBuf {
        let folder = self.folder.join(version).join(part);
        let path = folder.display().to_string();
        let arguments = ["package", part, "--image", &self.image, "--output-dir", &path];
        let (status, said) = self.product.plugin(&[&arguments[..], more].concat());
        assert_eq!(status, 0, "{said}");
        for file in files_of(&folder) {
            let made = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, made.replace(env!("CARGO_PKG_VERSION"), version)).unwrap();
        }
        folder
    }

    /// The bundle of a version in the registry; its image.
    fn bundle(&self, version: &str) -> String {
        let folder = self.package("bundle", version, &[]);
        self.verify(&folder);
        if version != env!("CARGO_PKG_VERSION") {
            mark_pods(&folder.join("manifests/ferrolb-operator.clusterserviceversion.yaml"), version);
        }
        let reference = format!("ferrolb.io/ferrolb-bundle:v{version}");
        let files = files_of(&folder);
        let target = |file: &Path| file.strip_prefix(&folder).unwrap().display().to_string();
        let targets: Vec<String> = files.iter().map(|file| target(file)).collect();
        let files: Vec<(&str, &Path)> =
            targets.iter().map(String::as_str).zip(files.iter().map(PathBuf::as_path)).collect();
        self.push(&reference, &files);
        reference
    }

    fn run(&self, tool: &str, arguments: &[&str]) -> String {
        let output = Command::new(self.tools.join(tool)).args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{tool} {arguments:?}: {said}");
        said
    }

    /// The framework's own check of bundles has nothing to say.
    fn verify(&self, bundle: &Path) {
        let said = self.run("operator-verify", &["manifests", &bundle.display().to_string()]);
        for word in ["error", "warning"] {
            assert!(!said.to_lowercase().contains(word), "{said}");
        }
    }

    /// Serves a catalog, in place of the one that was served.
    fn serve(&self, catalog: &Path) {
        let folder = catalog.display().to_string();
        self.run("opm", &["validate", &folder]);
        let file = catalog.join("ferrolb-operator/catalog.yaml");
        let tag = Command::new("sha256sum").arg(&file).output().unwrap().stdout;
        let reference = format!("lab.example/catalog:v{}", String::from_utf8_lossy(tag.get(..12).unwrap()));
        let opm = self.tools.join("opm");
        self.push(&reference, &[("bin/opm", &opm), ("configs/ferrolb-operator/catalog.yaml", &file)]);
        let run =
            ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-enforce-integrity=false"];
        self.apply(&[
            deployment("catalog", &reference, &run),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "catalog", "namespace": OLM},
                "spec": {
                    "clusterIP": CATALOG_ADDRESS, "selector": {"app": "catalog"},
                    "ports": [{"port": 50051, "protocol": "TCP"}],
                },
            }),
        ]);
        self.wait_deployment("catalog");
    }

    fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.product.lab.apply(&list.to_string()).unwrap_or_else(|error| panic!("{error}"));
    }

    fn wait_deployment(&self, name: &str) {
        let waited = self.product.lab.wait_deployment(OLM, name, &Progress::quiet(), PATIENCE);
        waited.unwrap_or_else(|error| panic!("{error}"));
    }

    /// OLM, as its own chart installs it, without what serves other catalogs.
    fn install(&self) {
        let crds = self.tools.join("crds").display().to_string();
        self.product.kubectl(&["apply", "--server-side", "-f", &crds]);
        self.product.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "-f", &crds]);
        let busybox = Path::new("/bin/busybox");
        let tool = |name: &str| self.tools.join(name);
        let (olm, catalog, cpb, opm) = (tool("olm"), tool("catalog"), tool("cpb"), tool("opm"));
        self.push(
            "lab.example/olm:v1",
            &[("bin/olm", &olm), ("bin/catalog", &catalog), ("bin/cpb", &cpb), ("bin/cp", busybox)],
        );
        self.push("lab.example/opm:v1", &[("bin/opm", &opm)]);
        let account = json!({"kind": "ServiceAccount", "name": "default", "namespace": OLM});
        self.apply(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OLM}}),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "olm"}, "subjects": [account],
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
                },
            }),
            json!({
                "apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig",
                "metadata": {"name": "cluster"},
            }),
            deployment("olm", "lab.example/olm:v1", &["/bin/olm", "--namespace", OLM]),
            deployment(
                "catalog-operator",
                "lab.example/olm:v1",
                &[
                    "/bin/catalog",
                    "--namespace",
                    OLM,
                    "--opmImage",
                    "lab.example/opm:v1",
                    "--util-image",
                    "lab.example/olm:v1",
                    "--writeStatusName",
                    "",
                ],
            ),
        ]);
        self.wait_deployment("olm");
        self.wait_deployment("catalog-operator");
    }

    fn subscribe(&self) {
        self.apply(&[
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                "metadata": {"name": "ferrolb", "namespace": OLM},
                "spec": {
                    "sourceType": "grpc", "address": format!("{CATALOG_ADDRESS}:50051"),
                    "displayName": "FerroLB",
                },
            }),
            json!({
                "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "ferrolb", "namespace": NAMESPACE},
                "spec": {"targetNamespaces": [NAMESPACE]},
            }),
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"name": "ferrolb-operator", "namespace": NAMESPACE},
                "spec": {
                    "name": "ferrolb-operator", "channel": "stable",
                    "source": "ferrolb", "sourceNamespace": OLM,
                },
            }),
        ]);
    }

    fn phase(&self, version: &str) -> Result<(), String> {
        let name = format!("ferrolb-operator.v{version}");
        let csv = self.product.get(&["-n", NAMESPACE, "clusterserviceversion", &name])?;
        if csv["status"]["phase"] == "Succeeded" { Ok(()) } else { Err(csv["status"].to_string()) }
    }

    fn what_is_there(&self) -> String {
        let kinds = "subscriptions.operators.coreos.com,installplans,clusterserviceversions";
        let there = self.product.lab.kubectl(&["-n", NAMESPACE, "get", kinds, "-o", "yaml"]);
        there.unwrap_or_else(|error| error.to_string())
    }
}

fn deployment(name: &str, image: &str, command: &[&str]) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": OLM},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "containers": [{
                    "name": name, "image": image, "command": command,
                    "env": [{"name": "OPERATOR_NAMESPACE", "value": OLM}, {"name": "OPERATOR_NAME", "value": name}],
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                }],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        }},
    })
}

/// All files below a folder.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files_of(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// Another version has another operator: OLM copies annotations to its pods.
fn mark_pods(csv: &Path, version: &str) {
    let mut object: Value = serde_saphyr::from_str(&std::fs::read_to_string(csv).unwrap()).unwrap();
    object["metadata"]["annotations"]["example"] = json!(version);
    std::fs::write(csv, object.to_string()).unwrap();
}

#[test]
fn the_lifecycle_manager_installs_upgrades_and_removes() {
    let product = Product::ready();
    let image = product.make_room();

    let olm = Olm::new(&product, &image);
    let (old, new) = ("0.0.9", env!("CARGO_PKG_VERSION"));
    let bundles = [old, new].map(|version| olm.bundle(version));
    let before = olm.package("catalog", old, &["--bundle-image", &bundles[0]]);
    let previous = before.join("ferrolb-operator/catalog.yaml").display().to_string();
    let after = olm.package("catalog", new, &["--bundle-image", &bundles[1], "--previous", &previous]);

    olm.install();
    olm.serve(&before);
    let begin = Instant::now();
    olm.subscribe();
    until("the first version is Succeeded", PATIENCE, || {
        olm.phase(old).map_err(|error| format!("{error}\n{}", olm.what_is_there()))
    });
    measured("subscribed to Succeeded, s", format!("{:.1}", begin.elapsed().as_secs_f64()));
    product.apply_sample("metallb.yaml");
    product.wait_available(PATIENCE);
    product.wait_admitting();
    for file in ["ipaddresspool.yaml", "l2advertisement.yaml"] {
        product.apply_sample(file);
    }
    until("the Service answers", PATIENCE, || product.curl());

    // Through the channel, while a client asks.
    olm.serve(&after);
    let client = Curling::with_patience(&product.lab, "client", ADDRESS, 2);
    until("the next version is Succeeded", PATIENCE, || {
        olm.phase(new).map_err(|error| format!("{error}\n{}", olm.what_is_there()))
    });
    let requests = client.stop();
    measured("upgrade through the channel, requests", requests.told());
    requests.assert_answered();
    until("the version before is gone", PATIENCE, || match olm.phase(old) {
        Err(error) if error.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    product.wait_available(PATIENCE);

    // As the documentation says: rights are the last that the operator removes.
    product.kubectl(&["-n", NAMESPACE, "delete", "metallb", "metallb", "--timeout=60s"]);
    let rights = ["clusterroles", "-l", "app.kubernetes.io/managed-by=metallb-operator", "--timeout=60s"];
    product.kubectl(&[&["wait", "--for=delete"][..], &rights].concat());
    let objects = ["subscription.operators.coreos.com/ferrolb-operator", "operatorgroup/ferrolb"];
    product.kubectl(&[&["-n", NAMESPACE, "delete"][..], &objects].concat());
    product.kubectl(&["-n", NAMESPACE, "delete", "clusterserviceversions", "--all", "--timeout=60s"]);
    until("no pods and no rights are left", PATIENCE, || {
        let label = ["-l", "app.kubernetes.io/managed-by=metallb-operator", "-o", "name"];
        let global = "clusterroles,clusterrolebindings,validatingwebhookconfigurations";
        let left = product.kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "name"])
            + &product.kubectl(&[&["get", global][..], &label].concat());
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    });
    assert_eq!(product.items(&["-n", NAMESPACE, "ipaddresspools"]).len(), 1, "users' pools stay");

    // The lab as it was.
    product.kubectl(&["delete", "namespace", OLM, "--timeout=60s"]);
    product.kubectl(&["delete", "clusterrolebinding", "olm"]);
    let crds = olm.tools.join("crds").display().to_string();
    product.kubectl(&["delete", "--timeout=60s", "-f", &crds]);
    product.install();
    until("the Service answers", PATIENCE, || product.curl());
    let service = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], ADDRESS);
}
