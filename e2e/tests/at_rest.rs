//! When nothing happens, nothing is done: no write, no log line, little memory; and no more rights than
//! are needed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use support::{NAMESPACE, NODES, Product, measured, text, until};

const REST: Duration = Duration::from_secs(120);
/// Of each process; the lab's image is a release build.
const MEMORY_LIMIT_KIB: u64 = 20 * 1024;
/// Writes of others that go on at rest: kubelets, their Events, the API server's own bookkeeping. Our own
/// Events are looked at one by one.
const NOT_OURS: [&str; 7] =
    ["events", "leases", "nodes", "pods", "serviceaccounts", "tokenreviews", "subjectaccessreviews"];

#[test]
fn nothing_is_written_or_logged_for_two_minutes_and_memory_is_small() {
    let product = Product::ready();
    // Processes that just began, whatever other tests asked of those before: what is measured is rest.
    product.kubectl(&["-n", NAMESPACE, "delete", "pods", "--all"]);
    product.wait_pods_ready();
    product.wait_available(Duration::from_secs(60));
    until("the Service answers", Duration::from_secs(30), || product.curl());
    // What that caused may settle.
    std::thread::sleep(Duration::from_secs(20));
    let (before, events) = (writes(&product), own_events(&product));
    std::thread::sleep(REST);
    let after = writes(&product);
    assert_eq!(own_events(&product), events);
    let new: Vec<_> = after.iter().filter(|(key, count)| before.get(*key) != Some(count)).collect();
    assert!(new.is_empty(), "writes at rest: {new:?}");
    let since = format!("--since={}s", REST.as_secs() - 2);
    for component in ["operator", "controller", "speaker", "webhook-server"] {
        let selector = format!("component={component}");
        let log = product.kubectl(&["-n", NAMESPACE, "logs", "-l", &selector, "--tail=-1", &since]);
        assert_eq!(log.trim(), "", "log lines of {component} at rest");
    }
    for process in processes(&product) {
        measured(&format!("memory of {} on {}, KiB", process.name, process.node), process.resident_kib);
        assert!(process.resident_kib < MEMORY_LIMIT_KIB, "{process:?}");
    }
}

/// Requests that write, by resource and verb, as the API server counts them.
fn writes(product: &Product) -> BTreeMap<String, String> {
    let metrics = product.kubectl(&["get", "--raw", "/metrics"]);
    let counts = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    counts
        .filter(|line| {
            ["POST", "PUT", "PATCH", "APPLY", "DELETE"]
                .iter()
                .any(|verb| line.contains(&format!("verb=\"{verb}\"")))
        })
        .filter(|line| !NOT_OURS.iter().any(|resource| line.contains(&format!("resource=\"{resource}\""))))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, count)| (series.to_owned(), count.to_owned()))
        .collect()
}

/// How often each of our Events was told.
fn own_events(product: &Product) -> BTreeMap<String, String> {
    let events = product.items(&["-A", "events"]);
    let ours = events.iter().filter(|it| text(&it["source"]["component"]).starts_with("metallb-"));
    ours.map(|it| (text(&it["metadata"]["name"]), it["count"].to_string())).collect()
}

#[derive(Debug)]
struct OurProcess {
    node: &'static str,
    name: String,
    resident_kib: u64,
    capabilities: u64,
    uid: u64,
}

/// Our processes on all nodes, as the kernel of this machine shows them.
fn processes(product: &Product) -> Vec<OurProcess> {
    let mut found = Vec::new();
    for node in NODES {
        let host = product.lab.host(node).unwrap();
        let script = "for p in /proc/[0-9]*; do \
            case $(tr '\\0' ' ' <$p/cmdline 2>/dev/null) in /controller*|/speaker*|/webhook*|/manager*) cat $p/status;; esac; \
            done";
        let status = host.run(&["sh", "-c", script]).unwrap();
        for block in status.split("Name:\t").skip(1) {
            let field = |key: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(key))?;
                line.split_whitespace().next().map(ToOwned::to_owned)
            };
            found.push(OurProcess {
                node,
                name: block.lines().next().unwrap_or_default().to_owned(),
                resident_kib: field("VmRSS:").and_then(|it| it.parse().ok()).unwrap(),
                capabilities: field("CapEff:").and_then(|it| u64::from_str_radix(&it, 16).ok()).unwrap(),
                uid: field("Uid:").and_then(|it| it.parse().ok()).unwrap(),
            });
        }
    }
    found
}

#[test]
fn processes_have_the_rights_they_need_and_images_have_versions() {
    const NET_RAW: u64 = 1 << 13;
    let product = Product::ready();
    let processes = processes(&product);
    let named = |name: &str| processes.iter().filter(|it| it.name == name).count();
    assert_eq!((named("speaker"), named("controller"), named("manager")), (3, 1, 1), "{processes:?}");
    assert!(named("webhook") >= 1, "{processes:?}");
    for process in &processes {
        match process.name.as_str() {
            "speaker" => assert_eq!(process.capabilities, NET_RAW, "{process:?}"),
            _ => assert!(process.capabilities == 0 && process.uid != 0, "{process:?}"),
        }
    }
    for pod in product.pods() {
        let name = text(&pod["metadata"]["name"]);
        for container in pod["spec"]["containers"].as_array().unwrap() {
            let image = text(&container["image"]);
            assert!(
                image.contains('@') || image.rsplit('/').next().unwrap().contains(':'),
                "{name}: {image}"
            );
            assert!(!image.ends_with(":latest"), "{name}: {image}");
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
        }
    }
}
