//! A branch of the machine's cgroups for each node.
//!
//! A node sees its branch in the place of the root, so the containers of its pods are inside it and
//! the branch can be removed with the lab. Both versions of cgroups, and machines with both, are
//! served: one hierarchy after the other.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};

use crate::error::{Attempt, Result};

/// The branch of the whole lab; each node has one in it.
pub(crate) const BRANCH: &str = "ferrolb-lab";

/// Makes the branch of a node the root that the calling process, and what it starts, sees.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn confine(node: &str) -> Result<()> {
    for root in roots() {
        let branch = root.join(BRANCH).join(node);
        grow(&root, &[BRANCH, node]).attempt(|| format!("make {}", branch.display()))?;
        mount(Some(&branch), &root, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .attempt(|| format!("mount {} on {}", branch.display(), root.display()))?;
    }
    Ok(())
}

/// Makes a branch and hands it what its parent has.
fn grow(root: &Path, names: &[&str]) -> io::Result<()> {
    let mut parent = root.to_owned();
    for name in names {
        // Version 2: children get the controllers that their parent passes on.
        if let Ok(controllers) = fs::read_to_string(parent.join("cgroup.controllers")) {
            for controller in controllers.split_whitespace() {
                // One that is in use elsewhere cannot be passed on; containers then run without it.
                let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
            }
        }
        let child = parent.join(name);
        fs::create_dir_all(&child)?;
        // Version 1: a new cpuset is empty, and an empty one takes no process.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if parent.join("tasks").exists() && child.join(file).exists() {
                fs::write(child.join(file), fs::read_to_string(parent.join(file))?.trim_end())?;
            }
        }
        parent = child;
    }
    Ok(())
}

/// Removes the lab's branch of every hierarchy; says whether there was one.
///
/// # Errors
/// A process is still in it after `patience`.
pub(crate) fn remove(patience: Duration) -> Result<bool> {
    let mut found = false;
    for root in roots() {
        let branch = root.join(BRANCH);
        if !branch.exists() {
            continue;
        }
        found = true;
        let begin = Instant::now();
        // The last processes may still be on their way out.
        while let Err(error) = prune(&branch) {
            if begin.elapsed() > patience {
                return Err(error).attempt(|| format!("remove {}", branch.display()));
            }
            sleep(Duration::from_millis(20));
        }
    }
    Ok(found)
}

fn prune(branch: &Path) -> io::Result<()> {
    for entry in fs::read_dir(branch)? {
        let path = entry?.path();
        if path.is_dir() {
            prune(&path)?;
        }
    }
    fs::remove_dir(branch)
}

fn roots() -> Vec<PathBuf> {
    parse_roots(&fs::read_to_string("/proc/self/mounts").unwrap_or_default())
}

/// Where cgroup hierarchies are mounted.
fn parse_roots(mounts: &str) -> Vec<PathBuf> {
    let root = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup").then(|| PathBuf::from(place))
    };
    mounts.lines().filter_map(root).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_hierarchies_are_found() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            parse_roots(mounts),
            [Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup/unified")]
        );
    }
}
