//! BGP: which routes each node sends to which peer.

use ferrolb_api::v1beta1::{BGPAdvertisement, BGPAdvertisementSpec};
use ferrolb_api::v1beta2::{BGPPeer, BGPPeerSpec};
use ferrolb_core::testing::{bgp_advertisement, bgp_peer, peer_spec, peer_with};

use super::*;

fn bgp_ad(name: &str, change: impl FnOnce(&mut BGPAdvertisementSpec)) -> BGPAdvertisement {
    let mut spec = BGPAdvertisementSpec::default();
    change(&mut spec);
    bgp_advertisement(name, spec)
}

fn all() -> BGPAdvertisement {
    bgp_ad("all", |_| ())
}

fn on(node: &str) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector> {
    vec![match_labels(&[("name", node)])]
}

fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|it| (*it).to_owned()).collect()
}

impl World {
    fn bgp(mut self, ads: impl IntoIterator<Item = BGPAdvertisement>) -> Self {
        self.resources = self.resources.with_bgp_advertisements(ads);
        self
    }

    fn peers(mut self, peers: impl IntoIterator<Item = BGPPeer>) -> Self {
        self.resources = self.resources.with_bgp_peers(peers);
        self
    }

    /// What a node sends: `peer: prefix communities @preference, …`.
    fn sends(&self, node: &str) -> String {
        let peers = self.routes(node);
        let peer = |(name, routes): (String, std::sync::Arc<ferrolb_proto::bgp::AdjRibOut>)| {
            let route = |(prefix, attributes): (&_, &std::sync::Arc<ferrolb_proto::bgp::PathAttributes>)| {
                let mut text: String = format!("{prefix}");
                for community in &attributes.communities {
                    text += &format!(" {community}");
                }
                for community in &attributes.large_communities {
                    text += &format!(" large:{community}");
                }
                if let Some(preference) = attributes.local_preference {
                    text += &format!(" @{preference}");
                }
                text
            };
            format!("{name}: {}", routes.iter().map(route).collect::<Vec<_>>().join(", "))
        };
        peers.into_iter().map(peer).collect::<Vec<_>>().join("; ")
    }

    fn bgp_reason(&self, node: &str) -> &'static str {
        let (_, plan) = self.plans(node).pop_first().unwrap();
        plan.bgp.as_ref().err().map_or("", |why| why.reason(Protocol::Bgp))
    }
}

/// Two nodes and a router that both talk to.
fn one_peer() -> World {
    two().peers([bgp_peer("router", "10.1.1.254")])
}

fn served() -> ServiceBuilder {
    holding(1).ready_on(&["iris1"])
}

#[test]
fn every_node_announces_to_every_peer() {
    let world = two()
        .peers([bgp_peer("a", "10.1.1.1"), bgp_peer("b", "10.1.1.2")])
        .bgp([all()])
        .service(service("ns", "s").holding(&["10.20.30.1", "fd00::1"]).ready_on(&["iris2"]));
    let expected = "a: 10.20.30.1/32, fd00::1/128; b: 10.20.30.1/32, fd00::1/128";
    assert_eq!((world.sends("iris1").as_str(), world.sends("iris2").as_str()), (expected, expected));
    let (_, plan) = world.plans("iris1").pop_first().unwrap();
    let addresses: Vec<String> = plan.announced_by(Protocol::Bgp).iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.20.30.1", "fd00::1"]);
    assert!(plan.announced_by(Protocol::Layer2).is_empty(), "there is no L2Advertisement");
    let status = ferrolb_core::status::service_bgp_status(&plan, "iris1").unwrap();
    assert_eq!((status.node.as_deref(), status.peers), (Some("iris1"), texts(&["a", "b"])));
}

#[test]
fn endpoints_decide_with_local_policy_and_some_must_serve() {
    let ready = |node| endpoint(node, Some(true), None);
    let unready = |node| endpoint(node, Some(false), None);
    let serving = |node| endpoint(node, Some(false), Some(true));
    for (local, endpoints, iris1, iris2) in [
        (false, vec![ready("iris2")], "", ""),
        (false, vec![], "noEndpoints", "noEndpoints"),
        (false, vec![unready("iris1")], "noEndpoints", "noEndpoints"),
        (false, vec![unready("iris1"), ready("iris1")], "", ""),
        (true, vec![ready("iris2")], "noLocalEndpoints", ""),
        (true, vec![ready("iris1"), unready("iris1")], "", "noLocalEndpoints"),
        (true, vec![serving("iris1")], "", "noLocalEndpoints"),
        (true, vec![unready("iris1")], "noLocalEndpoints", "noLocalEndpoints"),
    ] {
        let service = holding(1).local(local).endpoints(endpoints.clone());
        let world = one_peer().bgp([all()]).service(service);
        let reasons = (world.bgp_reason("iris1"), world.bgp_reason("iris2"));
        assert_eq!(reasons, (iris1, iris2), "{local} {endpoints:?}");
    }
}

