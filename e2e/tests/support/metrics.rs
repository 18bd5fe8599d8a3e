//! Metrics by HTTPS, as the client reads them.

use std::time::Duration;

use super::{Product, until};

/// Who may read metrics and change log levels, and who may not.
pub const READER: &str = "apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-reader, namespace: demo}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody, namespace: demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lab-metrics-reader}
rules:
- {nonResourceURLs: [/metrics], verbs: [get]}
- {nonResourceURLs: [/log-level], verbs: [put]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lab-metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lab-metrics-reader}
subjects: [{kind: ServiceAccount, name: metrics-reader, namespace: demo}]
";

/// What curl printed for a request of the client: the body and, on the last line, the status.
pub fn request(
    product: &Product,
    host: &str,
    path: &str,
    token: Option<&str>,
    more: &[&str],
) -> (String, String) {
    let url = format!("https://{host}:9120{path}");
    let bearer = token.map(|token| format!("Authorization: Bearer {token}"));
    let mut command =
        vec!["curl", "--silent", "--insecure", "--max-time", "5", "--write-out", "\n%{http_code}"];
    if let Some(bearer) = &bearer {
        command.extend(["--header", bearer]);
    }
    command.extend(more);
    command.push(&url);
    // 000 is curl's word for no answer in time, which a busy machine may give.
    until("an answer of the metrics port", Duration::from_secs(60), || {
        let output = product.lab.host("client").unwrap().output(&command).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap_or_default();
        if status == "000" { Err(format!("{command:?}")) } else { Ok((body.to_owned(), status.to_owned())) }
    })
}

/// A token of a ServiceAccount of the demo.
pub fn token(product: &Product, account: &str) -> String {
    product.kubectl(&["-n", "demo", "create", "token", account]).trim().to_owned()
}
