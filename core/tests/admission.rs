//! `admit`: what is let into the cluster.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use ferrolb_api::v1beta1::{
    BFDProfileSpec, BGPAdvertisementSpec, IPAddressPool, IPAddressPoolStatus, L2AdvertisementSpec,
};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::admission::{Candidate, Operation, Verdict, admit};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bfd_profile, bgp_advertisement, bgp_peer, community, l2_advertisement, match_labels, node, pool,
    reservation,
};
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

const NAMESPACE: &str = "metallb-system";

fn here(mut pool: IPAddressPool) -> IPAddressPool {
    pool.metadata.namespace = Some(NAMESPACE.to_owned());
    pool
}

fn created(mut pool: IPAddressPool, second: i64) -> IPAddressPool {
    pool.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
    pool
}

fn judge(existing: &Resources, candidate: IPAddressPool, operation: Operation) -> Verdict {
    admit(existing, Candidate::IpAddressPool(Arc::new(candidate)), operation, NAMESPACE)
}

fn judge_ad(existing: &Resources, pools: &[&str]) -> Verdict {
    let pools = pools.iter().map(|name| (*name).to_owned()).collect();
    let spec = L2AdvertisementSpec { ip_address_pools: pools, ..Default::default() };
    let mut ad = l2_advertisement("ad", spec);
    ad.metadata.namespace = Some(NAMESPACE.to_owned());
    admit(existing, Candidate::L2Advertisement(Arc::new(ad)), Operation::Create, NAMESPACE)
}

fn allowed() -> Verdict {
    Verdict::Allowed { warnings: Vec::new() }
}

fn denied(message: &str) -> Verdict {
    Verdict::Denied { message: message.to_owned() }
}

#[test]
fn a_bad_pool_is_denied_with_the_known_text() {
    let bad = here(pool("bad", &["192.168.10.220-192.168.10.200"]));
    let text = r#"parsing address pool bad: invalid CIDR "192.168.10.220-192.168.10.200" in pool "bad": invalid IP range "192.168.10.220-192.168.10.200": start IP "192.168.10.220" is after the end IP "192.168.10.200""#;
    for operation in [Operation::Create, Operation::Update] {
        assert_eq!(judge(&Resources::default(), bad.clone(), operation), denied(text));
    }
    assert_eq!(judge(&Resources::default(), bad.clone(), Operation::Delete), allowed());
    let mut going = bad;
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(judge(&Resources::default(), going, Operation::Update), allowed(), "finalizers must come off");
}

#[test]
fn all_faults_are_told_at_once() {
    let verdict = judge(&Resources::default(), here(pool("p", &["1", "2"])), Operation::Create);
    assert_eq!(
        verdict,
        denied(
            "parsing address pool p: invalid CIDR \"1\" in pool \"p\": invalid CIDR \"1\"\n\
             parsing address pool p: invalid CIDR \"2\" in pool \"p\": invalid CIDR \"2\""
        )
    );
}

#[test]
fn of_very_many_faults_the_first_are_told_and_the_number_of_the_others() {
    let entries = vec!["10.0.0.1/32"; 20_000];
    let Verdict::Denied { message } =
        judge(&Resources::default(), here(pool("p", &entries)), Operation::Create)
    else {
        panic!("the same address over and over")
    };
    assert_eq!(message.lines().count(), 51);
    assert!(message.ends_with("\nand 19949 more"), "{}", message.lines().last().unwrap());
}

#[test]
fn a_text_that_is_no_duration_is_no_matter_of_opinion() {
    let mut peer = bgp_peer("p", "10.0.0.1");
    peer.metadata.namespace = Some(NAMESPACE.to_owned());
    peer.spec.hold_time = Some("abc".to_owned());
    let judged =
        |peer| admit(&Resources::default(), Candidate::BgpPeer(Arc::new(peer)), Operation::Create, NAMESPACE);
    assert_eq!(
        judged(peer.clone()),
        Verdict::Unreadable { message: "time: invalid duration \"abc\"".to_owned() }
    );
    peer.spec.hold_time = Some("1s".to_owned());
    assert!(matches!(judged(peer), Verdict::Denied { .. }));
}