#[test]
fn nodes_that_must_not_announce_say_why() {
    let world = || one_peer().bgp([all()]).service(served());
    assert_eq!(world().excluded("iris1").bgp_reason("iris1"), "nodeLabeledExcludeBalancers");
    let mut ignored = world().excluded("iris1");
    ignored.ignore_exclude_label = true;
    assert_eq!(ignored.bgp_reason("iris1"), "");
    let mut cut = world();
    cut.resources.nodes.get_mut("iris1").unwrap().network_unavailable = true;
    assert_eq!((cut.bgp_reason("iris1"), cut.bgp_reason("iris2")), ("nodeNetworkUnavailable", ""));
    let selected = one_peer().bgp([bgp_ad("a", |it| it.node_selectors = on("iris2"))]).service(served());
    assert_eq!((selected.bgp_reason("iris1"), selected.bgp_reason("iris2")), ("notOwner", ""));
    assert_eq!(one_peer().service(served()).bgp_reason("iris1"), "notOwner");
    // A speaker that is not heard of by the others goes on: routers decide, not members.
    let mut alone = world();
    alone.members.clear();
    assert_eq!(alone.bgp_reason("iris1"), "");
    assert_eq!(two().bgp([all()]).service(served()).bgp_reason("iris1"), "noPeers");
}

#[test]
fn advertisements_select_services() {
    let app =
        |name: &str, app: &str| bgp_ad(name, |it| it.service_selectors = vec![match_labels(&[("app", app)])]);
    let nginx = || served().labels(&[("app", "nginx")]);
    let only = one_peer().bgp([app("a", "nginx")]);
    assert_eq!(only.service(nginx()).bgp_reason("iris1"), "");
    let other = one_peer().bgp([app("a", "apache")]);
    assert_eq!(other.service(nginx()).bgp_reason("iris1"), "noMatchingAdvertisement");
    // Selected with an address that it may share: BGP has no owner, so nothing excludes that.
    let shared = one_peer().bgp([app("a", "nginx")]).service(nginx().shared("key"));
    assert_eq!(shared.bgp_reason("iris1"), "");
}

#[test]
fn each_advertisement_has_its_own_prefix_and_attributes() {
    let aggregate = |it: &mut BGPAdvertisementSpec| {
        it.aggregation_length = 24;
        it.aggregation_length_v6 = 124;
        it.local_pref = Some(1000);
    };
    let host = |it: &mut BGPAdvertisementSpec| {
        it.communities = texts(&["0:2345", "0:1234", "large:1:2:3"]);
        it.local_pref = Some(100);
    };
    let world = one_peer().bgp([bgp_ad("host", host), bgp_ad("net", aggregate)]);
    let dual = service("ns", "s").holding(&["10.20.30.1", "fd00::11"]).ready_on(&["iris1"]);
    assert_eq!(
        world.service(dual).sends("iris1"),
        "router: 10.20.30.0/24 @1000, 10.20.30.1/32 0:1234 0:2345 large:1:2:3 @100, fd00::10/124 @1000, \
         fd00::11/128 0:1234 0:2345 large:1:2:3 @100"
    );
}

#[test]
fn peers_get_what_names_them_on_nodes_that_talk_to_them() {
    let to = |name: &str, peers: &[&str], community: &str| {
        bgp_ad(name, |it| (it.peers, it.communities) = (texts(peers), texts(&[community])))
    };
    let peers = || [bgp_peer("a", "10.1.1.1"), bgp_peer("b", "10.1.1.2")];
    let each = two().peers(peers()).bgp([to("x", &["a"], "1:1"), to("y", &["b", "unknown"], "2:2")]);
    assert_eq!(each.service(served()).sends("iris1"), "a: 10.20.30.1/32 1:1; b: 10.20.30.1/32 2:2");
    let mut of_iris2 = peer_spec();
    of_iris2.peer_address = Some("10.1.1.2".to_owned());
    of_iris2.node_selectors = on("iris2");
    let split = two()
        .peers([bgp_peer("a", "10.1.1.1"), peer_with("b", BGPPeerSpec { ..of_iris2 })])
        .bgp([all()])
        .service(served());
    assert_eq!(split.sends("iris1"), "a: 10.20.30.1/32");
    assert_eq!(split.sends("iris2"), "a: 10.20.30.1/32; b: 10.20.30.1/32");
    let nobody = two().peers(peers()).bgp([to("x", &["unknown"], "1:1")]).service(served());
    assert_eq!(nobody.bgp_reason("iris1"), "noPeers");
}

#[test]
fn routes_of_several_advertisements_and_services_are_united() {
    let with = |name: &str, community: &str| bgp_ad(name, |it| it.communities = texts(&[community]));
    let world = one_peer().bgp([with("x", "2:2"), with("y", "1:1")]).service(served());
    assert_eq!(world.sends("iris1"), "router: 10.20.30.1/32 1:1 2:2");

    // Two Services of one aggregate: it stays as long as one of them is announced.
    let app = |app: &'static str, preference: u32, community: &'static str| {
        bgp_ad(app, move |it| {
            it.service_selectors = vec![match_labels(&[("app", app)])];
            it.local_pref = Some(preference.into());
            it.communities = texts(&[community]);
        })
    };
    let shares = |app: &str, name: &str, port| {
        let service = service("ns", name).holding(&["10.20.30.9"]).labels(&[("app", app)]).shared("k");
        service.ports(&[("TCP", port)]).ready_on(&["iris1"])
    };
    let both = one_peer()
        .bgp([app("web", 50, "1:1"), app("dns", 70, "2:2")])
        .service(shares("web", "one", 80))
        .service(shares("dns", "two", 53));
    assert_eq!(both.sends("iris1"), "router: 10.20.30.9/32 1:1 2:2 @70", "the same in any order");
    let aggregate = one_peer()
        .bgp([bgp_ad("net", |it| it.aggregation_length = 24)])
        .service(holding(1).ready_on(&["iris1"]))
        .service(holding(2));
    assert_eq!(aggregate.sends("iris1"), "router: 10.20.30.0/24");
}

