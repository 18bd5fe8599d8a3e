//! `helm test`: a pod that asks the API server whether the product is there and its webhook answers.

use ferrolb_operator::render::{Object, Settings, verifier};
use serde_json::{Value, json};

use super::template::Template;
use super::workloads;
use crate::manifest::{self, HEADER};
use crate::package::value;

/// The hook's objects.
pub(super) fn test(settings: &Settings) -> anyhow::Result<String> {
    let mut text = HEADER.to_owned();
    let mut objects: Vec<Value> = verifier::rights(settings).iter().map(Object::to_value).collect();
    objects.push(value(&verifier::pod(settings))?);
    for (weight, mut object) in objects.into_iter().enumerate() {
        let mut template = Template::default();
        object["metadata"]["annotations"] = json!({
            "helm.sh/hook": "test",
            "helm.sh/hook-weight": weight.to_string(),
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
        });
        if object["kind"] == "Pod" {
            workloads::images(&mut object["spec"], &mut template);
            object["spec"][template.optional("imagePullSecrets", ".Values.imagePullSecrets")] = Value::Null;
        }
        text.push_str(&format!("---\n{}", template.finish(&manifest::yaml(&object)?)));
    }
    Ok(text)
}
