//! Entering the namespaces of a host.
//!
//! A namespace is entered by a thread of its own, which ends with what it was made for: the rest of
//! the process stays where it is. No descriptor, mount or file is left behind, because the
//! namespaces are reached through the first process of the host (`/proc/<pid>/ns`).

use std::fs::File;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::SigSet;

use crate::error::{Attempt, LabError, Result};
use crate::process::Process;

/// How much of a host to enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Its network only: files and pids stay this machine's.
    Network,
    /// All of it: network, files, host name, pids of children.
    Whole,
}

/// Runs `work` inside the namespaces of the host whose first process is `init`.
///
/// # Errors
/// The host is gone, or `work` says so.
pub(crate) fn inside<T: Send>(
    init: &Process,
    depth: Depth,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter(init, depth)?;
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread; for threads that live as long as their work, such as a recorder.
///
/// # Errors
/// The host is gone.
pub(crate) fn enter(init: &Process, depth: Depth) -> Result<()> {
    let kinds: &[(&str, CloneFlags)] = match depth {
        Depth::Network => &[("net", CloneFlags::CLONE_NEWNET)],
        // The mounts come last: the other files are found through this machine's /proc.
        Depth::Whole => &[
            ("net", CloneFlags::CLONE_NEWNET),
            ("uts", CloneFlags::CLONE_NEWUTS),
            ("pid", CloneFlags::CLONE_NEWPID),
            ("mnt", CloneFlags::CLONE_NEWNS),
        ],
    };
    let open = |(name, flag): &(&str, CloneFlags)| {
        let path = format!("/proc/{}/ns/{name}", init.pid);
        File::open(&path).map(|file| (file, *flag)).attempt(|| format!("open {path}"))
    };
    let files = kinds.iter().map(open).collect::<Result<Vec<_>>>()?;
    if !init.is_alive() {
        let source = std::io::ErrorKind::NotFound.into();
        return Err(LabError::Io { action: "find the host's first process".to_owned(), source });
    }
    // What is started here must not inherit blocked signals.
    SigSet::empty().thread_set_mask().attempt(|| "unblock signals".to_owned())?;
    // A thread that shares its root directory with others may not change its mounts.
    unshare(CloneFlags::CLONE_FS).attempt(|| "leave the common root directory".to_owned())?;
    for (file, flag) in files {
        setns(&file, flag).attempt(|| format!("enter a namespace of process {}", init.pid))?;
    }
    Ok(())
}
