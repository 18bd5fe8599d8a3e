//! `kubectl ferrolb why`

use std::process::ExitCode;

use anyhow::Context;
use ferrolb_api::well_known::DEFAULT_NAMESPACE;
use ferrolb_core::explain::{Explainer, Verdict};
use ferrolb_core::service::ServiceKey;

use crate::cluster::Access;
use crate::observe;
use crate::why::{Output, json, text};

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Service to explain: NAME or NAMESPACE/NAME.
    #[arg(value_name = "SERVICE")]
    service: String,

    /// Namespace of the Service, where its name does not say it.
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    namespace: String,

    /// Namespace of the product.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    product_namespace: String,

    /// Form of the explanation.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (namespace, name) = args.service.split_once('/').unwrap_or((&args.namespace, &args.service));
    let key = ServiceKey { namespace: namespace.to_owned(), name: name.to_owned() };
    let observed = observe::read(&args.access, &args.product_namespace)?;
    let service = observed.services.get(&key).with_context(|| {
        format!("there is no Service {name} in namespace {namespace}: see kubectl get services -A")
    })?;
    let events = observe::events(&args.access, service)?;
    let chain = Explainer::new(&observed.cluster).chain(service, &events);
    match args.output {
        Output::Text => print!("{}", text(&chain)),
        Output::Json => println!("{:#}", json(&chain)),
    }
    Ok(match chain.verdict {
        Verdict::Announced { .. } => ExitCode::SUCCESS,
        Verdict::Blocked(_) => ExitCode::from(1),
    })
}
