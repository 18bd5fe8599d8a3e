//! The LAN: a bridge, a cable from each host, addresses and routes.
//!
//! Decided here (pure): the lines given to `ip -batch`. Then a few functions run them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Attempt, LabError, Result};
use crate::namespaces::{Depth, inside};
use crate::process::Process;
use crate::topology::{
    BRIDGE, HOSTS, HostSpec, LAN, MACHINE_NIC, MACHINE_OCTET, MACHINE_PORT, Role, lan_v4, lan_v6, mac,
    mac_text, nodes, with_role,
};

/// Lines for the LAN's namespace: the bridge, and a cable to each host.
fn lan_batch(hosts: &BTreeMap<String, Process>) -> String {
    let mut lines = format!(
        "link add {BRIDGE} type bridge mcast_snooping 0 forward_delay 0\nlink set {BRIDGE} up\nlink set lo up\n"
    );
    for spec in HOSTS {
        let Some(init) = hosts.get(spec.name) else { continue };
        let (port, nic, mac, pid) = (spec.name, spec.nic(), mac_text(spec.mac()), init.pid);
        let _ = writeln!(lines, "link add {port} type veth peer name {nic} address {mac} netns {pid}");
        let _ = writeln!(lines, "link set {port} master {BRIDGE} up");
    }
    lines
}

/// Lines for a host's own namespace.
fn host_batch(spec: &HostSpec) -> String {
    let nic = spec.nic();
    let mut lines = format!("link set lo up\nlink set {nic} up\n");
    let _ = writeln!(lines, "addr add {}/24 dev {nic}", spec.ipv4());
    let _ = writeln!(lines, "addr add {}/64 dev {nic} nodad", spec.ipv6());
    if spec.role != Role::Router {
        let router = with_role(Role::Router);
        let _ = writeln!(lines, "route add default via {}", router.ipv4());
        let _ = writeln!(lines, "route add default via {}", router.ipv6());
    }
    if spec.forwards() {
        // Stands for a routing CNI.
        for node in nodes().filter(|node| node.name != spec.name) {
            for (network, gateway) in
                node.pod_networks().iter().zip([node.ipv4().to_string(), node.ipv6().to_string()])
            {
                let _ = writeln!(lines, "route add {network} via {gateway}");
            }
        }
    }
    lines
}

/// Lines for this machine: its own leg. The alias tells a later command whose it is.
fn machine_batch(lan: &Process, dir: &Path) -> String {
    let (v4, v6, mac) = (lan_v4(MACHINE_OCTET), lan_v6(MACHINE_OCTET), mac_text(mac(MACHINE_OCTET)));
    let alias = alias(lan, dir);
    format!(
        "link add {MACHINE_NIC} address {mac} type veth peer name {MACHINE_PORT} netns {}\n\
         link set {MACHINE_NIC} alias {alias}\naddr add {v4}/24 dev {MACHINE_NIC}\n\
         addr add {v6}/64 dev {MACHINE_NIC} nodad\nlink set {MACHINE_NIC} up\n",
        lan.pid
    )
}

/// What the machine's leg carries as its alias.
pub(crate) fn alias(lan: &Process, dir: &Path) -> String {
    format!("ferrolb-lab:{}:{}:{}", lan.pid, lan.started, dir.display())
}

/// The lab that an alias names.
pub(crate) fn parse_alias(alias: &str) -> Option<(Process, &Path)> {
    let mut parts = alias.strip_prefix("ferrolb-lab:")?.splitn(3, ':');
    let process = Process { pid: parts.next()?.parse().ok()?, started: parts.next()?.parse().ok()? };
    Some((process, Path::new(parts.next()?)))
}

/// Builds the LAN.
///
/// # Errors
/// `ip` refuses a line.
pub(crate) fn build(hosts: &BTreeMap<String, Process>, dir: &Path) -> Result<()> {
    let Some(lan) = hosts.get(LAN) else { return Err(LabError::NotUp { dir: dir.to_owned() }) };
    inside(lan, Depth::Network, || batch(&lan_batch(hosts)))?;
    batch(&machine_batch(lan, dir))?;
    inside(lan, Depth::Network, || batch(&format!("link set {MACHINE_PORT} master {BRIDGE} up\n")))?;
    for spec in HOSTS {
        let Some(init) = hosts.get(spec.name) else { continue };
        inside(init, Depth::Network, || {
            kernel_settings(&spec)?;
            batch(&host_batch(&spec))
        })?;
    }
    Ok(())
}

/// Of the calling thread's network.
fn kernel_settings(spec: &HostSpec) -> Result<()> {
    let mut settings = vec![("ipv6/conf/default/accept_dad", "0"), ("ipv6/conf/all/accept_dad", "0")];
    if spec.forwards() {
        settings.extend([("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
    }
    for (name, value) in settings {
        let path = format!("/proc/sys/net/{name}");
        fs::write(&path, value).attempt(|| format!("write {path} of {}", spec.name))?;
    }
    Ok(())
}

/// Runs `ip -batch` in the network of the calling thread.
pub(crate) fn batch(lines: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .attempt(|| "run ip".to_owned())?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(lines.as_bytes()).attempt(|| "tell ip what to do".to_owned())?;
    }
    let output = child.wait_with_output().attempt(|| "wait for ip".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    let said = format!("{}\nThe lines were:\n{lines}", String::from_utf8_lossy(&output.stderr).trim_end());
    Err(LabError::Command {
        command: "ip -batch -".to_owned(),
        status: output.status.to_string(),
        output: said,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::host;

    #[test]
    fn a_node_has_its_addresses_and_the_way_to_the_other_pods() {
        let lines = host_batch(host("k8s-node-1").unwrap());
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            [
                "link set lo up",
                "link set ens18 up",
                "addr add 192.168.10.20/24 dev ens18",
                "addr add fd00:10::20/64 dev ens18 nodad",
                "route add default via 192.168.10.1",
                "route add default via fd00:10::1",
                "route add 10.244.1.0/24 via 192.168.10.17",
                "route add fd00:244:0:1::/64 via fd00:10::17",
                "route add 10.244.3.0/24 via 192.168.10.21",
                "route add fd00:244:0:3::/64 via fd00:10::21",
            ]
        );
    }

    #[test]
    fn an_alias_is_read_back() {
        let lan = Process { pid: 12, started: 345 };
        let text = alias(&lan, Path::new("/var/tmp/a:b"));
        assert_eq!(parse_alias(&text), Some((lan, Path::new("/var/tmp/a:b"))));
        assert_eq!(parse_alias("somebody else's"), None);
    }
}
