//! Single files for `kubectl apply -f`, and the kustomize base of the operator.

use ferrolb_operator::render::{Object, Settings, manager};
use serde_json::Value;

use super::{File, is_for_operator, native, value};
use crate::manifest;

/// `ferrolb.yaml` with the operator, `ferrolb-native.yaml` without.
pub(crate) fn files(settings: &Settings) -> anyhow::Result<Vec<File>> {
    Ok(vec![
        File::new("ferrolb.yaml", manifest::stream(&with_operator(settings)?)?),
        File::new("ferrolb-native.yaml", manifest::stream(&without_operator(settings)?)?),
    ])
}

/// Namespace, CRDs, rights and Deployment of the operator.
pub(crate) fn with_operator(settings: &Settings) -> anyhow::Result<Vec<Value>> {
    let mut documents = vec![value(&manager::namespace(&settings.namespace))?];
    for crd in ferrolb_api::crds() {
        documents.push(value(&crd)?);
    }
    documents.extend(manager::operator(settings).iter().map(Object::to_value));
    Ok(documents)
}

/// Namespace, CRDs, controller, speakers and webhook.
pub(crate) fn without_operator(settings: &Settings) -> anyhow::Result<Vec<Value>> {
    let mut documents = vec![value(&manager::namespace(&settings.namespace))?];
    for crd in ferrolb_api::crds().iter().filter(|crd| !is_for_operator(crd)) {
        documents.push(value(crd)?);
    }
    documents.extend(native(settings, 1)?.iter().map(Object::to_value));
    Ok(documents)
}

/// The kustomize base of the operator: its namespace and its Deployment.
pub(crate) fn manager(settings: &Settings) -> anyhow::Result<Vec<(String, Value)>> {
    Ok(vec![
        ("namespace.yaml".to_owned(), value(&manager::namespace(&settings.namespace))?),
        ("deployment.yaml".to_owned(), value(&manager::deployment(settings))?),
    ])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ferrolb_operator::image::DEFAULT;

    use super::*;
    use crate::package::settings;

    fn names(documents: &[Value]) -> Vec<String> {
        let name = |document: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {}", text(&document["kind"]), text(&document["metadata"]["name"]))
        };
        documents.iter().map(name).collect()
    }

    #[test]
    fn each_file_brings_its_namespace_first_and_no_object_twice() {
        let settings = settings("metallb-system", &DEFAULT.parse().unwrap());
        for documents in [with_operator(&settings).unwrap(), without_operator(&settings).unwrap()] {
            let names = names(&documents);
            assert_eq!(names[0], "Namespace metallb-system");
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
            let text = manifest::stream(&documents).unwrap();
            assert_eq!(text.matches("\n---\n").count(), documents.len() - 1);
        }
    }

    #[test]
    fn without_the_operator_nothing_waits_for_it() {
        let settings = settings("metallb-system", &DEFAULT.parse().unwrap());
        let documents = without_operator(&settings).unwrap();
        let names = names(&documents);
        assert!(!names.iter().any(|name| name.contains("metallbs.metallb.io")), "{names:?}");
        for name in ["Secret metallb-memberlist", "Secret metallb-webhook-cert", "DaemonSet speaker"] {
            assert!(names.iter().any(|it| it == name), "{name}");
        }
        for document in &documents {
            let name = &document["metadata"]["name"];
            assert!(document["metadata"]["labels"]["app.kubernetes.io/managed-by"].is_null(), "{name}");
            assert!(document["metadata"]["ownerReferences"].is_null(), "{name}");
        }
        // A key in a file would be the same everywhere.
        let secrets = documents.iter().filter(|document| document["kind"] == "Secret");
        assert!(secrets.clone().count() == 2 && secrets.clone().all(|secret| secret["data"].is_null()));
        let controller = documents.iter().find(|document| {
            document["metadata"]["name"] == "controller" && document["kind"] == "Deployment"
        });
        let init = &controller.unwrap()["spec"]["template"]["spec"]["initContainers"][0];
        assert_eq!(init["command"][1], "--make-memberlist-key");
        let role = documents
            .iter()
            .find(|document| document["metadata"]["name"] == "controller" && document["kind"] == "Role")
            .unwrap();
        let rules = role["rules"].to_string();
        assert!(rules.contains(r#""resourceNames":["metallb-memberlist"]"#), "{rules}");
    }
}
