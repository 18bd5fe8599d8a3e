//! What metallb-operator leaves in a cluster, as far as its names meet ours: FRR mode, with a sidecar of older
//! releases. The programs are stand-ins that do nothing.

use serde_json::{Value, json};

use crate::support::NAMESPACE;

/// Does nothing, and can end at once.
const PROGRAM: &str = "docker.io/lab/agnhost:1";

fn metadata(name: &str, component: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": {
        "app": "metallb", "component": component, "helm.sh/chart": "metallb-0.0.0",
        "app.kubernetes.io/version": "v0.0.0", "app.kubernetes.io/managed-by": "Helm",
    }})
}

fn owned(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "metallb.io/v1beta1", "kind": "MetalLB", "name": "metallb", "uid": owner,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

fn idle(name: &str) -> Value {
    json!({"name": name, "image": PROGRAM, "args": ["pause"], "env": [{"name": "METALLB_BGP_TYPE", "value": "frr"}]})
}

fn pods(component: &str, account: &str, containers: &[&str]) -> Value {
    let labels = json!({"app": "metallb", "component": component});
    json!({
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": account,
                "shareProcessNamespace": true,
                "terminationGracePeriodSeconds": 0,
                "containers": containers.iter().map(|name| idle(name)).collect::<Vec<_>>(),
            },
        },
    })
}

/// As written by releases of old, by updates.
pub(crate) fn workloads(owner: &Value) -> Value {
    let tolerations: Vec<Value> = ["master", "control-plane"]
        .map(|role| json!({"key": format!("node-role.kubernetes.io/{role}"), "operator": "Exists", "effect": "NoSchedule"}))
        .to_vec();
    let mut speakers = pods("speaker", "speaker", &["speaker", "frr", "reloader", "kube-rbac-proxy"]);
    let spec = &mut speakers["template"]["spec"];
    spec["tolerations"] = json!(tolerations);
    spec["hostNetwork"] = json!(true);
    spec["initContainers"] = json!([{"name": "cp-reloader", "image": PROGRAM, "args": ["help"]}]);
    spec["volumes"] = json!([
        {"name": "memberlist", "secret": {"secretName": "metallb-memberlist", "defaultMode": 420}},
        {"name": "frr-startup", "configMap": {"name": "frr-startup"}},
    ]);
    list(&[
        owned(
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("controller", "controller"),
                "spec": pods("controller", "controller", &["controller", "kube-rbac-proxy"]),
            }),
            owner,
        ),
        owned(
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata("speaker", "speaker"),
                "spec": speakers,
            }),
            owner,
        ),
        // Of its installation, not of the MetalLB object.
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": metadata("metallb-operator-webhook-server", "webhook-server"),
            "spec": pods("webhook-server", "controller", &["webhook-server"]),
        }),
    ])
}

/// As applied by the newest releases, under the field manager that ours has too.
pub(crate) fn applied(owner: &Value, key: &str) -> Value {
    list(&[
        owned(
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("metallb-excludel2", "speaker"),
                "data": {"excludel2.yaml": "announcedInterfacesToExclude: [\"^lo$\"]\n"},
            }),
            owner,
        ),
        owned(
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("frr-startup", "speaker"),
                "data": {"daemons": "bgpd=yes\n"},
            }),
            owner,
        ),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "metallb-memberlist", "namespace": NAMESPACE},
            "stringData": {"secretkey": key},
        }),
    ])
}

/// As installed with the operator.
pub(crate) fn installed() -> Value {
    let rbac = "rbac.authorization.k8s.io";
    let account = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE});
    let role = |kind: &str, name: &str| json!({"apiGroup": rbac, "kind": kind, "name": name});
    let in_cluster = |name: &str| json!({"name": name, "labels": {"app": "metallb"}});
    let mut objects = Vec::new();
    for component in ["controller", "speaker"] {
        let everywhere = format!("{NAMESPACE}:{component}");
        objects.extend([
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(component, component)}),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": in_cluster(&everywhere),
                "rules": [{"apiGroups": [""], "resources": ["services", "secrets"], "verbs": ["*"]}],
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": in_cluster(&everywhere),
                "roleRef": role("ClusterRole", &everywhere), "subjects": [account(component)],
            }),
        ]);
    }
    for (name, subjects) in
        [("controller", vec![account("controller")]), ("pod-lister", vec![account("speaker")])]
    {
        objects.extend([
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata(name, "controller"),
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata(name, "controller"),
                "roleRef": role("Role", name), "subjects": subjects,
            }),
        ]);
    }
    objects.extend([
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("metallb-webhook-cert", "webhook-server")}),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": metadata("metallb-webhook-service", "webhook-server"),
            "spec": {"selector": {"component": "webhook-server"}, "ports": [{"port": 443, "targetPort": 9443}]},
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "metallb-webhook-configuration"},
            "webhooks": [{
                "name": "addresspoolvalidationwebhook.metallb.io", "failurePolicy": "Fail", "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {
                    "name": "metallb-webhook-service", "namespace": NAMESPACE,
                    "path": "/validate-metallb-io-v1beta1-addresspool",
                }},
                "rules": [{
                    "apiGroups": ["metallb.io"], "apiVersions": ["v1beta1"], "operations": ["CREATE"],
                    "resources": ["addresspools"],
                }],
            }],
        }),
        // Nothing of ours has this name.
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("metallb-memberlist-config", "speaker"),
            "data": {"ml_config.yaml": "{}"},
        }),
    ]);
    list(&objects)
}

/// Of those, what no object of ours is called like.
pub(crate) const STAYS: [&str; 4] = [
    "role/pod-lister",
    "rolebinding/pod-lister",
    "configmap/frr-startup",
    "configmap/metallb-memberlist-config",
];

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