#[test]
fn overlap_is_the_fault_of_the_candidate() {
    let first = || created(here(pool("first", &["1.1.1.1-1.1.1.100"])), 20);
    let second = |entry| created(here(pool("second", &[entry])), 10);
    let stored = Resources::default().with_pools([first()]);
    let overlap = |cidr, earlier| {
        denied(&format!(r#"CIDR "{cidr}" in pool "second" overlaps with already defined CIDR "{earlier}""#))
    };
    assert_eq!(
        judge(&stored, second("1.1.1.15-1.1.1.20"), Operation::Create),
        overlap("1.1.1.15/32", "1.1.1.8/29")
    );
    assert_eq!(judge(&stored, second("1.1.1.101-1.1.1.200"), Operation::Create), allowed());
    // An edit of an old pool that runs into a younger one is denied as well.
    let both = stored.with_pools([second("1.1.1.101-1.1.1.200")]);
    assert_eq!(judge(&both, second("1.1.1.0/24"), Operation::Update), overlap("1.1.1.0/24", "1.1.1.1/32"));
    assert_eq!(judge(&both, second("1.1.1.101-1.1.1.210"), Operation::Update), allowed(), "not with itself");
}

#[test]
fn what_is_wrong_already_blocks_nobody_else() {
    let stored = Resources::default().with_pools([
        created(here(pool("bad", &["nonsense", "10.0.0.0/24"])), 1),
        created(here(pool("a", &["10.1.0.0/24"])), 2),
        created(here(pool("b", &["10.1.0.0/24"])), 3),
    ]);
    assert_eq!(judge(&stored, here(pool("new", &["10.2.0.0/24"])), Operation::Create), allowed());
    assert_eq!(judge(&stored, here(pool("bad", &["10.0.0.0/24"])), Operation::Update), allowed());
    assert_eq!(judge_ad(&stored, &["bad"]), allowed());
}

#[test]
fn only_in_our_namespace() {
    let message = "resource must be created in metallb-system namespace";
    let mut stray = pool("p", &["1.2.3.0/24"]);
    stray.metadata.namespace = Some("default".to_owned());
    assert_eq!(judge(&Resources::default(), stray.clone(), Operation::Create), denied(message));
    let warning = r#"IPAddressPool "p" is not in force: it is not in namespace metallb-system"#;
    let warned = Verdict::Allowed { warnings: vec![warning.to_owned()] };
    assert_eq!(judge(&Resources::default(), stray.clone(), Operation::Update), warned);
    assert_eq!(judge(&Resources::default(), stray, Operation::Delete), allowed());
}

#[test]
fn dangling_references_are_a_warning() {
    let stored = Resources::default().with_pools([here(pool("p", &["1.2.3.0/24"]))]);
    assert_eq!(judge_ad(&stored, &["p"]), allowed());
    assert_eq!(
        judge_ad(&stored, &["later"]),
        Verdict::Allowed {
            warnings: vec![
                r#"L2Advertisement "ad" refers to IPAddressPool "later", which does not exist"#.to_owned()
            ]
        }
    );
    assert_eq!(judge_ad(&stored, &["p", "p"]), denied(r#"duplicate definition of ipAddressPools "p""#));
}

/// A candidate of our namespace.
macro_rules! candidate {
    ($kind:ident, $object:expr) => {{
        let mut object = $object;
        object.metadata.namespace = Some(NAMESPACE.to_owned());
        Candidate::$kind(Arc::new(object))
    }};
}

fn warned(texts: &[&str]) -> Verdict {
    Verdict::Allowed { warnings: texts.iter().map(|text| (*text).to_owned()).collect() }
}

/// Two pools, a BGP advertisement of `pool` with an alias to `peer`, which has a BFD profile.
fn bgp_cluster() -> Resources {
    let mut peer = bgp_peer("peer", "1.2.3.4");
    peer.spec.bfd_profile = Some("fast".to_owned());
    let ad = BGPAdvertisementSpec {
        aggregation_length: 24,
        ip_address_pools: vec!["pool".to_owned()],
        communities: vec!["alias".to_owned()],
        peers: vec!["peer".to_owned()],
        ..Default::default()
    };
    Resources::default()
        .with_pools([here(pool("pool", &["10.0.0.0/24"]))])
        .with_bgp_peers([peer])
        .with_bfd_profiles([bfd_profile("fast", BFDProfileSpec::default())])
        .with_communities([community("c", &[("alias", "1:2")])])
        .with_bgp_advertisements([bgp_advertisement("ad", ad)])
}

#[test]
fn every_kind_is_judged() {
    let stored = bgp_cluster();
    let create = |candidate| admit(&stored, candidate, Operation::Create, NAMESPACE);
    assert_eq!(create(candidate!(BgpPeer, bgp_peer("new", "1.2.3.5"))), allowed());
    let mut deprecated = bgp_peer("new", "1.2.3.5");
    deprecated.spec.disable_mp = true;
    let text = "disable mp is deprecated and has no effect since it's the default behavior now";
    assert_eq!(create(candidate!(BgpPeer, deprecated)), warned(&[text]));
    let mut early = bgp_peer("new", "1.2.3.5");
    early.spec.bfd_profile = Some("later".to_owned());
    early.spec.password_secret = Some(SecretReference { name: Some("later".to_owned()), namespace: None });
    assert_eq!(
        create(candidate!(BgpPeer, early)),
        warned(&["peer new referencing non existing bfd profile later"]),
        "objects may come in any order"
    );
    assert_eq!(
        create(candidate!(BgpPeer, bgp_peer("new", "1.1.1"))),
        denied("parsing peer new invalid BGPPeer address \"1.1.1\"")
    );
    assert_eq!(
        create(candidate!(BgpPeer, bgp_peer("new", "1.2.3.4"))),
        denied(r#"peer 1.2.3.4 already exists: BGPPeer "new" and BGPPeer "peer" select the same node"#)
    );
    assert_eq!(create(candidate!(Community, community("d", &[("other", "1:2")]))), allowed());
    assert_eq!(
        create(candidate!(Community, community("d", &[("alias", "1:2")]))),
        denied(r#"duplicate definition of community "alias""#)
    );
    let profile = |interval| BFDProfileSpec { receive_interval: Some(interval), ..Default::default() };
    assert_eq!(create(candidate!(BfdProfile, bfd_profile("slow", profile(1000)))), allowed());
    assert_eq!(
        create(candidate!(BfdProfile, bfd_profile("slow", profile(1)))),
        denied(
            "parsing bfd profile slow: invalid value 1, must be in 10-60000 range\ninvalid receive interval value"
        )
    );
    let later = BGPAdvertisementSpec { communities: vec!["later".to_owned()], ..Default::default() };
    assert_eq!(
        create(candidate!(BgpAdvertisement, bgp_advertisement("new", later))),
        warned(&["invalid community format: later\ninvalid community \"later\" in BGP advertisement"])
    );
    let long = BGPAdvertisementSpec { aggregation_length: 33, ..Default::default() };
    assert_eq!(
        create(candidate!(BgpAdvertisement, bgp_advertisement("new", long))),
        denied("invalid aggregation length 33 for IPv4")
    );
    let mut stray = bgp_peer("new", "1.2.3.5");
    stray.metadata.namespace = Some("default".to_owned());
    stray.spec.disable_mp = true;
    let refused = denied("resource must be created in metallb-system namespace");
    assert_eq!(create(Candidate::BgpPeer(Arc::new(stray))), refused, "disableMP does not pass by");
}

#[test]
fn a_change_that_harms_others_is_a_warning() {
    let stored = bgp_cluster();
    let judge = |candidate, operation| admit(&stored, candidate, operation, NAMESPACE);
    assert_eq!(
        judge(candidate!(IpAddressPool, pool("pool", &["10.0.0.0/28"])), Operation::Update),
        warned(&[
            "invalid aggregation length 24: prefix 28 in this pool is more specific than the aggregation \
                  length for addresses 10.0.0.0/28 (BGPAdvertisement \"ad\")"
        ])
    );
    assert_eq!(
        judge(candidate!(IpAddressPool, pool("pool", &["10.0.0.0/23"])), Operation::Update),
        allowed()
    );
    assert_eq!(
        judge(candidate!(Community, community("c", &[])), Operation::Update),
        warned(&["invalid community format: alias\ninvalid community \"alias\" in BGP advertisement"])
    );
    assert_eq!(
        judge(candidate!(Community, community("c", &[])), Operation::Delete),
        warned(&["invalid community format: alias\ninvalid community \"alias\" in BGP advertisement"])
    );
    assert_eq!(
        judge(candidate!(BgpPeer, bgp_peer("peer", "1.2.3.4")), Operation::Delete),
        warned(&[r#"BGPAdvertisement "ad" refers to BGPPeer "peer", which does not exist"#])
    );
    assert_eq!(
        judge(candidate!(BfdProfile, bfd_profile("fast", BFDProfileSpec::default())), Operation::Delete),
        denied("failed to delete BFDProfile fast, used by BGPPeer peer")
    );
    let unused = bfd_profile("unused", BFDProfileSpec::default());
    assert_eq!(judge(candidate!(BfdProfile, unused), Operation::Delete), allowed());
    let mut used = pool("pool", &["10.0.0.0/24"]);
    used.status = Some(IPAddressPoolStatus { assigned_ipv4: 3, ..Default::default() });
    assert_eq!(
        judge(candidate!(IpAddressPool, used), Operation::Delete),
        warned(&[
            r#"IPAddressPool "pool" is in use: Services lose the addresses that they hold from it (3)"#,
            r#"BGPAdvertisement "ad" refers to IPAddressPool "pool", which does not exist"#,
        ])
    );
}

#[test]
fn every_kind_belongs_in_our_namespace() {
    let elsewhere = |mut candidate: Candidate| {
        macro_rules! move_to_default {
            ($($kind:ident),*) => {
                match &mut candidate {
                    $(Candidate::$kind(it) => Arc::make_mut(it).metadata.namespace = Some("default".to_owned()),)*
                    Candidate::MetalLb { .. } => {}
                }
            };
        }
        move_to_default!(
            IpAddressPool,
            AddressReservation,
            L2Advertisement,
            BgpAdvertisement,
            BgpPeer,
            BfdProfile,
            Community
        );
        candidate
    };
    for here in [
        candidate!(IpAddressPool, pool("new", &["10.9.0.0/24"])),
        candidate!(AddressReservation, reservation("new", &["10.9.0.1"])),
        candidate!(L2Advertisement, l2_advertisement("new", L2AdvertisementSpec::default())),
        candidate!(BgpAdvertisement, bgp_advertisement("new", BGPAdvertisementSpec::default())),
        candidate!(BgpPeer, bgp_peer("new", "1.2.3.5")),
        candidate!(BfdProfile, bfd_profile("new", BFDProfileSpec::default())),
        candidate!(Community, community("new", &[("other", "1:2")])),
    ] {
        let judge = |candidate| admit(&bgp_cluster(), candidate, Operation::Create, NAMESPACE);
        let refused = denied("resource must be created in metallb-system namespace");
        assert_eq!(judge(elsewhere(here.clone())), refused, "{here:?}");
        assert!(matches!(judge(here.clone()), Verdict::Allowed { .. }), "a second one: {here:?}");
    }
}

/// What can be read of itself is read, and what names something else waits for it.
#[test]
fn communities_with_a_colon_are_values_and_others_are_aliases() {
    let create = |communities: &[&str]| {
        let communities = communities.iter().map(|it| (*it).to_owned()).collect();
        let spec = BGPAdvertisementSpec { communities, ..Default::default() };
        let ad = bgp_advertisement("new", spec);
        admit(&Resources::default(), candidate!(BgpAdvertisement, ad), Operation::Create, NAMESPACE)
    };
    let unknown = |alias: &str| {
        format!("invalid community format: {alias}\ninvalid community \"{alias}\" in BGP advertisement")
    };
    assert_eq!(
        create(&["alias", "myCommunityAlias"]),
        warned(&[&unknown("alias"), &unknown("myCommunityAlias")])
    );
    let Verdict::Denied { message } = create(&["11111:11aaaa", "larg:12345:12345:12345", "alias"]) else {
        panic!("values that are none are refused")
    };
    for expected in [
        "invalid community value: invalid section \"11aaaa\" of community \"11111:11aaaa\"",
        "invalid community value: invalid marker for large community",
    ] {
        assert!(message.contains(expected), "{message}");
    }
    assert!(!message.contains("invalid community format: alias"), "{message}");
}

#[test]
fn nodes_decide_whether_two_peers_meet() {
    let on = |name: &str, node: &str| {
        let mut peer = bgp_peer(name, "1.2.3.4");
        peer.spec.node_selectors = vec![match_labels(&[("name", node)])];
        peer
    };
    let stored = Resources::default()
        .with_nodes(["node1", "node2"].map(|name| node(name, &[("name", name)])))
        .with_bgp_peers([on("a", "node1")]);
    for operation in [Operation::Create, Operation::Update] {
        let judge = |peer: BGPPeer| admit(&stored, candidate!(BgpPeer, peer), operation, NAMESPACE);
        assert_eq!(judge(on("b", "node2")), allowed());
        assert_eq!(
            judge(on("b", "node1")),
            denied(r#"peer 1.2.3.4 already exists: BGPPeer "b" and BGPPeer "a" select the same node"#)
        );
        assert_eq!(
            judge(on("b", "gone")),
            warned(&[r#"nodeSelectors of BGPPeer "b" match no Node"#]),
            "it may come"
        );
    }
}
