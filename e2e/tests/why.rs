//! `kubectl ferrolb why`: for each reason why a Service is not reached that a user can bring about, line one
//! names object and field, and whoever does what it says reaches the Service.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use support::{ADDRESS, NAMESPACE, Product, measured, until};

/// How a case is mended.
enum Fix {
    /// Apply this.
    Apply(&'static str),
    /// Run kubectl so.
    Kubectl(&'static [&'static str]),
    /// On the router, run this.
    Router(&'static [&'static str]),
}
use Fix::{Apply, Kubectl, Router};

struct Case {
    /// Name of the Service.
    service: &'static str,
    /// How line one begins: object and field.
    line: &'static str,
    fix: Fix,
}

fn case(service: &'static str, line: &'static str, fix: Fix) -> Case {
    Case { service, line, fix }
}

/// Pools and advertisements of the cases. Nobody is given an address of them unasked.
const CONFIGURATION: &str = r"
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-tiny, namespace: metallb-system}
spec: {addresses: [192.168.10.221/32], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-theirs, namespace: metallb-system}
spec: {addresses: [192.168.10.223/32], autoAssign: false, serviceAllocation: {namespaces: [default]}}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-dual, namespace: metallb-system}
spec: {addresses: [192.168.10.224/32], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-labels, namespace: metallb-system}
spec: {addresses: [192.168.10.225/32], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-nodes, namespace: metallb-system}
spec: {addresses: [192.168.10.226/32], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-shared, namespace: metallb-system}
spec: {addresses: [192.168.10.227/32], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-links, namespace: metallb-system}
spec: {addresses: [192.168.10.228/32], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-one, namespace: metallb-system}
spec: {addresses: [192.168.10.229-192.168.10.230], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: why-none, namespace: metallb-system}
spec: {addresses: [192.168.10.231/32], autoAssign: false}
---
apiVersion: ferrolb.io/v1alpha1
kind: AddressReservation
metadata: {name: why-kept, namespace: metallb-system}
spec: {addresses: [192.168.10.217], service: {namespace: demo, name: somebody-else}}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: why-plain, namespace: metallb-system}
spec: {ipAddressPools: [why-tiny, why-theirs, why-dual]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: why-labels, namespace: metallb-system}
spec: {ipAddressPools: [why-labels, why-shared], serviceSelectors: [{matchLabels: {why: labels}}]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: why-nodes, namespace: metallb-system}
spec: {ipAddressPools: [why-nodes], nodeSelectors: [{matchLabels: {why: nodes}}]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: why-links, namespace: metallb-system}
spec: {ipAddressPools: [why-links], interfaces: [eth9]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: why-one, namespace: metallb-system}
spec: {ipAddressPools: [why-one], nodeSelectors: [{matchLabels: {kubernetes.io/hostname: k8s-node-1}}]}
";

/// A Service of the demo's pods; `more` are lines of its spec.
fn service(name: &str, annotations: &str, labels: &str, more: &str) -> String {
    let mut spec = format!("  type: LoadBalancer\n{more}");
    for (key, line) in [
        ("selector:", "  selector: {app.kubernetes.io/name: hello}\n"),
        ("ports:", "  ports: [{name: http, port: 80, targetPort: http}]\n"),
    ] {
        if !more.contains(key) {
            spec += line;
        }
    }
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: demo\n  annotations: {{{annotations}}}\n  \
         labels: {{{labels}}}\nspec:\n{spec}---\n"
    )
}

