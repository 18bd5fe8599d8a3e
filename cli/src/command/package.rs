//! `kubectl ferrolb package`

use std::path::PathBuf;

use clap::ValueEnum;
use ferrolb_api::well_known::DEFAULT_NAMESPACE;
use ferrolb_operator::image::{self, ImageReference};

use crate::manifest;
use crate::package::{bundle, chart, manifests, monitoring, settings};

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
    /// ServiceMonitors and alerts, for kustomize.
    Prometheus,
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
    };
    manifest::write(&args.output_dir, &files)
}
