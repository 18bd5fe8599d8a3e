//! `kubectl ferrolb why`: for each reason why a Service is not reached that a user can bring about, line one
//! names object and field, and whoever does what it says reaches the Service.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use cases::{CONFIGURATION, Case, Fix, PINNED, POOL_OF, cases, service, services};
use support::{ADDRESS, NAMESPACE, Product, measured, until};

/// Line one of `why`.
fn first_line(product: &Product, service: &str) -> String {
    let (_, text) = product.plugin(&["why", &format!("demo/{service}")]);
    text.lines().next().unwrap_or_default().to_owned()
}

fn says(product: &Product, service: &str, line: &str) {
    until(line, Duration::from_secs(40), || {
        let said = first_line(product, service);
        if said.starts_with(line) { Ok(()) } else { Err(said) }
    });
}

fn mend(product: &Product, fix: &Fix) {
    match fix {
        Fix::Apply(text) => drop(product.lab.apply(text).unwrap()),
        Fix::Kubectl(arguments) => drop(product.kubectl(arguments)),
        Fix::Router(command) => drop(product.lab.host("router").unwrap().run(command).unwrap()),
    }
}

/// The client reaches the Service at each address that it has.
fn reached(product: &Product, service: &str) {
    let client = product.lab.host("client").unwrap();
    until(&format!("{service} is reached"), Duration::from_secs(40), || {
        let object = product.get(&["-n", "demo", "service", service])?;
        let port = &object["spec"]["ports"][0]["port"];
        let ingress = object["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
        if ingress.is_empty() {
            return Err("it has no address".to_owned());
        }
        for entry in ingress {
            let ip = entry["ip"].as_str().unwrap_or_default();
            let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
            let url = format!("http://{host}:{port}/hostname");
            client.curl(&url, Duration::from_secs(2)).map_err(|error| error.to_string())?;
        }
        Ok(())
    });
}

#[test]
fn line_one_names_what_to_change_and_changing_it_helps() {
    let product = Product::ready();
    let begin = Instant::now();
    from_nothing(&product);
    product.lab.apply(CONFIGURATION).unwrap();
    product.lab.apply(PINNED).unwrap();
    product.lab.apply(&services()).unwrap();
    let cases = cases();
    for Case { service, line, .. } in &cases {
        says(&product, service, line);
    }
    says(&product, "why-class", "Service demo/why-class, spec.loadBalancerClass: ");
    assert_eq!(product.plugin(&["why", "-n", "demo", "why-class"]).0, 1);
    for Case { fix, .. } in &cases {
        mend(&product, fix);
    }
    for Case { service, .. } in &cases {
        reached(&product, service);
    }
    one_after_another(&product);
    status_counts(&product);
    let all = cases.len() + 9;
    measured("reasons that were named and mended", format!("{all} in {} s", begin.elapsed().as_secs()));
    product.lab.delete(&services()).unwrap();
    product.lab.delete(PINNED).unwrap();
    product.lab.delete(CONFIGURATION).unwrap();
    product.kubectl(&["-n", NAMESPACE, "delete", "l2advertisement", "why-none"]);
    product.kubectl(&["label", "node", "k8s-node-2", "why-"]);
    product.apply_sample("ipaddresspool.yaml");
}

/// A newcomer's first steps: no pool, no advertisement.
fn from_nothing(product: &Product) {
    product.kubectl(&["-n", "demo", "delete", "service", "hello-lb"]);
    product.kubectl(&["-n", NAMESPACE, "delete", "l2advertisement,ipaddresspool", "default"]);
    product.apply_sample("hello-lb.yaml");
    says(product, "hello-lb", "IPAddressPool, spec.addresses: no address pool is configured: ");
    product.apply_sample("ipaddresspool.yaml");
    says(product, "hello-lb", "L2Advertisement, spec.ipAddressPools: ");
    product.apply_sample("l2advertisement.yaml");
    reached(product, "hello-lb");

    let addresses = |text: &str| {
        let patch = format!(r#"{{"spec":{{"addresses":[{text}]}}}}"#);
        let pool = ["-n", NAMESPACE, "patch", "ipaddresspool", "default", "--type=merge", "-p", &patch];
        product.kubectl(&pool);
    };
    addresses(r#""192.168.10.200/32""#);
    let late = service("why-late", "", "", "");
    product.lab.apply(&late).unwrap();
    says(product, "why-late", "IPAddressPool default, spec.addresses: ");
    addresses(r#""192.168.10.200-192.168.10.220""#);
    reached(product, "why-late");
    product.lab.delete(&late).unwrap();
}

/// What concerns a whole node, or the network.
fn one_after_another(product: &Product) {
    let client = product.lab.host("client").unwrap();
    let exclude = "node.kubernetes.io/exclude-from-external-load-balancers";
    let on = format!("{exclude}=");
    let off = format!("{exclude}-");
    let pool = format!("{POOL_OF}: why-one");
    let router = product.lab.host("router").unwrap();
    router.run(&["ip", "addr", "add", "192.168.10.229/32", "dev", router.spec.nic()]).unwrap();
    product.lab.apply(&service("why-node", &pool, "", "")).unwrap();
    let stranger = "Service demo/why-node, status.loadBalancer.ingress: host ";
    says(product, "why-node", stranger);
    mend(product, &Fix::Router(&["ip", "addr", "del", "192.168.10.229/32", "dev", "eth0"]));
    client.run(&["ip", "neighbour", "flush", "all"]).unwrap();
    reached(product, "why-node");

    product.kubectl(&["label", "node", "k8s-node-1", &on]);
    says(product, "why-node", &format!("Node k8s-node-1, metadata.labels[{exclude}]: "));
    product.kubectl(&["label", "node", "k8s-node-1", &off]);
    reached(product, "why-node");

    network_unavailable(product, "True");
    says(product, "why-node", "Node k8s-node-1, status.conditions[NetworkUnavailable]: ");
    network_unavailable(product, "False");
    reached(product, "why-node");
    product.kubectl(&["-n", "demo", "delete", "service", "why-node"]);

    quota(product);
    another_writer(product);
}

/// A namespace has what it may have.
fn quota(product: &Product) {
    let quota = |addresses: u8| {
        let reservation = format!(
            "{{apiVersion: ferrolb.io/v1alpha1, kind: AddressReservation, metadata: {{name: why-quota, namespace: \
             {NAMESPACE}}}, spec: {{quotas: [{{namespace: demo, maxAddresses: {addresses}}}]}}}}"
        );
        product.lab.apply(&reservation).unwrap();
    };
    quota(1);
    let more = service("why-more", "", "", "");
    product.lab.apply(&more).unwrap();
    says(product, "why-more", "AddressReservation why-quota, spec.quotas: ");
    quota(100);
    reached(product, "why-more");
    product.lab.delete(&more).unwrap();
    product.kubectl(&["-n", NAMESPACE, "delete", "addressreservation", "why-quota"]);
}

/// Somebody else writes the status, again and again, and stops.
fn another_writer(product: &Product) {
    let contested = service("why-contested", "", "", "");
    product.lab.apply(&contested).unwrap();
    reached(product, "why-contested");
    until("line one of why-contested", Duration::from_secs(40), || {
        let foreign = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}}"#;
        let patch =
            ["patch", "service", "why-contested", "--subresource=status", "--type=merge", "-p", foreign];
        product.kubectl(&[&["-n", "demo", "--field-manager=cloud"], &patch[..]].concat());
        let said = first_line(product, "why-contested");
        if said.starts_with("Service demo/why-contested, spec.loadBalancerClass: ") {
            Ok(())
        } else {
            Err(said)
        }
    });
    product.lab.delete(&contested).unwrap();
    product.lab.apply(&contested).unwrap();
    reached(product, "why-contested");
    product.lab.delete(&contested).unwrap();
}

fn network_unavailable(product: &Product, status: &str) {
    let patch = format!(
        r#"{{"status":{{"conditions":[{{"type":"NetworkUnavailable","status":"{status}","reason":"Test"}}]}}}}"#
    );
    product.kubectl(&["patch", "node", "k8s-node-1", "--subresource=status", "-p", &patch]);
}

fn status_counts(product: &Product) {
    let status = || {
        let (code, text) = product.plugin(&["status", "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&text).map_err(|_| text)?;
        Ok::<_, String>((code, json))
    };
    until("every Service of ours is announced", Duration::from_secs(30), || match status()? {
        (0, json) => {
            let hello = json["services"]
                .as_array()
                .and_then(|all| all.iter().find(|it| it["service"] == "demo/hello-lb").cloned());
            let hello = hello.ok_or("no hello-lb")?;
            assert_eq!(hello["addresses"], serde_json::json!([ADDRESS]));
            Ok(())
        }
        (code, json) => Err(format!("{code}: {}", json["headline"])),
    });
}
