//! Rights by what is used. The API server's audit log, of this test and of all that ran before it, says
//! which requests of our processes were denied, and which of their rights nobody ever used. Alone it needs the
//! tests of BGP and Leases before it: `hack/test lab` runs all in the order of their names.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jiff::{Span, Timestamp};
use serde_json::{Value, json};
use support::{NAMESPACE, Product, measured, text, until};

const OPERATOR: &str = "manager-account";
const SPEAKER: &str = "speaker";
const ACCOUNTS: [&str; 4] = ["controller", "metallb-operator-webhook-server", SPEAKER, OPERATOR];
/// No request uses it: where owner references are policed, the API server asks whether it is there.
const NEVER_A_REQUEST: &str = "metallbs/finalizers";
/// Only an Event that is told again is patched, and which of the processes had to, depends on the tests before.
const OF_REPEATED_EVENTS: (&str, &str) = ("events", "patch");
/// How long the API server and processes that end may act on rights that were just taken away or given.
const SETTLE: i64 = 20;
/// Seconds until the operator grants what a new object needs.
const GRANT: i64 = 3;

/// One verb on one resource, as a role grants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    account: String,
    /// `None` is everywhere.
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: String,
    names: BTreeSet<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, namespace, group, resource, verb, names } = self;
        write!(f, "{account} may {verb} {resource}.{group} {names:?} in {namespace:?}")
    }
}

impl Right {
    /// Whether an account with `self` needs `other` not.
    fn includes(&self, other: &Self) -> bool {
        (self.group == other.group && self.resource == other.resource && self.verb == other.verb)
            && (self.namespace.is_none() || self.namespace == other.namespace)
            && (self.names.is_empty() || (!other.names.is_empty() && other.names.is_subset(&self.names)))
    }

    /// Whether the operator granted it for a time, and it was used: speakers have Leases only where that is asked
    /// for.
    fn was_granted_for(&self, request: &Request) -> bool {
        let theirs = Self { account: SPEAKER.into(), ..self.clone() };
        (self.account == OPERATOR && self.resource == "leases") && theirs.is_used_by(request)
    }

    fn is_used_by(&self, request: &Request) -> bool {
        // Server-side apply of what is not there asks for both.
        let verb = self.verb == request.verb
            || (self.verb == "create" && request.verb == "patch" && request.code == 201);
        verb && !request.denied
            && self.account == request.account
            && self.group == request.group
            && self.resource == request.resource
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace)
            && (self.names.is_empty() || self.names.contains(&request.name))
    }
}

/// A line of the audit log.
#[derive(Debug)]
struct Request {
    at: Timestamp,
    account: String,
    namespace: String,
    group: String,
    resource: String,
    verb: String,
    name: String,
    code: i64,
    denied: bool,
}

impl Request {
    fn read(line: &str) -> Self {
        let line: &Value = &serde_json::from_str(line).unwrap();
        let object = &line["objectRef"];
        let resource = match object["subresource"].as_str() {
            Some(part) => format!("{}/{part}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        let user = text(&line["user"]["username"]);
        let own = format!("system:serviceaccount:{NAMESPACE}:");
        Self {
            at: text(&line["requestReceivedTimestamp"]).parse().unwrap(),
            account: user.strip_prefix(&own).unwrap_or(&user).to_owned(),
            namespace: text(&object["namespace"]),
            group: text(&object["apiGroup"]),
            resource,
            verb: text(&line["verb"]),
            name: text(&object["name"]),
            code: line["responseStatus"]["code"].as_i64().unwrap_or_default(),
            denied: line["annotations"]["authorization.k8s.io/decision"] == "forbid" || is_refused(line),
        }
    }

    /// Changes who may do what.
    fn changes_rights(&self) -> bool {
        self.group == "rbac.authorization.k8s.io"
            && ["create", "delete", "patch", "update"].contains(&self.verb.as_str())
    }
}

/// Forbidden although the account has the right, as where it grants more than it has. Not what a webhook judges,
/// and not that nothing is made in a namespace that goes: whoever tells of an object there may come too late.
fn is_refused(line: &Value) -> bool {
    let status = &line["responseStatus"];
    let mut causes = status["details"]["causes"].as_array().into_iter().flatten();
    let namespace_goes = causes.any(|cause| cause["reason"] == "NamespaceTerminating");
    let judged = text(&status["message"]).starts_with("admission webhook ");
    status["code"] == 403 && !namespace_goes && !judged
}

fn requests(product: &Product) -> Vec<Request> {
    let log = std::fs::read_to_string(product.lab.layout.audit_log()).unwrap();
    // The last line may be half written.
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(Request::read).collect()
}

/// What roles grant to our accounts now.
fn rights(product: &Product) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for (bindings, roles) in [("rolebindings", "role"), ("clusterrolebindings", "clusterrole")] {
        for binding in product.items(&["-n", NAMESPACE, bindings]) {
            let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
            let ours = subjects.iter().filter(|it| it["namespace"] == NAMESPACE);
            for account in ours.map(|it| text(&it["name"])).filter(|it| ACCOUNTS.contains(&it.as_str())) {
                let role = text(&binding["roleRef"]["name"]);
                let role = product.get(&["-n", NAMESPACE, roles, &role]).unwrap();
                let namespace = (roles == "role").then(|| NAMESPACE.to_owned());
                rights.extend(
                    role["rules"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .flat_map(|rule| each(rule, &account, namespace.as_deref())),
                );
            }
        }
    }
    rights
}

fn each(rule: &Value, account: &str, namespace: Option<&str>) -> Vec<Right> {
    let list = |key: &str| -> Vec<String> { rule[key].as_array().into_iter().flatten().map(text).collect() };
    let mut each = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            each.extend(list("verbs").into_iter().map(|verb| Right {
                account: account.into(),
                namespace: namespace.map(Into::into),
                group: group.clone(),
                resource: resource.clone(),
                verb,
                names: list("resourceNames").into_iter().collect(),
            }));
        }
    }
    each
}

