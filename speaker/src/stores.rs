//! What this speaker watches, and what it keeps of it: a large cluster has far more Services, endpoints
//! and Node details than are announced.

use std::collections::{BTreeMap, BTreeSet};

use ferrolb_api::v1beta1::{BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::node;
use ferrolb_runtime::watch::{Store, Watches};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, PodStatus, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};

use ferrolb_api::well_known::label;

/// What announcements depend on.
#[derive(Clone, Debug)]
pub struct Stores {
    /// All Services.
    pub services: Store<Service>,
    /// Their endpoints.
    pub slices: Store<EndpointSlice>,
    /// All Nodes.
    pub nodes: Store<Node>,
    /// Pools of the product's namespace.
    pub pools: Store<IPAddressPool>,
    /// L2 advertisements of the product's namespace.
    pub l2_advertisements: Store<L2Advertisement>,
    /// BGP advertisements of the product's namespace.
    pub bgp_advertisements: Store<BGPAdvertisement>,
    /// BGP peers of the product's namespace.
    pub bgp_peers: Store<BGPPeer>,
    /// BFD profiles of the product's namespace.
    pub bfd_profiles: Store<BFDProfile>,
    /// Aliases of communities of the product's namespace.
    pub communities: Store<Community>,
}

impl Stores {
    /// Begins to watch.
    pub fn watch(watches: &Watches, client: &Client, namespace: &str) -> Self {
        let all = watcher::Config::default;
        let client = || client.clone();
        Self {
            services: watches.add_pruned(Api::all(client()), all(), prune_service),
            slices: watches.add_pruned(Api::all(client()), all(), prune_slice),
            nodes: watches.add_pruned(Api::all(client()), all(), prune_node),
            pools: watches.add_pruned(
                Api::namespaced(client(), namespace),
                all(),
                |pool: &mut IPAddressPool| {
                    // Counters, which change with every address that is given.
                    pool.status = None;
                    prune_metadata(&mut pool.metadata);
                },
            ),
            l2_advertisements: watches.add_pruned(Api::namespaced(client(), namespace), all(), prune_own),
            bgp_advertisements: watches.add_pruned(Api::namespaced(client(), namespace), all(), prune_own),
            bgp_peers: watches.add_pruned(Api::namespaced(client(), namespace), all(), prune_own),
            bfd_profiles: watches.add_pruned(Api::namespaced(client(), namespace), all(), prune_own),
            communities: watches.add_pruned(Api::namespaced(client(), namespace), all(), prune_own),
        }
    }

    /// Returns once every first list is in.
    pub async fn listed(&self) {
        tokio::join!(
            self.services.listed(),
            self.slices.listed(),
            self.nodes.listed(),
            self.pools.listed(),
            self.l2_advertisements.listed(),
            self.bgp_advertisements.listed(),
            self.bgp_peers.listed(),
            self.bfd_profiles.listed(),
            self.communities.listed(),
        );
    }

    /// The Secrets that peers name.
    pub fn secret_names(&self) -> BTreeSet<String> {
        let peers = self.bgp_peers.list();
        let names = peers.iter().filter_map(|peer| peer.spec.password_secret.as_ref()?.name.clone());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Identities of the peers, by name.
    pub fn peer_uids(&self) -> BTreeMap<String, String> {
        let peers = self.bgp_peers.list();
        peers.iter().map(|peer| (peer.name_any(), peer.uid().unwrap_or_default())).collect()
    }
}

/// Annotations are long and mostly other people's.
fn prune_metadata(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key.starts_with("metallb.") || key.starts_with("ferrolb."));
    }
    metadata.owner_references = None;
    metadata.finalizers = None;
}

fn prune_own(object: &mut impl ResourceExt) {
    prune_metadata(object.meta_mut());
}

fn prune_service(service: &mut Service) {
    prune_metadata(&mut service.metadata);
    // A Service that was a load balancer may still hold addresses; of any other only the type matters.
    if let Some(spec) = &mut service.spec
        && spec.type_.as_deref() != Some("LoadBalancer")
    {
        *spec = ServiceSpec { type_: spec.type_.take(), ..ServiceSpec::default() };
    }
}

