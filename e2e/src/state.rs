//! What the lab remembers of itself between two commands: `lab.json` in its folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};

use crate::error::{Attempt, LabError, Result};
use crate::layout::Layout;
use crate::process::Process;

/// How far `up` got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// `up` is at work, or was when it ended.
    Starting,
    /// The nodes were Ready.
    Up,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// How far `up` got.
    pub phase: Phase,
    /// The first process of each host, and that of the LAN: ending the latter ends all.
    pub hosts: BTreeMap<String, Process>,
    /// The daemons, named `<host>-<program>`.
    pub daemons: BTreeMap<String, Daemon>,
}

/// A daemon of the lab and how it is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Daemon {
    /// The host it runs on.
    pub host: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The running process.
    pub process: Process,
}

impl State {
    /// Reads what was written last; none if there is no lab.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>> {
        let path = layout.state();
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => {
                let bytes = read.attempt(|| format!("read {}", path.display()))?;
                let what = || path.display().to_string();
                serde_json::from_slice(&bytes)
                    .map(Some)
                    .map_err(|source| LabError::Format { what: what(), source })
            }
        }
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn write(&self, layout: &Layout) -> Result<()> {
        let (path, draft) = (layout.state(), layout.state().with_extension("new"));
        let json = serde_json::to_vec_pretty(self)
            .map_err(|source| LabError::Format { what: "the lab's own state".to_owned(), source })?;
        fs::write(&draft, json)
            .and_then(|()| fs::rename(&draft, &path))
            .attempt(|| format!("write {}", path.display()))
    }

    /// Whether the lab's first process still lives: then everything the kernel holds for it does.
    #[must_use]
    pub(crate) fn is_alive(&self) -> bool {
        self.hosts.get(crate::topology::LAN).is_some_and(Process::is_alive)
    }
}
