//! Where things are: the folder of the lab and the tools built by `hack/setup`.
//!
//! Input: the flags or the environment. Output: paths. The tools live outside every checkout, keyed
//! by the hash of what they are built from, so that two checkouts share them.

use std::env;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{LabError, Result};

/// The inputs of the Go build, in the order in which `hack/setup` hashes them.
const TOOL_INPUTS: [&[u8]; 4] = [
    include_bytes!("../kube/go.mod"),
    include_bytes!("../kube/go.sum"),
    include_bytes!("../kube/main.go"),
    include_bytes!("../kube/build"),
];

/// Folders that every host of the lab has for itself.
pub(crate) const PRIVATE_TO_HOSTS: [&str; 6] = ["/run", "/var/run", "/etc", "/var/lib", "/var/log", "/proc"];

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The lab's own folder: state, logs, keys, disks of the hosts. `down` removes it.
    pub dir: PathBuf,
    /// The folder with `kube-apiserver`, `kubectl` and the others.
    pub bin: PathBuf,
}

impl Layout {
    /// With the given folders, or the default ones where none is given.
    #[must_use]
    pub fn new(dir: Option<PathBuf>, bin: Option<PathBuf>) -> Self {
        Self { dir: dir.unwrap_or_else(default_dir), bin: bin.unwrap_or_else(default_bin) }
    }

    /// As the environment says: FERROLB_LAB and FERROLB_TOOLS.
    #[must_use]
    pub fn from_env() -> Self {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self::new(variable("FERROLB_LAB"), variable("FERROLB_TOOLS"))
    }

    /// The folder, made sure to be none of those that every host has for itself.
    ///
    /// # Errors
    /// The folder is relative or lies in such a place.
    pub fn check(&self) -> Result<()> {
        let own = |place: &&str| self.dir.starts_with(place);
        if !self.dir.is_absolute() || PRIVATE_TO_HOSTS.iter().any(own) {
            return Err(LabError::BadFolder { dir: self.dir.clone() });
        }
        Ok(())
    }

    /// One of the tools.
    #[must_use]
    pub fn tool(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// The images that nodes have from the start.
    #[must_use]
    pub fn base_images(&self) -> PathBuf {
        self.bin.parent().unwrap_or(&self.bin).join("images/base.tar")
    }

    /// Keys and certificates.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// What kubectl remembers of the API.
    #[must_use]
    pub fn kubectl_cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    /// What runs: see [`crate::state`].
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.dir.join("lab.json")
    }

    /// Held while the lab is being changed.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Held while tests use the lab.
    #[must_use]
    pub fn session_lock(&self) -> PathBuf {
        self.dir.join("session")
    }

    /// The log of a daemon.
    #[must_use]
    pub fn log(&self, daemon: &str) -> PathBuf {
        self.dir.join("log").join(format!("{daemon}.log"))
    }

    /// What the API server is to record of its requests.
    #[must_use]
    pub fn audit_policy(&self) -> PathBuf {
        self.dir.join("audit-policy.json")
    }

    /// What it recorded: who asked for what, and whether that was allowed. One JSON object a line.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.log("audit")
    }

    /// The name of the lab's branch of the cgroups: each lab of this machine has its own.
    #[must_use]
    pub fn cgroup(&self) -> String {
        let digest = Sha256::digest(self.dir.as_os_str().as_encoded_bytes());
        format!("ferrolb-lab-{}", hex(&digest[..4]))
    }

    /// What a host keeps on disk.
    #[must_use]
    pub fn disk(&self, host: &str) -> PathBuf {
        self.dir.join("hosts").join(host)
    }
}

fn home() -> PathBuf {
    env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from)
}

fn default_dir() -> PathBuf {
    env::var_os("XDG_STATE_HOME").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from).join("ferrolb-lab")
}

fn default_bin() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(|| home().join(".cache"), PathBuf::from);
    cache.join("ferrolb").join(tools_key()).join("bin")
}

/// The first 16 hexadecimal digits of the hash of the inputs: `cat … | sha256sum | cut -c1-16`.
#[must_use]
pub fn tools_key() -> String {
    let mut hash = Sha256::new();
    for input in TOOL_INPUTS {
        hash.update(input);
    }
    hex(&hash.finalize()[..8])
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `path` seen from a working directory, for arguments that users write relative to where they are.
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_hosts_hide_are_refused() {
        for dir in ["/run/lab", "/var/lib/lab", "/etc", "relative/lab"] {
            assert!(Layout::new(Some(dir.into()), None).check().is_err(), "{dir}");
        }
        for dir in ["/var/tmp/lab", "/var/library/lab", "/home/me/lab"] {
            assert!(Layout::new(Some(dir.into()), None).check().is_ok(), "{dir}");
        }
    }

    #[test]
    fn each_lab_has_a_branch_of_its_own() {
        let cgroup = |dir: &str| Layout::new(Some(dir.into()), None).cgroup();
        assert_ne!(cgroup("/var/tmp/a"), cgroup("/var/tmp/b"));
        assert_eq!(cgroup("/var/tmp/a"), cgroup("/var/tmp/a"));
    }

    #[test]
    fn the_key_is_a_short_hash() {
        assert_eq!(tools_key().len(), 16);
        assert!(tools_key().chars().all(|c| c.is_ascii_hexdigit()));
    }
}
