//! Which places of the objects the chart's values fill.

use ferrolb_api::well_known::object;
use ferrolb_operator::render::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::certificate::{self, Given};
use super::template::Template;
use crate::manifest;

/// More than one controller is asked for.
pub(super) const REPLICATED: &str = "gt (int .Values.controller.replicas) 1";

/// Opens an object for the values that concern it.
pub(super) fn open(
    key: &ObjectKey,
    value: &mut Value,
    template: &mut Template,
    given: &Given,
) -> anyhow::Result<()> {
    match (key.kind, key.name.as_str()) {
        (Kind::Deployment, object::CONTROLLER) => controller(value, template)?,
        (Kind::Deployment, object::WEBHOOK) => webhook(value, template, given)?,
        (Kind::Role, object::WEBHOOK) => given.open_role(key, value, template),
        (Kind::Deployment, object::OPERATOR) => operator(value, template),
        (Kind::DaemonSet, object::SPEAKER) => speaker(value, template)?,
        (Kind::ValidatingWebhookConfiguration, _) => registration(value, template),
        _ => {}
    }
    Ok(())
}

fn controller(value: &mut Value, template: &mut Template) -> anyhow::Result<()> {
    let path = ".Values.controller";
    value["spec"]["replicas"] = json!(template.place("{{ .Values.controller.replicas }}"));
    let pod = pod(value, template, path);
    placement(pod, template, path);
    affinity(pod, template, path, REPLICATED)?;
    class(container(pod), template);
    Ok(())
}

/// The webhook was a part of the controller in MetalLB, and runs where that may.
fn webhook(value: &mut Value, template: &mut Template, given: &Given) -> anyhow::Result<()> {
    value["spec"]["replicas"] = json!(template.place("{{ .Values.webhook.replicas }}"));
    let pod = pod(value, template, ".Values.webhook");
    placement(pod, template, ".Values.controller");
    given.open_pod(pod, template)
}

fn operator(value: &mut Value, template: &mut Template) {
    let pod = pod(value, template, ".Values.operator");
    placement(pod, template, ".Values.operator");
    certificate::open_operator(container(pod), template);
}

fn speaker(value: &mut Value, template: &mut Template) -> anyhow::Result<()> {
    let path = ".Values.speaker";
    replace(
        &mut value["spec"],
        "updateStrategy",
        template.required("updateStrategy", ".Values.speaker.updateStrategy"),
    );
    let pod = pod(value, template, path);
    node_selector(pod, template, path);
    affinity(pod, template, path, "true")?;
    if let Some(tolerations) = pod["tolerations"].as_array_mut() {
        tolerations.insert(0, json!(template.place("{{- if .Values.speaker.tolerateMaster }}")));
        tolerations.push(json!(template.place("{{- end }}")));
        tolerations.push(json!(template.more(".Values.speaker.tolerations")));
    }
    let speaker = container(pod);
    class(speaker, template);
    if let Some(args) = speaker["args"].as_array_mut() {
        let flag = "{{- if .Values.speaker.ignoreExcludeLB }}\n- --ignore-exclude-lb\n{{- end }}";
        args.push(json!(template.place(flag)));
        let flag = "{{- with .Values.speaker.bgpListenPort }}\n- --bgp-listen-port={{ . }}\n{{- end }}";
        args.push(json!(template.place(flag)));
    }
    if let Some(kept) = speaker["securityContext"]["capabilities"]["add"].as_array_mut() {
        // A port of the system's.
        let listens =
            "{{- if and .Values.speaker.bgpListenPort (lt (int .Values.speaker.bgpListenPort) 1024) }}";
        kept.push(json!(template.place(format!("{listens}\n- NET_BIND_SERVICE\n{{{{- end }}}}"))));
    }
    let port = ".Values.speaker.memberlist.mlBindPort";
    for variable in speaker["env"].as_array_mut().into_iter().flatten() {
        if variable["name"] == "METALLB_ML_BIND_PORT" {
            variable["value"] = json!(template.place(format!("{{{{ {port} | quote }}}}")));
        }
    }
    for named in speaker["ports"].as_array_mut().into_iter().flatten() {
        if named["name"] == "memberlist-udp" {
            named["containerPort"] = json!(template.place(format!("{{{{ {port} }}}}")));
        }
    }
    Ok(())
}

