//! The process that answers admission reviews.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrolb_runtime::main("webhook", env!("CARGO_PKG_VERSION"), ferrolb_webhook::run)
}
