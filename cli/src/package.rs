//! The ways to install, made from the same typed objects that the operator applies.
//!
//! ```text
//! api::crds ┐              ┌ manifests  one file for `kubectl apply -f`, with the operator or without
//! render    ┼→ objects  ─→ ┼ manager    the operator's Deployment for kustomize
//! manager   ┘              ├ chart      a Helm chart
//!                          ├ bundle     an OLM bundle
//!                          ├ catalog    an OLM catalog with the bundle in it
//!                          └ monitoring what a Prometheus operator takes
//! ```
//!
//! Each module is a function from objects to files; nothing is read from a clock or a cluster, so the
//! same version gives the same bytes.

pub(crate) mod bundle;
pub(crate) mod catalog;
pub(crate) mod chart;
pub(crate) mod manifests;
pub(crate) mod monitoring;

use anyhow::Context;
use ferrolb_api::v1beta1::MetalLB;
use ferrolb_operator::image::ImageReference;
use ferrolb_operator::render::{Installer, Object, Observed, Settings, render};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Path within the package.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// Settings of an installation that nobody watches over.
pub(crate) fn settings(namespace: &str, image: &ImageReference) -> Settings {
    Settings {
        installer: Installer::Manifest,
        namespace: namespace.into(),
        image: image.clone(),
        version: ferrolb_operator::VERSION.into(),
        certificate: None,
    }
}

/// Controllers, speakers and webhook without the operator.
pub(crate) fn native(settings: &Settings, controllers: i32) -> anyhow::Result<Vec<Object>> {
    let mut metallb = MetalLB::default();
    metallb.spec.controller_replicas = Some(controllers);
    render(&metallb, settings, &Observed::default()).context("the plain product is refused")
}

/// The CRD of the object that only the operator reads.
pub(crate) fn is_for_operator(crd: &CustomResourceDefinition) -> bool {
    crd.metadata.name.as_deref() == Some(ferrolb_api::well_known::object::METALLB_CRD)
}

pub(crate) fn value(object: &impl serde::Serialize) -> anyhow::Result<Value> {
    serde_json::to_value(object).context("cannot write an object as JSON")
}
