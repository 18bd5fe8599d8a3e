//! The controller's process.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrolb_runtime::main("controller", env!("CARGO_PKG_VERSION"), ferrolb_controller::run)
}
