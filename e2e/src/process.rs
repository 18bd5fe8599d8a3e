//! Processes of the lab, named so that a recycled pid is never mistaken for one of them.
//!
//! A process is its pid *and* the moment it started. Both come from `/proc`, and both are compared
//! before a signal is sent.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A process of this machine, told apart from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid, as this machine sees it.
    pub pid: i32,
    /// When it started, in clock ticks since the machine did.
    pub started: u64,
}

impl Process {
    /// The process that has this pid now.
    #[must_use]
    pub fn with_pid(pid: i32) -> Option<Self> {
        let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        Some(Self { pid, started: stat.started })
    }

    /// Whether any thread of it still runs; one that nobody has reaped does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .ok()
            .and_then(|stat| parse_stat(&stat))
            .is_some_and(|stat| stat.started == self.started && stat.runs())
    }

    /// Sends a signal, unless the process is gone; says whether it was sent.
    pub fn signal(&self, signal: Signal) -> bool {
        self.is_alive() && kill(Pid::from_raw(self.pid), signal).is_ok()
    }
}

/// What `/proc/<pid>/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    threads: u64,
    started: u64,
}

impl Stat {
    /// The first thread shows as a zombie while others are still at work, in the kernel too: the first
    /// process of a pid namespace may be ending all the others.
    fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }
}

/// The name in it may hold anything, so everything is counted from the last parenthesis.
fn parse_stat(stat: &str) -> Option<Stat> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let threads = fields.nth(16)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, threads, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let read = Some(Stat { state: 'S', threads: 17, started: 4711 });
        assert_eq!(parse_stat(&format!("12 (sh) {tail}")), read);
        assert_eq!(parse_stat(&format!("12 (a) Z (b) {tail}")), read);
        assert_eq!(parse_stat("12 (sh) S 1"), None);
    }

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let with = |state, threads| Stat { state, threads, started: 1 }.runs();
        assert!(with('S', 1) && with('Z', 2));
        assert!(!with('Z', 1) && !with('Z', 0) && !with('X', 1));
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_ours() {
        let own = i32::try_from(std::process::id()).unwrap();
        let this = Process::with_pid(own).unwrap();
        assert!(this.is_alive());
        let earlier = Process { started: this.started - 1, ..this };
        assert!(!earlier.is_alive());
        assert!(!earlier.signal(Signal::SIGKILL), "a recycled pid must not be signalled");
    }
}
