//! Starting the lab: namespaces, LAN, control plane, nodes, router, registry.
//!
//! Hosts are worked on side by side, a thread each. If anything fails, or the user interrupts, the
//! lab's first process ends and the kernel takes down everything that had been started.

use std::collections::BTreeMap;
use std::fs;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cluster::node::{AGNHOST_IMAGE, CONTAINERD_SOCKET, PAUSE_IMAGE};
use crate::cluster::others::{FRR_CONFIG, REGISTRY_CONFIG};
use crate::cluster::{control_plane, node, others};
use crate::error::{Attempt, LabError, Result};
use crate::host::{Host, kubectl, log_tail, succeeded};
use crate::image::{self, ImageFile, ImageName};
use crate::keeper::Lifeline;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::progress::{Progress, Seen};
use crate::state::{Daemon, Phase, State};
use crate::topology::{self, HOSTS, LAN, Role, nodes, with_role};
use crate::{down, network, pki, preflight};

/// How long any single thing may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts the lab, or says that it is up already.
///
/// # Errors
/// Something is missing or in the way, or a part of the cluster does not come up: then nothing is
/// left of it.
pub(crate) fn up(layout: &Layout, progress: &Progress) -> Result<State> {
    preflight::root()?;
    preflight::ready(layout)?;
    let lock = Lock::take(&layout.lock(), "hack/lab up")?;
    if let Some(state) =
        State::read(layout).ok().flatten().filter(|state| state.phase == Phase::Up && state.is_alive())
        && api_answers(layout)
    {
        return Ok(state);
    }
    let lock = clean_leftovers(layout, lock, progress)?;
    let result = preflight::addresses_free().and_then(|()| start(layout, progress));
    if result.is_err() {
        down::clean(layout, &lock)?;
    }
    result
}

/// Cleaning removes the lock with the folder, so a new one is taken.
fn clean_leftovers(layout: &Layout, lock: Lock, progress: &Progress) -> Result<Lock> {
    if down::clean(layout, &lock)? {
        progress.say("removed what an earlier lab had left");
    }
    drop(lock);
    Lock::take(&layout.lock(), "hack/lab up")
}

fn start(layout: &Layout, progress: &Progress) -> Result<State> {
    for folder in [layout.dir.join("log"), layout.dir.join("hosts")] {
        fs::create_dir_all(&folder).attempt(|| format!("make {}", folder.display()))?;
    }
    let lifeline = Lifeline::start(&layout.dir)?;
    let mut state = State { phase: Phase::Starting, hosts: lifeline.hosts.clone(), daemons: BTreeMap::new() };
    state.write(layout)?;
    let daemons = Daemons::default();
    if let Err(error) = build(layout, progress, &state, &daemons) {
        if let Some(lan) = state.hosts.get(LAN) {
            lan.signal(Signal::SIGKILL);
            // They are children of this process, and the kernel waits until it has noticed their end.
            for (_, child) in lock(&daemons).values_mut() {
                let _ = child.wait();
            }
            down::end(lan)?;
        }
        return Err(error);
    }
    state.daemons = lock(&daemons).iter().map(|(name, (daemon, _))| (name.clone(), daemon.clone())).collect();
    lifeline.stay()?;
    state.phase = Phase::Up;
    state.write(layout)?;
    Ok(state)
}

/// The daemons that `up` has started, by name.
type Daemons = Mutex<BTreeMap<String, (Daemon, Child)>>;

fn lock(daemons: &Daemons) -> MutexGuard<'_, BTreeMap<String, (Daemon, Child)>> {
    daemons.lock().unwrap_or_else(PoisonError::into_inner)
}

fn build(layout: &Layout, progress: &Progress, state: &State, daemons: &Daemons) -> Result<()> {
    progress.say("hosts: network namespaces, bridge, cables, addresses");
    network::build(&state.hosts, &layout.dir)?;
    pki::Pki::create(layout)?;
    let policy = layout.audit_policy();
    fs::write(&policy, control_plane::audit_policy().to_string())
        .attempt(|| format!("write {}", policy.display()))?;
    base_images(layout)?;
    progress.check()?;
    progress.say("control plane, nodes, router and registry start");
    let works = Works {
        layout,
        progress,
        state,
        daemons,
        failed: AtomicBool::new(false),
        api: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let mut workers = vec![scope.spawn(|| works.attempt(|| works.control_plane()))];
        let works = &works;
        workers.extend(nodes().map(|spec| scope.spawn(move || works.attempt(|| works.node(spec)))));
        workers.push(scope.spawn(|| works.attempt(|| works.others())));
        let join = |worker: thread::ScopedJoinHandle<'_, Result<()>>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let results: Vec<Result<()>> = workers.into_iter().map(join).collect();
        // Those that were called off have nothing to say about the reason.
        let (called_off, reasons): (Vec<_>, Vec<_>) = results
            .into_iter()
            .filter_map(Result::err)
            .partition(|error| matches!(error, LabError::Interrupted));
        reasons.into_iter().chain(called_off).next().map_or(Ok(()), Err)
    })?;
    works.ready()
}

/// The images that nodes have from the start, written once for each build of the tools.
fn base_images(layout: &Layout) -> Result<()> {
    let archive = layout.base_images();
    if archive.exists() {
        return Ok(());
    }
    let files = [ImageFile { source: layout.tool("agnhost"), target: "agnhost".to_owned() }];
    let name = |reference: &str, entrypoint: &[&str]| ImageName {
        entrypoint: entrypoint.iter().map(ToString::to_string).collect(),
        ..ImageName::new(reference)
    };
    image::write(
        &archive,
        &files,
        &[name(AGNHOST_IMAGE, &["/agnhost"]), name(PAUSE_IMAGE, &["/agnhost", "pause"])],
    )
}

