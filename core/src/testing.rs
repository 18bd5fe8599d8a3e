//! Builders of Kubernetes objects for tests, here and in the shells.

mod bgp;
mod cases;

use ferrolb_api::v1alpha1::{AddressReservation, AddressReservationSpec};
use ferrolb_api::v1beta1::{IPAddressPool, IPAddressPoolSpec, L2Advertisement, L2AdvertisementSpec};
use ferrolb_api::well_known::annotation::{ALLOCATED_FROM_POOL, ALLOCATION};
use ferrolb_api::well_known::service_condition::ADDRESS_ASSIGNED;
use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta, Time,
};
use k8s_openapi::jiff::Timestamp;

pub use self::bgp::{bfd_profile, bgp_advertisement, bgp_peer, community, peer_spec, peer_with, secret};
pub use self::cases::{OneService, case_pools, dual_pool, on_request, one_service_cases, restricted};
use crate::allocator::StatusWrite;
use crate::selector::Labels;
use crate::service::{Grant, LoadBalancer};

/// Labels from pairs.
pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A selector by labels.
pub fn match_labels(pairs: &[(&str, &str)]) -> LabelSelector {
    LabelSelector { match_labels: Some(labels(pairs)), match_expressions: None }
}

/// A selector by one expression.
pub fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
    LabelSelector {
        match_labels: None,
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
        }]),
    }
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}

