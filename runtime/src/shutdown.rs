//! Stopping: the first SIGTERM, SIGINT or SIGQUIT asks every task to end, the second ends the process.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Whether the process was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    /// Asks every task to end.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Whether the end was asked for.
    pub fn begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns when the end is asked for.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }

    /// Begins at the first signal; a second one ends the process at once with status 1.
    pub(crate) fn on_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let shutdown = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                    _ = quit.recv() => {}
                }
                if shutdown.begun() {
                    tracing::error!(op = "shutdown", "second signal, ending at once");
                    std::process::exit(1);
                }
                tracing::info!(op = "shutdown", "signal received, starting shutdown");
                shutdown.begin();
            }
        });
        Ok(())
    }
}