/// Whether the API server says it is ready.
pub(crate) fn api_answers(layout: &Layout) -> bool {
    let output = kubectl(layout).args(["get", "--raw", "/readyz", "--request-timeout=5s"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// What the threads of one `up` share.
struct Works<'a> {
    layout: &'a Layout,
    progress: &'a Progress,
    state: &'a State,
    daemons: &'a Daemons,
    failed: AtomicBool,
    api: AtomicBool,
}

impl Works<'_> {
    /// Calls the others off when one fails.
    fn attempt(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        work().inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }

    fn host(&self, spec: &'static topology::HostSpec) -> Result<Host> {
        host(self.layout, self.state, spec)
    }

    fn daemon(&self, host: &Host, command: &[String]) -> Result<()> {
        let (name, daemon, child) = host.daemon(command)?;
        lock(self.daemons).insert(name, (daemon, child));
        Ok(())
    }

    /// Waits, and ends at once when a daemon does, or another thread fails.
    fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Result<Seen<T>>) -> Result<T> {
        self.progress.wait(what, PATIENCE, || {
            if self.failed.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            for (name, (_, child)) in lock(self.daemons).iter_mut() {
                if let Some(status) = child.try_wait().attempt(|| format!("look after {name}"))? {
                    return Err(LabError::DaemonEnded {
                        name: name.clone(),
                        status: status.to_string(),
                        waited_for: what.to_owned(),
                        tail: log_tail(&self.layout.log(name), 20),
                    });
                }
            }
            look()
        })
    }

    fn control_plane(&self) -> Result<()> {
        let host = self.host(with_role(Role::ControlPlane))?;
        self.daemon(&host, &control_plane::etcd(self.layout))?;
        self.daemon(&host, &control_plane::api_server(self.layout))?;
        self.wait("the API server", || Ok(Seen::when(api_answers(self.layout))))?;
        self.api.store(true, Ordering::Relaxed);
        self.progress.say("the API server answers");
        self.daemon(&host, &control_plane::controller_manager(self.layout))?;
        self.daemon(&host, &control_plane::scheduler(self.layout))
    }

    fn node(&self, spec: &'static topology::HostSpec) -> Result<()> {
        let host = self.host(spec)?;
        for (path, text) in node::files(self.layout, spec) {
            host.write(path, &text)?;
        }
        self.daemon(&host, &node::containerd())?;
        let socket =
            || host.inside(|| Ok(std::os::unix::net::UnixStream::connect(CONTAINERD_SOCKET).is_ok()));
        self.wait(&format!("containerd on {}", spec.name), || socket().map(Seen::when))?;
        let archive = self.layout.base_images().display().to_string();
        host.run(&["ctr", "-n", "k8s.io", "images", "import", "--digests", &archive])?;
        self.wait("the API server", || Ok(Seen::when(self.api.load(Ordering::Relaxed))))?;
        self.daemon(&host, &node::kubelet(self.layout, spec))?;
        self.daemon(&host, &node::proxy(self.layout))
    }

    fn others(&self) -> Result<()> {
        let registry = self.host(with_role(Role::Registry))?;
        registry.write(REGISTRY_CONFIG, &others::registry_config())?;
        self.daemon(&registry, &others::registry())?;
        let router = self.host(with_role(Role::Router))?;
        router.write(FRR_CONFIG, &others::frr_config())?;
        router.write("/etc/frr/vtysh.conf", "no service integrated-vtysh-config\n")?;
        router.run(&["install", "-d", "-o", "frr", "-g", "frr", "/run/frr"])?;
        router.run(&["chown", "frr:frr", FRR_CONFIG])?;
        for command in others::frr_daemons() {
            self.daemon(&router, &command)?;
        }
        Ok(())
    }

    /// Waits until pods can be started on every node.
    fn ready(&self) -> Result<()> {
        let expected = nodes().count();
        self.wait("all nodes to be Ready", || {
            let ready = ready_nodes(self.layout)?;
            Ok(if ready.len() == expected {
                Seen::Yes(())
            } else {
                Seen::NotYet(format!("Ready: {ready:?}"))
            })
        })?;
        let labels = [
            "node-role.kubernetes.io/control-plane=",
            "node.kubernetes.io/exclude-from-external-load-balancers=",
        ];
        let node = with_role(Role::ControlPlane).name;
        self.kubectl(&[&["label", "node", node, "--overwrite"], &labels[..]].concat())?;
        self.wait("the default service account", || {
            Ok(Seen::when(self.kubectl(&["get", "serviceaccount", "default"]).is_ok()))
        })
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = kubectl(self.layout).args(arguments).output().attempt(|| "run kubectl".to_owned())?;
        succeeded(&format!("kubectl {}", arguments.join(" ")), output)
    }
}

/// The handle of a host that runs.
pub(crate) fn host(layout: &Layout, state: &State, spec: &'static topology::HostSpec) -> Result<Host> {
    let init = state.hosts.get(spec.name).ok_or_else(|| LabError::NotUp { dir: layout.dir.clone() })?;
    Ok(Host { spec, init: *init, layout: layout.clone() })
}

/// The names of the nodes that are Ready; none if nobody answers.
pub(crate) fn ready_nodes(layout: &Layout) -> Result<Vec<String>> {
    let output = kubectl(layout)
        .args(["get", "nodes", "-o", "json", "--request-timeout=5s"])
        .output()
        .attempt(|| "run kubectl".to_owned())?;
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let is_ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
    };
    let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(list["items"]
        .as_array()
        .map(|nodes| nodes.iter().filter(is_ready).map(name).collect())
        .unwrap_or_default())
}

/// The names of all hosts, for messages.
pub(crate) fn host_names() -> Vec<String> {
    HOSTS.iter().map(|host| host.name.to_owned()).collect()
}
