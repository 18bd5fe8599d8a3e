//! A bad edit takes nothing down that was in force.

use ferrolb_api::v1beta1::{BFDProfileSpec, BGPAdvertisementSpec, L2AdvertisementSpec};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_core::config::{Memory, compile};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    bfd_profile, bgp_advertisement, bgp_peer, community, l2_advertisement, node, pool,
};

use super::names;

fn peer(change: impl FnOnce(&mut BGPPeer)) -> BGPPeer {
    let mut peer = bgp_peer("peer", "1.2.3.4");
    peer.metadata.uid = Some("1".to_owned());
    peer.spec.bfd_profile = Some("fast".to_owned());
    change(&mut peer);
    peer
}

fn l2(pools: &[&str]) -> L2AdvertisementSpec {
    L2AdvertisementSpec { ip_address_pools: names(pools), ..Default::default() }
}

fn good() -> Resources {
    let bgp = BGPAdvertisementSpec { communities: names(&["alias"]), ..Default::default() };
    Resources::default()
        .with_nodes([node("n1", &[])])
        .with_pools([pool("p", &["10.0.0.0/24"])])
        .with_bfd_profiles([bfd_profile("fast", BFDProfileSpec::default())])
        .with_communities([community("c", &[("alias", "1:2")])])
        .with_bgp_peers([peer(|_| {})])
        .with_l2_advertisements([l2_advertisement("l2", l2(&["p"]))])
        .with_bgp_advertisements([bgp_advertisement("bgp", bgp)])
}

#[test]
fn what_was_in_force_stays_in_force_while_its_object_is_wrong() {
    let mut memory = Memory::default();
    let before = memory.compile(&good()).config;
    assert_eq!(before, compile(&good()).config);
    let mut without_alias = good();
    without_alias.communities.clear();
    let mut without_profile = good();
    without_profile.bfd_profiles.clear();
    for bad in [
        good().with_l2_advertisements([l2_advertisement("l2", l2(&["p", "p"]))]),
        good().with_bgp_peers([peer(|it| it.spec.my_asn = 0)]),
        without_alias,
        without_profile,
    ] {
        let compiled = memory.compile(&bad);
        assert_eq!(compiled.config, before);
        assert_eq!(compiled.diagnostics, compile(&bad).diagnostics, "and it is said");
        assert!(compiled.diagnostics.iter().any(|it| it.leaves_out()));
        assert_ne!(compile(&bad).config, before, "a process that starts anew cannot know");
        assert_eq!(memory.compile(&bad).config, before, "for as long as it is wrong");
    }
    assert_eq!(memory.compile(&good()).config, before);
}

#[test]
fn what_is_deleted_or_made_anew_is_forgotten() {
    let mut memory = Memory::default();
    memory.compile(&good());
    let anew = peer(|it| {
        it.metadata.uid = Some("2".to_owned());
        it.spec.my_asn = 0;
    });
    assert!(memory.compile(&good().with_bgp_peers([anew])).config.peers().is_empty());
    let mut deleted = good();
    deleted.l2_advertisements.clear();
    assert!(memory.compile(&deleted).config.l2_advertisements().is_empty());
    let wrong = deleted.with_l2_advertisements([l2_advertisement("l2", l2(&["p", "p"]))]);
    assert!(memory.compile(&wrong).config.l2_advertisements().is_empty());
}

#[test]
fn a_remembered_peer_gives_way_to_one_that_is_right() {
    let mut memory = Memory::default();
    memory.compile(&good());
    let resources = good().with_bgp_peers([peer(|it| it.spec.my_asn = 0), bgp_peer("other", "1.2.3.4")]);
    let config = memory.compile(&resources).config;
    assert_eq!(config.peers().keys().collect::<Vec<_>>(), ["other"]);
}
