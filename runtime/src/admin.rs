//! What a running process tells its cluster: probes by HTTP, and metrics by HTTPS to those whom the API
//! server lets read them.

mod access;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use prometheus::{Registry, TextEncoder};
use tokio::net::TcpListener;

use crate::log::LevelHandle;
use crate::readiness::Readiness;
use crate::shutdown::Shutdown;
use crate::tls::{self, Bundle, Identity, Policy};
use access::Access;

/// How often a metrics certificate from files is read again.
const RELOAD_CERTIFICATE: Duration = Duration::from_secs(60);

type Page = Box<dyn Fn() -> String + Send>;

/// Texts for who debugs, each made when it is asked for. They are served under `/debug/` on the port of the
/// probes, and only to this host.
#[derive(Clone, Default)]
pub struct Pages {
    pages: Arc<Mutex<BTreeMap<&'static str, Page>>>,
}

impl Pages {
    /// Serves what `page` makes as `/debug/<name>`.
    pub fn add(&self, name: &'static str, page: impl Fn() -> String + Send + 'static) {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Box::new(page));
    }

    fn make(&self, name: &str) -> Option<String> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(|page| page())
    }
}

async fn page(
    State(pages): State<Pages>,
    ConnectInfo(asker): ConnectInfo<SocketAddr>,
    Path(name): Path<String>,
) -> Response {
    if !asker.ip().to_canonical().is_loopback() {
        return (StatusCode::FORBIDDEN, "only for this host\n").into_response();
    }
    match pages.make(&name) {
        Some(text) => text.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Serves the probes and the pages until the shutdown begins.
pub(crate) async fn serve_probes(
    listener: TcpListener,
    readiness: Readiness,
    pages: Pages,
    shutdown: Shutdown,
) -> std::io::Result<()> {
    let debug = Router::new().route("/debug/{name}", get(page)).with_state(pages);
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state((readiness, shutdown.clone()))
        .merge(debug)
        .into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, router).with_graceful_shutdown(async move { shutdown.requested().await }).await
}

async fn ready(State((readiness, shutdown)): State<(Readiness, Shutdown)>) -> Response {
    let mut unmet = readiness.unmet();
    if shutdown.begun() {
        unmet.push("the process is shutting down".into());
    }
    if unmet.is_empty() {
        return "ok".into_response();
    }
    let text = unmet.iter().map(|name| format!("waiting for: {name}\n")).collect::<String>();
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// What the metrics server needs.
pub(crate) struct MetricsServer {
    pub(crate) registry: Registry,
    pub(crate) client: kube::Client,
    pub(crate) level: LevelHandle,
    pub(crate) certificate_dir: Option<PathBuf>,
    pub(crate) policy: Policy,
}

#[derive(Clone)]
struct Protected {
    registry: Registry,
    level: LevelHandle,
}

impl MetricsServer {
    /// Serves `/metrics` and `/log-level` until the shutdown begins.
    pub(crate) async fn serve(self, listener: TcpListener, shutdown: Shutdown) -> anyhow::Result<()> {
        let identity = Identity::default();
        match &self.certificate_dir {
            Some(directory) => {
                identity.set(read_certificate(directory)?);
                tokio::spawn(reload(identity.clone(), directory.clone(), shutdown.clone()));
            }
            None => {
                let own = Bundle::generate(&["localhost".into()], SystemTime::now())?;
                identity.set(own.certified_key()?);
            }
        }
        let access = Access::new(self.client);
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/log-level", put(log_level))
            .with_state(Protected { registry: self.registry, level: self.level })
            .layer(axum::middleware::from_fn_with_state(access, access::authorize));
        tls::serve(listener, &identity, &self.policy, router, shutdown).await?;
        Ok(())
    }
}

async fn metrics(State(protected): State<Protected>) -> Response {
    match TextEncoder::new().encode_to_string(&protected.registry.gather()) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn log_level(State(protected): State<Protected>, body: Bytes) -> Response {
    let level = match crate::log::parse_level(&String::from_utf8_lossy(&body)) {
        Ok(level) => level,
        Err(problem) => return (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
    };
    match protected.level.set(level) {
        Ok(()) => {
            tracing::info!(event = "logLevelChanged", logLevel = ?level, "log level changed");
            "ok\n".into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn read_certificate(
    directory: &std::path::Path,
) -> anyhow::Result<std::sync::Arc<rustls::sign::CertifiedKey>> {
    use anyhow::Context;
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    tls::certified_key(&read("tls.crt")?, &read("tls.key")?)
        .with_context(|| format!("cannot use the certificate in {}", directory.display()))
}

async fn reload(identity: Identity, directory: PathBuf, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(RELOAD_CERTIFICATE) => {}
            () = shutdown.requested() => return,
        }
        match read_certificate(&directory) {
            Ok(key) => identity.set(key),
            Err(error) => {
                tracing::warn!(op = "reloadCertificate", error = format!("{error:#}"), "keeping the old one");
            }
        }
    }
}

/// Listens on a port; a port in use is named.
pub async fn listen(address: IpAddr, port: u16, what: &str) -> anyhow::Result<TcpListener> {
    use anyhow::Context;
    let listener = match TcpListener::bind(SocketAddr::new(address, port)).await {
        // A kernel without IPv6.
        Err(error)
            if address == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
                && error.raw_os_error() == Some(libc::EAFNOSUPPORT) =>
        {
            TcpListener::bind(SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port)).await
        }
        other => other,
    };
    listener.with_context(|| format!("cannot listen on port {port} for {what}"))
}
