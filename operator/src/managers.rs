//! Who manages which fields of an object, from its `metadata.managedFields`.
//!
//! Server-side apply leaves alone what another manager set and we do not: containers of another product,
//! for example, in a workload of the name that ours has. When such an object is taken over, its fields
//! are written down as applied by the operator, and its next apply removes what it does not want. (The
//! same that kubectl does when it goes from client-side to server-side apply.)

use ferrolb_api::well_known::field_manager;
use serde_json::{Map, Value, json};

use crate::render::Kind;

/// Managers whose fields are theirs for good: the webhook's certificate, and what Kubernetes itself sets.
const KEPT: [&str; 2] = [field_manager::WEBHOOK, "kube-controller-manager"];

/// The fields of an object under the names of their managers.
fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["managedFields"].as_array().into_iter().flatten()
}

fn is_other(entry: &Value) -> bool {
    let manager = entry["manager"].as_str().unwrap_or_default();
    let of_status = entry["subresource"].as_str().is_some_and(|name| !name.is_empty());
    manager != field_manager::OPERATOR && !KEPT.contains(&manager) && !of_status
}

/// Whether the operator has ever applied the object: labels can be copied, this cannot.
pub(crate) fn is_ours(object: &Value) -> bool {
    entries(object).any(|entry| entry["manager"] == field_manager::OPERATOR && entry["operation"] == "Apply")
}

/// Who else wrote to the object last.
pub(crate) fn rival(object: &Value) -> Option<String> {
    let others = entries(object).filter(|entry| is_other(entry));
    let newest = others.max_by_key(|entry| entry["time"].as_str().unwrap_or_default().to_owned())?;
    newest["manager"].as_str().map(Into::into)
}

/// The patch that makes the operator the manager of what others set; none where there is nothing to take
/// over or where the object is of a kind whose fields of others are harmless (their keys and accounts).
pub(crate) fn take_over(kind: Kind, object: &Value) -> Option<Value> {
    if !matches!(kind, Kind::Deployment | Kind::DaemonSet | Kind::ValidatingWebhookConfiguration) {
        return None;
    }
    let (taken, kept): (Vec<&Value>, Vec<&Value>) = entries(object).partition(|entry| is_other(entry));
    let version = taken.first()?["apiVersion"].clone();
    // Fields are spelled as their version has them; there is one of all three kinds.
    if taken.iter().any(|entry| entry["apiVersion"] != version) {
        return None;
    }
    let mut fields = Map::new();
    let (own, kept): (Vec<&Value>, Vec<&Value>) = kept
        .into_iter()
        .partition(|entry| entry["manager"] == field_manager::OPERATOR && entry["operation"] == "Apply");
    for entry in taken.iter().chain(&own) {
        union(&mut fields, entry["fieldsV1"].as_object());
    }
    let ours = json!({
        "manager": field_manager::OPERATOR, "operation": "Apply", "apiVersion": version,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    let managed: Vec<Value> = kept.into_iter().cloned().chain([ours]).collect();
    Some(json!({"metadata": {
        "managedFields": managed,
        // Of this very state of the object.
        "resourceVersion": object["metadata"]["resourceVersion"],
    }}))
}

fn union(into: &mut Map<String, Value>, from: Option<&Map<String, Value>>) {
    for (key, value) in from.into_iter().flatten() {
        match into.entry(key.clone()).or_insert_with(|| json!({})) {
            Value::Object(inner) => union(inner, value.as_object()),
            other => *other = value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn object(entries: &[Value]) -> Value {
        json!({"metadata": {"resourceVersion": "7", "managedFields": entries}})
    }

    #[test]
    fn fields_of_others_become_ours_and_those_of_kubernetes_stay() {
        let mut status = entry("kubelet", "Update", "3", json!({"f:status": {}}));
        status["subresource"] = json!("status");
        let kept =
            entry("kube-controller-manager", "Update", "2", json!({"f:metadata": {"f:annotations": {}}}));
        let foreign = object(&[
            entry(
                "kubectl-client-side-apply",
                "Update",
                "1",
                json!({"f:spec": {"f:a": {}, "f:b": {"f:x": {}}}}),
            ),
            entry("manager", "Update", "4", json!({"f:spec": {"f:b": {"f:y": {}}}})),
            kept.clone(),
            status.clone(),
        ]);
        let patch = take_over(Kind::DaemonSet, &foreign).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let managed = patch["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!((&managed[0], &managed[1], managed.len()), (&kept, &status, 3));
        assert_eq!(
            (managed[2]["manager"].as_str(), managed[2]["operation"].as_str()),
            (Some("metallb-operator"), Some("Apply"))
        );
        assert_eq!(managed[2]["fieldsV1"], json!({"f:spec": {"f:a": {}, "f:b": {"f:x": {}, "f:y": {}}}}));
        assert_eq!(take_over(Kind::Secret, &foreign), None, "a key that somebody made");
    }

    #[test]
    fn what_is_ours_alone_is_not_taken_over() {
        let ours = entry("metallb-operator", "Apply", "1", json!({"f:spec": {}}));
        let webhook = entry("metallb-webhook", "Apply", "2", json!({"f:webhooks": {}}));
        let object = object(&[ours, webhook]);
        assert_eq!(take_over(Kind::ValidatingWebhookConfiguration, &object), None);
        assert!(is_ours(&object));
        assert_eq!(rival(&object), None);
    }

    #[test]
    fn the_last_of_the_others_is_the_rival_and_a_copy_is_not_ours() {
        let object = object(&[
            entry("kubectl-edit", "Update", "2026-01-02T00:00:00Z", json!({})),
            entry("argocd", "Apply", "2026-01-03T00:00:00Z", json!({})),
            entry("metallb-operator", "Update", "2026-01-04T00:00:00Z", json!({})),
        ]);
        assert_eq!(rival(&object).as_deref(), Some("argocd"));
        assert!(!is_ours(&object), "the operator applies");
    }
}
