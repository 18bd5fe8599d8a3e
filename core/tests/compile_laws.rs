//! Laws of `compile` over random objects of every kind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_api::v1alpha1::{AddressQuota, AddressReservation, AddressReservationSpec, ReservedService};
use ferrolb_api::v1beta1::{
    BFDProfile, BFDProfileSpec, BGPAdvertisement, BGPAdvertisementSpec, Community, IPAddressPool,
    L2Advertisement, L2AdvertisementSpec,
};
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_core::admission::{Candidate, Operation, Verdict, admit};
use ferrolb_core::config::{Diagnostic, Kind, ObjectRef, Severity, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bfd_profile, bgp_advertisement, community, expression, l2_advertisement, labels, match_labels, node,
    peer_with, pool, reservation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

const NAMESPACE: &str = "metallb-system";

/// An object of any kind.
#[derive(Clone, Debug)]
enum Object {
    Pool(IPAddressPool),
    Reservation(AddressReservation),
    L2(L2Advertisement),
    Bgp(BGPAdvertisement),
    Peer(BGPPeer),
    Profile(BFDProfile),
    Community(Community),
}

impl Object {
    fn metadata(&mut self) -> &mut ObjectMeta {
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

    fn add_to(self, resources: Resources) -> Resources {
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

    fn candidate(self) -> (ObjectRef, Candidate) {
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

fn any_object() -> impl Strategy<Value = Object> {
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
    let pools =
        (select(&["p0", "p1", "p2"][..]), entries, select(&["a", "b"][..])).prop_map(|(name, entries, l)| {
            let mut object = pool(name, &[]);
            object.spec.addresses = entries;
            object.metadata.labels = Some(labels(&[("l", l)]));
            Object::Pool(object)
        });
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
fn objects() -> impl Strategy<Value = Vec<Object>> {
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

fn with(objects: impl IntoIterator<Item = Object>) -> Resources {
    let nodes = [("n0", "a"), ("n1", "b"), ("n2", "c")].map(|(name, l)| node(name, &[("l", l)]));
    // A pool that everything fits, so that one more makes no difference to who selects all.
    let base = Resources::default()
        .with_nodes(nodes)
        .with_pools([pool("base", &["192.168.0.0/16", "2001:db8:1::/48"])]);
    objects.into_iter().fold(base, |resources, object| object.add_to(resources))
}

/// Objects that nothing above has to do with.
fn strangers() -> Vec<Object> {
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

fn of_others(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.into_iter().filter(|it| it.object.name != "stranger").collect()
}

/// Lets whoever has no creation time yet be older than one that is new.
fn age<K: Clone>(objects: &mut BTreeMap<String, Arc<K>>, metadata: fn(&mut K) -> &mut ObjectMeta) {
    for object in objects.values_mut() {
        let created = &mut metadata(Arc::make_mut(object)).creation_timestamp;
        created.get_or_insert(Time(Timestamp::from_second(9).unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_order_of_the_input_does_not_matter(objects in objects(), turn in 0..14usize) {
        let straight = compile(&with(objects.clone()));
        let mut turned = objects.clone();
        turned.rotate_left(turn.min(objects.len()));
        turned.reverse();
        prop_assert_eq!(straight, compile(&with(turned)));
    }

    #[test]
    fn an_unrelated_object_changes_no_finding_of_others(objects in objects(), index in 0..7usize) {
        let alone = compile(&with(objects.clone()));
        let stranger = strangers().remove(index);
        let together = compile(&with(objects.into_iter().chain([stranger])));
        prop_assert_eq!(alone.diagnostics, of_others(together.diagnostics));
        prop_assert!(alone.config.peers().iter().all(|(name, peer)| together.config.peers().get(name) == Some(peer)));
    }

    /// What is found decides: an object is left out exactly if a finding says so, and each text is there.
    #[test]
    fn findings_and_configuration_agree(objects in objects()) {
        let resources = with(objects);
        let compiled = compile(&resources);
        for finding in &compiled.diagnostics {
            prop_assert!(!finding.to_string().is_empty() && !finding.remedy().is_empty() && !finding.field.is_empty());
            prop_assert!(finding.severity() != Severity::Invalid || finding.leaves_out());
        }
        let faultless = |kind, name: &str| {
            compiled.diagnostics.iter().all(|it| it.object != ObjectRef::new(kind, name) || !it.leaves_out())
        };
        for name in resources.pools.keys() {
            prop_assert_eq!(compiled.config.pools().contains_key(name), faultless(Kind::IpAddressPool, name));
        }
        for name in resources.l2_advertisements.keys() {
            let in_force = compiled.config.l2_advertisements().contains_key(name);
            prop_assert_eq!(in_force, faultless(Kind::L2Advertisement, name));
        }
        for name in resources.bgp_peers.keys().filter(|name| faultless(Kind::BgpPeer, name)) {
            let peer = compiled.config.peers().get(name);
            // One that selects no Node is for nobody.
            prop_assert!(peer.is_some() || compiled.diagnostics.iter().any(|it| it.object.name == *name));
        }
        // On every node each router has one peer.
        for node in ["n0", "n1", "n2"] {
            let here = compiled.config.peers().values().filter(|it| it.nodes.contains(node));
            let mut routers: Vec<_> = here.map(|it| it.neighbor.to_string()).collect();
            routers.sort();
            let count = routers.len();
            routers.dedup();
            prop_assert_eq!(routers.len(), count);
        }
    }

    /// Admission denies what compile, with the object as the newest, finds invalid; and nothing else.
    #[test]
    fn admission_is_compile(objects in objects(), mut candidate in any_object()) {
        candidate.metadata().creation_timestamp = None;
        let resources = with(objects);
        let (reference, change) = candidate.clone().candidate();
        let verdict = admit(&resources, change, Operation::Create, NAMESPACE);
        let mut stored = resources;
        age(&mut stored.pools, |it| &mut it.metadata);
        age(&mut stored.reservations, |it| &mut it.metadata);
        age(&mut stored.bgp_peers, |it| &mut it.metadata);
        age(&mut stored.communities, |it| &mut it.metadata);
        age(&mut stored.bgp_advertisements, |it| &mut it.metadata);
        let found = compile(&candidate.add_to(stored)).diagnostics;
        let invalid = found.iter().any(|it| it.object == reference && it.severity() == Severity::Invalid);
        prop_assert_eq!(matches!(verdict, Verdict::Denied { .. }), invalid, "{:?}", verdict);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever text stands in a field, it is judged, and told in a text.
    #[test]
    fn no_text_makes_compile_fail(texts in prop::collection::vec(".*", 12), number in any::<i64>()) {
        let text = |index: usize| texts[index].clone();
        let peer = BGPPeerSpec {
            my_asn: 1,
            peer_asn: Some(2),
            peer_address: Some(text(0)),
            source_address: Some(text(1)),
            hold_time: Some(text(2)),
            keepalive_time: Some(text(3)),
            connect_time: Some(text(4)),
            router_id: Some(text(5)),
            vrf: Some(text(6)),
            bfd_profile: Some(text(7)),
            node_selectors: vec![expression(&text(8), &text(9), &[&text(10)]), match_labels(&[(&text(8), &text(10))])],
            ..Default::default()
        };
        let ad = BGPAdvertisementSpec {
            aggregation_length: number,
            aggregation_length_v6: number,
            local_pref: Some(number),
            communities: vec![text(11), format!("large:{}", text(11))],
            ..Default::default()
        };
        let resources = Resources::default()
            .with_bgp_peers([peer_with("p", peer)])
            .with_communities([community("c", &[(&text(11), &text(0))])])
            .with_bgp_advertisements([bgp_advertisement("a", ad)]);
        let compiled = compile(&resources);
        prop_assert!(compiled.diagnostics.iter().all(|it| !it.to_string().is_empty() && !it.remedy().is_empty()));
        prop_assert!(!compiled.config.peers().contains_key("p") || text(0).parse::<std::net::IpAddr>().is_ok());
    }
}
