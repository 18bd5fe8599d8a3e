//! What a cluster holds, by the kubectl that this is a plug-in of: it knows how to reach the cluster and
//! how to prove who asks.

use std::process::Command;

use anyhow::{Context, bail};
use ferrolb_api::v1beta1::{BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::resources::Resources;
use k8s_openapi::api::core::v1::{Namespace, Node};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Which cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Cluster {
    /// kubeconfig to use with --cluster; default: kubectl's.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    kubeconfig: Option<String>,

    /// Context of the kubeconfig to use with --cluster; default: its current one.
    #[arg(long, value_name = "NAME", requires = "cluster")]
    context: Option<String>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Value>,
}

impl Cluster {
    /// The configuration in `namespace`, and what it is about.
    pub(crate) fn read(&self, namespace: &str) -> anyhow::Result<Resources> {
        let pools: Vec<IPAddressPool> = self.get("ipaddresspools.v1beta1.metallb.io", Some(namespace))?;
        let l2: Vec<L2Advertisement> = self.get("l2advertisements.v1beta1.metallb.io", Some(namespace))?;
        let bgp: Vec<BGPAdvertisement> = self.get("bgpadvertisements.v1beta1.metallb.io", Some(namespace))?;
        let peers: Vec<BGPPeer> = self.get("bgppeers.v1beta2.metallb.io", Some(namespace))?;
        let bfd: Vec<BFDProfile> = self.get("bfdprofiles.v1beta1.metallb.io", Some(namespace))?;
        let communities: Vec<Community> = self.get("communities.v1beta1.metallb.io", Some(namespace))?;
        Ok(Resources::default()
            .with_pools(pools)
            .with_l2_advertisements(l2)
            .with_bgp_advertisements(bgp)
            .with_bgp_peers(peers)
            .with_bfd_profiles(bfd)
            .with_communities(communities)
            .with_nodes(self.get::<Node>("nodes", None)?)
            .with_namespaces(self.get::<Namespace>("namespaces", None)?))
    }

    fn get<K: DeserializeOwned>(&self, resource: &str, namespace: Option<&str>) -> anyhow::Result<Vec<K>> {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["get", resource, "--output=json"]);
        kubectl.args(namespace.map(|it| format!("--namespace={it}")));
        kubectl.args(self.kubeconfig.as_ref().map(|it| format!("--kubeconfig={it}")));
        kubectl.args(self.context.as_ref().map(|it| format!("--context={it}")));
        let output = kubectl.output().context("cannot run kubectl")?;
        if !output.status.success() {
            bail!("kubectl get {resource}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let list: List = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("kubectl get {resource} printed no list"))?;
        let objects = list.items.into_iter().map(serde_json::from_value).collect::<Result<Vec<_>, _>>();
        objects.with_context(|| format!("cannot read an object of {resource}"))
    }
}
