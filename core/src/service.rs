//! `LoadBalancer`: what decisions need to know of a Service and its endpoints, read once.
//!
//! Reading is total: what a user wrote wrongly (cluster addresses, requested addresses) is kept as the
//! error it is, because what follows from it depends on the state of the Service.

pub mod addresses;
mod annotations;
mod condition;
mod grant;
mod ports;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::well_known::annotation;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub use self::addresses::{Families, FamilyError, Ingress, RequestError};
pub use self::annotations::UnknownAnnotation;
pub use self::condition::AddressAssigned;
pub use self::grant::{Grant, NotGrant};
pub use self::ports::{Port, Ports};
use crate::config::ranges::Family;
use crate::selector::{FixedLabels, Labels};

/// Namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Namespace of the Service.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `spec.ipFamilyPolicy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FamilyPolicy {
    /// One family.
    #[default]
    SingleStack,
    /// Two where they can be had.
    PreferDualStack,
    /// Two or none.
    RequireDualStack,
}

/// `spec.externalTrafficPolicy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// Any node may take the traffic.
    #[default]
    Cluster,
    /// Only nodes with an endpoint.
    Local,
}

/// What must be equal for two Services to share an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharingKey {
    /// Value of the annotation; empty: the Service shares with nobody.
    pub key: String,
    /// With `externalTrafficPolicy: Local` the pods meant, as sorted `label=value`; else empty. It
    /// keeps Services apart whose traffic must arrive at different nodes.
    pub backend: String,
}

impl SharingKey {
    /// Whether Services with these keys may share an address.
    pub fn allows(&self, other: &Self) -> bool {
        !self.key.is_empty() && self == other
    }
}

/// The endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Whether any of them can serve.
    pub any_serving: bool,
    /// Nodes that one which can serve runs on.
    pub nodes: BTreeSet<String>,
}

/// A Service, as far as load balancing is concerned. Also one of another type: it may still hold what
/// it was given before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// Namespace and name. Whoever remembers the Service by them shares them.
    pub key: Arc<ServiceKey>,
    /// Identity of the object: a Service of the same name created later has another one.
    pub uid: Arc<str>,
    /// When it was created.
    pub created: Option<Time>,
    /// Its labels.
    pub labels: FixedLabels,
    /// Whether its type is LoadBalancer (now).
    pub is_load_balancer: bool,
    /// `spec.loadBalancerClass`
    pub class: Option<String>,
    /// Cluster addresses as written; none for headless and external Services.
    pub cluster_ips: Vec<String>,
    /// Families of the cluster addresses, which those of the load balancer follow.
    pub families: Result<Families, FamilyError>,
    /// What it asks for in families.
    pub family_policy: FamilyPolicy,
    /// The first of its families, preferred where only one can be had.
    pub primary_family: Family,
    /// Ports it occupies.
    pub ports: Ports,
    /// What must be equal to share an address.
    pub sharing: SharingKey,
    /// Whether it carries the sharing annotation at all, with whatever value.
    pub has_sharing_annotation: bool,
    /// Where its traffic may arrive.
    pub traffic_policy: TrafficPolicy,
    /// Addresses it asks for; empty: none in particular.
    pub requested: Result<Vec<IpAddr>, RequestError>,
    /// Pool it asks for.
    pub requested_pool: Option<String>,
    /// What its status holds.
    pub ingress: Ingress,
    /// The pool that its addresses are recorded to come from.
    pub recorded_pool: Option<String>,
    /// The addresses that the controller last gave it.
    pub grant: Option<Grant>,
    /// What its status says about its address.
    pub condition: Option<AddressAssigned>,
    /// Annotations of the deprecated prefix that it carries.
    pub deprecated_annotations: Vec<String>,
    /// Annotations of our prefixes that mean nothing.
    pub unknown_annotations: Vec<UnknownAnnotation>,
    /// Its endpoints (empty where nobody watches them).
    pub endpoints: Endpoints,
}

