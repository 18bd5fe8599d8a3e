//! Random objects of every kind, few names and few values, so that they get in each other's way.

use std::sync::Arc;

use ferrolb_api::v1alpha1::{AddressQuota, AddressReservation, AddressReservationSpec, ReservedService};
use ferrolb_api::v1beta1::{
    BFDProfile, BFDProfileSpec, BGPAdvertisement, BGPAdvertisementSpec, Community, IPAddressPool,
    L2Advertisement, L2AdvertisementSpec, ServiceAllocation,
};
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_core::admission::Candidate;
use ferrolb_core::config::{Kind, ObjectRef};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bfd_profile, bgp_advertisement, community, expression, l2_advertisement, labels, match_labels, node,
    peer_with, pool, reservation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) const NAMESPACE: &str = "metallb-system";

/// An object of any kind.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Pool(IPAddressPool),
    Reservation(AddressReservation),
    L2(L2Advertisement),
    Bgp(BGPAdvertisement),
    Peer(BGPPeer),
    Profile(BFDProfile),
    Community(Community),
}

impl Object {
    pub(crate) fn metadata(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Pool(it) => &mut it.metadata,
            Self::Reservation(it) => &mut it.metadata,
            Self::L2(it) => &mut it.metadata,
            Self::Bgp(it) => &mut it.metadata,
            Self::Peer(it) => &mut it.metadata,
            Self::Profile(it) => &mut it.metadata,
            Self::Community(it) => &mut it.metadata,
        }
    }

    pub(crate) fn add_to(self, resources: Resources) -> Resources {
        match self {
            Self::Pool(it) => resources.with_pools([it]),
            Self::Reservation(it) => resources.with_reservations([it]),
            Self::L2(it) => resources.with_l2_advertisements([it]),
            Self::Bgp(it) => resources.with_bgp_advertisements([it]),
            Self::Peer(it) => resources.with_bgp_peers([it]),
            Self::Profile(it) => resources.with_bfd_profiles([it]),
            Self::Community(it) => resources.with_communities([it]),
        }
    }

    pub(crate) fn take_out_of(self, mut resources: Resources) -> Resources {
        let (ObjectRef { kind, name }, _) = self.candidate();
        match kind {
            Kind::IpAddressPool => drop(resources.pools.remove(&name)),
            Kind::AddressReservation => drop(resources.reservations.remove(&name)),
            Kind::L2Advertisement => drop(resources.l2_advertisements.remove(&name)),
            Kind::BgpAdvertisement => drop(resources.bgp_advertisements.remove(&name)),
            Kind::BgpPeer => drop(resources.bgp_peers.remove(&name)),
            Kind::BfdProfile => drop(resources.bfd_profiles.remove(&name)),
            Kind::Community => drop(resources.communities.remove(&name)),
        }
        resources
    }

    pub(crate) fn candidate(self) -> (ObjectRef, Candidate) {
        let mut named = self.clone();
        let name = named.metadata().name.clone().unwrap();
        let (kind, candidate) = match self {
            Self::Pool(it) => (Kind::IpAddressPool, Candidate::IpAddressPool(Arc::new(it))),
            Self::Reservation(it) => (Kind::AddressReservation, Candidate::AddressReservation(Arc::new(it))),
            Self::L2(it) => (Kind::L2Advertisement, Candidate::L2Advertisement(Arc::new(it))),
            Self::Bgp(it) => (Kind::BgpAdvertisement, Candidate::BgpAdvertisement(Arc::new(it))),
            Self::Peer(it) => (Kind::BgpPeer, Candidate::BgpPeer(Arc::new(it))),
            Self::Profile(it) => (Kind::BfdProfile, Candidate::BfdProfile(Arc::new(it))),
            Self::Community(it) => (Kind::Community, Candidate::Community(Arc::new(it))),
        };
        (ObjectRef::new(kind, name), candidate)
    }
}

fn some(texts: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(select(texts), 0..=most)
        .prop_map(|texts| texts.into_iter().map(ToOwned::to_owned).collect())
}

fn maybe(texts: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    prop::option::of(select(texts).prop_map(ToOwned::to_owned))
}

fn selectors() -> impl Strategy<Value = Vec<LabelSelector>> {
    let one = prop_oneof![
        select(&["a", "b", "gone"][..]).prop_map(|value| match_labels(&[("l", value)])),
        Just(expression("l", "In", &["a", "b"])),
        Just(expression("l", "near", &["a"])),
    ];
    prop::collection::vec(one, 0..3)
}

