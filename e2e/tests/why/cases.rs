//! What can be wrong, and what mends it.

/// How a case is mended.
pub(crate) enum Fix {
    /// Apply this.
    Apply(&'static str),
    /// Run kubectl so.
    Kubectl(&'static [&'static str]),
    /// On the router, run this.
    Router(&'static [&'static str]),
}
use Fix::{Apply, Kubectl};

pub(crate) struct Case {
    /// Name of the Service.
    pub(crate) service: &'static str,
    /// How line one begins: object and field.
    pub(crate) line: &'static str,
    pub(crate) fix: Fix,
}

fn case(service: &'static str, line: &'static str, fix: Fix) -> Case {
    Case { service, line, fix }
}

/// Pools and advertisements of the cases. Nobody is given an address of them unasked.
pub(crate) const CONFIGURATION: &str = r"
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
pub(crate) fn service(name: &str, annotations: &str, labels: &str, more: &str) -> String {
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
pub(crate) fn services() -> String {
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
pub(crate) const PINNED: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: why-pinned, namespace: demo, labels: {app: why-pinned}}
spec:
  nodeName: k8s-master-1
  terminationGracePeriodSeconds: 0
  containers:
  - {name: hello, image: 'docker.io/lab/agnhost:1', args: [netexec, --http-port=8080], ports: [{name: http, containerPort: 8080}]}
";

pub(crate) const POOL_OF: &str = "metallb.io/address-pool";

pub(crate) fn cases() -> Vec<Case> {
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
