//! `kubectl ferrolb`: what FerroLB would install, the manifests that are generated from its types, what is
//! wrong with a configuration, how full its pools are and how its BGP sessions stand.
//!
//! ```text
//! crds    api::crds()            ┐
//! rbac    operator::render::rbac ┼→ manifest (YAML) → standard output or files of a kustomization
//! render  operator::render       ┘
//! lint    core::config::compile  → findings with file and line → text, JSON, SARIF, GitHub
//! pools   core::allocator over what the cluster holds → text
//! bgp     the BGPSessions of the cluster       → text, JSON
//! package all of them            → files of a chart, a bundle, …
//! ```

mod bgp;
mod cluster;
mod command;
mod lint;
mod manifest;
mod package;
mod pools;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks at FerroLB from outside: what it would install, with which rights, whether its configuration is
/// right, how full its pools are, and how its BGP sessions stand.
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl-ferrolb", bin_name = "kubectl ferrolb", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Shows how the BGP sessions of all nodes stand.
    Bgp(command::bgp::Args),
    /// Prints the CustomResourceDefinitions.
    Crds(command::crds::Args),
    /// Says what is wrong with a configuration, in files or in the cluster.
    ///
    /// Exit status: 0 without an error (warnings or not), 1 with an error, 2 where nothing could be checked.
    Lint(command::lint::Args),
    /// Lists used and free addresses of pools, and says what a Service would be given.
    Pools(command::pools::Args),
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

/// Runs one command; an error is told on standard error.
pub fn run(cli: Cli) -> ExitCode {
    let success = |()| ExitCode::SUCCESS;
    let (done, failure) = match cli.command {
        Command::Bgp(args) => (command::bgp::run(&args).map(success), ExitCode::FAILURE),
        Command::Crds(args) => (command::crds::run(&args).map(success), ExitCode::FAILURE),
        Command::Lint(args) => (command::lint::run(&args), ExitCode::from(2)),
        Command::Package(args) => (command::package::run(&args).map(success), ExitCode::FAILURE),
        Command::Pools(args) => (command::pools::run(&args).map(success), ExitCode::FAILURE),
        Command::Rbac(args) => (command::rbac::run(&args).map(success), ExitCode::FAILURE),
        Command::Render(args) => (command::render::run(&args).map(success), ExitCode::FAILURE),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        failure
    })
}