fn registration(value: &mut Value, template: &mut Template) {
    // Those that only warn never keep anybody from anything.
    let checks = |webhook: &&mut Value| webhook["failurePolicy"] == "Fail";
    for webhook in value["webhooks"].as_array_mut().into_iter().flatten().filter(checks) {
        webhook["failurePolicy"] = json!(template.place("{{ .Values.crds.validationFailurePolicy }}"));
    }
}

/// What the pods of every workload take from the values at `path`.
fn pod<'a>(workload: &'a mut Value, template: &mut Template, path: &str) -> &'a mut Value {
    let annotations = &mut workload["spec"]["template"]["metadata"]["annotations"];
    if let Some(annotations) = annotations.as_object_mut() {
        let scraped: Vec<String> = annotations
            .iter()
            .filter(|(key, _)| key.starts_with("prometheus.io/"))
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        annotations.retain(|key, _| !key.starts_with("prometheus.io/"));
        let scraped = format!(
            "{{{{- if .Values.prometheus.scrapeAnnotations }}}}\n{}\n{{{{- end }}}}",
            scraped.join("\n")
        );
        annotations.insert(template.place(scraped), Value::Null);
        annotations.insert(template.more(&format!("{path}.podAnnotations")), Value::Null);
    }
    let pod = &mut workload["spec"]["template"]["spec"];
    for key in [
        template.optional("imagePullSecrets", ".Values.imagePullSecrets"),
        template.optional_text("priorityClassName", &format!("{path}.priorityClassName")),
        template.optional_text("runtimeClassName", &format!("{path}.runtimeClassName")),
    ] {
        pod[key] = Value::Null;
    }
    images(pod, template);
    let main = container(pod);
    replace(main, "resources", template.required("resources", &format!("{path}.resources")));
    for argument in main["args"].as_array_mut().into_iter().flatten() {
        if argument.as_str().is_some_and(|text| text.starts_with("--log-level=")) {
            *argument = json!(template.place(format!("- --log-level={{{{ {path}.logLevel }}}}")));
        }
    }
    pod
}

/// The one image of all containers of a pod.
pub(super) fn images(pod: &mut Value, template: &mut Template) {
    for list in ["initContainers", "containers"] {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["image"] = json!(template.place(r#"{{ include "ferrolb.image" . | quote }}"#));
            container["imagePullPolicy"] = json!(template.place("{{ .Values.image.pullPolicy }}"));
        }
    }
}

/// Selector and tolerations of what has no built-in tolerations.
fn placement(pod: &mut Value, template: &mut Template, path: &str) {
    node_selector(pod, template, path);
    pod[template.optional("tolerations", &format!("{path}.tolerations"))] = Value::Null;
}

fn node_selector(pod: &mut Value, template: &mut Template, path: &str) {
    pod["nodeSelector"][template.more(&format!("{path}.nodeSelector"))] = Value::Null;
}

/// The affinity of the values; without one the product's own, where `condition` holds.
fn affinity(pod: &mut Value, template: &mut Template, path: &str, condition: &str) -> anyhow::Result<()> {
    if let Some(own) = pod.as_object_mut().and_then(|pod| pod.remove("affinity")) {
        let condition = format!("{{{{- if and (not {path}.affinity) ({condition}) }}}}");
        let own = manifest::yaml(&json!({"affinity": own}))?;
        pod[template.place(format!("{condition}\n{own}{{{{- end }}}}"))] = Value::Null;
    }
    pod[template.optional("affinity", &format!("{path}.affinity"))] = Value::Null;
    Ok(())
}

fn replace(map: &mut Value, key: &str, token: String) {
    if let Some(map) = map.as_object_mut() {
        map.remove(key);
        map.insert(token, Value::Null);
    }
}

fn class(container: &mut Value, template: &mut Template) {
    if let Some(args) = container["args"].as_array_mut() {
        let flag =
            "{{- with .Values.loadBalancerClass }}\n- {{ printf \"--lb-class=%s\" . | quote }}\n{{- end }}";
        args.push(json!(template.place(flag)));
    }
}

fn container(pod: &mut Value) -> &mut Value {
    &mut pod["containers"][0]
}
