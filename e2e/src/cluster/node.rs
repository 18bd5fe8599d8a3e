//! containerd, the kubelet and kube-proxy of a node, and its pod network.

use serde_json::{Value, json};

use super::command_line;
use crate::layout::Layout;
use crate::topology::{CLUSTER_DNS, HostSpec, POD_CIDRS, REGISTRY_PORT, Role, with_role};

/// Where containerd listens on every node.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// The image of the process that holds a pod's namespaces.
pub(crate) const PAUSE_IMAGE: &str = "docker.io/lab/pause:1";
/// The image of backends: `agnhost netexec --http-port=8080`.
pub(crate) const AGNHOST_IMAGE: &str = "docker.io/lab/agnhost:1";

/// The files of a node.
pub(crate) fn files(layout: &Layout, node: &HostSpec) -> Vec<(&'static str, String)> {
    vec![
        ("/etc/cni/net.d/10-lab.conflist", text(&pod_network(node))),
        ("/etc/containerd/config.toml", containerd_config()),
        ("/etc/kubernetes/kubelet.yaml", text(&kubelet_config(layout, node))),
        ("/etc/kubernetes/kube-proxy.yaml", text(&proxy_config(layout, node))),
    ]
}

/// JSON is YAML too.
fn text(value: &Value) -> String {
    format!("{value:#}\n")
}

fn pod_network(node: &HostSpec) -> Value {
    let ranges: Vec<Value> =
        node.pod_networks().iter().map(|network| json!([{ "subnet": network }])).collect();
    json!({
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [
            {"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true,
             "ipam": {"type": "host-local", "ranges": ranges}},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn containerd_config() -> String {
    let registry = with_role(Role::Registry).ipv4();
    format!(
        r#"version = 2
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Root may lack the right to lower oom_score_adj.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  # Every image of every registry comes from the lab's own.
  [plugins."io.containerd.grpc.v1.cri".registry.mirrors."*"]
    endpoint = ["http://{registry}:{REGISTRY_PORT}"]
"#
    )
}

fn kubelet_config(layout: &Layout, node: &HostSpec) -> Value {
    let pki = |file: &str| layout.pki().join(file).display().to_string();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "x509": {"clientCAFile": pki("ca.crt")},
            "webhook": {"enabled": true},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": pki(&format!("{}.crt", node.name)),
        "tlsPrivateKeyFile": pki(&format!("{}.key", node.name)),
        // The node has a branch of the machine's cgroups, not their root: nothing to reserve there.
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        // Nobody serves names here; without an address the kubelet warns of every pod.
        "clusterDNS": [CLUSTER_DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "nodeStatusUpdateFrequency": "2s",
        "evictionHard": {
            "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "registryPullQPS": 0,
        "serializeImagePulls": false,
    })
}

fn proxy_config(layout: &Layout, node: &HostSpec) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": layout.pki().join("kube-proxy.conf")},
        "clusterCIDR": POD_CIDRS,
        "hostnameOverride": node.name,
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s",
        },
    })
}

/// containerd; it reads its configuration from the usual place.
pub(crate) fn containerd() -> Vec<String> {
    command_line("containerd", &[])
}

/// The kubelet.
pub(crate) fn kubelet(layout: &Layout, node: &HostSpec) -> Vec<String> {
    command_line(
        layout.tool("kubelet").display().to_string(),
        &[
            "--config=/etc/kubernetes/kubelet.yaml",
            &format!("--kubeconfig={}", layout.pki().join(format!("{}.conf", node.name)).display()),
            &format!("--hostname-override={}", node.name),
            &format!("--node-ip={},{}", node.ipv4(), node.ipv6()),
        ],
    )
}

/// kube-proxy.
pub(crate) fn proxy(layout: &Layout) -> Vec<String> {
    command_line(
        layout.tool("kube-proxy").display().to_string(),
        &["--config=/etc/kubernetes/kube-proxy.yaml"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::host;

    #[test]
    fn each_node_has_its_own_keys_and_pods() {
        let layout = Layout::new(Some("/lab".into()), Some("/bin".into()));
        let config = kubelet_config(&layout, host("k8s-node-1").unwrap());
        assert_eq!(config["tlsCertFile"], "/lab/pki/k8s-node-1.crt");
        let network = pod_network(host("k8s-node-1").unwrap());
        assert_eq!(network["plugins"][0]["ipam"]["ranges"][1][0]["subnet"], "fd00:244:0:2::/64");
    }

    #[test]
    fn images_come_from_the_registry_of_the_lab() {
        assert!(containerd_config().contains(r#"endpoint = ["http://192.168.10.5:5000"]"#));
    }
}
