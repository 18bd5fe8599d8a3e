//! `kubectl ferrolb status`

use std::process::ExitCode;

use ferrolb_api::well_known::DEFAULT_NAMESPACE;

use crate::cluster::Access;
use crate::observe;
use crate::status::Status;
use crate::why::Output;

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of the product.
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,

    /// Form of the status.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let observed = observe::read(&args.access, &args.namespace)?;
    let status = Status::of(&observed.cluster);
    match args.output {
        Output::Text => print!("{}", status.text()),
        Output::Json => println!("{:#}", status.json()),
    }
    Ok(if status.is_well() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
