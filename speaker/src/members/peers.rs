//! Who is to be greeted: the other speakers' pods.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

/// The other speakers, as the API server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// All that may be reached.
    pub(crate) known: BTreeSet<SocketAddr>,
    /// Those that are said to run.
    pub(crate) running: BTreeSet<SocketAddr>,
}

/// The other speakers among the pods: those with an address of the family that this one listens on.
pub(crate) fn peers(pods: &[Arc<Pod>], own_pod: &str, own: SocketAddr) -> Peers {
    let mut peers = Peers::default();
    for pod in pods.iter().filter(|pod| pod.metadata.name.as_deref() != Some(own_pod)) {
        let Some(status) = &pod.status else { continue };
        let addresses =
            status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).chain(status.pod_ip.as_deref());
        let address = addresses
            .filter_map(|text| text.parse::<IpAddr>().ok())
            .find(|ip| ip.is_ipv4() == own.is_ipv4() && *ip != own.ip());
        let Some(address) = address.map(|ip| SocketAddr::new(ip, own.port())) else { continue };
        match status.phase.as_deref() {
            Some("Succeeded" | "Failed") => {}
            Some("Running") => {
                peers.known.insert(address);
                peers.running.insert(address);
            }
            _ => {
                peers.known.insert(address);
            }
        }
    }
    peers
}
