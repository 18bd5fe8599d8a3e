//! A branch of the machine's cgroups for each node.
//!
//! A node sees its branch in the place of the root, so the containers of its pods are inside it and
//! the branch can be removed with the lab. Both versions of cgroups, and machines with both, are
//! served: one hierarchy after the other.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::error::{Attempt, Result};

/// Makes the branch of a node the root that the calling process, and what it starts, sees.
///
/// What is mounted over the machine's hierarchies would still be found below them in the list of mounts,
/// where runc looks first: so the branches take the place of the hierarchies.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn confine(lab: &str, node: &str) -> Result<()> {
    let new = Path::new("/run/.cgroup");
    fs::create_dir_all(new).attempt(|| format!("make {}", new.display()))?;
    let roots = roots();
    if !roots.iter().any(|root| root == Path::new(MOUNT)) {
        place(Some(Path::new("tmpfs")), new, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))?;
        copy_links(Path::new(MOUNT), new).attempt(|| format!("fill {}", new.display()))?;
    }
    for root in &roots {
        let branch = root.join(lab).join(node);
        grow(root, &[lab, node]).attempt(|| format!("make {}", branch.display()))?;
        let Ok(name) = root.strip_prefix(MOUNT) else { continue };
        let target = new.join(name);
        fs::create_dir_all(&target).attempt(|| format!("make {}", target.display()))?;
        place(Some(&branch), &target, None, MsFlags::MS_BIND, None)?;
    }
    umount2(MOUNT, MntFlags::MNT_DETACH).attempt(|| format!("let go of {MOUNT}"))?;
    place(Some(new), Path::new(MOUNT), None, MsFlags::MS_MOVE, None)
}

/// Where all hierarchies are; with version 2 alone it is one itself.
const MOUNT: &str = "/sys/fs/cgroup";

fn place(
    source: Option<&Path>,
    target: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    options: Option<&str>,
) -> Result<()> {
    let what = || format!("mount {} on {}", source.unwrap_or(target).display(), target.display());
    mount(source, target, kind, flags, options).attempt(what)
}

/// A hierarchy may have further names, such as `cpu` for `cpu,cpuacct`.
fn copy_links(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if let (Ok(target), Some(name)) = (fs::read_link(&path), path.file_name()) {
            symlink(target, to.join(name))?;
        }
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
pub(crate) fn remove(lab: &str, patience: Duration) -> Result<bool> {
    let mut found = false;
    for root in roots() {
        let branch = root.join(lab);
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
