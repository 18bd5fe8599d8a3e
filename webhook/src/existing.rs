//! What is stored already: from the watches, or, where the answer would hurt, asked for anew. A request
//! that names something created milliseconds ago is so judged on fresh data.

use ferrolb_api::v1beta1::{IPAddressPool, L2Advertisement};
use ferrolb_core::resources::Resources;
use ferrolb_runtime::watch::Store;
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Client;
use kube::api::{Api, ListParams};

/// The watches.
#[derive(Clone)]
pub(crate) struct Existing {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) pools: Store<IPAddressPool>,
    pub(crate) l2_advertisements: Store<L2Advertisement>,
    pub(crate) namespaces: Store<Namespace>,
    pub(crate) nodes: Store<Node>,
}

impl Existing {
    /// As the watches have it.
    pub(crate) fn watched(&self) -> Resources {
        Resources::default()
            .with_pools(self.pools.list())
            .with_l2_advertisements(self.l2_advertisements.list())
            .with_namespaces(self.namespaces.list().iter().map(|it| &**it))
            .with_nodes(self.nodes.list().iter().map(|it| &**it))
    }

    /// As the API server has it now (our own kinds; the others are not created together with them).
    pub(crate) async fn fresh(&self) -> Result<Resources, WriteError> {
        let pools: Api<IPAddressPool> = Api::namespaced(self.client.clone(), &self.namespace);
        let advertisements: Api<L2Advertisement> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = ListParams::default();
        let pools = write::bounded(pools.list(&all)).await?;
        let advertisements = write::bounded(advertisements.list(&all)).await?;
        Ok(Resources::default()
            .with_pools(pools.items)
            .with_l2_advertisements(advertisements.items)
            .with_namespaces(self.namespaces.list().iter().map(|it| &**it))
            .with_nodes(self.nodes.list().iter().map(|it| &**it)))
    }
}