#[test]
fn contradictory_preferences_stop_only_what_they_are_about() {
    let for_nginx = bgp_ad("b", |it| {
        it.service_selectors = vec![match_labels(&[("app", "nginx")])];
        it.local_pref = Some(200);
    });
    let preferring = |name: &str, preference: i64, change: &dyn Fn(&mut BGPAdvertisementSpec)| {
        bgp_ad(name, |it| {
            it.local_pref = Some(preference);
            change(it);
        })
    };
    let nothing: &dyn Fn(&mut BGPAdvertisementSpec) = &|_| ();
    let nginx = || served().labels(&[("app", "nginx")]);
    let world = one_peer().bgp([preferring("a", 100, nothing), for_nginx.clone()]);
    let conflicting = world.service(nginx());
    assert_eq!(conflicting.bgp_reason("iris1"), "conflictingAdvertisements");
    let (_, plan) = conflicting.plans("iris1").pop_first().unwrap();
    let text = plan.bgp.unwrap_err().to_string();
    for part in ["a (localPref 100)", "b (localPref 200)", "10.20.30.1/32", "router"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Another Service, another node, another peer, another prefix: no business of theirs.
    let others = one_peer().bgp([preferring("a", 100, nothing), for_nginx.clone()]).service(served());
    assert_eq!(others.bgp_reason("iris1"), "");
    let elsewhere = preferring("a", 100, &|it| it.node_selectors = on("iris2"));
    let nodes = one_peer().bgp([elsewhere, for_nginx.clone()]).service(nginx());
    assert_eq!((nodes.bgp_reason("iris1"), nodes.bgp_reason("iris2")), ("", "conflictingAdvertisements"));
    let mut to_b = for_nginx.clone();
    to_b.spec.peers = texts(&["b"]);
    let peers = two()
        .peers([bgp_peer("a", "10.1.1.1"), bgp_peer("b", "10.1.1.2")])
        .bgp([preferring("a", 100, nothing), to_b])
        .service(nginx());
    assert_eq!(peers.sends("iris1"), "a: 10.20.30.1/32 @100");
    let net = preferring("a", 100, &|it| it.aggregation_length = 24);
    let prefixes = one_peer().bgp([net, for_nginx]).service(nginx());
    assert_eq!(prefixes.sends("iris1"), "router: 10.20.30.0/24 @100, 10.20.30.1/32 @200");
}

#[test]
fn addresses_of_a_wrong_pool_stay_announced() {
    let world = || {
        one_peer().bgp([all()]).service(
            holding(1).annotations(&[("metallb.io/ip-allocated-from-pool", "default")]).ready_on(&["iris1"]),
        )
    };
    let mut wrong = world();
    wrong.resources = wrong.resources.with_pools([pool("default", &["10.20.30.0/24", "nonsense"])]);
    assert_eq!(wrong.sends("iris1"), world().sends("iris1"));
    let gone = one_peer().bgp([all()]).service(holding(1).kind("ClusterIP").ready_on(&["iris1"]));
    assert_eq!((gone.sends("iris1").as_str(), gone.bgp_reason("iris1")), ("", "notLoadBalancer"));
}

/// Neither protocol waits for the other, or ends with it.
#[test]
fn what_one_protocol_does_not_announce_the_other_one_does() {
    let world = |l2: bool, bgp: bool| {
        let world = one_peer().service(served());
        let world = if l2 { world.ads([ad_on("l2", "iris1")]) } else { world };
        if bgp { world.bgp([all()]) } else { world }
    };
    let announces = |world: &World, node: &str| {
        let (_, plan) = world.plans(node).pop_first().unwrap();
        [Protocol::Layer2, Protocol::Bgp].map(|it| plan.announced_by(it).len())
    };
    let both = world(true, true);
    assert_eq!((announces(&both, "iris1"), announces(&both, "iris2")), ([1, 1], [0, 1]));
    let (by_bgp, by_layer2) = (world(false, true), world(true, false));
    assert_eq!((announces(&by_bgp, "iris1"), announces(&by_bgp, "iris2")), ([0, 1], [0, 1]));
    assert_eq!((announces(&by_layer2, "iris1"), announces(&by_layer2, "iris2")), ([1, 0], [0, 0]));
    assert_eq!(by_bgp.sends("iris1"), both.sends("iris1"));
    assert_eq!(by_layer2.announced("iris1"), both.announced("iris1"));
}
