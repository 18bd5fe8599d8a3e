//! CustomResourceDefinitions, made from the types.
//!
//! What the derive macros know of Rust (nullable options, null in enumerations, unsigned formats) is
//! taken out again, so that the schemas read as MetalLB's do.

mod kind;
mod tidy;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::v1alpha1::{
    AddressReservation, AddressReservationSpec, AddressReservationStatus, BGPSession, BGPSessionStatus,
};
use crate::v1beta1::{
    self, BFDProfile, BFDProfileSpec, BFDProfileStatus, BGPAdvertisement, BGPAdvertisementSpec,
    BGPAdvertisementStatus, Community, CommunitySpec, CommunityStatus, ConfigurationState,
    ConfigurationStateStatus, IPAddressPool, IPAddressPoolSpec, IPAddressPoolStatus, L2Advertisement,
    L2AdvertisementSpec, L2AdvertisementStatus, MetalLB, MetalLBSpec, MetalLBStatus, ServiceBGPStatus,
    ServiceBGPStatusSpec, ServiceBGPStatusStatus, ServiceL2Status, ServiceL2StatusSpec,
    ServiceL2StatusStatus,
};
use crate::v1beta2;
use kind::{Kind, Required};

/// Names of all CRDs, in the order in which they are applied.
pub const CRDS_IN_APPLY_ORDER: [&str; 12] = [
    "addressreservations.ferrolb.io",
    "bfdprofiles.metallb.io",
    "bgpadvertisements.metallb.io",
    "bgppeers.metallb.io",
    "bgpsessions.ferrolb.io",
    "communities.metallb.io",
    "configurationstates.metallb.io",
    "ipaddresspools.metallb.io",
    "l2advertisements.metallb.io",
    "metallbs.metallb.io",
    "servicebgpstatuses.metallb.io",
    "servicel2statuses.metallb.io",
];

/// All CRDs of the product, in apply order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        address_reservation(),
        bfd_profile(),
        bgp_advertisement(),
        bgp_peer(),
        bgp_session(),
        community(),
        configuration_state(),
        ip_address_pool(),
        l2_advertisement(),
        metallb(),
        service_bgp_status(),
        service_l2_status(),
    ]
    .map(Kind::definition)
    .into()
}

fn address_reservation() -> Kind {
    Kind::of::<AddressReservation>(
        "Keeps addresses of pools for a Service, a namespace or nobody, and limits how many addresses a namespace may have.",
    )
    .spec::<AddressReservationSpec>(Required::Yes)
    .spec_rule(
        "!has(self.service) || !has(self.namespace)",
        "addresses are for a Service or for a namespace: give service or namespace, not both",
    )
    .status::<AddressReservationStatus>()
    .column("Addresses", "string", ".spec.addresses")
    .column("Namespace", "string", ".spec.namespace")
    .column("Service", "string", ".spec.service.name")
    .wide_column("Service Namespace", "string", ".spec.service.namespace")
}

fn bfd_profile() -> Kind {
    Kind::of::<BFDProfile>("Timers and modes of BFD (RFC 5880), referred to by name from BGPPeers.")
        .spec::<BFDProfileSpec>(Required::No)
        .status::<BFDProfileStatus>()
        .column("Passive Mode", "boolean", ".spec.passiveMode")
        .column("Transmit Interval", "integer", ".spec.transmitInterval")
        .column("Receive Interval", "integer", ".spec.receiveInterval")
        .column("Multiplier", "integer", ".spec.detectMultiplier")
}

fn bgp_advertisement() -> Kind {
    Kind::of::<BGPAdvertisement>(
        "Announces the addresses of pools to BGP peers. Without a spec: every pool, as host routes, from every node, to every peer.",
    )
    .spec::<BGPAdvertisementSpec>(Required::No)
    .spec_rule(
        "!has(self.serviceSelectors) || self.serviceSelectors.size() == 0 || ((!has(self.aggregationLength) || self.aggregationLength == 32) && (!has(self.aggregationLengthV6) || self.aggregationLengthV6 == 128))",
        "serviceSelectors and aggregationLength are mutually exclusive, can only be used together with default aggregationLength (32) and aggregationLengthV6 (128)",
    )
    .status::<BGPAdvertisementStatus>()
    .column("IPAddressPools", "string", ".spec.ipAddressPools")
    .column("IPAddressPool Selectors", "string", ".spec.ipAddressPoolSelectors")
    .column("Peers", "string", ".spec.peers")
    .wide_column("Node Selectors", "string", ".spec.nodeSelectors")
}

/// Both versions; the shipped definition converts nothing but the name of the version, since a webhook
/// that is not there yet could only refuse. The webhook registers itself as the converter.
fn bgp_peer() -> Kind {
    let columns = |kind: Kind| {
        kind.column("Address", "string", ".spec.peerAddress")
            .column("ASN", "string", ".spec.peerASN")
            .column("BFD Profile", "string", ".spec.bfdProfile")
            .column("Multi Hops", "string", ".spec.ebgpMultiHop")
    };
    let description = "A router that the speakers open BGP sessions with.";
    let v1beta1 = Kind::of::<v1beta1::BGPPeer>(description)
        .spec::<v1beta1::BGPPeerSpec>(Required::No)
        .status::<v1beta1::BGPPeerStatus>()
        .deprecated("v1beta1 is deprecated, please use v1beta2");
    let v1beta2 = Kind::of::<v1beta2::BGPPeer>(description)
        .spec::<v1beta2::BGPPeerSpec>(Required::No)
        .status::<v1beta2::BGPPeerStatus>();
    columns(v1beta2).also(columns(v1beta1))
}

