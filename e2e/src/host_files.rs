//! The files of a host: its own `/run`, `/etc`, `/var/lib` and `/var/log`.
//!
//! Everything a daemon writes to its usual place stays in the host: on a memory disk that is gone
//! with the host, or, for what is large, in the lab's folder. The machine's own files show through
//! where the host has none, so installed programs work as they are.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::unistd::sethostname;

use crate::cgroups;
use crate::error::{Attempt, Result};
use crate::layout::Layout;
use crate::topology::{HOSTS, HostSpec, LAN, Role, host};

/// Cuts the mounts of the calling process off from this machine's.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn detach_mounts() -> Result<()> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .attempt(|| "detach the mounts".to_owned())
}

/// Gives the calling process, the first one of host `name`, its files and its name.
///
/// # Errors
/// The kernel refuses a mount, or a folder cannot be made.
pub(crate) fn furnish(name: &str, dir: &Path) -> Result<()> {
    sethostname(name).attempt(|| format!("name the host {name}"))?;
    place("proc", "/proc", "")?;
    place("tmpfs", "/run", "mode=0755,size=512m")?;
    for folder in ["/run/lock", "/run/netns"] {
        make(folder)?;
    }
    cover("/etc")?;
    cover("/var/lib")?;
    let disk = dir.join("hosts").join(name);
    bind(&disk.join("log"), "/var/log")?;
    for folder in disk_folders(name) {
        let short = folder.rsplit('/').next().unwrap_or(folder);
        bind(&disk.join(short), folder)?;
    }
    if host(name).is_some_and(|spec| spec.role == Role::Router) {
        // FRR's logs of crashes. The lab's own folder may be in there: what has to be written to it is
        // mounted already.
        cover("/var/tmp")?;
    }
    write_etc(name)?;
    if host(name).is_some_and(HostSpec::is_node) {
        cgroups::confine(&Layout::new(Some(dir.to_owned()), None).cgroup(), name)?;
    }
    // Volumes of pods may propagate within the host.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SHARED, None::<&str>)
        .attempt(|| "share the mounts".to_owned())
}

/// What is too large for a memory disk, or must not be an overlay because images are unpacked there.
fn disk_folders(name: &str) -> &'static [&'static str] {
    match host(name).map(|spec| spec.role) {
        Some(Role::ControlPlane) => &["/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd"],
        Some(Role::Worker) => &["/var/lib/containerd", "/var/lib/kubelet"],
        Some(Role::Registry) => &["/var/lib/docker-registry"],
        Some(Role::Router | Role::Client) | None => &[],
    }
}

fn make(folder: impl AsRef<Path>) -> Result<()> {
    let folder = folder.as_ref();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)
        .attempt(|| format!("make {}", folder.display()))
}

fn place(kind: &str, target: &str, options: &str) -> Result<()> {
    mount(Some(kind), target, Some(kind), MsFlags::empty(), Some(options))
        .attempt(|| format!("mount a {kind} on {target}"))
}

fn bind(source: &Path, target: &str) -> Result<()> {
    make(source)?;
    make(target)?;
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .attempt(|| format!("mount {} on {target}", source.display()))
}

/// Lets the host write over a folder of the machine without touching it.
fn cover(target: &str) -> Result<()> {
    let layers = Path::new("/run/.layers").join(target.trim_start_matches('/').replace('/', "-"));
    let (upper, work) = (layers.join("upper"), layers.join("work"));
    make(&upper)?;
    make(&work)?;
    let options = format!("lowerdir={target},upperdir={},workdir={}", upper.display(), work.display());
    place("overlay", target, &options)
}

fn write_etc(name: &str) -> Result<()> {
    let write = |path: &str, text: String| {
        // It may be a symbolic link that leads out of the host's own files.
        let _ = fs::remove_file(path);
        fs::write(path, text).attempt(|| format!("write {path}"))
    };
    write("/etc/hostname", format!("{name}\n"))?;
    write("/etc/hosts", hosts_file())?;
    write("/etc/resolv.conf", "# The lab has no DNS and no way out.\n".to_owned())?;
    let number = HOSTS.iter().position(|host| host.name == name).map_or(0, |place| place + 1);
    write("/etc/machine-id", format!("{:032x}\n", 0xfe44_01b0_0000_0000_u64 + number as u64))?;
    if name == LAN { Ok(()) } else { make("/etc/kubernetes") }
}

/// Every host of the lab by name.
fn hosts_file() -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    for host in HOSTS {
        text.push_str(&format!("{} {}\n{} {}\n", host.ipv4(), host.name, host.ipv6(), host.name));
    }
    text
}
