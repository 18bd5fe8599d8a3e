//! The ClusterServiceVersion: what a catalog shows, and what OLM installs.

use anyhow::Context;
use ferrolb_api::well_known::{DEFAULT_NAMESPACE, object};
use ferrolb_operator::image::ImageReference;
use ferrolb_operator::render::{Kind, Object, manager};
use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use super::{PACKAGE, descriptors};
use crate::package::chart::OLDEST_KUBERNETES;
use crate::package::{settings, value};

const DESCRIPTION: &str = include_str!("description.md");
const EXAMPLES: &str = include_str!("examples.yaml");
const ICON: &[u8] = include_bytes!("icon.svg");
/// Day of this version, for the catalogs' lists.
const RELEASED: &str = "2026-11-30T00:00:00Z";

pub(in crate::package) fn csv(image: &ImageReference) -> anyhow::Result<Value> {
    let version = ferrolb_operator::VERSION.trim_start_matches('v');
    let settings = settings(DEFAULT_NAMESPACE, image);
    let operator = manager::operator(&settings);
    let deployment = manager::deployment(&settings);
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{PACKAGE}.v{version}"),
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": serde_json::to_string_pretty(&examples()?)?,
                "capabilities": "Seamless Upgrades",
                "categories": "Networking",
                "certified": "false",
                "containerImage": image.to_string(),
                "createdAt": RELEASED,
                "description": "Load balancer for Kubernetes on bare metal, with MetalLB's API.",
                "features.operators.openshift.io/cnf": "false",
                "features.operators.openshift.io/cni": "false",
                "features.operators.openshift.io/csi": "false",
                "features.operators.openshift.io/disconnected": "true",
                "features.operators.openshift.io/fips-compliant": "false",
                "features.operators.openshift.io/proxy-aware": "false",
                "features.operators.openshift.io/tls-profiles": "true",
                "features.operators.openshift.io/token-auth-aws": "false",
                "features.operators.openshift.io/token-auth-azure": "false",
                "features.operators.openshift.io/token-auth-gcp": "false",
                "olm.skipRange": format!("<{version}"),
                "operatorframework.io/initialization-resource": serde_json::to_string(&first_object()?)?,
                "operatorframework.io/suggested-namespace": DEFAULT_NAMESPACE,
                "operatorframework.io/suggested-namespace-template":
                    serde_json::to_string(&typed("v1", "Namespace", value(&manager::namespace(DEFAULT_NAMESPACE))?))?,
                "support": "Community",
            },
            "labels": {
                "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/arch.arm64": "supported",
                "operatorframework.io/os.linux": "supported",
            },
        },
        "spec": {
            "displayName": "FerroLB",
            "description": DESCRIPTION,
            "version": version,
            "maturity": "alpha",
            "minKubeVersion": OLDEST_KUBERNETES,
            "provider": {"name": "FerroLB"},
            "keywords": ["arp", "bare-metal", "bgp", "load-balancer", "metallb", "ndp", "networking"],
            "maintainers": [{"name": "FerroLB maintainers", "email": "maintainers@ferrolb.io"}],
            "links": [{"name": "FerroLB", "url": "https://ferrolb.io"}],
            "icon": [{"base64data": value(&ByteString(ICON.to_vec()))?, "mediatype": "image/svg+xml"}],
            "installModes": [
                {"type": "OwnNamespace", "supported": true},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": true},
            ],
            "customresourcedefinitions": {"owned": descriptors::owned()?},
            "install": {
                "strategy": "deployment",
                "spec": {
                    "deployments": [{
                        "name": object::OPERATOR,
                        "label": deployment.metadata.labels,
                        "spec": value(&deployment.spec)?,
                    }],
                    "permissions": [rules(&operator, Kind::Role)?],
                    "clusterPermissions": [rules(&operator, Kind::ClusterRole)?],
                },
            },
            "relatedImages": [{"name": "ferrolb", "image": image.to_string()}],
        },
    }))
}

/// The operator's rights of one scope, as OLM grants them.
fn rules(operator: &[Object], kind: Kind) -> anyhow::Result<Value> {
    let role = operator.iter().find(|object| object.kind() == kind).context("the operator has no role")?;
    Ok(json!({"serviceAccountName": object::OPERATOR_ACCOUNT, "rules": role.to_value()["rules"]}))
}

/// An object of each kind that people write, and of each that the product writes.
pub(super) fn examples() -> anyhow::Result<Vec<Value>> {
    serde_saphyr::from_multiple(EXAMPLES).context("the examples are not YAML")
}

/// What a console asks for right after the operator is there.
fn first_object() -> anyhow::Result<Value> {
    let is_metallb = |example: &Value| example["kind"] == "MetalLB";
    examples()?.into_iter().find(is_metallb).context("no example of a MetalLB object")
}

fn typed(api_version: &str, kind: &str, object: Value) -> Value {
    let mut typed = Map::from_iter([("apiVersion".into(), json!(api_version)), ("kind".into(), json!(kind))]);
    typed.extend(object.as_object().cloned().unwrap_or_default());
    Value::Object(typed)
}
