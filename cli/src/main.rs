//! `kubectl ferrolb`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    kubectl_ferrolb::run(kubectl_ferrolb::Cli::parse())
}
