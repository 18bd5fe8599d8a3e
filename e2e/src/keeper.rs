//! The first process of each host, and of the lab.
//!
//! ```text
//! hack/lab up ── keeper lan            pid 1 of the lab: bridge, and everything else below it
//!                  ├── keeper router   pid 1 of that host: own network, files, pids, host name
//!                  ├── keeper client
//!                  └── …
//! ```
//!
//! Decided here: how long the lab lives. The kernel ends all processes of a pid namespace with its
//! first one, and with the processes go their networks and mounts: to remove the lab is to kill one
//! process. While `up` is at work the first process also ends when `up` does, however that happens.
//!
//! Input: names of hosts, the lab's folder; a line on standard input once the lab is to stay.
//! Output: one JSON line `{"lan": pid, …}` with the pids as this machine sees them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::time::Duration;
use std::{env, fs, thread};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, dup2_stderr, dup2_stdout};

use crate::error::{Attempt, LabError, Result};
use crate::host_files;
use crate::process::Process;
use crate::topology::{HOSTS, LAN};

/// What `up` writes to the first process when the lab is to stay.
const STAY: &str = "stay";

/// How a keeper is started; it starts itself again, inside its new namespaces.
#[derive(Debug, Clone, clap::Args)]
pub struct KeeperArgs {
    /// The host to be, or `lan`.
    name: String,
    /// The folder of the lab.
    dir: PathBuf,
    /// Whether the namespaces are made already.
    #[arg(long)]
    born: bool,
}

/// The running first process of the lab, seen from `up`.
#[derive(Debug)]
pub struct Lifeline {
    /// Closing it before [`Lifeline::stay`] ends the lab.
    input: std::process::ChildStdin,
    /// The first process of each host, and of the LAN.
    pub hosts: BTreeMap<String, Process>,
}

impl Lifeline {
    /// Starts the namespaces of the lab.
    ///
    /// # Errors
    /// The kernel refuses one of them.
    pub fn start(dir: &Path) -> Result<Self> {
        let mut child = keeper(LAN, dir, false)
            .and_then(|mut command| command.stdin(Stdio::piped()).process_group(0).spawn())
            .attempt(|| "start the lab's first process".to_owned())?;
        let (input, pids) = (child.stdin.take(), read_pids(&mut child)?);
        let hosts = pids
            .into_iter()
            .map(|(name, pid)| {
                let gone =
                    || LabError::Io { action: format!("start host {name}"), source: Errno::ESRCH.into() };
                Process::with_pid(pid).ok_or_else(gone).map(|process| (name.clone(), process))
            })
            .collect::<Result<_>>()?;
        let input = input.ok_or(Errno::EPIPE).attempt(|| "reach the lab's first process".to_owned())?;
        Ok(Self { input, hosts })
    }

    /// From now on the lab outlives this process.
    ///
    /// # Errors
    /// The lab's first process is gone.
    pub fn stay(mut self) -> Result<()> {
        writeln!(self.input, "{STAY}").attempt(|| "let the lab stay".to_owned())
    }
}

fn keeper(name: &str, dir: &Path, born: bool) -> io::Result<Command> {
    // Not the path it was started by: a rebuilt binary would then be another one.
    let mut command = Command::new(env::current_exe()?);
    command.arg("keeper").arg(name).arg(dir).args(born.then_some("--born"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

/// The line of a keeper that has just been started. Its first half ends when it has spoken.
fn read_pids(child: &mut std::process::Child) -> Result<BTreeMap<String, i32>> {
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).attempt(|| "hear from the first process".to_owned())?;
    }
    child.wait().attempt(|| "wait for the first process".to_owned())?;
    serde_json::from_str(&line)
        .map_err(|source| LabError::Format { what: "the first process's report".to_owned(), source })
}

/// What the hidden command `keeper` does.
///
/// # Errors
/// The kernel refuses a namespace or a mount.
pub fn run(args: &KeeperArgs) -> Result<()> {
    if args.born { live(args) } else { be_born(args) }
}

/// First half: makes the namespaces and starts the second half as pid 1 in them.
fn be_born(args: &KeeperArgs) -> Result<()> {
    let flags = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWUTS;
    unshare(flags).attempt(|| format!("make the namespaces of {}", args.name))?;
    let input = if args.name == LAN { Stdio::inherit() } else { Stdio::null() };
    keeper(&args.name, &args.dir, true)
        .and_then(|mut command| command.stdin(input).stdout(Stdio::inherit()).spawn())
        .attempt(|| format!("start host {}", args.name))?;
    Ok(())
}

/// Second half: pid 1.
fn live(args: &KeeperArgs) -> Result<()> {
    // This machine's /proc is still mounted, so the pid is the one this machine sees.
    let own = fs::read_link("/proc/self").attempt(|| "find the own pid".to_owned())?;
    let own = own.to_string_lossy().parse().unwrap_or_default();
    let mut pids = BTreeMap::from([(args.name.clone(), own)]);
    host_files::detach_mounts()?;
    if args.name == LAN {
        // Started before the own /proc is mounted, for the same reason.
        let start = |host: &str| -> Result<_> {
            let mut child = keeper(host, &args.dir, false)
                .and_then(|mut c| c.spawn())
                .attempt(|| format!("start host {host}"))?;
            read_pids(&mut child)
        };
        let hosts = thread::scope(|scope| {
            let workers: Vec<_> = HOSTS.iter().map(|host| scope.spawn(|| start(host.name))).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        pids.extend(hosts.into_iter().flatten());
    }
    host_files::furnish(&args.name, &args.dir)?;
    report(&pids)?;
    if args.name == LAN {
        thread::spawn(end_with_up);
    }
    reap()
}

/// Says who lives where, and lets go of the caller's pipes: whoever reads them waits for their end.
fn report(pids: &BTreeMap<String, i32>) -> Result<()> {
    let line = serde_json::to_string(pids)
        .map_err(|source| LabError::Format { what: "the first process's report".to_owned(), source })?;
    writeln!(io::stdout(), "{line}").attempt(|| "report the pids".to_owned())?;
    let null = fs::File::options().write(true).open("/dev/null").attempt(|| "open /dev/null".to_owned())?;
    dup2_stdout(&null).and_then(|()| dup2_stderr(&null)).attempt(|| "let go of the output".to_owned())
}

/// Ends the lab when `up` ends without having said that it stays.
fn end_with_up() {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    if read.is_err() || line.trim_end() != STAY {
        exit(1);
    }
}

/// Waits for whatever was left without a parent, as pid 1 must, for ever.
fn reap() -> Result<()> {
    loop {
        match waitpid(None::<Pid>, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => thread::sleep(Duration::from_millis(100)),
            Err(error) => return Err(error).attempt(|| "wait for processes".to_owned()),
        }
    }
}
