//! A bundle for the Operator Lifecycle Manager (registry+v1).
//!
//! Inputs: the CRDs, the operator's rights and Deployment, the examples. Output: `manifests/` (the
//! ClusterServiceVersion and one file a CRD), `metadata/`, `tests/scorecard/`.
//!
//! It defines no webhooks: ours registers and certifies itself once a MetalLB object is there, the same on
//! every cluster, so nothing depends on the names of OLM's certificates. It ships no rights beside the
//! ClusterServiceVersion's: in an OperatorGroup of one namespace they stay in it.

mod csv;
mod descriptors;

pub(super) use csv::csv;
use ferrolb_operator::image::ImageReference;
use serde_json::{Value, json};

use super::{File, value};
use crate::manifest::{self, HEADER};

/// Name of the package in catalogs.
pub(super) const PACKAGE: &str = "ferrolb-operator";
/// The bundle of this version.
pub(crate) const IMAGE: &str = concat!("ferrolb.io/ferrolb-bundle:v", env!("CARGO_PKG_VERSION"));
/// Where an upgrade within a catalog leads.
pub(super) const CHANNEL: &str = "stable";

/// All files of the bundle.
pub(crate) fn files(image: &ImageReference) -> anyhow::Result<Vec<File>> {
    let document =
        |path: String, value: &Value| Ok(File::new(path, format!("{HEADER}{}", manifest::yaml(value)?)));
    let mut files: Vec<anyhow::Result<File>> = vec![
        document(format!("manifests/{PACKAGE}.clusterserviceversion.yaml"), &csv(image)?),
        document("metadata/annotations.yaml".into(), &annotations()),
        document("tests/scorecard/config.yaml".into(), &scorecard()),
    ];
    for crd in ferrolb_api::crds() {
        let path = format!("manifests/{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        files.push(document(path, &value(&crd)?));
    }
    files.into_iter().collect()
}

/// What a catalog reads before anything else; bundle.Dockerfile repeats it as labels.
fn annotations() -> Value {
    json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": PACKAGE,
        "operators.operatorframework.io.bundle.channels.v1": CHANNEL,
        "operators.operatorframework.io.bundle.channel.default.v1": CHANNEL,
        "operators.operatorframework.io.test.mediatype.v1": "scorecard+v1",
        "operators.operatorframework.io.test.config.v1": "tests/scorecard/",
    }})
}

/// The tests that the scorecard knows, all at once.
fn scorecard() -> Value {
    const IMAGE: &str = "quay.io/operator-framework/scorecard-test:v1.41.1";
    let tests = [
        ("basic", "basic-check-spec"),
        ("olm", "olm-bundle-validation"),
        ("olm", "olm-crds-have-validation"),
        ("olm", "olm-crds-have-resources"),
        ("olm", "olm-spec-descriptors"),
        ("olm", "olm-status-descriptors"),
    ];
    let tests = tests.map(|(suite, test)| {
        json!({
            "entrypoint": ["scorecard-test", test],
            "image": IMAGE,
            "labels": {"suite": suite, "test": format!("{test}-test")},
        })
    });
    json!({
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "kind": "Configuration",
        "metadata": {"name": "config"},
        "stages": [{"parallel": true, "tests": tests}],
    })
}

#[cfg(test)]
mod tests;
