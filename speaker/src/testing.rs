//! Network namespaces for tests: each test has a network of its own.

pub(crate) mod api;

use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// Longest time that a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test in a new network namespace, on a thread of its own.
pub(crate) fn in_own_network<Test>(test: impl FnOnce() -> Test + Send + 'static)
where
    Test: Future<Output = ()>,
{
    let thread = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("tests of the network need root");
        ip("link set lo up");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` in the namespace of this thread.
pub(crate) fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Polls until the condition holds.
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !done() {
        assert!(std::time::Instant::now() < end, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
