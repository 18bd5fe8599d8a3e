//! `kubectl ferrolb`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match kubectl_ferrolb::run(kubectl_ferrolb::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
