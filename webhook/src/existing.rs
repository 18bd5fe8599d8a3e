//! What is stored already: from the watches, or, where the answer would hurt, asked for anew. A request
//! that names something created milliseconds ago is so judged on fresh data.

use std::fmt::Debug;
use std::sync::Arc;

use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::node;
use ferrolb_core::resources::Resources;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::watch::{Store, Watches};
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::{Api, ListParams};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// The watches.
#[derive(Clone)]
pub(crate) struct Existing {
    client: Client,
    pub(crate) namespace: String,
    pools: Store<IPAddressPool>,
    reservations: Store<AddressReservation>,
    l2_advertisements: Store<L2Advertisement>,
    bgp_advertisements: Store<BGPAdvertisement>,
    bgp_peers: Store<BGPPeer>,
    bfd_profiles: Store<BFDProfile>,
    communities: Store<Community>,
    namespaces: Store<Namespace>,
    nodes: Store<Node>,
    service_cidrs: Option<Store<ServiceCIDR>>,
}

impl Existing {
    /// Begins to watch; ServiceCIDRs only where the API server has them.
    pub(crate) fn watch(watches: &Watches, client: Client, namespace: &str, has_service_cidrs: bool) -> Self {
        let all = watcher::Config::default;
        let client = &client;
        Self {
            pools: watches.add(Api::namespaced(client.clone(), namespace)),
            reservations: watches.add(Api::namespaced(client.clone(), namespace)),
            l2_advertisements: watches.add(Api::namespaced(client.clone(), namespace)),
            bgp_advertisements: watches.add(Api::namespaced(client.clone(), namespace)),
            bgp_peers: watches.add(Api::namespaced(client.clone(), namespace)),
            bfd_profiles: watches.add(Api::namespaced(client.clone(), namespace)),
            communities: watches.add(Api::namespaced(client.clone(), namespace)),
            namespaces: watches.add(Api::all(client.clone())),
            nodes: watches.add_pruned(Api::all(client.clone()), all(), node::prune),
            service_cidrs: has_service_cidrs.then(|| watches.add(Api::all(client.clone()))),
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// As the watches have it.
    pub(crate) fn watched(&self) -> Resources {
        self.of_the_cluster()
            .with_pools(self.pools.list())
            .with_reservations(self.reservations.list())
            .with_l2_advertisements(self.l2_advertisements.list())
            .with_bgp_advertisements(self.bgp_advertisements.list())
            .with_bgp_peers(self.bgp_peers.list())
            .with_bfd_profiles(self.bfd_profiles.list())
            .with_communities(self.communities.list())
    }

    /// As the API server has it now (our own kinds; the others are not created together with them).
    pub(crate) async fn fresh(&self) -> Result<Resources, WriteError> {
        let (
            pools,
            reservations,
            l2_advertisements,
            bgp_advertisements,
            bgp_peers,
            bfd_profiles,
            communities,
        ) = tokio::try_join!(
            self.list(&self.pools),
            self.list(&self.reservations),
            self.list(&self.l2_advertisements),
            self.list(&self.bgp_advertisements),
            self.list(&self.bgp_peers),
            self.list(&self.bfd_profiles),
            self.list(&self.communities),
        )?;
        Ok(self
            .of_the_cluster()
            .with_pools(pools)
            .with_reservations(reservations)
            .with_l2_advertisements(l2_advertisements)
            .with_bgp_advertisements(bgp_advertisements)
            .with_bgp_peers(bgp_peers)
            .with_bfd_profiles(bfd_profiles)
            .with_communities(communities))
    }

    fn of_the_cluster(&self) -> Resources {
        let cidrs = self.service_cidrs.as_ref().map(Store::list).unwrap_or_default();
        Resources::default()
            .with_namespaces(self.namespaces.list().iter().map(|it| &**it))
            .with_nodes(self.nodes.list().iter().map(|it| &**it))
            .with_service_cidrs(cidrs.iter().map(|it| &**it))
    }

    /// What the watch has in the very same version is the watch's object, so that it need not be read again.
    async fn list<K>(&self, watched: &Store<K>) -> Result<Vec<Arc<K>>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let listed = write::bounded(api.list(&ListParams::default())).await?.items;
        let version = |object: &K| object.meta().uid.clone().zip(object.resource_version());
        let known = |object: K| {
            let same = watched.get(&self.namespace, &object.name_any());
            let same = same.filter(|it| version(it).is_some_and(|it| Some(it) == version(&object)));
            same.unwrap_or_else(|| Arc::new(object))
        };
        Ok(listed.into_iter().map(known).collect())
    }
}

/// Whether the API server has ServiceCIDRs (Kubernetes 1.33 and later). Without them pools are not compared
/// with the cluster addresses of Services.
pub(crate) async fn has_service_cidrs(client: &Client) -> bool {
    match write::bounded(client.list_api_group_resources("networking.k8s.io/v1")).await {
        Ok(list) => list.resources.iter().any(|resource| resource.name == "servicecidrs"),
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(op = "discovery", error, "cluster addresses of Services are not known");
            false
        }
    }
}
