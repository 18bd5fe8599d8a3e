//! `kubectl ferrolb rbac`

use std::path::PathBuf;

use ferrolb_api::well_known::DEFAULT_NAMESPACE;
use ferrolb_operator::render::rbac;

use crate::manifest;

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of the operator.
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,

    /// Write one file for each object and a kustomization.yaml into this directory instead.
    #[arg(long, short, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let documents: Vec<_> = rbac::operator(&args.namespace)
        .iter()
        .map(|object| {
            let kind = format!("{:?}", object.kind()).to_lowercase();
            (format!("{kind}_{}.yaml", object.key().name), object.to_value())
        })
        .collect();
    manifest::output(args.output_dir.as_deref(), &documents)
}
