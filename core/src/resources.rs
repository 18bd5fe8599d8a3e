//! What the API server holds, as far as the configuration depends on it: sorted maps by name, so that
//! nothing downstream can depend on the order in which objects arrived.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::v1beta1::{IPAddressPool, L2Advertisement};
use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::node::Node;
use crate::selector::Labels;

/// Input of [`compile`](crate::config::compile). Shells fill it from their stores (or from files);
/// what a process does not watch stays empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// `IPAddressPool`s of the product's namespace.
    pub pools: BTreeMap<String, Arc<IPAddressPool>>,
    /// `L2Advertisement`s of the product's namespace.
    pub l2_advertisements: BTreeMap<String, Arc<L2Advertisement>>,
    /// Nodes.
    pub nodes: BTreeMap<String, Node>,
    /// Labels of the Namespaces.
    pub namespaces: BTreeMap<String, Labels>,
}

impl Resources {
    /// Adds pools; a later one replaces an earlier one of the same name.
    #[must_use]
    pub fn with_pools<T: Into<Arc<IPAddressPool>>>(mut self, pools: impl IntoIterator<Item = T>) -> Self {
        self.pools.extend(pools.into_iter().map(Into::into).map(|pool| (name(&pool.metadata), pool)));
        self
    }

    /// Adds L2 advertisements; a later one replaces an earlier one of the same name.
    #[must_use]
    pub fn with_l2_advertisements<T: Into<Arc<L2Advertisement>>>(
        mut self,
        advertisements: impl IntoIterator<Item = T>,
    ) -> Self {
        let named = advertisements.into_iter().map(Into::into).map(|it| (name(&it.metadata), it));
        self.l2_advertisements.extend(named);
        self
    }

    /// Adds Nodes.
    #[must_use]
    pub fn with_nodes<T: Borrow<corev1::Node>>(mut self, nodes: impl IntoIterator<Item = T>) -> Self {
        for node in nodes {
            self.nodes.insert(name(&node.borrow().metadata), node.borrow().into());
        }
        self
    }

    /// Adds Namespaces.
    #[must_use]
    pub fn with_namespaces<T: Borrow<corev1::Namespace>>(
        mut self,
        namespaces: impl IntoIterator<Item = T>,
    ) -> Self {
        for namespace in namespaces {
            let metadata = &namespace.borrow().metadata;
            self.namespaces.insert(name(metadata), metadata.labels.clone().unwrap_or_default());
        }
        self
    }
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}
