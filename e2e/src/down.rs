//! Removing a lab, whatever state it is in: running, half built, or left behind by a killed command.
//!
//! What is ended is known by pid and start time, from the lab's own state or from the alias of the
//! machine's leg; nothing is ever looked for by name.

use std::fs;
use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cgroups;
use crate::error::{Attempt, LabError, Result};
use crate::layout::Layout;
use crate::lock::Lock;
use crate::network::{batch, parse_alias};
use crate::preflight::machine_nic;
use crate::process::Process;
use crate::state::State;
use crate::topology::{LAN, MACHINE_NIC};

/// How long the kernel may take to end everything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Removes what there is; says whether there was anything.
///
/// # Errors
/// The kernel does not let go of something.
pub(crate) fn clean(layout: &Layout, lock: &Lock) -> Result<bool> {
    let mut found = false;
    // A state that cannot be read must not keep a lab from being removed.
    let recorded = State::read(layout).ok().flatten().and_then(|state| state.hosts.get(LAN).copied());
    let alias = machine_nic()?;
    let (aliased, leg_is_ours) = match alias.as_deref().and_then(parse_alias) {
        Some((process, dir)) => {
            (Some(process).filter(|_| dir == layout.dir), dir == layout.dir || !process.is_alive())
        }
        None => (None, false),
    };
    for process in recorded.into_iter().chain(aliased) {
        found |= end(&process)?;
    }
    if leg_is_ours && machine_nic()?.is_some() {
        found = true;
        // It goes with the other end of the cable, but at a time of the kernel's choice.
        if let Err(error) = batch(&format!("link del {MACHINE_NIC}\n"))
            && machine_nic()?.is_some()
        {
            return Err(error);
        }
    }
    found |= cgroups::remove(&layout.cgroup(), PATIENCE)?;
    found |= empty(layout)?;
    if layout.dir.exists() {
        lock.remove_file()?;
        match fs::remove_dir(&layout.dir) {
            // Somebody waits for the lock and has made it anew.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => removed.attempt(|| format!("remove {}", layout.dir.display()))?,
        }
    }
    Ok(found)
}

/// Ends the lab's first process, and with it all others.
pub(crate) fn end(process: &Process) -> Result<bool> {
    let found = process.signal(Signal::SIGKILL);
    let begin = Instant::now();
    while process.is_alive() {
        if begin.elapsed() > PATIENCE {
            let what = format!("process {} and all below it to end", process.pid);
            return Err(LabError::TimedOut { what, after: PATIENCE, seen: String::new() });
        }
        sleep(Duration::from_millis(10));
    }
    Ok(found)
}

/// Removes all in the folder but the lock; says whether there was more than locks.
fn empty(layout: &Layout) -> Result<bool> {
    let dir = &layout.dir;
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries.attempt(|| format!("read {}", dir.display()))?,
    };
    let mut found = false;
    for entry in entries {
        let path = entry.attempt(|| format!("read {}", dir.display()))?.path();
        if path == layout.lock() {
            continue;
        }
        found |= path != layout.session_lock();
        let removed = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.attempt(|| format!("remove {}", path.display()))?;
    }
    Ok(found)
}
