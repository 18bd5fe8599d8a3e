//! etcd, the API server, the controller manager and the scheduler.

use serde_json::{Value, json};

use super::command_line;
use crate::layout::Layout;
use crate::product::NAMESPACE;
use crate::topology::{API_PORT, Role, SERVICE_CIDRS, with_role};

fn tool(layout: &Layout, name: &str) -> String {
    layout.tool(name).display().to_string()
}

fn pki(layout: &Layout, file: &str) -> String {
    layout.pki().join(file).display().to_string()
}

/// etcd; a lab may lose its data when the machine loses power.
pub(crate) fn etcd(layout: &Layout) -> Vec<String> {
    command_line(tool(layout, "etcd"), &["--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn"])
}

/// The API server.
pub(crate) fn api_server(layout: &Layout) -> Vec<String> {
    let address = with_role(Role::ControlPlane).ipv4();
    let pki = |file| pki(layout, file);
    command_line(
        tool(layout, "kube-apiserver"),
        &[
            "--etcd-servers=http://127.0.0.1:2379",
            &format!("--service-cluster-ip-range={SERVICE_CIDRS}"),
            &format!("--advertise-address={address}"),
            &format!("--secure-port={API_PORT}"),
            &format!("--client-ca-file={}", pki("ca.crt")),
            &format!("--tls-cert-file={}", pki("apiserver.crt")),
            &format!("--tls-private-key-file={}", pki("apiserver.key")),
            &format!("--kubelet-client-certificate={}", pki("admin.crt")),
            &format!("--kubelet-client-key={}", pki("admin.key")),
            &format!("--kubelet-certificate-authority={}", pki("ca.crt")),
            // Else logs and exec look the node's name up in a DNS that is not there.
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            &format!("--service-account-signing-key-file={}", pki("sa.key")),
            &format!("--service-account-key-file={}", pki("sa.pub")),
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            &format!("--audit-policy-file={}", layout.audit_policy().display()),
            &format!("--audit-log-path={}", layout.audit_log().display()),
        ],
    )
}

/// What the API server records: each request of a ServiceAccount of the product once, when it was
/// answered or its stream began, and who changed rights.
pub(crate) fn audit_policy() -> Value {
    let rights = json!([{"group": "rbac.authorization.k8s.io"}]);
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            {
                "level": "Metadata",
                "userGroups": [format!("system:serviceaccounts:{NAMESPACE}")],
            },
            {"level": "Metadata", "verbs": ["create", "delete", "patch", "update"], "resources": rights},
            {"level": "None"},
        ],
    })
}

/// The controller manager. It finds a dead node after 10 s, a quarter of the usual time.
pub(crate) fn controller_manager(layout: &Layout) -> Vec<String> {
    let pki = |file| pki(layout, file);
    command_line(
        tool(layout, "kube-controller-manager"),
        &[
            &format!("--kubeconfig={}", pki("kube-controller-manager.conf")),
            &format!("--service-account-private-key-file={}", pki("sa.key")),
            &format!("--root-ca-file={}", pki("ca.crt")),
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            "--allocate-node-cidrs=false",
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=10s",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ],
    )
}

/// The scheduler.
pub(crate) fn scheduler(layout: &Layout) -> Vec<String> {
    command_line(
        tool(layout, "kube-scheduler"),
        &[&format!("--kubeconfig={}", pki(layout, "kube-scheduler.conf")), "--leader-elect=false"],
    )
}
