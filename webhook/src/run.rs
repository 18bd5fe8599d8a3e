//! Wires watches, certificate, registration and server together.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ferrolb_runtime::tls::{self, Identity};
use ferrolb_runtime::{Process, Shutdown};
use kube::Api;
use kube::runtime::watcher;
use tokio::sync::watch;

use crate::args::Args;
use crate::certificate::Keeper;
use crate::existing::{self, Existing};
use crate::metrics::Metrics;
use crate::registration::Registrar;
use crate::server::{Reviewer, router};

/// How long reviews are answered after the shutdown began: until then the API server may still send some,
/// because the endpoints that it knows are old.
const LINGER: Duration = Duration::from_millis(2500);

/// Runs until the shutdown.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    let Process { client, namespace, readiness, shutdown, .. } = process.clone();
    let metrics = Arc::new(Metrics::register(&process.metrics).context("cannot register metrics")?);
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));

    let watches = process.watches();
    let service_cidrs = existing::has_service_cidrs(&client).await;
    let existing = Existing::watch(&watches, client.clone(), &namespace, service_cidrs);
    let own = process.watches();
    let secrets = Api::namespaced(client.clone(), &namespace);
    let configurations = Api::all(client.clone());
    let identity = Identity::default();
    let (authority, trusted_authority) = watch::channel(None);
    let keeper = Keeper {
        store: own.add_with(secrets.clone(), named(&args.webhook_secret)),
        api: secrets,
        dns_names: args.dns_names(&namespace),
        name: args.webhook_secret,
        namespace,
        identity: identity.clone(),
        authority,
        metrics: Arc::clone(&metrics),
    };
    let registrar = Registrar {
        store: own.add_with(configurations.clone(), named(&args.webhook_configuration)),
        api: configurations,
        name: args.webhook_configuration,
        authority: trusted_authority,
        trusted: readiness.condition("the API server to trust our certificate"),
    };
    tokio::spawn(keeper.run(own.changed(), shutdown.clone()));
    tokio::spawn(registrar.run(own.changed(), shutdown.clone()));

    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let listener = ferrolb_runtime::admin::listen(any, args.webhook_port, "admission reviews").await?;
    let router = router(Arc::new(Reviewer::new(existing, metrics)));
    let end = Shutdown::default();
    let server = tls::serve(listener, &identity, router, end.clone());
    let ending = async {
        shutdown.requested().await;
        tokio::time::sleep(LINGER).await;
        end.begin();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = server => served.context("reviews are not served"),
        () = ending => Ok(()),
    }
}
