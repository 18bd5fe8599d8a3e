//! `kubectl ferrolb`: what FerroLB would install, the manifests that are generated from its types, and how
//! full its pools are.
//!
//! ```text
//! crds    api::crds()            ┐
//! rbac    operator::render::rbac ┼→ manifest (YAML) → standard output or files of a kustomization
//! render  operator::render       ┘
//! pools   core::allocator over what the cluster holds → text
//! ```

mod cluster;
mod command;
mod manifest;
mod pools;

use clap::{Parser, Subcommand};

/// Looks at FerroLB from outside: what it would install, with which rights, and how full its pools are.
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
    /// Lists used and free addresses of pools, and says what a Service would be given.
    Pools(command::pools::Args),
    /// Prints what the operator needs before it can run: its ServiceAccount and rights.
    Rbac(command::rbac::Args),
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
        Command::Pools(args) => command::pools::run(&args),
        Command::Rbac(args) => command::rbac::run(&args),
        Command::Render(args) => command::render::run(&args),
    }
}
