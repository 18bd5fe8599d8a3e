//! Why the lab could not do what it was asked: one variant a cause, each text says the remedy.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, LabError>;

/// Why the lab could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Namespaces and cables need root.
    #[error(
        "The lab makes network namespaces, mounts and containers, which only root may do here, and you are \
         user {uid}. Run the same command as root, for example with sudo."
    )]
    NotRoot {
        /// Who asked.
        uid: u32,
    },
    /// Programs that are not installed.
    #[error("These programs are missing: {}. `hack/setup` installs all that the lab needs.", .names.join(", "))]
    MissingPrograms {
        /// Their names.
        names: Vec<String>,
    },
    /// The Kubernetes binaries are not built.
    #[error(
        "Kubernetes is not built yet for this checkout (looked in {}). Run `hack/setup`: the first time takes \
         about eleven minutes on two cores, later times a second.", .bin.display()
    )]
    ToolsNotBuilt {
        /// Where they would be.
        bin: PathBuf,
    },
    /// Something on this machine uses what the lab needs.
    #[error("The lab cannot start: {what}. {remedy}")]
    InUse {
        /// What is in the way.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The folder of the lab is where the lab's hosts have their own.
    #[error(
        "The lab's folder cannot be {}: its hosts have a folder of their own in that place. Set FERROLB_LAB to \
         another one, for example /var/tmp/ferrolb-lab.", .dir.display()
    )]
    BadFolder {
        /// The folder.
        dir: PathBuf,
    },
    /// The disk is full, or nearly.
    #[error(
        "The lab needs about {needed_mib} MiB of disk and {} has {free_mib} MiB free. Free some, or set FERROLB_LAB \
         to a folder on another disk.", .dir.display()
    )]
    NoSpace {
        /// The folder of the lab.
        dir: PathBuf,
        /// Free space there.
        free_mib: u64,
        /// What `up` wants.
        needed_mib: u64,
    },
    /// Somebody else is at work on this lab.
    #[error("The lab in {} is in use: {holder}. Wait until that ends, or end it.", .dir.display())]
    Busy {
        /// The folder of the lab.
        dir: PathBuf,
        /// Who holds the lock.
        holder: String,
    },
    /// There is no lab.
    #[error("No lab is up in {}. `hack/lab up` starts one.", .dir.display())]
    NotUp {
        /// The folder of the lab.
        dir: PathBuf,
    },
    /// A name that no host has.
    #[error("No host is called {name:?}; the lab has {}.", .known.join(", "))]
    NoSuchHost {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A command failed.
    #[error("`{command}` ended with {status}{}", tail(.output))]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
    /// A daemon of the lab ended though it should run.
    #[error("{name} ended with {status} while the lab waited for {waited_for}. Its log ends with:\n{tail}")]
    DaemonEnded {
        /// Which one.
        name: String,
        /// How it ended.
        status: String,
        /// What was being waited for.
        waited_for: String,
        /// The last lines of its log.
        tail: String,
    },
    /// Something did not come about in time.
    #[error("Waited {} s in vain for {what}.{}", .after.as_secs(), tail(.seen))]
    TimedOut {
        /// What was being waited for.
        what: String,
        /// For how long.
        after: Duration,
        /// What there was instead.
        seen: String,
    },
    /// The user pressed Ctrl-C.
    #[error("Interrupted; what had been started is removed again.")]
    Interrupted,
    /// An answer that could not be read.
    #[error("could not read {what}")]
    Format {
        /// Which text.
        what: String,
        /// The reason.
        #[source]
        source: serde_json::Error,
    },
    /// A certificate could not be made.
    #[error("could not make the certificate of {name}")]
    Certificate {
        /// For whom.
        name: String,
        /// The reason.
        #[source]
        source: rcgen::Error,
    },
    /// The operating system refused.
    #[error("could not {action}")]
    Io {
        /// What was tried.
        action: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

/// What a command said, on lines of its own.
fn tail(output: &str) -> String {
    let output = output.trim_end();
    if output.is_empty() { String::new() } else { format!("\n{output}") }
}

/// Names what was tried, for the operating system's errors.
pub(crate) trait Attempt<T> {
    /// Turns the operating system's refusal into ours.
    fn attempt(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Attempt<T> for std::result::Result<T, E> {
    fn attempt(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| LabError::Io { action: action(), source: source.into() })
    }
}

/// The whole chain of an error on one line, the way people read it.
#[must_use]
pub fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
