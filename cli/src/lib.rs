//! `kubectl ferrolb`: what FerroLB would install, and the manifests that are generated from its types.
//!
//! ```text
//! crds    api::crds()            ┐
//! rbac    operator::render::rbac ┼→ manifest (YAML) → standard output or files of a kustomization
//! render  operator::render       ┘
//! package all of them            → files of a chart, a bundle, …
//! ```

mod command;
mod manifest;
mod package;

use clap::{Parser, Subcommand};

/// Looks at FerroLB from outside: what it would install, and with which rights.
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl-ferrolb", bin_name = "kubectl ferrolb", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Prints the CustomResourceDefinitions.
    Crds(command::crds::Args),
    /// Prints what the operator needs before it can run: its ServiceAccount and rights.
    Rbac(command::rbac::Args),
    /// Writes the files of a way to install: manifests, a Helm chart, an OLM bundle.
    Package(command::package::Args),
    /// Prints what the operator would install for a MetalLB object.
    ///
    /// The Secret metallb-memberlist is left out, since the operator makes its key, and so are owner
    /// references, since they need the cluster.
    Render(command::render::Args),
}

/// Runs one command.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Crds(args) => command::crds::run(&args),
        Command::Rbac(args) => command::rbac::run(&args),
        Command::Package(args) => command::package::run(&args),
        Command::Render(args) => command::render::run(&args),
    }
}