/// Everything that processes do rarely, done once. Returns when it is done.
fn exercise(product: &Product) {
    let patch = |kind: &str, namespace: &str, name: &str, patch: &Value| {
        product.kubectl(&["-n", namespace, "patch", kind, name, "--type=merge", "-p", &patch.to_string()]);
    };
    // Operator: policies and where the API server is; what an earlier version left behind, of each kind.
    patch("metallb", NAMESPACE, "metallb", &json!({"spec": {"networkPolicies": {"enabled": true}}}));
    until("policies", Duration::from_secs(30), || {
        let found = product.items(&["-n", NAMESPACE, "networkpolicies"]);
        if found.len() == 2 { Ok(()) } else { Err(format!("{found:?}")) }
    });
    patch("metallb", NAMESPACE, "metallb", &json!({"spec": {"networkPolicies": null}}));
    let (objects, names) = left_behind();
    let file = product.lab.layout.dir.join("left-behind.json");
    std::fs::write(&file, objects.to_string()).unwrap();
    let file = file.display().to_string();
    product.kubectl(&["apply", "--server-side", "--field-manager=metallb-operator", "-f", &file]);
    until("what an earlier version left behind is gone", Duration::from_secs(60), || {
        let query: Vec<&str> = ["-n", NAMESPACE, "get", "--ignore-not-found", "-o", "name"]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .collect();
        let left = product.kubectl(&query);
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    });
    // Webhook: its certificate is lost while nobody else puts one back.
    product.scale_operator(0);
    product.kubectl(&["-n", NAMESPACE, "delete", "secret", "metallb-webhook-cert"]);
    until("a certificate", Duration::from_secs(30), || {
        product.get(&["-n", NAMESPACE, "secret", "metallb-webhook-cert"]).map(drop)
    });
    product.scale_operator(1);
    product.wait_pods_ready();
    // All: who asks for metrics, and may he?
    let token = product.kubectl(&["-n", "demo", "create", "token", "default"]);
    let bearer = format!("Authorization: Bearer {}", token.trim());
    for pod in product.pods() {
        let url = format!("https://{}:9120/metrics", text(&pod["status"]["podIP"]));
        let curl = ["curl", "--silent", "--insecure", "--max-time", "5", "--header", &bearer, &url];
        until("an answer of the metrics port", Duration::from_secs(30), || {
            let said =
                product.lab.host("k8s-node-1").unwrap().run(&curl).map_err(|error| error.to_string())?;
            if said.contains("Authorization denied") { Ok(()) } else { Err(said) }
        });
    }
    // Controller: somebody else writes a status; a node that is gone left its state.
    let foreign = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}).to_string();
    let service =
        ["-n", "demo", "patch", "service", "hello-lb", "--subresource=status", "--type=merge", "-p"];
    product.kubectl(&[&service[..], &[&foreign]].concat());
    until("the Service's own address", Duration::from_secs(30), || product.curl());
    let state = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "ConfigurationState",
        "metadata": {
            "name": "speaker-gone", "namespace": NAMESPACE,
            "labels": {"metallb.io/component-type": "speaker", "metallb.io/node-name": "gone"},
        },
    });
    product.lab.apply(&state.to_string()).unwrap();
    until("the state of a node that is gone is gone", Duration::from_secs(60), || {
        match product.get(&["-n", NAMESPACE, "configurationstate", "speaker-gone"]) {
            Ok(state) => Err(state.to_string()),
            Err(_) => Ok(()),
        }
    });
}