fn bgp_session() -> Kind {
    Kind::of::<BGPSession>(
        "How the BGP session of a node with a BGPPeer stands. Written by that node's speaker.",
    )
    .status::<BGPSessionStatus>()
    .column("Node", "string", ".status.node")
    .column("Peer", "string", ".status.peer")
    .column("Address", "string", ".status.address")
    .column("AS", "integer", ".status.peerASN")
    .column("State", "string", ".status.state")
    .column("Since", "date", ".status.since")
    .column("Sent", "integer", ".status.prefixesSent")
    .column("Received", "integer", ".status.prefixesReceived")
    .column("BFD", "string", ".status.bfdState")
    .wide_column("Last Error", "string", ".status.lastError")
}

fn community() -> Kind {
    Kind::of::<Community>("Names that BGPAdvertisements may use instead of the numbers of a BGP community.")
        .spec::<CommunitySpec>(Required::No)
        .status::<CommunityStatus>()
}

fn configuration_state() -> Kind {
    Kind::of::<ConfigurationState>("What one process of the product says of the configuration it runs.")
        .status::<ConfigurationStateStatus>()
        .column("Result", "string", ".status.result")
        .column("ErrorSummary", "string", ".status.errorSummary")
        .column("Age", "date", ".metadata.creationTimestamp")
}

fn ip_address_pool() -> Kind {
    Kind::of::<IPAddressPool>("A pool of addresses for Services of type LoadBalancer.")
        .spec::<IPAddressPoolSpec>(Required::Yes)
        .status::<IPAddressPoolStatus>()
        .column("Auto Assign", "boolean", ".spec.autoAssign")
        .column("Avoid Buggy IPs", "boolean", ".spec.avoidBuggyIPs")
        .column("Addresses", "string", ".spec.addresses")
}

fn l2_advertisement() -> Kind {
    Kind::of::<L2Advertisement>(
        "Announces the addresses of pools on layer 2, by ARP and NDP. Without a spec: every pool, from every node, on every interface.",
    )
    .spec::<L2AdvertisementSpec>(Required::No)
    .status::<L2AdvertisementStatus>()
    .column("IPAddressPools", "string", ".spec.ipAddressPools")
    .column("IPAddressPool Selectors", "string", ".spec.ipAddressPoolSelectors")
    .column("Interfaces", "string", ".spec.interfaces")
    .wide_column("Node Selectors", "string", ".spec.nodeSelectors")
}

fn metallb() -> Kind {
    Kind::of::<MetalLB>(
        "Asks the operator to install the product. The one object must be called metallb and live in the operator's namespace.",
    )
    .spec::<MetalLBSpec>(Required::No)
    .status::<MetalLBStatus>()
    .rule(
        "self.metadata.name == 'metallb'",
        "the operator honours one MetalLB object only: name it metallb",
    )
    .column("Available", "string", ".status.conditions[?(@.type=='Available')].status")
    .column("Degraded", "string", ".status.conditions[?(@.type=='Degraded')].status")
    .column("Progressing", "string", ".status.conditions[?(@.type=='Progressing')].status")
    .column("Age", "date", ".metadata.creationTimestamp")
}

fn service_bgp_status() -> Kind {
    Kind::of::<ServiceBGPStatus>(
        "To which BGP peers a node announces a Service. Written by that node's speaker.",
    )
    .spec::<ServiceBGPStatusSpec>(Required::No)
    .status::<ServiceBGPStatusStatus>()
    .column("Node", "string", ".status.node")
    .column("Service Name", "string", ".status.serviceName")
    .column("Service Namespace", "string", ".status.serviceNamespace")
}

fn service_l2_status() -> Kind {
    Kind::of::<ServiceL2Status>(
        "Which node answers ARP and NDP for a Service. Written by that node's speaker.",
    )
    .spec::<ServiceL2StatusSpec>(Required::No)
    .status::<ServiceL2StatusStatus>()
    .column("Allocated Node", "string", ".status.node")
    .column("Service Name", "string", ".status.serviceName")
    .column("Service Namespace", "string", ".status.serviceNamespace")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_crd_is_built_in_apply_order() {
        let names: Vec<_> = crds().into_iter().map(|c| c.metadata.name.unwrap()).collect();
        assert_eq!(names, CRDS_IN_APPLY_ORDER);
    }

    #[test]
    fn no_schema_is_nullable_or_too_large_for_client_side_apply() {
        for crd in crds() {
            let text = serde_json::to_string(&crd).unwrap();
            assert!(!text.contains("\"nullable\""), "{:?}", crd.metadata.name);
            assert!(text.len() < 200_000, "{:?} has {} bytes", crd.metadata.name, text.len());
        }
    }

    #[test]
    fn objects_without_a_spec_are_read() {
        let adv: L2Advertisement = serde_json::from_value(
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "L2Advertisement", "metadata": {"name": "all"}}),
        )
        .unwrap();
        assert_eq!(adv.spec, L2AdvertisementSpec::default());
        let state: ConfigurationState = serde_json::from_value(
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "ConfigurationState", "metadata": {"name": "controller"}}),
        )
        .unwrap();
        assert_eq!(state.status, None);
    }
}