/// A pool.
pub fn pool(name: &str, addresses: &[&str]) -> IPAddressPool {
    IPAddressPool {
        metadata: metadata(name),
        spec: IPAddressPoolSpec {
            addresses: addresses.iter().map(|entry| (*entry).to_owned()).collect(),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// A reservation of addresses, for nobody yet.
pub fn reservation(name: &str, addresses: &[&str]) -> AddressReservation {
    AddressReservation {
        metadata: metadata(name),
        spec: AddressReservationSpec {
            addresses: addresses.iter().map(|entry| (*entry).to_owned()).collect(),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// An advertisement.
pub fn l2_advertisement(name: &str, spec: L2AdvertisementSpec) -> L2Advertisement {
    L2Advertisement { metadata: metadata(name), spec, ..Default::default() }
}

/// A Node.
pub fn node(name: &str, pairs: &[(&str, &str)]) -> corev1::Node {
    corev1::Node {
        metadata: ObjectMeta { labels: Some(labels(pairs)), ..metadata(name) },
        ..Default::default()
    }
}

/// A Namespace.
pub fn namespace(name: &str, pairs: &[(&str, &str)]) -> corev1::Namespace {
    corev1::Namespace {
        metadata: ObjectMeta { labels: Some(labels(pairs)), ..metadata(name) },
        ..Default::default()
    }
}

/// An endpoint on a node.
pub fn endpoint(node: &str, ready: Option<bool>, serving: Option<bool>) -> Endpoint {
    Endpoint {
        addresses: vec!["10.244.0.1".to_owned()],
        node_name: Some(node.to_owned()),
        conditions: Some(EndpointConditions { ready, serving, terminating: None }),
        ..Default::default()
    }
}

/// A slice of endpoints.
pub fn slice(endpoints: impl IntoIterator<Item = Endpoint>) -> EndpointSlice {
    EndpointSlice { endpoints: Some(endpoints.into_iter().collect()), ..Default::default() }
}

/// A Service of type LoadBalancer with one IPv4 cluster address and port TCP/80.
pub fn service(namespace: &str, name: &str) -> ServiceBuilder {
    let spec = corev1::ServiceSpec {
        type_: Some("LoadBalancer".to_owned()),
        cluster_ips: Some(vec!["10.96.0.1".to_owned()]),
        ..Default::default()
    };
    let service = corev1::Service {
        metadata: ObjectMeta { namespace: Some(namespace.to_owned()), ..metadata(name) },
        spec: Some(spec),
        status: None,
    };
    ServiceBuilder { service, slices: Vec::new() }.ports(&[("TCP", 80)])
}

/// Changes a Service step by step.
#[derive(Clone)]
pub struct ServiceBuilder {
    service: corev1::Service,
    slices: Vec<EndpointSlice>,
}

impl ServiceBuilder {
    fn spec(mut self, change: impl FnOnce(&mut corev1::ServiceSpec)) -> Self {
        change(self.service.spec.get_or_insert_default());
        self
    }

    /// Replaces the type.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        self.spec(|spec| spec.type_ = Some(kind.to_owned()))
    }

    /// Replaces the cluster addresses.
    #[must_use]
    pub fn cluster(self, addresses: &[&str]) -> Self {
        self.spec(|spec| spec.cluster_ips = Some(addresses.iter().map(|it| (*it).to_owned()).collect()))
    }

    /// Sets the family policy.
    #[must_use]
    pub fn policy(self, policy: &str) -> Self {
        self.spec(|spec| spec.ip_family_policy = Some(policy.to_owned()))
    }

    /// Sets the order of families.
    #[must_use]
    pub fn families(self, families: &[&str]) -> Self {
        self.spec(|spec| spec.ip_families = Some(families.iter().map(|it| (*it).to_owned()).collect()))
    }

    /// Sets `spec.loadBalancerIP`.
    #[must_use]
    pub fn load_balancer_ip(self, address: &str) -> Self {
        self.spec(|spec| spec.load_balancer_ip = Some(address.to_owned()))
    }

    /// Replaces the ports.
    #[must_use]
    pub fn ports(self, ports: &[(&str, i32)]) -> Self {
        let port = |(protocol, port): &(&str, i32)| corev1::ServicePort {
            protocol: Some((*protocol).to_owned()),
            port: *port,
            ..Default::default()
        };
        self.spec(|spec| spec.ports = Some(ports.iter().map(port).collect()))
    }

    /// Sets the external traffic policy.
    #[must_use]
    pub fn local(self, local: bool) -> Self {
        let policy = if local { "Local" } else { "Cluster" };
        self.spec(|spec| spec.external_traffic_policy = Some(policy.to_owned()))
    }

    /// Sets the pod selector.
    #[must_use]
    pub fn selector(self, pairs: &[(&str, &str)]) -> Self {
        self.spec(|spec| spec.selector = Some(labels(pairs)))
    }

    /// Adds annotations.
    #[must_use]
    pub fn annotations(mut self, pairs: &[(&str, &str)]) -> Self {
        self.service.metadata.annotations.get_or_insert_default().extend(labels(pairs));
        self
    }

    /// Adds the sharing annotation.
    #[must_use]
    pub fn shared(self, key: &str) -> Self {
        self.annotations(&[("metallb.io/allow-shared-ip", key)])
    }

    /// Adds labels.
    #[must_use]
    pub fn labels(mut self, pairs: &[(&str, &str)]) -> Self {
        self.service.metadata.labels.get_or_insert_default().extend(labels(pairs));
        self
    }

    /// Replaces the status with these addresses; one with a letter beyond `f` and no colon is a name.
    #[must_use]
    pub fn holding(mut self, addresses: &[&str]) -> Self {
        let entry = |text: &&str| {
            let name = text.contains(|c: char| c > 'f') && !text.contains(':');
            corev1::LoadBalancerIngress {
                ip: (!name).then(|| (*text).to_owned()),
                ip_mode: (!name).then(|| "VIP".to_owned()),
                hostname: name.then(|| (*text).to_owned()),
                ports: None,
            }
        };
        let load_balancer =
            corev1::LoadBalancerStatus { ingress: Some(addresses.iter().map(entry).collect()) };
        self.service.status.get_or_insert_default().load_balancer = Some(load_balancer);
        self
    }

    /// Records a pool.
    #[must_use]
    pub fn from_pool(self, pool: &str) -> Self {
        self.annotations(&[("metallb.io/ip-allocated-from-pool", pool)])
    }

    /// Takes over what the API server and the controller keep on a Service: identity, status and
    /// annotations of ours.
    #[must_use]
    pub fn with_state_of(mut self, before: &Self) -> Self {
        self.service.metadata.uid.clone_from(&before.service.metadata.uid);
        self.service.metadata.creation_timestamp.clone_from(&before.service.metadata.creation_timestamp);
        self.service.status.clone_from(&before.service.status);
        let kept = before.service.metadata.annotations.iter().flatten();
        let kept = kept.filter(|(key, _)| [ALLOCATED_FROM_POOL, ALLOCATION].contains(&key.as_str()));
        let kept = kept.map(|(key, value)| (key.clone(), value.clone()));
        self.service.metadata.annotations.get_or_insert_default().extend(kept);
        self
    }

    /// Records that the addresses in the status were given in this term.
    #[must_use]
    pub fn granted(self, term: i32) -> Self {
        let service = self.clone().lb();
        let addresses = service.ingress.addresses().unwrap_or_default();
        let grant = Grant { term, uid: service.uid, addresses };
        self.annotations(&[(ALLOCATION, &grant.to_string())])
    }

    /// Sets the uid.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.service.metadata.uid = Some(uid.to_owned());
        self
    }

    /// Applies a write that the controller makes in a term, as the API server would.
    #[must_use]
    pub fn written(mut self, write: &StatusWrite, term: i32) -> Self {
        let gives = write.gives(&self.clone().lb());
        let annotations = self.service.metadata.annotations.get_or_insert_default();
        annotations.remove(ALLOCATED_FROM_POOL);
        let mut addresses = Vec::new();
        if let Some(assignment) = &write.assignment {
            annotations.insert(ALLOCATED_FROM_POOL.to_owned(), assignment.record());
            addresses = assignment.addresses.iter().map(ToString::to_string).collect();
        } else {
            annotations.remove(ALLOCATION);
        }
        let condition = write.condition.as_ref().map(|it| Condition {
            type_: ADDRESS_ASSIGNED.to_owned(),
            status: if it.status { "True" } else { "False" }.to_owned(),
            reason: it.reason.clone(),
            message: it.message.clone(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        });
        self.service.status.get_or_insert_default().conditions = condition.map(|it| vec![it]);
        let mut written = self.holding(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
        if gives {
            written = written.granted(term)
        }
        written
    }

    /// Sets the creation time, in seconds.
    #[must_use]
    pub fn created(mut self, second: i64) -> Self {
        self.service.metadata.creation_timestamp = Timestamp::from_second(second).ok().map(Time);
        self
    }

    /// Adds a slice with these endpoints.
    #[must_use]
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        self.slices.push(slice(endpoints));
        self
    }

    /// Adds a ready endpoint on each of these nodes.
    #[must_use]
    pub fn ready_on(self, nodes: &[&str]) -> Self {
        self.endpoints(nodes.iter().map(|node| endpoint(node, Some(true), None)).collect::<Vec<_>>())
    }

    /// The Service.
    pub fn build(self) -> corev1::Service {
        self.service
    }

    /// The Service as decisions see it.
    pub fn lb(self) -> LoadBalancer {
        LoadBalancer::new(&self.service, &self.slices)
    }
}
