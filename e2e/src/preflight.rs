//! What must hold before the lab touches anything, each with its own message.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use ipnet::IpNet;
use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;
use serde_json::Value;

use crate::error::{Attempt, LabError, Result};
use crate::host::succeeded;
use crate::layout::Layout;
use crate::network::parse_alias;
use crate::topology::{LAN_V4, LAN_V6, MACHINE_NIC};

/// What a lab with a few images takes.
const NEEDED_MIB: u64 = 2048;

/// Programs, and files of packages that are not on the search path.
const PROGRAMS: [&str; 14] = [
    "ip",
    "nft",
    "setsid",
    "mount",
    "umount",
    "containerd",
    "containerd-shim-runc-v2",
    "runc",
    "ctr",
    "docker-registry",
    "skopeo",
    "curl",
    "/usr/lib/frr/bgpd",
    "/usr/lib/cni/bridge",
];

/// Whether the user may do what the lab does.
///
/// # Errors
/// [`LabError::NotRoot`].
pub(crate) fn root() -> Result<()> {
    if geteuid().is_root() { Ok(()) } else { Err(LabError::NotRoot { uid: geteuid().as_raw() }) }
}

/// Whether all programs are there, and the disk has room.
///
/// # Errors
/// Something is missing.
pub(crate) fn ready(layout: &Layout) -> Result<()> {
    layout.check()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let folders: Vec<&Path> =
        path.split(':').map(Path::new).chain(["/usr/sbin", "/usr/bin"].map(Path::new)).collect();
    let found = |name: &&str| folders.iter().any(|folder| folder.join(name).is_file());
    let names: Vec<String> = PROGRAMS.iter().filter(|name| !found(name)).map(ToString::to_string).collect();
    if !names.is_empty() {
        return Err(LabError::MissingPrograms { names });
    }
    if !["kubectl", "agnhost"].iter().all(|tool| layout.tool(tool).exists()) {
        return Err(LabError::ToolsNotBuilt { bin: layout.bin.clone() });
    }
    let existing = layout.dir.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let disk = statvfs(existing).attempt(|| format!("ask for the free space of {}", existing.display()))?;
    let free_mib = disk.blocks_available() * disk.fragment_size() / 1024 / 1024;
    if free_mib < NEEDED_MIB {
        return Err(LabError::NoSpace { dir: existing.to_owned(), free_mib, needed_mib: NEEDED_MIB });
    }
    Ok(())
}

/// Whether the addresses of the lab are free on this machine. Comes after the removal of leftovers.
///
/// # Errors
/// [`LabError::InUse`].
pub(crate) fn addresses_free() -> Result<()> {
    if let Some(alias) = machine_nic()? {
        let remedy = match parse_alias(&alias) {
            Some((_, dir)) => {
                format!(
                    "Another lab is up in {}: use that one, or end it with `FERROLB_LAB={0} hack/lab down`",
                    dir.display()
                )
            }
            None => "It is not the lab's: rename or remove it first".to_owned(),
        };
        let what = format!("this machine already has an interface named {MACHINE_NIC}");
        return Err(LabError::InUse { what, remedy: format!("{remedy}.") });
    }
    for (family, network) in [("-4", LAN_V4), ("-6", LAN_V6)] {
        let routes = ip_json(&[family, "route", "show", "table", "all"])?;
        if let Some(route) = overlapping(&routes, network) {
            return Err(LabError::InUse {
                what: format!("this machine already has a route to {route}, and the lab uses {network}"),
                remedy: "Take that network or VPN down while the lab is up.".to_owned(),
            });
        }
    }
    Ok(())
}

/// The alias of this machine's leg, if there is such an interface; empty if it carries none.
pub(crate) fn machine_nic() -> Result<Option<String>> {
    let links = ip_json(&["link", "show"])?;
    let named = |link: &&Value| link["ifname"] == MACHINE_NIC;
    let alias = |link: &Value| link["ifalias"].as_str().unwrap_or_default().to_owned();
    Ok(links.as_array().and_then(|links| links.iter().find(named)).map(alias))
}

/// The first route that leads to a part of `network` or to a network around it; the default route
/// and multicast do not count.
fn overlapping(routes: &Value, network: &str) -> Option<String> {
    let network: IpNet = network.parse().ok()?;
    let destination = |route: &Value| {
        let text = route["dst"].as_str()?;
        let parsed: IpNet = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()?;
        let overlap = parsed.contains(&network) || network.contains(&parsed);
        (overlap && parsed.prefix_len() > 0).then(|| text.to_owned())
    };
    routes.as_array()?.iter().find_map(destination)
}

fn ip_json(arguments: &[&str]) -> Result<Value> {
    let output = Command::new("ip").arg("-json").args(arguments).output().attempt(|| "run ip".to_owned())?;
    let text = succeeded(&format!("ip -json {}", arguments.join(" ")), output)?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text)
        .map_err(|source| LabError::Format { what: "the answer of ip".to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_routes_into_the_lan_are_in_the_way() {
        let free = json!([{"dst": "default"}, {"dst": "192.168.11.0/24"}, {"dst": "10.0.0.1"}, {"dst": "0.0.0.0/0"}]);
        assert_eq!(overlapping(&free, LAN_V4), None);
        for taken in ["192.168.10.7", "192.168.10.128/25", "192.168.10.0/24", "192.168.0.0/16"] {
            assert_eq!(overlapping(&json!([{ "dst": taken }]), LAN_V4).as_deref(), Some(taken));
        }
        assert_eq!(overlapping(&json!([{"dst": "fe80::/64"}, {"dst": "ff00::/8"}]), LAN_V6), None);
        assert_eq!(overlapping(&json!([{"dst": "fd00::/8"}]), LAN_V6).as_deref(), Some("fd00::/8"));
    }
}
