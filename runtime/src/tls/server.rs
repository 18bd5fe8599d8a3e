//! The HTTPS server: bounded in connections and in time, and it ends gracefully.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::{Identity, Policy};
use crate::shutdown::Shutdown;

/// Connections served at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 256;
/// Longest handshake, and longest wait for the head of a request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests under way may take after the shutdown began.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves `router` over TLS until the shutdown begins, then lets the requests under way end.
pub async fn serve(
    listener: TcpListener,
    identity: &Identity,
    policy: &Policy,
    router: Router,
    shutdown: Shutdown,
) -> io::Result<()> {
    let config = identity.server_config(policy).map_err(io::Error::other)?;
    let acceptor = TlsAcceptor::from(config);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(30));
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place.map_err(io::Error::other)?,
            () = shutdown.requested() => break,
        };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Of the peer's or the moment's making (reset, out of descriptors): go on a bit later.
                Err(error) => {
                    tracing::debug!(op = "accept", %error, "connection not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = shutdown.requested() => break,
        };
        let acceptor = acceptor.clone();
        let builder = builder.clone();
        let service = TowerToHyperService::new(router.clone());
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            let _place = place;
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await
            else {
                return;
            };
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            // What ends a connection is the client's affair.
            let _ = watcher.watch(connection.into_owned()).await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    Ok(())
}
