//! The speaker's binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrolb_runtime::main("speaker", env!("CARGO_PKG_VERSION"), ferrolb_speaker::run)
}
