//! A Helm chart (Helm 3 and 4) around the same objects as every other way to install.
//!
//! Inputs: the rendered objects, the type [`values::Values`]. Output: the chart's files. Templates are
//! those objects as YAML with a few places opened up for values ([`template`]); `values.yaml` and its
//! schema come from the type. Without the operator by default, as in MetalLB's chart; with
//! `operator.enabled` only the operator is in the release, and what it installs follows a MetalLB object
//! that the notes spell out.
//!
//! CRDs are templates, so that an upgrade brings new ones, and are kept when the release goes, with the
//! pools in them.

mod certificate;
mod installed;
mod prometheus;
mod template;
mod values;
mod workloads;

use ferrolb_api::well_known::object;
use ferrolb_operator::image::ImageReference;
use ferrolb_operator::render::{Kind, Object, manager};
use serde_json::{Value, json};

use super::{File, is_for_operator, native, settings, value};
use crate::manifest::{self, HEADER};
use certificate::Given;
use template::Template;

const HELPERS: &str = include_str!("chart/_helpers.tpl");
const NOTES: &str = include_str!("chart/NOTES.txt");
/// Oldest Kubernetes that serves all that the product asks for.
pub(super) const OLDEST_KUBERNETES: &str = "1.29.0";

/// All files of the chart.
pub(crate) fn files(image: &ImageReference) -> anyhow::Result<Vec<File>> {
    let values = values::Values::new(image);
    let settings = settings(template::NAMESPACE, image);
    // Two controllers, for what comes with more than one; the templates ask for it.
    let native = native(&settings, 2)?;
    let given = Given::new(&settings, 2)?;
    let of =
        |kinds: &[Kind]| native.iter().filter(|object| kinds.contains(&object.kind())).collect::<Vec<_>>();
    let rights =
        [Kind::ServiceAccount, Kind::Role, Kind::RoleBinding, Kind::ClusterRole, Kind::ClusterRoleBinding];
    let workloads = [Kind::Deployment, Kind::DaemonSet];
    let rest: Vec<Kind> = Kind::ALL
        .iter()
        .copied()
        .filter(|kind| !rights.contains(kind) && !workloads.contains(kind))
        .collect();
    let operator = manager::operator(&settings);
    Ok(vec![
        File::new("Chart.yaml", format!("{HEADER}{}", manifest::yaml(&about())?)),
        File::new("values.yaml", values.yaml()?),
        File::new("values.schema.json", values::schema_text()?),
        File::new("templates/_helpers.tpl", HELPERS),
        File::new("templates/NOTES.txt", NOTES),
        File::new("templates/crds.yaml", crds()?),
        File::new("templates/rbac.yaml", without_operator(&of(&rights), &given)?),
        File::new("templates/configuration.yaml", without_operator(&of(&rest), &given)?),
        File::new("templates/workloads.yaml", without_operator(&of(&workloads), &given)?),
        File::new("templates/operator.yaml", with_operator(&operator.iter().collect::<Vec<_>>(), &given)?),
        File::new("templates/prometheus.yaml", prometheus::template()?),
        File::new("templates/tests/installed.yaml", installed::test(&settings)?),
    ])
}

fn about() -> Value {
    let version = ferrolb_operator::VERSION;
    json!({
        "apiVersion": "v2",
        "name": "ferrolb",
        "description": "Load balancer for Kubernetes on bare metal, with MetalLB's API",
        "type": "application",
        "version": version.trim_start_matches('v'),
        "appVersion": version,
        "kubeVersion": format!(">={OLDEST_KUBERNETES}-0"),
        "keywords": ["arp", "bare-metal", "bgp", "load-balancer", "metallb", "ndp"],
    })
}

fn crds() -> anyhow::Result<String> {
    let mut text = format!("{HEADER}{{{{- if .Values.crds.enabled }}}}\n");
    for crd in ferrolb_api::crds() {
        let mut template = Template::default();
        let mut object = value(&crd)?;
        object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
        object["metadata"]["labels"] = json!({(template.common_labels()): null});
        let document = template.finish(&manifest::yaml(&object)?);
        if is_for_operator(&crd) {
            text.push_str(&format!(
                "{{{{- if .Values.operator.enabled }}}}\n---\n{document}{{{{- end }}}}\n"
            ));
        } else {
            text.push_str(&format!("---\n{document}"));
        }
    }
    text.push_str("{{- end }}\n");
    Ok(text)
}

fn without_operator(objects: &[&Object], given: &Given) -> anyhow::Result<String> {
    Ok(format!(
        "{HEADER}{{{{- if not .Values.operator.enabled }}}}\n{}{{{{- end }}}}\n",
        documents(objects, given)?
    ))
}

fn with_operator(objects: &[&Object], given: &Given) -> anyhow::Result<String> {
    Ok(format!(
        "{HEADER}{{{{- if .Values.operator.enabled }}}}\n{}{{{{- end }}}}\n",
        documents(objects, given)?
    ))
}

fn documents(objects: &[&Object], given: &Given) -> anyhow::Result<String> {
    let document = |object: &&Object| {
        let mut template = Template::default();
        let mut value = object.to_value();
        value["metadata"]["labels"][template.common_labels()] = Value::Null;
        workloads::open(&object.key(), &mut value, &mut template, given)?;
        let document = format!("---\n{}", template.finish(&manifest::yaml(&value)?));
        let replicated =
            object.kind() == Kind::PodDisruptionBudget && object.key().name == object::CONTROLLER;
        let condition =
            replicated.then(|| workloads::REPLICATED.to_owned()).or_else(|| given.condition(&object.key()));
        Ok(match condition {
            Some(condition) => format!("{{{{- if {condition} }}}}\n{document}{{{{- end }}}}\n"),
            None => document,
        })
    };
    objects.iter().map(document).collect()
}

#[cfg(test)]
mod tests;
