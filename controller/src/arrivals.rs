//! When changes of the stores arrived that no pass has looked at yet.

use std::sync::Arc;
use std::time::Instant;

use ferrolb_runtime::watch::Changed;
use tokio::sync::watch;

/// The arrival of the oldest of them.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    oldest: Arc<watch::Sender<Option<Instant>>>,
    arrived: watch::Receiver<Option<Instant>>,
}

impl Arrivals {
    /// Follows the changes, from a task of its own: a pass that takes long must not hide how long a
    /// change has been waiting.
    pub(crate) fn follow(mut changed: Changed) -> Self {
        let (oldest, arrived) = watch::channel(None);
        let oldest = Arc::new(oldest);
        let sender = Arc::clone(&oldest);
        tokio::spawn(async move {
            while !sender.is_closed() {
                changed.next().await;
                sender.send_if_modified(|oldest| {
                    let first = oldest.is_none();
                    oldest.get_or_insert_with(Instant::now);
                    first
                });
            }
        });
        Self { oldest, arrived }
    }

    /// Returns when there is one.
    pub(crate) async fn next(&mut self) {
        // The sender is ours, so the channel does not close.
        let _ = self.arrived.wait_for(Option::is_some).await;
    }

    /// A pass looks at all of them now; since when the oldest has waited.
    pub(crate) fn take(&self) -> Option<Instant> {
        self.oldest.send_replace(None)
    }
}
