//! A lab in a network of its own, and what must not be left of it.

#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a part of one test file, whose failures are panics"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use ferrolb_e2e::layout::Layout;
use ferrolb_e2e::process::Process;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_ferrolb-lab");

/// Runs a test in a network and with mounts that nothing else on this machine has.
pub fn apart(test: impl FnOnce(&Bench) + Send) {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
                .unwrap();
            ip("link set lo up");
            let bench = Bench { folder: TempDir::with_prefix_in("ferrolb-lab-test-", "/var/tmp").unwrap() };
            test(&bench);
        });
        if let Err(panic) = worker.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

pub fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// A lab in a folder of its own.
pub struct Bench {
    pub folder: TempDir,
}

impl Bench {
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("lab")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("FERROLB_LAB", self.dir());
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// What a command that must succeed says.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?} failed: {}", text(&output));
        text(&output)
    }

    /// What a command that must fail says.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "{arguments:?} succeeded: {}", text(&output));
        text(&output)
    }

    /// An `up` that is at work: its pods' control plane is being started.
    pub fn up_half_way(&self) -> Child {
        let mut up = self.command(&["up"]).stderr(Stdio::null()).spawn().unwrap();
        until("daemons to start", || {
            assert_eq!(up.try_wait().unwrap(), None, "up ended by itself");
            fs::metadata(self.dir().join("log/k8s-master-1-kube-apiserver.log")).is_ok()
        });
        up
    }

    pub fn state(&self) -> Value {
        serde_json::from_slice(&fs::read(self.dir().join("lab.json")).unwrap()).unwrap()
    }

    /// All processes below the lab's first one, containers included: found by who started whom.
    pub fn processes(&self) -> Vec<Process> {
        let lan: Process = serde_json::from_value(self.state()["hosts"]["lan"].clone()).unwrap();
        let parent = |pid: i32| -> Option<i32> {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        };
        let pids = || -> BTreeSet<i32> {
            let names = fs::read_dir("/proc").unwrap().flatten();
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        };
        let mut found = BTreeSet::from([lan.pid]);
        loop {
            let below = |pid: &i32| parent(*pid).is_some_and(|parent| found.contains(&parent));
            let new: Vec<i32> = pids().into_iter().filter(|pid| !found.contains(pid) && below(pid)).collect();
            if new.is_empty() {
                break;
            }
            found.extend(new);
        }
        // What `up` has started is below it as long as it is at work.
        let daemons = self.state()["daemons"].as_object().unwrap().clone();
        let daemons = daemons.values().filter_map(|it| i32::try_from(it["process"]["pid"].as_i64()?).ok());
        found.extend(daemons);
        found.into_iter().filter_map(Process::with_pid).collect()
    }

    pub fn answers(&self, url: &str) -> bool {
        self.output(&["exec", "client", "curl", "-sf", "-m", "1", url]).status.success()
    }

    /// Nothing of the lab is there: no process of these, no mount, interface, cgroup or file.
    pub fn assert_nothing_left(&self, processes: &[Process]) {
        let about = |process: &Process| {
            let read = |file| fs::read_to_string(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
            (process.pid, read("cmdline").replace('\0', " "), read("stat"))
        };
        let alive: Vec<_> = processes.iter().filter(|process| process.is_alive()).map(about).collect();
        assert!(alive.is_empty(), "processes are left: {alive:?}");
        self.assert_ended();
        assert!(!self.dir().exists(), "{} is left", self.dir().display());
    }

    fn assert_ended(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let dir = self.dir().display().to_string();
        assert!(!mounts.contains(&dir), "mounts are left: {mounts}");
        let links = Command::new("ip").args(["-br", "link"]).output().unwrap();
        assert!(!text(&links).contains("flb0"), "this machine's leg is left");
        let left = lab_cgroups(&Layout::new(Some(self.dir()), None).cgroup());
        assert!(left.is_empty(), "cgroups are left: {left:?}");
    }
}

/// A test that fails leaves nothing behind either.
impl Drop for Bench {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", text(&self.output(&["status"])));
            let _ = self.output(&["down"]);
        }
    }
}

/// The branches of that name, in every hierarchy.
pub fn lab_cgroups(name: &str) -> Vec<PathBuf> {
    let children = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder)
            .map(|entries| entries.flatten().map(|it| it.path()).collect())
            .unwrap_or_default()
    };
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = children(root).into_iter().chain([root.to_owned()]);
    hierarchies.map(|hierarchy| hierarchy.join(name)).filter(|branch| branch.exists()).collect()
}

pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        sleep(Duration::from_millis(100));
    }
}

/// What is where the daemons of the lab write on a machine that is all theirs.
pub fn usual_places() -> Vec<(&'static str, BTreeSet<PathBuf>)> {
    [
        "/etc/cni/net.d",
        "/etc/frr",
        "/etc/kubernetes",
        "/run/containerd",
        "/run/frr",
        "/run/netns",
        "/var/lib/cni",
        "/var/lib/containerd",
        "/var/lib/etcd",
        "/var/lib/kubelet",
        "/var/log/containers",
        "/var/log/pods",
        "/var/tmp/frr",
        "/root/.kube",
    ]
    .map(|place| {
        let entries = fs::read_dir(place).map(|entries| entries.flatten().map(|it| it.path()).collect());
        (place, entries.unwrap_or_default())
    })
    .to_vec()
}
