//! What Services get, what they are told when they get nothing, and how fast many of them are served.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use support::arp::ask;
use support::{NAMESPACE, NODES, Product, condition, measured, text, until};

/// How many Services wait at once.
const MANY: usize = 2000;

fn service(name: &str, port: u16, annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: demo\n  annotations: {{{annotations}}}\nspec:\n  \
         type: LoadBalancer\n  selector: {{app.kubernetes.io/name: hello}}\n  \
         ports: [{{name: http, port: {port}, targetPort: http}}]\n{spec}"
    )
}

/// Messages of the Events with this reason.
fn told(product: &Product, name: &str, reason: &str) -> Vec<String> {
    let selector = format!("involvedObject.name={name},reason={reason}");
    let events = product.items(&["-n", "demo", "events", "--field-selector", &selector]);
    events.iter().map(|event| text(&event["message"])).collect()
}

fn wait_told(product: &Product, name: &str, reason: &str, message: &str) {
    until(message, Duration::from_secs(30), || {
        let seen = told(product, name, reason);
        if seen.iter().any(|it| it == message) { Ok(()) } else { Err(format!("{reason}: {seen:?}")) }
    });
}

/// A requested address, a shared one, and the refusals with their texts, as Events and as conditions.
#[test]
fn services_ask_for_addresses_and_are_told_why_not() {
    let product = Product::ready();
    let shared = "metallb.io/loadBalancerIPs: 192.168.10.210, metallb.io/allow-shared-ip: hello-shared";
    let objects = [
        service("hello-a", 8080, shared, ""),
        service("hello-b", 8081, shared, ""),
        service("hello-d", 80, "metallb.io/loadBalancerIPs: 192.168.10.230", ""),
        service("hello-e", 80, "metallb.io/address-pool: special", ""),
        service("hello-f", 8080, shared, ""),
        service("hello-g", 80, "metallb.io/loadbalancer-ips: 192.168.10.211", ""),
        service("hello-h", 80, "", "  loadBalancerIP: 192.168.10.212\n"),
        service("hello-other", 80, "", "  loadBalancerClass: example.com/other-lb\n"),
    ]
    .join("---\n");
    product.lab.apply(&objects).unwrap();
    for (name, url) in [
        ("hello-a", "http://192.168.10.210:8080/"),
        ("hello-b", "http://192.168.10.210:8081/"),
        ("hello-h", "http://192.168.10.212/"),
    ] {
        until(name, Duration::from_secs(30), || {
            product.lab.curl("client", url).map_err(|error| error.to_string())
        });
    }
    // No Service has this port.
    assert!(product.lab.curl("client", "http://192.168.10.210:80/").is_err());
    wait_told(&product, "hello-a", "IPAllocated", r#"Assigned IP ["192.168.10.210"]"#);
    for (name, reason, refusal) in [
        ("hello-d", "NotInPool", r#"["192.168.10.230"] is not allowed in config"#),
        ("hello-e", "UnknownPool", r#"unknown pool "special""#),
        ("hello-f", "PortConflict", r#"port TCP/8080 is already in use on "192.168.10.210""#),
    ] {
        let message = format!("Failed to allocate IP for \"demo/{name}\": {refusal}");
        wait_told(&product, name, "AllocationFailed", &message);
        let object = product.get(&["-n", "demo", "service", name]).unwrap();
        assert_eq!(condition(&object, "ferrolb.io/AddressAssigned"), Some("False"));
        assert_eq!(object["status"]["conditions"][0]["reason"], reason);
        assert_eq!(object["status"]["conditions"][0]["message"], refusal);
        assert_eq!(object["status"]["loadBalancer"], serde_json::json!({}));
    }
    let slip =
        "annotation metallb.io/loadbalancer-ips means nothing, did you mean metallb.io/loadBalancerIPs?";
    wait_told(&product, "hello-g", "UnknownAnnotation", slip);
    // Of a class that is not ours: not a word.
    let other = product.get(&["-n", "demo", "service", "hello-other"]).unwrap();
    assert_eq!(other["status"], serde_json::json!({"loadBalancer": {}}));
    let selector = "involvedObject.name=hello-other";
    assert!(product.items(&["-n", "demo", "events", "--field-selector", selector]).is_empty());
    // Whoever is served is told nothing but the address.
    let served = product.get(&["-n", "demo", "service", "hello-lb"]).unwrap();
    let plain = serde_json::json!({"loadBalancer": {"ingress": [{"ip": "192.168.10.200", "ipMode": "VIP"}]}});
    assert_eq!(served["status"], plain);

    product.lab.delete(&objects).unwrap();
    until("nobody answers for it any more", Duration::from_secs(5), || {
        let answers = ask(&product.lab, "client", "192.168.10.210", 5);
        if answers.iter().all(BTreeSet::is_empty) { Ok(()) } else { Err(format!("{answers:?}")) }
    });
}

/// The pool runs out; what is freed goes to who waits, and the condition follows.
#[test]
fn an_exhausted_pool_serves_who_waits_when_an_address_is_free() {
    let product = Product::ready();
    let small = format!(
        "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: small, namespace: {NAMESPACE}}}\nspec: {{addresses: [192.168.10.240/32]}}\n"
    );
    let from = "metallb.io/address-pool: small";
    let first = service("hello-first", 80, from, "");
    product.lab.apply(&small).unwrap();
    product.lab.apply(&first).unwrap();
    wait_told(&product, "hello-first", "IPAllocated", r#"Assigned IP ["192.168.10.240"]"#);
    product.lab.apply(&service("hello-c", 80, from, "")).unwrap();
    let full = "Failed to allocate IP for \"demo/hello-c\": no available IPs in pool small";
    wait_told(&product, "hello-c", "AllocationFailed", full);
    product.lab.delete(&first).unwrap();
    let served = until("hello-c is served", Duration::from_secs(30), || {
        let object = product.get(&["-n", "demo", "service", "hello-c"])?;
        match condition(&object, "ferrolb.io/AddressAssigned") {
            Some("True") => Ok(object),
            _ => Err(object["status"].to_string()),
        }
    });
    assert_eq!(served["status"]["loadBalancer"]["ingress"][0]["ip"], "192.168.10.240");
    product.lab.delete(&service("hello-c", 80, from, "")).unwrap();
    product.lab.delete(&small).unwrap();
}

/// As in the documentation: who asks for nothing in particular, when all pools are full.
#[test]
fn a_full_cluster_says_so() {
    let product = Product::ready();
    let rest = (201..=220).map(|last| {
        let asks = format!("metallb.io/loadBalancerIPs: 192.168.10.{last}");
        service(&format!("full-{last}"), 80, &asks, "")
    });
    let rest: Vec<String> = rest.collect();
    product.lab.apply(&rest.join("---\n")).unwrap();
    wait_told(&product, "full-220", "IPAllocated", r#"Assigned IP ["192.168.10.220"]"#);
    product.lab.apply(&service("hello-c", 80, "", "")).unwrap();
    let full = r#"Failed to allocate IP for "demo/hello-c": no available IPs"#;
    wait_told(&product, "hello-c", "AllocationFailed", full);
    // What people see of it.
    let (status, table) = product.plugin(&["pools"]);
    let of_pool = table.lines().find(|line| line.starts_with("default ")).unwrap_or_default();
    let columns: Vec<&str> = of_pool.split_whitespace().collect();
    assert_eq!((status, &columns[1..3]), (0, &["21", "0"][..]), "{table}");
    product.lab.delete(&service("hello-c", 80, "", "")).unwrap();
    product.lab.delete(&rest.join("---\n")).unwrap();
}

/// The name of the pod that leads.
fn leader(product: &Product) -> String {
    let lease = product.get(&["-n", NAMESPACE, "lease", "metallb.io.controller"]);
    lease.map(|lease| text(&lease["spec"]["holderIdentity"])).unwrap_or_default()
}

/// Of two controllers the one that leads is asked to end, and killed: the other one gives the next address.
#[test]
fn of_two_controllers_one_takes_over() {
    let product = Product::ready();
    let replicas = |count: &str| {
        let patch = format!("{{\"spec\": {{\"controllerReplicas\": {count}}}}}");
        product.kubectl(&["-n", NAMESPACE, "patch", "metallb", "metallb", "--type=merge", "-p", &patch]);
    };
    let both_ready = || {
        until("two controllers are ready", Duration::from_secs(60), || {
            let status = product.get(&["-n", NAMESPACE, "deployment", "controller"])?["status"].clone();
            if status["readyReplicas"] == 2 { Ok(()) } else { Err(status.to_string()) }
        });
    };
    replicas("2");
    for (name, how, options) in
        [("asked", "asked to end", &[][..]), ("killed", "killed", &["--force", "--grace-period=0"])]
    {
        both_ready();
        let old = leader(&product);
        let begin = Instant::now();
        product.kubectl(&[&["-n", NAMESPACE, "delete", "pod", &old, "--wait=false"][..], options].concat());
        product.lab.apply(&service(name, 80, "", "")).unwrap();
        let ingress = until("an address", Duration::from_secs(60), || {
            let object = product.get(&["-n", "demo", "service", name])?;
            let ingress = object["status"]["loadBalancer"]["ingress"].clone();
            if ingress.is_array() { Ok(ingress) } else { Err(object["status"].to_string()) }
        });
        measured(&format!("leader {how} → next address, s"), begin.elapsed().as_secs_f64());
        assert_eq!(ingress.as_array().map(Vec::len), Some(1));
        assert_ne!(leader(&product), old);
    }
    let table = product.kubectl(&["-n", "demo", "get", "services", "--no-headers"]);
    let column = |line: &str| line.split_whitespace().nth(3).map(ToOwned::to_owned);
    let held: Vec<String> = table.lines().filter_map(column).filter(|ip| ip.starts_with("192.")).collect();
    let distinct: BTreeSet<&String> = held.iter().collect();
    assert_eq!((held.len(), distinct.len()), (3, 3), "{table}");
    replicas("null");
    for name in ["asked", "killed"] {
        product.lab.delete(&service(name, 80, "", "")).unwrap();
    }
    until("one controller is left", Duration::from_secs(60), || {
        let pods = product.items(&["-n", NAMESPACE, "pods", "-l", "component=controller"]);
        if pods.len() == 1 { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
}

/// Two thousand Services wait when the controller starts: all are served, with one write each.
#[test]
fn many_services_are_served_with_one_write_each() {
    let product = Product::installed();
    let operator = "deployment/metallb-operator-controller-manager";
    let scale = |what: &str, replicas: usize| {
        product.kubectl(&["-n", NAMESPACE, "scale", what, &format!("--replicas={replicas}")]);
    };
    scale(operator, 0);
    scale("deployment/controller", 0);
    let gone = |selector: &str| {
        let pods = product.items(&["-n", NAMESPACE, "pods", "-l", selector]);
        if pods.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    };
    until("the controller is gone", Duration::from_secs(60), || gone("component=controller"));
    let pool = format!(
        "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: many, namespace: {NAMESPACE}}}\nspec: {{addresses: [10.200.0.0/16]}}\n"
    );
    product.lab.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: many}\n").unwrap();
    create_many(&product);
    let before = status_writes(&product);

    product.lab.apply(&pool).unwrap();
    let begin = Timestamp::now();
    let busy = processor_time();
    scale("deployment/controller", 1);
    // Services are served in the order of their names. To look at them all the time would keep the API server from
    // its work: one watch waits for the last.
    let last = "jsonpath={.status.loadBalancer.ingress[0].ip}";
    product.kubectl(&["-n", "many", "wait", "service/s999", "--for", last, "--timeout=120s"]);
    let busiest = busiest_since(&busy);
    until("all addresses", Duration::from_secs(120), || match assigned(&product) {
        MANY => Ok(()),
        count => Err(format!("{count} of {MANY}")),
    });
    let written = times_of_writes(&product);
    assert_eq!(written.len(), MANY);
    let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
    let (first, last) = (written[0], written[MANY - 1]);
    measured("2,000 waiting Services, from the start of the controller's pod, s", seconds(begin, last));
    measured("  from the first address, s", seconds(first, last));
    measured("  processor time, s", busiest);
    let memory = memory(&product);
    measured("  memory of the controller with these, KiB", memory);
    assert!(memory < 40 * 1024, "{memory} KiB");
    assert_eq!(status_writes(&product) - before, MANY);
    let table = product.kubectl(&["-n", "many", "get", "services", "--no-headers"]);
    let addresses: BTreeSet<&str> = table.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(addresses.len(), MANY, "an address was given twice");
    let status = until("the pool's counters", Duration::from_secs(10), || {
        let status = product.get(&["-n", NAMESPACE, "ipaddresspool", "many"])?["status"].clone();
        if status["assignedIPv4"] == MANY { Ok(status) } else { Err(status.to_string()) }
    });
    assert_eq!(status["availableIPv4"], 65536 - MANY);

    product.kubectl(&["delete", "namespace", "many", "--wait=false"]);
    product.lab.delete(&pool).unwrap();
    scale(operator, 1);
    product.wait_available(Duration::from_secs(120));
    until("the Services are gone", Duration::from_secs(180), || match assigned(&product) {
        0 => Ok(()),
        count => Err(format!("{count} left")),
    });
}

/// When the statuses were written, by the controller's log, in order.
fn times_of_writes(product: &Product) -> Vec<Timestamp> {
    let log = product.kubectl(&["-n", NAMESPACE, "logs", "deployment/controller", "--tail=-1"]);
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let written = lines.filter(|line| line["event"] == "serviceUpdated");
    let mut times: Vec<Timestamp> = written.map(|line| text(&line["ts"]).parse().unwrap()).collect();
    times.sort();
    times
}

/// Processor time that the processes of this machine have used, in ticks of 10 ms, by their names.
fn processor_time() -> BTreeMap<String, u64> {
    let of = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace().skip(11).map_while(|it| it.parse::<u64>().ok());
        Some((name.to_owned(), fields.next()? + fields.next()?))
    };
    let mut by_name = BTreeMap::new();
    for (name, ticks) in std::fs::read_dir("/proc").unwrap().flatten().filter_map(of) {
        *by_name.entry(name).or_default() += ticks;
    }
    by_name
}

/// Who used most of it since.
fn busiest_since(before: &BTreeMap<String, u64>) -> String {
    let now = processor_time().into_iter();
    let mut used: Vec<(u64, String)> = now
        .map(|(name, ticks)| (ticks.saturating_sub(before.get(&name).copied().unwrap_or(0)), name))
        .collect();
    used.sort_by(|a, b| b.cmp(a));
    let shown = used.iter().take(8).map(|(ticks, name)| format!("{name} {:.1}", *ticks as f64 / 100.0));
    shown.collect::<Vec<_>>().join(", ")
}

/// What the controller has in memory, in KiB.
fn memory(product: &Product) -> u64 {
    let script = "for p in $(pgrep -x controller); do grep VmRSS: /proc/$p/status; done";
    let of = |node: &&str| {
        let status = product.lab.host(node).unwrap().output(&["sh", "-c", script]).unwrap();
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        text.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok())
    };
    NODES.iter().filter_map(of).max().unwrap()
}

/// Without endpoints and node ports: they are here to be given addresses.
fn create_many(product: &Product) {
    const AT_A_TIME: usize = 250;
    std::thread::scope(|scope| {
        for from in (0..MANY).step_by(AT_A_TIME) {
            scope.spawn(move || {
                let one = |number: usize| {
                    format!(
                        "apiVersion: v1\nkind: Service\nmetadata: {{name: s{number}, namespace: many, annotations: {{metallb.io/address-pool: many}}}}\nspec: {{type: LoadBalancer, \
                         allocateLoadBalancerNodePorts: false, ports: [{{port: 80}}]}}\n"
                    )
                };
                let objects: Vec<String> = (from..from + AT_A_TIME).map(one).collect();
                product.lab.apply(&objects.join("---\n")).unwrap();
            });
        }
    });
}

/// How many of them have an address.
fn assigned(product: &Product) -> usize {
    let table = product.kubectl(&["-n", "many", "get", "services", "--no-headers", "--ignore-not-found"]);
    table
        .lines()
        .filter(|line| line.split_whitespace().nth(3).is_some_and(|it| it.starts_with("10.200.")))
        .count()
}

/// Writes of Service statuses that the API server has counted.
fn status_writes(product: &Product) -> usize {
    let metrics = product.kubectl(&["get", "--raw", "/metrics"]);
    let of_services = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && line.contains(r#"resource="services""#)
            && line.contains(r#"subresource="status""#)
    };
    let counts = metrics.lines().filter(of_services).filter_map(|line| line.rsplit_once(' '));
    let counts = counts.filter_map(|(_, count)| count.parse::<f64>().ok());
    counts.map(|count| count as usize).sum()
}
