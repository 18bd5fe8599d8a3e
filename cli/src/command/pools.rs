//! `kubectl ferrolb pools`

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{ConfigurationState, IPAddressPool};
use ferrolb_api::well_known::DEFAULT_NAMESPACE;
use ferrolb_core::allocator::by_key;
use ferrolb_core::config::compile;
use ferrolb_core::resources::Resources;
use ferrolb_core::service::LoadBalancer;
use ferrolb_core::status::conflicts_told;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};

use crate::cluster::Access;
use crate::created::created;
use crate::observe;
use crate::pools::{Observed, Page, answer, detail, summary};

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Pool to list the addresses of; default: a line for each pool.
    #[arg(value_name = "POOL")]
    pool: Option<String>,

    /// Lines to list at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// Address to begin the list with.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,

    /// Says what the Service in this file would be given, and lists nothing; - is standard input.
    #[arg(long = "for", value_name = "FILE", conflicts_with_all = ["pool", "from"])]
    service: Option<PathBuf>,

    /// Class of the Services; default: what the controller in the cluster was started with.
    #[arg(long, value_name = "CLASS")]
    lb_class: Option<String>,

    /// Namespace of the pools.
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,

    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (observed, class, services) = read(args)?;
    let config = &observed.config;
    let text = match (&args.service, &args.pool) {
        (Some(file), _) => {
            let text = super::read(file)?;
            let service: Service = serde_saphyr::from_str(&text)
                .with_context(|| format!("{} holds no Service", file.display()))?;
            let service = LoadBalancer::new(&created(service, &services), []);
            ensure!(
                service.is_load_balancer,
                "the Service in {} is not of type LoadBalancer",
                file.display()
            );
            ensure!(
                service.is_handled_by(class.as_deref()),
                "the Service has loadBalancerClass {}, which this controller leaves to others",
                service.class.as_deref().unwrap_or("none")
            );
            answer(observed, service)
        }
        (None, Some(name)) => {
            let pool = config.pools().get(name).with_context(|| match config.left_out_pools().get(name) {
                Some(_) => {
                    format!("pool {name} is left out for an error: see kubectl ferrolb lint --cluster")
                }
                None => format!("there is no pool {name} in namespace {}", args.namespace),
            })?;
            if let Some(from) = args.from {
                let has = pool.ranges.iter().any(|range| range.contains(from));
                ensure!(has, "--from: pool {name} has no address {from}");
            }
            detail(&observed, pool, Page { from: args.from, limit: args.limit })
        }
        (None, None) => summary(&observed),
    };
    print!("{text}");
    Ok(())
}

/// What the cluster shows: with the class of Services that is handled, and with all Services.
fn read(args: &Args) -> anyhow::Result<(Observed, Option<String>, Vec<Service>)> {
    let own = Some(args.namespace.as_str());
    let pools: Vec<IPAddressPool> = args.access.list("ipaddresspools.v1beta1.metallb.io", own)?;
    let reservations: Vec<AddressReservation> =
        args.access.list("addressreservations.v1alpha1.ferrolb.io", own)?;
    let states: Vec<ConfigurationState> = args.access.list("configurationstates.v1beta1.metallb.io", own)?;
    let pods: Vec<Pod> = args.access.list("pods", own)?;
    let namespaces: Vec<Namespace> = args.access.list("namespaces", None)?;
    let services: Vec<Service> = args.access.list("services", None)?;
    let resources = Resources::default().with_pools(pools).with_reservations(reservations);
    let config = compile(&resources.with_namespaces(namespaces)).config;
    let class = args.lb_class.clone().or_else(|| observe::class(&pods));
    let handled = services.iter().map(|service| LoadBalancer::new(service, []));
    let handled = handled.filter(|service| service.is_handled_by(class.as_deref()));
    let observed = Observed { config, services: by_key(handled), conflicts: conflicts_told(&states) };
    Ok((observed, class, services))
}
