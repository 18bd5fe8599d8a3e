//! What `up`, `status` and `logs` print.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use crate::error::{Attempt, Result};
use crate::lab::Lab;
use crate::layout::Layout;
use crate::progress::Progress;
use crate::state::Phase;
use crate::topology::{HOSTS, mac_text};

/// Starts the lab and says how to use it.
///
/// # Errors
/// It does not start.
pub(crate) fn introduce(layout: &Layout) -> Result<()> {
    let progress = Progress::new().catch_signals()?;
    let lab = Lab::up(layout, &progress)?;
    progress.say(format!("the lab is up: {} nodes Ready", lab.ready_nodes()?.len()));
    println!("export KUBECONFIG={}", layout.kubeconfig().display());
    eprintln!(
        "Look around: hack/lab status · hack/lab kubectl get nodes -o wide · hack/lab exec client ping -c1 192.168.10.20\n\
         The product: hack/lab install · Remove all of it: hack/lab down"
    );
    Ok(())
}

/// Hosts with their addresses, daemons that do not run, nodes as Kubernetes sees them.
///
/// # Errors
/// No lab is up.
pub(crate) fn print(layout: &Layout) -> Result<()> {
    let lab = Lab::open(layout)?;
    let how = if lab.state.phase == Phase::Up { "up" } else { "starting" };
    println!("The lab in {} is {how}.\n", layout.dir.display());
    println!("{:14}{:16}{:16}{:8}{:20}DAEMONS", "HOST", "IPV4", "IPV6", "NIC", "MAC");
    for host in HOSTS {
        let daemons: Vec<String> = lab
            .state
            .daemons
            .iter()
            .filter(|(_, daemon)| daemon.host == host.name)
            .map(|(name, daemon)| {
                let name = name.trim_start_matches(host.name).trim_start_matches('-');
                if daemon.process.is_alive() { name.to_owned() } else { format!("{name} (ended)") }
            })
            .collect();
        let (v4, v6) = (host.ipv4().to_string(), host.ipv6().to_string());
        println!(
            "{:14}{v4:16}{v6:16}{:8}{:20}{}",
            host.name,
            host.nic(),
            mac_text(host.mac()),
            daemons.join(" ")
        );
    }
    println!();
    match lab.kubectl(&["get", "nodes", "-o", "wide", "--request-timeout=5s"]) {
        Ok(nodes) => print!("{nodes}"),
        Err(error) => println!("The API server does not answer: {error}"),
    }
    Ok(())
}

/// Copies the log of a daemon to standard output; without a name, says which there are.
///
/// # Errors
/// There is no such log.
pub(crate) fn logs(lab: &Lab, daemon: Option<&str>) -> Result<()> {
    let Some(daemon) = daemon else {
        for name in lab.state.daemons.keys() {
            println!("{name}");
        }
        return Ok(());
    };
    let path = lab.layout.log(daemon);
    let log = fs::read(&path).attempt(|| format!("read {}", path.display()))?;
    io::stdout().write_all(&log).attempt(|| "print the log".to_owned())
}

/// What a shell would say of a command that ended like this.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
