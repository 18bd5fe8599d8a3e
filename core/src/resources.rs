//! What the API server holds, as far as the configuration depends on it: sorted maps by name, so that
//! nothing downstream can depend on the order in which objects arrived.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_api::v1alpha1::AddressReservation;
use ferrolb_api::v1beta1::{BFDProfile, BGPAdvertisement, Community, IPAddressPool, L2Advertisement};
use ferrolb_api::v1beta2::BGPPeer;
use ipnet::IpNet;
use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::node::Node;
use crate::selector::Labels;

/// Input of [`compile`](crate::config::compile). Shells fill it from their stores (or from files);
/// what a process does not watch stays empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// `IPAddressPool`s of the product's namespace.
    pub pools: BTreeMap<String, Arc<IPAddressPool>>,
    /// `AddressReservation`s of the product's namespace.
    pub reservations: BTreeMap<String, Arc<AddressReservation>>,
    /// `L2Advertisement`s of the product's namespace.
    pub l2_advertisements: BTreeMap<String, Arc<L2Advertisement>>,
    /// `BGPAdvertisement`s of the product's namespace.
    pub bgp_advertisements: BTreeMap<String, Arc<BGPAdvertisement>>,
    /// `BGPPeer`s of the product's namespace.
    pub bgp_peers: BTreeMap<String, Arc<BGPPeer>>,
    /// `BFDProfile`s of the product's namespace.
    pub bfd_profiles: BTreeMap<String, Arc<BFDProfile>>,
    /// `Community` objects of the product's namespace.
    pub communities: BTreeMap<String, Arc<Community>>,
    /// Secrets of the product's namespace that peers name, where they are read; none: nobody looked.
    pub secrets: Option<BTreeMap<String, Arc<corev1::Secret>>>,
    /// Nodes.
    pub nodes: BTreeMap<String, Node>,
    /// Labels of the Namespaces.
    pub namespaces: BTreeMap<String, Labels>,
    /// Cluster addresses of Services.
    pub service_cidrs: BTreeSet<IpNet>,
}

/// A builder for each of our own kinds.
macro_rules! with {
    ($($(#[$doc:meta])* $method:ident, $field:ident: $kind:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $method<T: Into<Arc<$kind>>>(mut self, objects: impl IntoIterator<Item = T>) -> Self {
            let named = objects.into_iter().map(Into::into).map(|it| (name(&it.metadata), it));
            // All at once: a sorted map is made faster from a list than one by one.
            match self.$field.is_empty() {
                true => self.$field = named.collect(),
                false => self.$field.extend(named),
            }
            self
        }
    )*};
}

impl Resources {
    with! {
        /// Adds pools; a later one replaces an earlier one of the same name.
        with_pools, pools: IPAddressPool;
        /// Adds reservations; a later one replaces an earlier one of the same name.
        with_reservations, reservations: AddressReservation;
        /// Adds L2 advertisements; a later one replaces an earlier one of the same name.
        with_l2_advertisements, l2_advertisements: L2Advertisement;
        /// Adds BGP advertisements; a later one replaces an earlier one of the same name.
        with_bgp_advertisements, bgp_advertisements: BGPAdvertisement;
        /// Adds BGP peers; a later one replaces an earlier one of the same name.
        with_bgp_peers, bgp_peers: BGPPeer;
        /// Adds BFD profiles; a later one replaces an earlier one of the same name.
        with_bfd_profiles, bfd_profiles: BFDProfile;
        /// Adds communities; a later one replaces an earlier one of the same name.
        with_communities, communities: Community;
    }

    /// Adds Secrets; from now on those that are not there are missing.
    #[must_use]
    pub fn with_secrets<T: Into<Arc<corev1::Secret>>>(
        mut self,
        secrets: impl IntoIterator<Item = T>,
    ) -> Self {
        let named = secrets.into_iter().map(Into::into).map(|it| (name(&it.metadata), it));
        self.secrets.get_or_insert_default().extend(named);
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

    /// Adds cluster addresses of Services.
    #[must_use]
    pub fn with_service_cidrs<T: Borrow<ServiceCIDR>>(mut self, cidrs: impl IntoIterator<Item = T>) -> Self {
        for object in cidrs {
            let texts = object.borrow().spec.as_ref().and_then(|spec| spec.cidrs.as_deref());
            self.service_cidrs
                .extend(texts.unwrap_or_default().iter().filter_map(|it| it.parse::<IpNet>().ok()));
        }
        self
    }
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}
