//! What Services get, what they are told when they get nothing, and how fast many of them are served.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

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
    let begin = Instant::now();
    scale("deployment/controller", 1);
    // Services are served in the order of their names. To list all of them all the time would keep the API
    // server from its work: so the first and the last are looked at, and all in the end.
    let first = until("the first address", Duration::from_secs(60), || has_address(&product, "s0"));
    until("the last address", Duration::from_secs(120), || has_address(&product, "s999"));
    until("all addresses", Duration::from_secs(120), || match assigned(&product) {
        MANY => Ok(()),
        count => Err(format!("{count} of {MANY}")),
    });
    measured(
        "2,000 waiting Services, from the start of the controller's pod, s",
        begin.elapsed().as_secs_f64(),
    );
    measured("  from the first address seen, s", first.elapsed().as_secs_f64());
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

/// Whether one of them has an address; if so, the time.
fn has_address(product: &Product, name: &str) -> Result<Instant, String> {
    let path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
    match product.kubectl(&["-n", "many", "get", "service", name, "-o", path]) {
        ip if ip.starts_with("10.200.") => Ok(Instant::now()),
        other => Err(other),
    }
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