fn prune_slice(slice: &mut EndpointSlice) {
    let metadata = &mut slice.metadata;
    prune_metadata(metadata);
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| key == label::SERVICE_NAME_OF_SLICE);
    }
    slice.ports = None;
    for endpoint in slice.endpoints.iter_mut().flatten() {
        endpoint.addresses = Vec::new();
        endpoint.deprecated_topology = None;
        endpoint.hints = None;
        endpoint.hostname = None;
        endpoint.target_ref = None;
        endpoint.zone = None;
    }
}

fn prune_node(node: &mut Node) {
    prune_metadata(&mut node.metadata);
    node::prune(node);
}

/// Of the speakers' pods the addresses and the phase.
pub fn prune_pod(pod: &mut Pod) {
    prune_metadata(&mut pod.metadata);
    pod.spec = None::<PodSpec>;
    if let Some(status) = &mut pod.status {
        *status = PodStatus {
            phase: status.phase.take(),
            pod_ip: status.pod_ip.take(),
            pod_ips: status.pod_ips.take(),
            ..PodStatus::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_core::service::LoadBalancer;
    use serde_json::json;

    use super::*;

    /// Pruning must not change any decision: what is read afterwards is what is read before.
    #[test]
    fn what_decisions_read_survives() {
        let mut service: Service = serde_json::from_value(json!({
            "metadata": {
                "name": "a", "namespace": "b", "uid": "1", "labels": {"x": "y"},
                "annotations": {
                    "metallb.io/address-pool": "p", "metallb.universe.tf/allow-shared-ip": "k",
                    "metallb.io/ip-allocated-from-pool": "p", "kubectl.kubernetes.io/last-applied-configuration": "{}"
                },
                "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]
            },
            "spec": {
                "type": "LoadBalancer", "clusterIPs": ["10.96.0.1"], "externalTrafficPolicy": "Local",
                "selector": {"app": "a"}, "ports": [{"port": 80}], "loadBalancerClass": "c"
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "192.168.10.200", "ipMode": "VIP"}]}}
        }))
        .unwrap();
        let mut slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": "a-1", "namespace": "b", "labels": {"kubernetes.io/service-name": "a", "z": "z"}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.244.0.1"], "nodeName": "n1", "conditions": {"ready": true}, "zone": "z"},
                {"addresses": ["10.244.0.2"], "nodeName": "n2", "conditions": {"ready": false, "serving": true}},
                {"addresses": ["10.244.0.3"], "nodeName": "n3", "conditions": {"ready": false}}
            ],
            "ports": [{"port": 8080}]
        }))
        .unwrap();
        let mut of_type = service.clone();
        let before = LoadBalancer::new(&service, [&slice]);
        prune_service(&mut service);
        prune_slice(&mut slice);
        assert_eq!(slice.metadata.labels.as_ref().unwrap().len(), 1);
        let after = LoadBalancer::new(&service, [&slice]);
        assert_eq!(after, before);
        assert!(!before.endpoints.nodes.is_empty());

        of_type.spec.as_mut().unwrap().type_ = Some("ClusterIP".to_owned());
        let before = LoadBalancer::new(&of_type, []);
        prune_service(&mut of_type);
        let after = LoadBalancer::new(&of_type, []);
        assert_eq!((after.is_load_balancer, after.ingress), (false, before.ingress));
        assert!(of_type.spec.unwrap().ports.is_none());

        for status in ["True", "False"] {
            let mut object: Node = serde_json::from_value(json!({
                "metadata": {"name": "n1", "labels": {"l": "v"}, "annotations": {"long": "x"}},
                "spec": {"unschedulable": true, "podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00:1::/64"]},
                "status": {"addresses": [
                    {"type": "InternalIP", "address": "192.168.10.2"}, {"type": "Hostname", "address": "n1"}
                ], "nodeInfo": {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                    "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                    "systemUUID": ""
                }, "conditions": [
                    {"type": "Ready", "status": "True"}, {"type": "NetworkUnavailable", "status": status}
                ]}
            }))
            .unwrap();
            let before = node::Node::from(&object);
            prune_node(&mut object);
            assert_eq!(node::Node::from(&object), before);
            assert_eq!((before.addresses.len(), before.pod_cidrs.len()), (1, 2));
            assert!(object.status.unwrap().node_info.is_none());
            assert_eq!((before.network_unavailable, before.cordoned), (status == "True", true));
        }
    }
}