/// An object of each kind that the operator keeps, as an earlier version of it might have made it.
fn left_behind() -> (Value, Vec<String>) {
    let pod = json!({
        "metadata": {"labels": {"app": "left-behind"}},
        "spec": {"containers": [{"name": "none", "image": "none.example/none:0"}]},
    });
    let selector = json!({"matchLabels": {"app": "left-behind"}});
    let role =
        |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "left-behind"});
    let rbac = "rbac.authorization.k8s.io/v1";
    let kinds = [
        ("v1", "ServiceAccount", json!({})),
        (rbac, "Role", json!({"rules": []})),
        (rbac, "RoleBinding", json!({"roleRef": role("Role")})),
        (rbac, "ClusterRole", json!({"rules": []})),
        (rbac, "ClusterRoleBinding", json!({"roleRef": role("ClusterRole")})),
        ("v1", "ConfigMap", json!({})),
        ("v1", "Secret", json!({})),
        ("v1", "Service", json!({"spec": {"ports": [{"port": 1, "protocol": "TCP"}]}})),
        ("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": selector}})),
        ("policy/v1", "PodDisruptionBudget", json!({"spec": {"selector": selector, "maxUnavailable": 1}})),
        ("apps/v1", "Deployment", json!({"spec": {"replicas": 0, "selector": selector, "template": pod}})),
        (
            "apps/v1",
            "DaemonSet",
            json!({"spec": {"selector": selector, "template": {
                "metadata": pod["metadata"],
                "spec": {"nodeSelector": {"none": "none"}, "containers": pod["spec"]["containers"]},
            }}}),
        ),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", json!({"webhooks": []})),
    ];
    let names = kinds.iter().map(|(_, kind, _)| format!("{}/left-behind", kind.to_lowercase())).collect();
    let items: Vec<Value> = kinds
        .into_iter()
        .map(|(version, kind, mut object)| {
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            object["metadata"] = json!({"name": "left-behind", "labels": {
                "app.kubernetes.io/managed-by": "metallb-operator", "app.kubernetes.io/instance": NAMESPACE,
            }});
            if !["ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration"].contains(&kind) {
                object["metadata"]["namespace"] = json!(NAMESPACE);
            }
            object
        })
        .collect();
    (json!({"apiVersion": "v1", "kind": "List", "items": items}), names)
}

#[test]
fn no_request_is_denied_and_no_right_is_unused() {
    let product = Product::ready();
    exercise(&product);
    let (requests, rights) = (requests(&product), rights(&product));
    measured("requests of the product in the audit log", requests.len());
    assert!(
        ACCOUNTS.iter().all(|account| rights.iter().any(|right| right.account == *account)),
        "{rights:?}"
    );

    let changes: Vec<Timestamp> = requests.iter().filter(|it| it.changes_rights()).map(|it| it.at).collect();
    let settling = |at: Timestamp| {
        // Who reads what was just made necessary may be faster than who grants it.
        let window = at - Span::new().seconds(SETTLE)..=at + Span::new().seconds(GRANT);
        changes.iter().any(|change| window.contains(change))
    };
    let denied: Vec<&Request> = requests.iter().filter(|it| it.denied && !settling(it.at)).collect();
    assert!(denied.is_empty(), "denied: {denied:#?}");

    // OpenShift's groups are not here.
    let versions = product.kubectl(&["api-versions"]);
    let is_served =
        |group: &str| group.is_empty() || versions.lines().any(|it| it.starts_with(&format!("{group}/")));
    let granted: Vec<&Right> = rights.iter().filter(|right| right.account != OPERATOR).collect();
    let unused: Vec<String> = rights
        .iter()
        .filter(|right| right.resource != NEVER_A_REQUEST && is_served(&right.group))
        .filter(|right| (right.resource.as_str(), right.verb.as_str()) != OF_REPEATED_EVENTS)
        .filter(|right| !requests.iter().any(|request| right.is_used_by(request)))
        // Nobody may grant what he may not do himself.
        .filter(|right| right.account != OPERATOR || !granted.iter().any(|granted| right.includes(granted)))
        .filter(|right| !requests.iter().any(|request| right.was_granted_for(request)))
        .map(ToString::to_string)
        .collect();
    assert!(unused.is_empty(), "never used:\n{}", unused.join("\n"));
}