impl LoadBalancer {
    /// Reads a Service and the EndpointSlices that belong to it.
    pub fn new<'a>(service: &Service, slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Self {
        let metadata = &service.metadata;
        let default = Default::default();
        let spec = service.spec.as_ref().unwrap_or(&default);
        let traffic_policy = match spec.external_traffic_policy.as_deref() {
            Some("Local") => TrafficPolicy::Local,
            _ => TrafficPolicy::Cluster,
        };
        let cluster_ips = addresses::cluster_ips(spec);
        let none = BTreeMap::new();
        let annotations = metadata.annotations.as_ref().unwrap_or(&none);
        let sharing_annotation = annotations::current(annotations, annotation::ALLOW_SHARED_IP);
        let uid: Arc<str> = metadata.uid.as_deref().unwrap_or_default().into();
        Self {
            key: Arc::new(ServiceKey {
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
            }),
            created: metadata.creation_timestamp.clone(),
            labels: metadata.labels.as_ref().map(FixedLabels::from).unwrap_or_default(),
            is_load_balancer: spec.type_.as_deref() == Some("LoadBalancer"),
            class: spec.load_balancer_class.clone(),
            families: Families::of_texts(&cluster_ips),
            cluster_ips,
            family_policy: match spec.ip_family_policy.as_deref() {
                Some("PreferDualStack") => FamilyPolicy::PreferDualStack,
                Some("RequireDualStack") => FamilyPolicy::RequireDualStack,
                _ => FamilyPolicy::SingleStack,
            },
            primary_family: match spec.ip_families.iter().flatten().next() {
                Some(family) if family == "IPv6" => Family::V6,
                _ => Family::V4,
            },
            ports: spec.ports.iter().flatten().map(Port::new).collect(),
            sharing: SharingKey {
                key: sharing_annotation.unwrap_or_default().to_owned(),
                backend: backend(spec.selector.as_ref(), traffic_policy),
            },
            has_sharing_annotation: sharing_annotation.is_some(),
            traffic_policy,
            requested: addresses::requested(
                annotations::current(annotations, annotation::LOAD_BALANCER_IPS),
                spec.load_balancer_ip.as_deref(),
            ),
            requested_pool: annotations::current(annotations, annotation::ADDRESS_POOL)
                .filter(|pool| !pool.is_empty())
                .map(ToOwned::to_owned),
            ingress: Ingress::of(service.status.as_ref()),
            recorded_pool: annotations.get(annotation::ALLOCATED_FROM_POOL).cloned(),
            grant: annotations
                .get(annotation::ALLOCATION)
                .and_then(|grant| grant.parse().ok())
                .filter(|grant: &Grant| grant.uid == uid)
                .map(|grant| Grant { uid: Arc::clone(&uid), ..grant }),
            condition: AddressAssigned::of(service.status.as_ref()),
            deprecated_annotations: annotations::deprecated(annotations),
            unknown_annotations: annotations::unknown(annotations),
            uid,
            endpoints: Endpoints::of(slices),
        }
    }

    /// Whether a process that was told to handle `class` (none: Services without a class) handles it.
    /// A Service that turns from type LoadBalancer to another one loses its class with it; what it
    /// still holds of ours is for us to take back.
    pub fn is_handled_by(&self, class: Option<&str>) -> bool {
        let turned_away = !self.is_load_balancer && self.class.is_none() && self.recorded_pool.is_some();
        self.class.as_deref() == class || turned_away
    }

    /// Whether its status holds other addresses than those it was given: somebody else wrote it since.
    pub fn is_overwritten(&self) -> bool {
        self.grant.as_ref().is_some_and(|grant| !self.ingress.shows(&grant.addresses))
    }
}

fn backend(selector: Option<&Labels>, policy: TrafficPolicy) -> String {
    match policy {
        TrafficPolicy::Cluster => String::new(),
        TrafficPolicy::Local => {
            let pairs: Vec<String> = selector
                .iter()
                .flat_map(|it| it.iter())
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            pairs.join(",")
        }
    }
}

impl Endpoints {
    fn of<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Self {
        let mut endpoints = Self::default();
        for endpoint in slices.into_iter().flat_map(|slice| slice.endpoints.iter().flatten()) {
            if can_serve(endpoint) {
                endpoints.any_serving = true;
                endpoints.nodes.extend(endpoint.node_name.clone());
            }
        }
        endpoints
    }
}

