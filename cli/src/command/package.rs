//! `kubectl ferrolb package`

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use ferrolb_api::well_known::DEFAULT_NAMESPACE;
use ferrolb_operator::image::{self, ImageReference};
use serde_json::Value;

use crate::manifest;
use crate::package::{bundle, catalog, chart, manifests, monitoring, settings};

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to write.
    part: Part,

    /// Directory to write into.
    #[arg(long, short, value_name = "DIR")]
    output_dir: PathBuf,

    /// Image of all processes.
    #[arg(long, value_name = "IMAGE", default_value = image::DEFAULT)]
    image: ImageReference,

    /// Of the catalog: image of the bundle.
    #[arg(long, value_name = "IMAGE", default_value = bundle::IMAGE)]
    bundle_image: ImageReference,

    /// Of the catalog: that of the version before, which the new one goes on with.
    #[arg(long, value_name = "FILE")]
    previous: Option<PathBuf>,

    /// Namespace of the product; of manager, manifests and prometheus only, since Helm and OLM have their own.
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// The operator's namespace and Deployment, for kustomize.
    Manager,
    /// Single files for kubectl apply -f: ferrolb.yaml with the operator, ferrolb-native.yaml without.
    Manifests,
    /// A Helm chart.
    Chart,
    /// A bundle for the Operator Lifecycle Manager.
    Bundle,
    /// A file-based catalog with the bundle in it.
    Catalog,
    /// ServiceMonitors and alerts, for kustomize.
    Prometheus,
}

impl Args {
    fn previous(&self) -> anyhow::Result<Vec<Value>> {
        let Some(path) = &self.previous else { return Ok(Vec::new()) };
        let named = || path.display().to_string();
        catalog::read(&std::fs::read_to_string(path).with_context(named)?).with_context(named)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let settings = settings(&args.namespace, &args.image);
    let files = match args.part {
        Part::Manager => return manifest::output(Some(&args.output_dir), &manifests::manager(&settings)?),
        Part::Prometheus => {
            return manifest::output(Some(&args.output_dir), &monitoring::documents(&args.namespace));
        }
        Part::Manifests => manifests::files(&settings)?,
        Part::Chart => chart::files(&args.image)?,
        Part::Bundle => bundle::files(&args.image)?,
        Part::Catalog => vec![catalog::file(&args.image, &args.bundle_image, &args.previous()?)?],
    };
    manifest::write(&args.output_dir, &files)
}