/// All wrong in a way of their own.
fn services() -> String {
    let pool = |pool: &str| format!("metallb.io/address-pool: {pool}");
    let ips = |ips: &str| format!("metallb.io/loadBalancerIPs: '{ips}'");
    let holder = format!("{}, metallb.io/allow-shared-ip: a", ips("192.168.10.215"));
    [
        service("why-holder", &holder, "", "  ports: [{name: http, port: 81, targetPort: http}]\n"),
        service("why-early", &pool("why-tiny"), "", ""),
        service("why-twice", &ips("192.168.10.211"), "", "  loadBalancerIP: 192.168.10.211\n"),
        service("why-text", &ips("hello"), "", ""),
        service("why-family", &ips("fd00:10::1:240"), "", ""),
        service("why-pool", &format!("{}, {}", ips("192.168.10.213"), pool("why-theirs")), "", ""),
        service("why-unknown", &pool("nowhere"), "", ""),
        service("why-outside", &ips("192.168.10.240"), "", ""),
        service("why-full", &pool("why-tiny"), "", ""),
        service("why-theirs", &pool("why-theirs"), "", ""),
        service("why-key", &format!("{}, metallb.io/allow-shared-ip: b", ips("192.168.10.215")), "", ""),
        service("why-port", &holder, "", "  ports: [{name: http, port: 81, targetPort: http}]\n"),
        service("why-dual", &pool("why-dual"), "", "  ipFamilyPolicy: RequireDualStack\n"),
        service("why-six", "", "", "  ipFamilies: [IPv6]\n"),
        service("why-kept", &ips("192.168.10.217"), "", ""),
        service("why-type", "", "", "").replace("type: LoadBalancer", "type: ClusterIP"),
        service("why-class", "", "", "  loadBalancerClass: example.com/other\n"),
        service("why-none", &pool("why-none"), "", ""),
        service("why-labels", &pool("why-labels"), "", ""),
        service("why-nodes", &pool("why-nodes"), "", ""),
        service(
            "why-shared",
            &format!("{}, metallb.io/allow-shared-ip: c", pool("why-shared")),
            "why: labels",
            "",
        ),
        service("why-links", &pool("why-links"), "", ""),
        service("why-pods", "", "", "  selector: {app: nothing}\n"),
        service("why-local", "", "", "  selector: {app: why-pinned}\n  externalTrafficPolicy: Local\n"),
    ]
    .concat()
}

/// Pods on the node that never announces.
const PINNED: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: why-pinned, namespace: demo, labels: {app: why-pinned}}
spec:
  nodeName: k8s-master-1
  terminationGracePeriodSeconds: 0
  containers:
  - {name: hello, image: 'docker.io/lab/agnhost:1', args: [netexec, --http-port=8080], ports: [{name: http, containerPort: 8080}]}
";

const POOL_OF: &str = "metallb.io/address-pool";

