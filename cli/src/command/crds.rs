//! `kubectl ferrolb crds`

use std::path::PathBuf;

use anyhow::Context;

use crate::manifest;

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one file for each definition and a kustomization.yaml into this directory instead.
    #[arg(long, short, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let documents = ferrolb_api::crds()
        .into_iter()
        .map(|crd| {
            let file = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
            let value = serde_json::to_value(crd).context("cannot write a CustomResourceDefinition")?;
            Ok((file, value))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    manifest::output(args.output_dir.as_deref(), &documents)
}
