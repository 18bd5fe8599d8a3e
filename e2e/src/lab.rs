//! The running lab as a value: hosts, kubectl, faults.

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::error::{Attempt, LabError, Result};
use crate::host::{Host, kubectl, kubectl_with_input, succeeded};
use crate::layout::Layout;
use crate::lock::Lock;
use crate::process::Process;
use crate::progress::{Progress, Seen};
use crate::state::State;
use crate::topology::{self, LAN};
use crate::{down, preflight, up};

/// The running lab.
#[derive(Debug, Clone)]
pub struct Lab {
    /// Where it is.
    pub layout: Layout,
    pub(crate) state: State,
}

impl Lab {
    /// Starts the lab, or takes the one that is up.
    ///
    /// # Errors
    /// Something is missing or in the way, or a part of the cluster does not come up: then nothing is
    /// left of it.
    pub fn up(layout: &Layout, progress: &Progress) -> Result<Self> {
        let state = up::up(layout, progress)?;
        Ok(Self { layout: layout.clone(), state })
    }

    /// The lab that is up.
    ///
    /// # Errors
    /// None is.
    pub fn open(layout: &Layout) -> Result<Self> {
        match State::read(layout)? {
            Some(state) if state.is_alive() => Ok(Self { layout: layout.clone(), state }),
            _ => Err(LabError::NotUp { dir: layout.dir.clone() }),
        }
    }

    /// Removes the lab, whatever state it is in; says whether there was one.
    ///
    /// # Errors
    /// Somebody is at work on it, or the kernel does not let go of something.
    pub fn down(layout: &Layout) -> Result<bool> {
        preflight::root()?;
        layout.check()?;
        let lock = Lock::take(&layout.lock(), "hack/lab down")?;
        // Tests that are at work would fail for no reason of theirs.
        let _session = Lock::take(&layout.session_lock(), "hack/lab down")?;
        down::clean(layout, &lock)
    }

    /// Has the lab for itself as long as the returned lock lives: tests run one after another, also those
    /// of two people, and `down` is refused meanwhile. Waits for whoever has it now.
    ///
    /// # Errors
    /// Somebody still has it after `limit`, or the user interrupts.
    pub fn hold(&self, who: &str, progress: &Progress, limit: Duration) -> Result<Lock> {
        progress.wait("the lab to be free", limit, || {
            Ok(match Lock::try_take(&self.layout.session_lock(), who)? {
                Ok(lock) => Seen::Yes(lock),
                Err(holder) => Seen::NotYet(format!("It is in use: {holder}.")),
            })
        })
    }

    /// A host by its name.
    ///
    /// # Errors
    /// No host is called so.
    pub fn host(&self, name: &str) -> Result<Host> {
        let unknown = || LabError::NoSuchHost { name: name.to_owned(), known: up::host_names() };
        up::host(&self.layout, &self.state, topology::host(name).ok_or_else(unknown)?)
    }

    /// The hosts that pods run on.
    ///
    /// # Errors
    /// The lab is gone.
    pub fn nodes(&self) -> Result<Vec<Host>> {
        topology::nodes().map(|spec| up::host(&self.layout, &self.state, spec)).collect()
    }

    /// The first process in the LAN's namespace, where the bridge is.
    pub(crate) fn lan(&self) -> Result<Process> {
        self.state.hosts.get(LAN).copied().ok_or_else(|| LabError::NotUp { dir: self.layout.dir.clone() })
    }

    /// kubectl as administrator, not yet started.
    #[must_use]
    pub fn kubectl_command(&self) -> Command {
        kubectl(&self.layout)
    }

    /// Runs kubectl and gives what it printed.
    ///
    /// # Errors
    /// It fails; the error has its message.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        succeeded(&format!("kubectl {}", arguments.join(" ")), self.kubectl_output(arguments)?)
    }

    /// Runs kubectl; failing is one of its results.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn kubectl_output(&self, arguments: &[&str]) -> Result<Output> {
        kubectl(&self.layout).args(arguments).output().attempt(|| "run kubectl".to_owned())
    }

    /// Applies objects written in YAML or JSON.
    ///
    /// # Errors
    /// The API server refuses one; the error has its message.
    pub fn apply(&self, objects: &str) -> Result<String> {
        kubectl_with_input(&self.layout, &["apply", "-f", "-"], objects)
    }

    /// Deletes objects written in YAML or JSON, and waits until they are gone.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn delete(&self, objects: &str) -> Result<String> {
        kubectl_with_input(&self.layout, &["delete", "--ignore-not-found", "-f", "-"], objects)
    }

    /// `kubectl get … -o json`.
    ///
    /// # Errors
    /// There is no such object.
    pub fn get_json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get"], arguments, &["-o", "json"]].concat())?;
        let what = format!("kubectl get {}", arguments.join(" "));
        serde_json::from_str(&text).map_err(|source| LabError::Format { what, source })
    }

    /// GET with curl from a host, with three seconds for all of it.
    ///
    /// # Errors
    /// No answer, or one that says the request failed.
    pub fn curl(&self, host: &str, url: &str) -> Result<String> {
        self.host(host)?.curl(url, Duration::from_secs(3))
    }

    /// Whether the API server says it is ready.
    #[must_use]
    pub fn api_answers(&self) -> bool {
        up::api_answers(&self.layout)
    }

    /// The names of the nodes that are Ready.
    ///
    /// # Errors
    /// kubectl cannot be started.
    pub fn ready_nodes(&self) -> Result<Vec<String>> {
        up::ready_nodes(&self.layout)
    }

    /// Waits until all nodes are Ready.
    ///
    /// # Errors
    /// They are not within `limit`.
    pub fn wait_ready(&self, progress: &Progress, limit: Duration) -> Result<()> {
        progress.wait("all nodes to be Ready", limit, || {
            let ready = self.ready_nodes()?;
            let all = ready.len() == topology::nodes().count();
            Ok(if all { Seen::Yes(()) } else { Seen::NotYet(format!("Ready: {ready:?}")) })
        })
    }
}