fn cases() -> Vec<Case> {
    const SYSTEM: &str = "--namespace=metallb-system";
    const DEMO: &str = "--namespace=demo";
    vec![
        case(
            "why-twice",
            "Service demo/why-twice, spec.loadBalancerIP: ",
            Kubectl(&[DEMO, "patch", "service", "why-twice", "-p", r#"{"spec":{"loadBalancerIP":null}}"#]),
        ),
        case(
            "why-text",
            "Service demo/why-text, metadata.annotations[metallb.io/loadBalancerIPs]: ",
            Kubectl(&[
                DEMO,
                "annotate",
                "--overwrite",
                "service",
                "why-text",
                "metallb.io/loadBalancerIPs=192.168.10.212",
            ]),
        ),
        case(
            "why-family",
            "Service demo/why-family, metadata.annotations[metallb.io/loadBalancerIPs]",
            Kubectl(&[
                DEMO,
                "annotate",
                "--overwrite",
                "service",
                "why-family",
                "metallb.io/loadBalancerIPs=192.168.10.216",
            ]),
        ),
        case(
            "why-pool",
            "Service demo/why-pool, metadata.annotations[metallb.io/address-pool]: ",
            Kubectl(&[DEMO, "annotate", "service", "why-pool", "metallb.io/address-pool-"]),
        ),
        case(
            "why-unknown",
            "Service demo/why-unknown, metadata.annotations[metallb.io/address-pool]: ",
            Kubectl(&[
                DEMO,
                "annotate",
                "--overwrite",
                "service",
                "why-unknown",
                "metallb.io/address-pool=default",
            ]),
        ),
        case(
            "why-outside",
            "Service demo/why-outside, metadata.annotations[metallb.io/loadBalancerIPs]",
            Kubectl(&[
                DEMO,
                "annotate",
                "--overwrite",
                "service",
                "why-outside",
                "metallb.io/loadBalancerIPs=192.168.10.214",
            ]),
        ),
        case(
            "why-full",
            "IPAddressPool why-tiny, spec.addresses: ",
            Kubectl(&[
                SYSTEM,
                "patch",
                "ipaddresspool",
                "why-tiny",
                "--type=merge",
                "-p",
                r#"{"spec":{"addresses":["192.168.10.221-192.168.10.222"]}}"#,
            ]),
        ),
        case(
            "why-theirs",
            "IPAddressPool why-theirs, spec.serviceAllocation: ",
            Kubectl(&[
                SYSTEM,
                "patch",
                "ipaddresspool",
                "why-theirs",
                "--type=merge",
                "-p",
                r#"{"spec":{"serviceAllocation":{"namespaces":["demo"]}}}"#,
            ]),
        ),
        case(
            "why-key",
            "Service demo/why-key, metadata.annotations[metallb.io/allow-shared-ip]: ",
            Kubectl(&[DEMO, "annotate", "--overwrite", "service", "why-key", "metallb.io/allow-shared-ip=a"]),
        ),
        case(
            "why-port",
            "Service demo/why-port, spec.ports: ",
            Kubectl(&[
                DEMO,
                "patch",
                "service",
                "why-port",
                "-p",
                r#"{"spec":{"ports":[{"name":"other","port":82,"targetPort":"http"},{"name":"http","port":81,"$patch":"delete"}]}}"#,
            ]),
        ),
        case(
            "why-dual",
            "IPAddressPool why-dual, spec.addresses: ",
            Kubectl(&[
                SYSTEM,
                "patch",
                "ipaddresspool",
                "why-dual",
                "--type=merge",
                "-p",
                r#"{"spec":{"addresses":["192.168.10.224/32","fd00:10::1:241/128"]}}"#,
            ]),
        ),
        case(
            "why-six",
            "IPAddressPool default, spec.addresses: ",
            Kubectl(&[
                SYSTEM,
                "patch",
                "ipaddresspool",
                "default",
                "--type=merge",
                "-p",
                r#"{"spec":{"addresses":["192.168.10.200-192.168.10.220","fd00:10::1:242/128"]}}"#,
            ]),
        ),
        case(
            "why-kept",
            "AddressReservation why-kept, spec.addresses: ",
            Kubectl(&[DEMO, "annotate", "service", "why-kept", "metallb.io/loadBalancerIPs-"]),
        ),
        case(
            "why-type",
            "Service demo/why-type, spec.type: ",
            Kubectl(&[DEMO, "patch", "service", "why-type", "-p", r#"{"spec":{"type":"LoadBalancer"}}"#]),
        ),
        case(
            "why-none",
            "L2Advertisement, spec.ipAddressPools: ",
            Apply(
                "{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: why-none, namespace: metallb-system}, spec: {ipAddressPools: [why-none]}}",
            ),
        ),
        case(
            "why-labels",
            "L2Advertisement why-labels, spec.serviceSelectors: ",
            Kubectl(&[DEMO, "label", "service", "why-labels", "why=labels"]),
        ),
        case(
            "why-nodes",
            "L2Advertisement why-nodes, spec.nodeSelectors: ",
            Kubectl(&["label", "node", "k8s-node-2", "why=nodes"]),
        ),
        case(
            "why-shared",
            "Service demo/why-shared, metadata.annotations[metallb.io/allow-shared-ip]: ",
            Kubectl(&[DEMO, "annotate", "service", "why-shared", "metallb.io/allow-shared-ip-"]),
        ),
        case(
            "why-links",
            "L2Advertisement why-links, spec.interfaces: ",
            Kubectl(&[
                SYSTEM,
                "patch",
                "l2advertisement",
                "why-links",
                "--type=merge",
                "-p",
                r#"{"spec":{"interfaces":["ens18"]}}"#,
            ]),
        ),
        case(
            "why-pods",
            "Service demo/why-pods, spec.selector: ",
            Kubectl(&[
                DEMO,
                "patch",
                "service",
                "why-pods",
                "--type=merge",
                "-p",
                r#"{"spec":{"selector":{"app":null,"app.kubernetes.io/name":"hello"}}}"#,
            ]),
        ),
        case(
            "why-local",
            "Service demo/why-local, spec.externalTrafficPolicy: ",
            Kubectl(&[
                DEMO,
                "patch",
                "service",
                "why-local",
                "-p",
                r#"{"spec":{"externalTrafficPolicy":"Cluster"}}"#,
            ]),
        ),
    ]
}

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
        Apply(text) => drop(product.lab.apply(text).unwrap()),
        Kubectl(arguments) => drop(product.kubectl(arguments)),
        Router(command) => drop(product.lab.host("router").unwrap().run(command).unwrap()),
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
    let all = cases.len() + 10;
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
    // Nobody else is given it either.
    product.kubectl(&["-n", "demo", "delete", "service", "why-node"]);
    let asks = service("why-next", "metallb.io/loadBalancerIPs: 192.168.10.229", "", "");
    product.lab.apply(&asks).unwrap();
    says(product, "why-next", "Service demo/why-next, metadata.annotations[metallb.io/loadBalancerIPs]");
    mend(product, &Router(&["ip", "addr", "del", "192.168.10.229/32", "dev", "eth0"]));
    client.run(&["ip", "neighbour", "flush", "all"]).unwrap();
    reached(product, "why-next");
    product.lab.delete(&asks).unwrap();
    product.lab.apply(&service("why-node", &pool, "", "")).unwrap();
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