/// A terminating endpoint that still serves counts; one that says nothing counts too.
fn can_serve(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|it| it.ready);
    let serving = conditions.and_then(|it| it.serving);
    ready.unwrap_or(true) || serving == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{endpoint, service, slice};

    #[test]
    fn endpoint_conditions() {
        for (ready, serving, expected) in [
            (Some(true), None, true),
            (None, Some(true), true),
            (Some(true), Some(false), true),
            (None, None, true),
            (None, Some(false), true),
            (Some(false), None, false),
            (Some(false), Some(true), true),
            (Some(false), Some(false), false),
        ] {
            assert_eq!(can_serve(&endpoint("n", ready, serving)), expected, "{ready:?} {serving:?}");
        }
    }

    #[test]
    fn nodes_of_endpoints() {
        let nodes = |slices: &[EndpointSlice]| {
            let endpoints = LoadBalancer::new(&service("a", "b").build(), slices).endpoints;
            (endpoints.any_serving, endpoints.nodes.into_iter().collect::<Vec<_>>().join(" "))
        };
        let ready = |node| endpoint(node, Some(true), None);
        let both = (true, "iris1 iris2".to_owned());
        assert_eq!(nodes(&[slice([ready("iris1")]), slice([ready("iris2")])]), both);
        assert_eq!(nodes(&[slice([ready("iris1"), ready("iris2")])]), both);
        assert_eq!(nodes(&[slice([ready("iris1"), ready("iris1")])]), (true, "iris1".to_owned()));
        let terminating = |node| endpoint(node, Some(false), Some(true));
        assert_eq!(nodes(&[slice([terminating("iris1"), terminating("iris2")])]), both);
        let mut nowhere = ready("x");
        nowhere.node_name = None;
        assert_eq!(nodes(&[slice([nowhere])]), (true, String::new()));
        assert_eq!(nodes(&[]), (false, String::new()));
    }

    #[test]
    fn current_annotations_win_over_deprecated_ones() {
        let read = |annotations: &[(&str, &str)]| {
            let lb = service("ns", "s").annotations(annotations).lb();
            (lb.requested_pool, lb.sharing.key, lb.deprecated_annotations.len())
        };
        let pool = |name: &str| Some(name.to_owned());
        assert_eq!(read(&[("metallb.io/address-pool", "a")]), (pool("a"), String::new(), 0));
        assert_eq!(read(&[("metallb.universe.tf/address-pool", "b")]), (pool("b"), String::new(), 1));
        assert_eq!(
            read(&[("metallb.io/address-pool", ""), ("metallb.universe.tf/address-pool", "x")]),
            (None, String::new(), 1)
        );
        assert_eq!(
            read(&[("metallb.io/allow-shared-ip", "k"), ("metallb.universe.tf/allow-shared-ip", "o")]),
            (None, "k".to_owned(), 1)
        );
    }

    #[test]
    fn class_filter() {
        for (ours, theirs, handled) in [
            (None, None, true),
            (Some("foo"), None, false),
            (None, Some("foo"), false),
            (Some("bar"), Some("foo"), false),
            (Some("foo"), Some("foo"), true),
        ] {
            let mut lb = service("ns", "s").lb();
            lb.class = theirs.map(ToOwned::to_owned);
            assert_eq!(lb.is_handled_by(ours), handled, "{ours:?} {theirs:?}");
        }
        // Of another type, it has no class; what we recorded on it shows that it was ours.
        let away = service("ns", "s").kind("ClusterIP");
        assert!(!away.clone().lb().is_handled_by(Some("foo")));
        assert!(away.from_pool("default").lb().is_handled_by(Some("foo")));
    }

    #[test]
    fn sharing_needs_the_same_backends_when_local() {
        let key = |local: bool, selector: &[(&str, &str)]| {
            service("ns", "s").shared("k").local(local).selector(selector).lb().sharing
        };
        let (a, b) = ([("app", "a"), ("tier", "x")], [("app", "b")]);
        assert!(key(false, &a).allows(&key(false, &b)));
        assert!(key(true, &a).allows(&key(true, &a)));
        assert!(!key(true, &a).allows(&key(true, &b)));
        assert!(!key(true, &a).allows(&key(false, &a)));
        assert!(key(true, &[]).allows(&key(false, &a)));
        assert_eq!(key(true, &a).backend, "app=a,tier=x");
        assert!(!SharingKey::default().allows(&SharingKey::default()));
    }
}
