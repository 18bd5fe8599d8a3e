//! Wires watches, certificate, registration and server together.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ferrolb_api::well_known::object;
use ferrolb_runtime::latest::publish;
use ferrolb_runtime::tls::{self, Identity};
use ferrolb_runtime::watch::Changed;
use ferrolb_runtime::{Process, Readiness, Shutdown};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::watcher;
use tokio::sync::watch;

use crate::args::Args;
use crate::certificate::Keeper;
use crate::existing::{self, Existing};
use crate::metrics::Metrics;
use crate::parting::parting;
use crate::presenter::{Offer, Presenter};
use crate::registration::{self, Registrar, conversion};
use crate::server::{Reviewer, router};

/// How long reviews are answered after the shutdown began: until then the API server may still send some, because
/// kube-proxy forwards them to endpoints that are old; on a busy node it needs seconds. With the time that requests
/// under way get then, it fits into the pod's grace period.
const LINGER: Duration = Duration::from_secs(8);
/// The same where this webhook is registered no more: the API server forgets that within a moment.
const LINGER_UNREGISTERED: Duration = Duration::from_millis(1500);

/// Runs until the shutdown.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    let Process { client, namespace, readiness, shutdown, .. } = process.clone();
    let metrics = Arc::new(Metrics::register(&process.metrics).context("cannot register metrics")?);
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));

    let watches = process.watches();
    let service_cidrs = existing::has_service_cidrs(&client).await;
    let existing = Existing::watch(&watches, client.clone(), &namespace, service_cidrs);
    let own = process.watches();
    let configurations = Api::all(client.clone());
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let configuration = own.add_with(configurations.clone(), named(&args.webhook_configuration));
    let definition = own.add_pruned(
        definitions.clone(),
        named(object::BGP_PEER_CRD),
        |definition: &mut CustomResourceDefinition| {
            definition.spec.versions.clear();
        },
    );
    let identity = Identity::default();
    let (offers, offered) = watch::channel(None);
    let (believed, believed_bundle) = watch::channel(None);
    let service = conversion::Service { namespace: namespace.clone(), name: args.cert_service_name.clone() };
    let presenter = Presenter {
        offers: offered.clone(),
        configuration: configuration.clone(),
        configuration_name: args.webhook_configuration.clone(),
        definitions: definition.clone(),
        definition_name: object::BGP_PEER_CRD.into(),
        service: service.clone(),
        dns_names: args.dns_names(&namespace),
        identity: identity.clone(),
        metrics: Arc::clone(&metrics),
        trusted: readiness.condition("the API server to trust our certificate"),
        believed,
    };
    let registered = {
        let (configuration, name) = (configuration.clone(), args.webhook_configuration.clone());
        move || configuration.get_global(&name).is_some()
    };
    // Where the authority is ours to tell.
    let registrar = args.tells_authority().then(|| Registrar {
        store: configuration.clone(),
        api: configurations,
        name: args.webhook_configuration.clone(),
        authority: authorities(offered, &shutdown),
        plan: {
            let name = args.webhook_configuration.clone();
            Box::new(move |current, authority| registration::plan(current, &name, authority))
        },
    });
    let converter = Registrar {
        store: definition,
        api: definitions,
        name: object::BGP_PEER_CRD.into(),
        authority: believed_bundle,
        plan: {
            let name = args.webhook_configuration.clone();
            Box::new(move |current, authority| {
                // The configuration is there as long as the operator wants a webhook.
                let installed = configuration.get_global(&name).is_some();
                conversion::plan(current, &service, Some(authority.pem).filter(|_| installed))
            })
        },
    };
    match args.files() {
        Some(files) => drop(tokio::spawn(files.run(offers, shutdown.clone()))),
        None => {
            let secrets = Api::namespaced(client.clone(), &namespace);
            let keeper = Keeper {
                store: own.add_with(secrets.clone(), named(&args.webhook_secret)),
                api: secrets,
                dns_names: args.dns_names(&namespace),
                name: args.webhook_secret,
                namespace,
                offers,
            };
            tokio::spawn(keeper.run(own.changed(), shutdown.clone()));
        }
    }
    tokio::spawn(presenter.run(own.changed(), shutdown.clone()));
    if let Some(registrar) = registrar {
        tokio::spawn(registrar.run(own.changed(), shutdown.clone()));
    }
    tokio::spawn(convert_when_ready(converter, own.changed(), readiness, shutdown.clone()));

    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let listener = ferrolb_runtime::admin::listen(any, args.webhook_port, "admission reviews").await?;
    let router = parting(router(Arc::new(Reviewer::new(existing, metrics))), shutdown.clone());
    let tls_policy = args.common.tls.policy()?;
    let end = Shutdown::default();
    let server = tls::serve(listener, &identity, &tls_policy, router, end.clone());
    let ending = async {
        shutdown.requested().await;
        tokio::time::sleep(if registered() { LINGER } else { LINGER_UNREGISTERED }).await;
        end.begin();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = server => served.context("reviews are not served"),
        () = ending => Ok(()),
    }
}

/// Whom the API server is to trust, as it is offered.
fn authorities(
    mut offered: watch::Receiver<Option<Offer>>,
    shutdown: &Shutdown,
) -> watch::Receiver<Option<String>> {
    let (authority, wanted) = watch::channel(None);
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        loop {
            let now = offered.borrow_and_update().as_ref().and_then(|offer| offer.authority.clone());
            publish(&authority, now);
            tokio::select! {
                Ok(()) = offered.changed() => {}
                () = shutdown.requested() => return,
            }
        }
    });
    wanted
}

/// Registers as the converter once this process is ready: before, the API server would find nobody behind
/// the Service.
async fn convert_when_ready(
    converter: Registrar<CustomResourceDefinition>,
    changed: Changed,
    readiness: Readiness,
    shutdown: Shutdown,
) {
    tokio::select! {
        () = readiness.wait() => converter.run(changed, shutdown).await,
        () = shutdown.requested() => {}
    }
}
