//! A thread with a runtime of its own, for what must not be kept waiting: it works for microseconds at a time, and is
//! to do so soon after it wakes, whatever else keeps the processor busy.

use std::future::Future;
use std::io;

use crate::sys;

/// Begins it. It ends with the future.
pub(crate) fn start<F: Future<Output = ()>>(
    name: &str,
    begin: impl FnOnce() -> F + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(error) = sys::take_short_slices() {
            tracing::debug!(op = "sched_setattr", %error, "this thread waits for the processor like any other");
        }
        runtime.block_on(begin());
    })?;
    Ok(())
}
