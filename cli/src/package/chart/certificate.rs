//! A certificate of the webhook that somebody else makes: what is different then, taken from the product as it
//! is rendered with one.

use ferrolb_operator::render::{Certificate, Kind, Object, ObjectKey, Settings};
use serde_json::{Value, json};

use super::template::Template;
use crate::manifest;
use crate::package::native;

const GIVEN: &str = ".Values.webhook.certificate.secret";
const TOLD: &str = ".Values.webhook.certificate.tellAuthority";
/// Stands for the name of the Secret.
const SECRET: &str = "the-secret-of-the-values";

/// The product with a certificate of others.
pub(super) struct Given(Vec<Object>);

impl Given {
    pub(super) fn new(settings: &Settings, controllers: i32) -> anyhow::Result<Self> {
        let certificate = Certificate { secret: SECRET.into(), tell_authority: true };
        let settings = Settings { certificate: Some(certificate), ..settings.clone() };
        Ok(Self(native(&settings, controllers)?))
    }

    /// The condition under which the product has this object, if there is one.
    pub(super) fn condition(&self, key: &ObjectKey) -> Option<String> {
        let has = self.0.iter().any(|object| object.key() == *key);
        (!has && key.kind == Kind::Secret).then(|| format!("not {GIVEN}"))
    }

    /// Opens the webhook's pod.
    pub(super) fn open_pod(&self, pod: &mut Value, template: &mut Template) -> anyhow::Result<()> {
        let key = ObjectKey { kind: Kind::Deployment, name: ferrolb_api::well_known::object::WEBHOOK.into() };
        let Some(object) = self.0.iter().find(|object| object.key() == key) else { return Ok(()) };
        let object = object.to_value();
        let given = &object["spec"]["template"]["spec"];
        let container = &given["containers"][0];
        let volumes = block("volumes", &given["volumes"])?;
        pod[template.place(volumes)] = Value::Null;
        pod["containers"][0][template.place(block("volumeMounts", &container["volumeMounts"])?)] =
            Value::Null;
        let Some(arguments) = pod["containers"][0]["args"].as_array_mut() else { return Ok(()) };
        for argument in container["args"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let condition = match argument.split_once('=') {
                Some(("--cert-dir", _)) => GIVEN.to_owned(),
                Some(("--cert-ca", _)) => format!("and {GIVEN} {TOLD}"),
                _ => continue,
            };
            arguments.push(json!(
                template.place(format!("{{{{- if {condition} }}}}\n- {argument}\n{{{{- end }}}}"))
            ));
        }
        Ok(())
    }

    /// Opens a role: rights that are only for a certificate of one's own.
    pub(super) fn open_role(&self, key: &ObjectKey, role: &mut Value, template: &mut Template) {
        let Some(given) = self.0.iter().find(|object| object.key() == *key).map(Object::to_value) else {
            return;
        };
        let kept = given["rules"].as_array();
        let Some(rules) = role["rules"].as_array_mut() else { return };
        let is_own = |rule: &Value| !kept.is_some_and(|kept| kept.contains(rule));
        let Some(first) = rules.iter().position(is_own) else { return };
        let count = rules.iter().skip(first).take_while(|rule| is_own(rule)).count();
        rules.insert(first + count, json!(template.place("{{- end }}")));
        rules.insert(first, json!(template.place(format!("{{{{- if not {GIVEN} }}}}"))));
    }
}

/// What is there with such a certificate only.
fn block(key: &str, value: &Value) -> anyhow::Result<String> {
    let yaml = manifest::yaml(&json!({(key): value}))?.replace(SECRET, "{{ . | quote }}");
    Ok(format!("{{{{- with {GIVEN} }}}}\n{yaml}{{{{- end }}}}"))
}

/// Flags of the operator, which gives them to the webhook.
pub(super) fn open_operator(container: &mut Value, template: &mut Template) {
    let Some(arguments) = container["args"].as_array_mut() else { return };
    for flag in [
        format!(
            "{{{{- with {GIVEN} }}}}\n- {{{{ printf \"--webhook-cert-secret=%s\" . | quote }}}}\n{{{{- end }}}}"
        ),
        format!("{{{{- if and {GIVEN} {TOLD} }}}}\n- --webhook-cert-ca\n{{{{- end }}}}"),
    ] {
        arguments.push(json!(template.place(flag)));
    }
}
