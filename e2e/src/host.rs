//! A host of the running lab, and what one can do there.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use crate::error::{Attempt, LabError, Result};
use crate::layout::Layout;
use crate::namespaces::{Depth, inside};
use crate::network::batch;
use crate::process::Process;
use crate::state::Daemon;
use crate::topology::{HostSpec, Role};

/// Where programs of Debian packages are, FRR's daemons included.
const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/frr";
/// What would send requests of the lab to somebody's proxy.
pub(crate) const PROXY_VARIABLES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// A host of the running lab.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its names and addresses.
    pub spec: &'static HostSpec,
    pub(crate) init: Process,
    pub(crate) layout: Layout,
}

impl Host {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// Its IPv4 address.
    #[must_use]
    pub fn ipv4(&self) -> IpAddr {
        self.spec.ipv4().into()
    }

    /// Runs a command to its end and gives what it printed.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let output = self.output(command)?;
        succeeded(&format!("{} on {}", command.join(" "), self.name()), output)
    }

    /// Runs a command to its end; failing is one of its results.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn output(&self, command: &[&str]) -> Result<Output> {
        self.inside(|| {
            self.command(command)?.stdin(Stdio::null()).output().attempt(|| start(command, self.name()))
        })
    }

    /// Runs a command with the caller's terminal, in the caller's folder if the host has it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn attached<S: AsRef<OsStr> + Sync>(&self, command: &[S]) -> Result<ExitStatus> {
        let here = std::env::current_dir().ok();
        self.inside(|| {
            let mut ready = self.command(command)?;
            if let Some(here) = here.filter(|folder| folder.is_dir()) {
                ready.current_dir(here);
            }
            ready.status().attempt(|| start(command, self.name()))
        })
    }

    /// Starts a command and leaves it running; who gets the handle ends it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, command: &[&str]) -> Result<Child> {
        self.inside(|| {
            let mut ready = self.command(command)?;
            ready.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            ready.spawn().attempt(|| start(command, self.name()))
        })
    }

    /// Runs a cable from a new interface here to a new one of another host. It goes with either end.
    ///
    /// # Errors
    /// An interface of the name is there, or a host is gone.
    pub fn cable(&self, nic: &str, to: &Self, their_nic: &str) -> Result<()> {
        let pid = to.init.pid;
        let here = format!("link add {nic} type veth peer name {their_nic} netns {pid}\nlink set {nic} up\n");
        inside(&self.init, Depth::Network, || batch(&here))?;
        inside(&to.init, Depth::Network, || batch(&format!("link set {their_nic} up\n")))
    }

    /// GET with curl, at most `limit` for all of it.
    ///
    /// # Errors
    /// No answer, or one that says the request failed.
    pub fn curl(&self, url: &str, limit: Duration) -> Result<String> {
        let limit = format!("{:.3}", limit.as_secs_f64());
        self.run(&["curl", "--silent", "--show-error", "--fail", "--max-time", &limit, url])
    }

    /// Runs `work` in a thread that is on this host.
    ///
    /// # Errors
    /// The host is gone, or `work` says so.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        inside(&self.init, Depth::Whole, work)
    }

    /// Writes a file of the host.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<()> {
        self.inside(|| {
            let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(path, text))
                .attempt(|| format!("write {path} on {}", self.name()))
        })
    }

    /// Starts a daemon: a session of its own, a clean environment, its output in the lab's log folder.
    pub(crate) fn daemon(&self, command: &[String]) -> Result<(String, Daemon, Child)> {
        let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
        let name = format!("{}-{}", self.name(), program.to_string_lossy());
        let log = self.layout.log(&name);
        // Of this machine, not of the host.
        let open = || fs::OpenOptions::new().create(true).append(true).open(&log);
        let (output, errors) = open()
            .and_then(|file| Ok((file.try_clone()?, file)))
            .attempt(|| format!("open {}", log.display()))?;
        let child = self.inside(|| {
            let mut ready = Command::new("setsid");
            ready.args(command).env_clear().env("PATH", self.path()).env("HOME", "/root");
            ready.stdin(Stdio::null()).stdout(output).stderr(errors);
            ready.spawn().attempt(|| start(command, self.name()))
        })?;
        let pid = i32::try_from(child.id()).unwrap_or_default();
        // A zombie still has an entry, so even one that ended at once is found.
        let process = Process::with_pid(pid)
            .ok_or(std::io::ErrorKind::NotFound)
            .attempt(|| format!("find {name}, which has just been started"))?;
        Ok((name, Daemon { host: self.name().to_owned(), command: command.to_vec(), process }, child))
    }

    fn command<S: AsRef<OsStr>>(&self, command: &[S]) -> Result<Command> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(std::io::ErrorKind::InvalidInput)
                .attempt(|| format!("run nothing on {}", self.name()));
        };
        let mut ready = Command::new(program);
        ready.args(arguments).env("PATH", self.path()).current_dir("/");
        // The home folder is the user's own.
        ready.env("VTYSH_HISTFILE", "/dev/null");
        for variable in PROXY_VARIABLES {
            ready.env_remove(variable);
        }
        if self.spec.role == Role::ControlPlane {
            ready.env("KUBECONFIG", self.layout.kubeconfig());
            ready.env("KUBECACHEDIR", self.layout.kubectl_cache());
        } else {
            ready.env_remove("KUBECONFIG");
        }
        Ok(ready)
    }

    fn path(&self) -> String {
        format!("{}:{PROGRAMS}", self.layout.bin.display())
    }
}

fn start<S: AsRef<OsStr>>(command: &[S], host: &str) -> String {
    let words: Vec<_> = command.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    format!("start `{}` on {host}", words.join(" "))
}

/// What a command printed, or why it failed.
pub(crate) fn succeeded(command: &str, output: Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned());
    Err(LabError::Command {
        command: command.to_owned(),
        status: output.status.to_string(),
        output: said.join("\n").trim().to_owned(),
    })
}

/// kubectl of this machine with the administrator's rights.
pub(crate) fn kubectl(layout: &Layout) -> Command {
    let mut command = Command::new(layout.tool("kubectl"));
    command.arg("--kubeconfig").arg(layout.kubeconfig());
    // What it remembers goes with the lab, and preferences of the user do not count.
    command.env("KUBECACHEDIR", layout.kubectl_cache()).env("KUBERC", "off");
    for variable in PROXY_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// Runs kubectl with something on its standard input.
pub(crate) fn kubectl_with_input(layout: &Layout, arguments: &[&str], input: &str) -> Result<String> {
    let action = || format!("run kubectl {}", arguments.join(" "));
    let mut child = kubectl(layout)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .attempt(action)?;
    let sent = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().attempt(action)?;
    // Whoever ends early closes the pipe; its own message says more.
    if output.status.success() {
        sent.transpose().attempt(action)?;
    }
    succeeded(&format!("kubectl {}", arguments.join(" ")), output)
}

/// The last lines of a log.
pub(crate) fn log_tail(log: &PathBuf, lines: usize) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
