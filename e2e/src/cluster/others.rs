//! The router and the registry.

use std::fmt::Write as _;

use super::command_line;
use crate::topology::{NODE_AS, REGISTRY_PORT, ROUTER_AS, Role, nodes, with_role};

/// FRR's configuration, read by each of its daemons.
pub(crate) const FRR_CONFIG: &str = "/etc/frr/frr.conf";
/// The registry's configuration.
pub(crate) const REGISTRY_CONFIG: &str = "/etc/docker/registry/lab.yml";

/// The router takes a BGP session from every node.
pub(crate) fn frr_config() -> String {
    let router = with_role(Role::Router);
    let mut text = format!(
        "hostname {}\nrouter bgp {ROUTER_AS}\n bgp router-id {}\n no bgp ebgp-requires-policy\n \
         no bgp default ipv4-unicast\n neighbor nodes peer-group\n neighbor nodes remote-as {NODE_AS}\n",
        router.name,
        router.ipv4()
    );
    for node in nodes() {
        let _ = writeln!(text, " neighbor {} peer-group nodes", node.ipv4());
    }
    for family in ["ipv4", "ipv6"] {
        let _ = writeln!(text, " address-family {family} unicast\n  neighbor nodes activate");
        let _ = writeln!(text, "  maximum-paths 8\n exit-address-family");
    }
    text
}

/// FRR's daemons, in the order in which they start.
pub(crate) fn frr_daemons() -> Vec<Vec<String>> {
    ["zebra", "bgpd", "bfdd"]
        .map(|daemon| command_line(format!("/usr/lib/frr/{daemon}"), &["-f", FRR_CONFIG]))
        .to_vec()
}

/// A real registry, so that nodes pull images as they do at a user's, by tag or by digest.
pub(crate) fn registry_config() -> String {
    format!(
        "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: /var/lib/docker-registry}}}}\n\
         http: {{addr: \":{REGISTRY_PORT}\"}}\n"
    )
}

/// The registry.
pub(crate) fn registry() -> Vec<String> {
    command_line("docker-registry", &["serve", REGISTRY_CONFIG])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_peers_with_every_node() {
        let config = frr_config();
        assert!(config.starts_with("hostname router\nrouter bgp 64513\n bgp router-id 192.168.10.1\n"));
        for node in ["192.168.10.17", "192.168.10.20", "192.168.10.21"] {
            assert!(config.contains(&format!("\n neighbor {node} peer-group nodes\n")), "{config}");
        }
        assert!(config.ends_with(" address-family ipv6 unicast\n  neighbor nodes activate\n  maximum-paths 8\n exit-address-family\n"));
    }
}
