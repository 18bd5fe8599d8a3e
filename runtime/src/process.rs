//! The life of a process: arguments, logs, client, admin servers, signals, the work itself, the end.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use prometheus::Registry;

use crate::admin::{self, MetricsServer, Pages};
use crate::args::{CommonArgs, as_go_takes_them};
use crate::log::{self, LevelHandle};
use crate::metrics::ProcessCollector;
use crate::readiness::Readiness;
use crate::shutdown::Shutdown;
use crate::watch::Watches;

/// Where a pod's namespace stands.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// No answer at all for this long means that a connection is dead. Longer than a watch request lasts.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time between the signal and the end.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(8);

/// What [`main`] hands to the process's own work.
#[derive(Clone)]
pub struct Process {
    /// Client of the API server.
    pub client: Client,
    /// Namespace of the configuration and of the product's own objects.
    pub namespace: String,
    /// Conditions of `/readyz`.
    pub readiness: Readiness,
    /// Metrics of `/metrics`.
    pub metrics: Registry,
    /// Texts for who debugs.
    pub pages: Pages,
    /// Whether the process was asked to stop.
    pub shutdown: Shutdown,
}

impl Process {
    /// Watches whose first lists are conditions of this process's readiness.
    pub fn watches(&self) -> Watches {
        Watches::new(self.readiness.clone(), self.shutdown.clone())
    }
}

/// Runs a process from its command line to its end. `run` returns when the shutdown it was told of is
/// done, or with an error, which ends the process.
pub fn main<A, Run, Done>(name: &'static str, version: &'static str, run: Run) -> ExitCode
where
    A: Parser + AsRef<CommonArgs>,
    Run: FnOnce(A, Process) -> Done,
    Done: Future<Output = anyhow::Result<()>>,
{
    let args = A::parse_from(as_go_takes_them(std::env::args_os()));
    let common = args.as_ref().clone();
    let level = log::init(common.log_level, common.log_format);
    end_on_panic();
    // Two libraries could each bring a provider; say which one is meant.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        tracing::warn!(op = "startup", "a TLS provider was installed before");
    }
    tracing::info!(version, "MetalLB {name} starting (FerroLB {version})");
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the async runtime")
        .and_then(|runtime| {
            let result = runtime.block_on(live(common, level, |process| run(args, process)));
            runtime.shutdown_timeout(Duration::from_secs(1));
            result
        });
    match outcome {
        Ok(()) => {
            tracing::info!(op = "shutdown", "done");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(op = "startup", error = format!("{error:#}"), "MetalLB {name} failed");
            ExitCode::FAILURE
        }
    }
}

async fn live<Run, Done>(common: CommonArgs, level: LevelHandle, run: Run) -> anyhow::Result<()>
where
    Run: FnOnce(Process) -> Done,
    Done: Future<Output = anyhow::Result<()>>,
{
    let shutdown = Shutdown::default();
    shutdown.on_signals().context("cannot receive signals")?;
    let certificate_dir = common.metrics_cert_dir();
    let process = Process {
        client: client(common.kubeconfig().as_deref()).await?,
        namespace: namespace(common.namespace.as_deref(), Path::new(NAMESPACE_FILE))?,
        readiness: Readiness::default(),
        metrics: Registry::new(),
        pages: Pages::default(),
        shutdown: shutdown.clone(),
    };
    process.metrics.register(Box::new(ProcessCollector::new()?))?;

    let probes = admin::listen(common.health_probe_address, common.health_probe_port, "probes").await?;
    tokio::spawn(admin::serve_probes(
        probes,
        process.readiness.clone(),
        process.pages.clone(),
        shutdown.clone(),
    ));
    if let Some(name) = common.log_level_from {
        let (client, namespace) = (process.client.clone(), process.namespace.clone());
        let follow = log::follow(client, namespace, name, common.log_level, level.clone(), shutdown.clone());
        tokio::spawn(follow);
    }
    if common.port != 0 {
        let unspecified = std::net::IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED);
        let listener = admin::listen(unspecified, common.port, "metrics").await?;
        let server = MetricsServer {
            registry: process.metrics.clone(),
            client: process.client.clone(),
            level,
            certificate_dir,
            policy: common.tls.policy()?,
        };
        let until = shutdown.clone();
        tokio::spawn(async move {
            if let Err(error) = server.serve(listener, until.clone()).await {
                tracing::error!(op = "metrics", error = format!("{error:#}"), "metrics are not served");
                until.begin();
            }
        });
    }

    let work = run(process);
    tokio::pin!(work);
    tokio::select! {
        result = &mut work => return result,
        () = shutdown.requested() => {}
    }
    match tokio::time::timeout(SHUTDOWN_LIMIT, work).await {
        Ok(result) => result,
        Err(_) => {
            let limit = SHUTDOWN_LIMIT.as_secs();
            tracing::warn!(op = "shutdown", "not everything ended within {limit} s, going anyway");
            Ok(())
        }
    }
}

async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = match kubeconfig {
        None => Config::infer().await.context("no access to a Kubernetes API server")?,
        Some(file) => {
            let wrong = || format!("--kubeconfig: cannot use {}", file.display());
            let read = Kubeconfig::read_from(file).with_context(wrong)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.with_context(wrong)?
        }
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    Client::try_from(config).context("cannot make a Kubernetes client")
}

fn namespace(given: Option<&str>, file: &Path) -> anyhow::Result<String> {
    if let Some(name) = given.filter(|n| !n.is_empty()) {
        return Ok(name.to_owned());
    }
    std::fs::read_to_string(file).map(|name| name.trim().to_owned()).with_context(|| {
        format!(
            "no namespace: give --namespace or METALLB_NAMESPACE (in a pod it stands in {})",
            file.display()
        )
    })
}

/// A panic is a bug in which nothing can be trusted any more: say where, then end, so that the kubelet
/// starts the process anew.
fn end_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info
            .payload()
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_default();
        tracing::error!(op = "panic", location, "bug: {message}");
        std::process::exit(101);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_given_or_the_pods_or_an_error_that_says_what_to_do() {
        let missing = Path::new("/nonexistent/namespace");
        assert_eq!(namespace(Some("metallb-system"), missing).unwrap(), "metallb-system");
        let error = namespace(Some(""), missing).unwrap_err();
        assert!(error.to_string().contains("--namespace"), "{error}");
    }
}
