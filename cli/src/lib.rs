//! `kubectl ferrolb`: what FerroLB would install, the manifests that are generated from its types, what is
//! wrong with a configuration, how full its pools are, how its BGP sessions stand, and why a Service is
//! reached or not.
//!
//! ```text
//! crds    api::crds()            ┐
//! rbac    operator::render::rbac ┼→ manifest (YAML) → standard output or files of a kustomization
//! render  operator::render       ┘
//! lint    core::config::compile  → findings with file and line → text, JSON, SARIF, GitHub
//! pools   core::allocator over what the cluster holds → text
//! bgp     the BGPSessions of the cluster → text, JSON
//! why     core::explain over what the cluster shows → text, JSON; status for all Services
//! package all of them            → files of a chart, a bundle, …
//! ```

mod bgp;
mod cluster;
mod command;
mod created;
mod lint;
mod manifest;
mod observe;
mod package;
mod pools;
mod status;
mod table;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks at FerroLB from outside: what it would install, with which rights, whether its configuration is
/// right, how full its pools are, how its BGP sessions stand, and why a Service is reached or not.
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
    /// Says which Services are announced by whom, and what is to be done for the others.
    ///
    /// Exit status: 0 where all are announced, 1 where one is not, 2 where the cluster could not be asked.
    Status(command::status::Args),
    /// Says why a Service is reached or not: its address, pool, advertisements, and each node's verdict. The
    /// first line is what to fix first.
    ///
    /// Exit status: 0 where it is announced, 1 where it is not, 2 where the cluster could not be asked.
    Why(command::why::Args),
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
        Command::Status(args) => (command::status::run(&args), ExitCode::from(2)),
        Command::Why(args) => (command::why::run(&args), ExitCode::from(2)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        failure
    })
}
