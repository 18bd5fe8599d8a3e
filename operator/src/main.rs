//! The process that installs the product.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrolb_runtime::main("operator", ferrolb_operator::VERSION, ferrolb_operator::run)
}
