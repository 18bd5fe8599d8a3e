//! `hack/lab`: the lab from the command line.

use std::process::ExitCode;

use clap::Parser;
use ferrolb_e2e::cli::{Args, run};
use ferrolb_e2e::error::explain;

fn main() -> ExitCode {
    run(Args::parse()).unwrap_or_else(|error| {
        eprintln!("{}", explain(&error));
        ExitCode::FAILURE
    })
}