pub(crate) fn any_object() -> impl Strategy<Value = Object> {
    let entries = some(
        &[
            "10.0.0.0/24",
            "10.0.0.7/30",
            "10.0.1.5-10.0.1.9",
            "10.0.0.0/16",
            "2001:db8::/64",
            "224.0.0.1/32",
            "x",
        ],
        3,
    );
    let pools = (select(&["p0", "p1", "p2"][..]), entries, select(&["a", "b"][..]), selectors()).prop_map(
        |(name, entries, l, namespaces)| {
            let mut object = pool(name, &[]);
            object.spec.addresses = entries;
            object.spec.service_allocation =
                Some(ServiceAllocation { namespace_selectors: namespaces, ..Default::default() });
            object.metadata.labels = Some(labels(&[("l", l)]));
            Object::Pool(object)
        },
    );
    let reserved = some(&["10.0.0.7", "10.0.0.0/30", "10.0.1.5-10.0.1.99", "2001:db8::1", "x"], 3);
    let holders = (maybe(&["shop", ""]), prop::option::of(Just(ReservedService::default())));
    let reservations = (select(&["r0", "r1"][..]), reserved, holders, prop::option::of(-1..3i64)).prop_map(
        |(name, entries, (namespace, service), limit)| {
            let mut object = reservation(name, &[]);
            let quota = |max_addresses| AddressQuota { namespace: "shop".to_owned(), max_addresses };
            object.spec = AddressReservationSpec {
                addresses: entries,
                namespace,
                service,
                quotas: limit.into_iter().map(quota).collect(),
            };
            Object::Reservation(object)
        },
    );
    let names = || some(&["p0", "p1", "p9"], 2);
    let l2 = (select(&["l0", "l1"][..]), names(), selectors(), selectors()).prop_map(
        |(name, pools, by_label, nodes)| {
            let spec = L2AdvertisementSpec {
                ip_address_pools: pools,
                ip_address_pool_selectors: by_label,
                node_selectors: nodes,
                ..Default::default()
            };
            Object::L2(l2_advertisement(name, spec))
        },
    );
    let bgp = (
        select(&["b0", "b1", "b2"][..]),
        names(),
        selectors(),
        some(&["peer0", "peer1", "peer9"], 2),
        (select(&[16_i64, 24, 32, 33][..]), select(&[64_i64, 128][..]), select(&[0_i64, 100, 200][..])),
        some(&["alias", "1:2", "1:x", "large:1:2:3"], 2),
    );
    let bgp = bgp.prop_map(|(name, pools, nodes, peers, (v4, v6, preference), communities)| {
        let spec = BGPAdvertisementSpec {
            aggregation_length: v4,
            aggregation_length_v6: v6,
            local_pref: Some(preference),
            communities,
            ip_address_pools: pools,
            node_selectors: nodes,
            peers,
            ..Default::default()
        };
        Object::Bgp(bgp_advertisement(name, spec))
    });
    let peers = (
        select(&["peer0", "peer1", "peer2"][..]),
        maybe(&["1.2.3.4", "2001:db8::1", "x"]),
        maybe(&["eth0"]),
        selectors(),
        maybe(&["fast", "gone"]),
        maybe(&["90s", "1s", "x"]),
    );
    let peers = peers.prop_map(|(name, peer_address, interface, node_selectors, bfd_profile, hold_time)| {
        let spec = BGPPeerSpec {
            my_asn: 1,
            peer_asn: Some(2),
            peer_address,
            interface,
            node_selectors,
            bfd_profile,
            hold_time,
            ..Default::default()
        };
        Object::Peer(peer_with(name, spec))
    });
    let profiles = prop::option::of(0..20u32).prop_map(|interval| {
        let spec = BFDProfileSpec { receive_interval: interval, echo_mode: Some(true), ..Default::default() };
        Object::Profile(bfd_profile("fast", spec))
    });
    let communities = (select(&["c0", "c1"][..]), select(&["alias", "other"][..]), select(&["1:2", "x"][..]))
        .prop_map(|(name, alias, value)| Object::Community(community(name, &[(alias, value)])));
    let objects = prop_oneof![pools, reservations, l2, bgp, peers, profiles, communities];
    (objects, prop::option::of(0..3i64)).prop_map(|(mut object, second)| {
        let time = second.map(|second| Time(Timestamp::from_second(second).unwrap()));
        object.metadata().creation_timestamp = time;
        object.metadata().namespace = Some(NAMESPACE.to_owned());
        object
    })
}

/// Objects of different kinds or names: who comes later would replace who came earlier.
pub(crate) fn objects() -> impl Strategy<Value = Vec<Object>> {
    prop::collection::vec(any_object(), 0..14).prop_map(|objects| {
        let mut seen = Vec::new();
        let kept = objects.into_iter().filter(|object| {
            let (reference, _) = object.clone().candidate();
            let new = !seen.contains(&reference);
            seen.push(reference);
            new
        });
        kept.collect()
    })
}

pub(crate) fn with(objects: impl IntoIterator<Item = Object>) -> Resources {
    let nodes = [("n0", "a"), ("n1", "b"), ("n2", "c")].map(|(name, l)| node(name, &[("l", l)]));
    // A pool that everything fits, so that one more makes no difference to who selects all.
    let base = Resources::default()
        .with_nodes(nodes)
        .with_pools([pool("base", &["192.168.0.0/16", "2001:db8:1::/48"])]);
    objects.into_iter().fold(base, |resources, object| object.add_to(resources))
}

/// Objects that nothing above has to do with.
pub(crate) fn strangers() -> Vec<Object> {
    let names = |name: &str| vec![name.to_owned()];
    let bgp = BGPAdvertisementSpec {
        ip_address_pools: names("stranger"),
        peers: names("stranger"),
        local_pref: Some(7),
        ..Default::default()
    };
    let peer = BGPPeerSpec {
        my_asn: 1,
        peer_asn: Some(2),
        peer_address: Some("9.9.9.9".to_owned()),
        ..Default::default()
    };
    vec![
        Object::Pool(pool("stranger", &["172.16.0.0/16", "2001:db8:2::/48"])),
        Object::Reservation(reservation("stranger", &["172.16.0.0/30"])),
        Object::L2(l2_advertisement(
            "stranger",
            L2AdvertisementSpec { ip_address_pools: names("stranger"), ..Default::default() },
        )),
        Object::Bgp(bgp_advertisement("stranger", bgp)),
        Object::Peer(peer_with("stranger", peer)),
        Object::Profile(bfd_profile("stranger", BFDProfileSpec::default())),
        Object::Community(community("stranger", &[("stranger", "5:5")])),
    ]
}
