//! Table by table.

use ferrolb_api::v1beta1::{BGPAdvertisement, BGPAdvertisementSpec};
use ferrolb_core::testing::{bgp_advertisement, bgp_peer};
use ferrolb_proto::ethernet::MacAddr;

use super::*;

const STRANGER: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0x99]);

/// Of 10.20.30.1 iris2 comes first in rank, of .2 iris1.
#[test]
fn election_with_local_policy() {
    let ready = |node| endpoint(node, Some(true), None);
    let unready = |node| endpoint(node, Some(false), None);
    let serving = |node| endpoint(node, Some(false), Some(true));
    let one = |endpoints: Vec<_>, iris1, iris2| {
        expect(&two().everywhere().service(holding(1).local(true).endpoints(endpoints)), iris1, iris2);
    };
    one(vec![unready("iris1"), unready("iris1")], "notOwner", "notOwner");
    one(vec![ready("iris1"), serving("iris2")], "notOwner", "");
    one(vec![unready("iris1"), unready("iris2")], "notOwner", "notOwner");
    one(vec![ready("iris1"), unready("iris2")], "", "notOwner");
    one(vec![ready("iris1"), ready("iris1"), ready("iris2")], "notOwner", "");
    one(vec![ready("iris1"), ready("iris2"), ready("iris2")], "notOwner", "");
    one(vec![ready("iris1"), unready("iris1"), ready("iris2")], "notOwner", "");
    one(vec![], "notOwner", "notOwner");

    let pair = |first: Vec<_>, second: Vec<_>| {
        two()
            .everywhere()
            .service(holding(1).local(true).endpoints(first))
            .service(holding(2).local(true).endpoints(second))
    };
    let both = || vec![ready("iris1"), ready("iris2")];
    expect(&pair(both(), both()), "notOwner,", ",notOwner");
    expect(&pair(both(), vec![ready("iris1"), unready("iris2")]), "notOwner,", ",notOwner");
    let crossed = pair(vec![ready("iris2"), unready("iris1")], vec![ready("iris1"), unready("iris2")]);
    expect(&crossed, "notOwner,", ",notOwner");
}

#[test]
fn election_with_node_selection_and_exclusion() {
    let svc = |local: bool, nodes: &[&str]| holding(1).local(local).ready_on(nodes);
    let only = |node| two().ads([ad_on("a", node)]);
    expect(&only("iris1").service(svc(false, &["iris1"])), "", "noMatchingAdvertisement");
    expect(&only("iris1").service(svc(false, &["iris1", "iris2"])), "", "noMatchingAdvertisement");
    let each = two().ads([ad_on("a", "iris1"), ad_on("b", "iris2")]);
    expect(&each.service(svc(true, &["iris1"])), "", "notOwner");
    expect(&only("iris2").service(svc(true, &["iris1"])), "noMatchingAdvertisement", "notOwner");
    expect(&two().everywhere().excluded("iris2").service(svc(false, &["iris1"])), "", "notOwner");
    let none = two().everywhere().excluded("iris1").excluded("iris2").service(svc(false, &["iris1"]));
    expect(&none, "notOwner", "notOwner");
    let mut ignored = two().everywhere().excluded("iris1").excluded("iris2").service(svc(true, &["iris1"]));
    ignored.ignore_exclude_label = true;
    expect(&ignored, "", "notOwner");
    expect(
        &only("ghost").service(svc(false, &["iris1"])),
        "noMatchingAdvertisement",
        "noMatchingAdvertisement",
    );
}

#[test]
fn the_reason_says_more_than_its_name() {
    let withheld = |world: &World, node: &str| world.plans(node).pop_first().unwrap().1.withheld().cloned();
    let base = || two().everywhere().service(holding(1).ready_on(&["iris1"]));
    let winner = Some("iris2".to_owned());
    assert_eq!(withheld(&base(), "iris1"), Some(Withheld::NotElected { winner }));
    assert_eq!(withheld(&base().excluded("iris2"), "iris2"), Some(Withheld::NodeExcluded));
    let mut cut = base();
    cut.resources.nodes.insert("iris2".to_owned(), Node { network_unavailable: true, ..Node::default() });
    assert_eq!(withheld(&cut, "iris2"), Some(Withheld::NodeNetworkUnavailable));
    assert_eq!(withheld(&cut, "iris1"), None);
    let local = two().everywhere().service(holding(1).local(true).ready_on(&["iris1"]));
    assert_eq!(withheld(&local, "iris2"), Some(Withheld::NoLocalEndpoints));
    let idle = two().everywhere().service(holding(1));
    assert_eq!(withheld(&idle, "iris2"), Some(Withheld::NoServingEndpoints));
    let mut alone = base();
    alone.members = ["iris1".to_owned()].into();
    assert_eq!(withheld(&alone, "iris1"), None);
}

#[test]
fn services_that_are_not_announced_at_all() {
    for (service, reason) in [
        (holding(1).kind("ClusterIP"), "notLoadBalancer"),
        (service("ns", "s"), "noIPAllocated"),
        (service("ns", "s").holding(&["foo.bar.local"]), "invalidIP"),
        (service("ns", "s").holding(&["10.20.30.1", "foo.bar.local"]), "invalidIP"),
        (service("ns", "s").holding(&["10.20.31.1"]), "ipNotAllowed"),
        (service("ns", "s").holding(&["10.20.30.1", "fd01::1"]), "ipNotAllowed"),
    ] {
        let world = two().everywhere().service(service.ready_on(&["iris1"]));
        expect(&world, reason, reason);
    }
}

#[test]
fn service_selectors_and_sharing() {
    let nginx = || holding(1).labels(&[("app", "nginx")]).ready_on(&["iris1"]);
    let shared = || nginx().shared("key");
    let deprecated = || nginx().annotations(&[("metallb.universe.tf/allow-shared-ip", "key")]);
    let conflict = "sharedIPWithServiceSelector";
    for (ads, service, on_iris2) in [
        (vec![ad("a", |_| ())], nginx(), ""),
        (vec![ad_for("a", &["nginx"])], nginx(), ""),
        (vec![ad_for("a", &["apache"])], nginx(), "noMatchingAdvertisement"),
        (vec![ad_for("a", &["apache", "nginx"])], nginx(), ""),
        (vec![ad_for("a", &["nginx"])], shared(), conflict),
        (vec![ad("a", |_| ())], shared(), ""),
        (vec![ad_for("a", &["apache"])], shared(), "noMatchingAdvertisement"),
        (vec![ad_for("a", &["nginx"])], deprecated(), conflict),
        (vec![ad_for("a", &["nginx"]), ad("b", |_| ())], shared(), conflict),
    ] {
        assert_eq!(two().ads(ads).service(service).reasons("iris2"), on_iris2);
    }
    let mut right_service = ad_for("b", &["nginx"]);
    right_service.spec.node_selectors = vec![match_labels(&[("name", "ghost")])];
    let none = two().ads([ad_for("a", &["other"]), right_service]).service(nginx());
    expect(&none, "noMatchingAdvertisement", "noMatchingAdvertisement");
    let apart = || {
        let (mut foo, mut bar) = (ad_for("foo", &["foo"]), ad_for("bar", &["bar"]));
        foo.spec.node_selectors = vec![match_labels(&[("name", "iris1")])];
        bar.spec.node_selectors = vec![match_labels(&[("name", "iris2")])];
        two().ads([foo, bar])
    };
    let app = |name| holding(1).labels(&[("app", name)]).ready_on(&["iris1"]);
    expect(&apart().service(app("foo")), "", "noMatchingAdvertisement");
    expect(&apart().service(app("bar")), "noMatchingAdvertisement", "");
}

#[test]
fn interfaces_are_united_and_must_exist() {
    let on = |name: &str, interfaces: &[&str]| {
        let interfaces = interfaces.iter().map(|it| (*it).to_owned()).collect();
        ad(name, |it| it.interfaces = interfaces)
    };
    for (ads, expected) in [
        (vec![on("a", &[])], r#"{10.20.30.1: All}"#),
        (
            vec![on("a", &["eth0", "eth1"]), on("b", &["eth0", "eth2"])],
            r#"{10.20.30.1: Named({"eth0", "eth1", "eth2"})}"#,
        ),
        (vec![on("a", &["eth0", "eth1"]), on("b", &[])], r#"{10.20.30.1: All}"#),
        // Two equal ones are as good as one.
        (vec![on("a", &["eth0"]), on("b", &["eth0"])], r#"{10.20.30.1: Named({"eth0"})}"#),
        (vec![on("a", &["eth7"])], "{}"),
    ] {
        let world = two().ads(ads).service(holding(1).ready_on(&["iris1"]));
        assert_eq!(format!("{:?}", world.announced("iris2")), expected);
    }
    let world = two().ads([on("a", &["eth7"])]).service(holding(1).ready_on(&["iris1"]));
    expect(&world, "announceFailed", "announceFailed");
    assert!(world.claims("iris1").is_empty(), "nobody has the interface");
    // Interfaces count where the advertisement does.
    let mut elsewhere = on("b", &["eth1"]);
    elsewhere.spec.node_selectors = vec![match_labels(&[("name", "iris1")])];
    let world = two().ads([on("a", &["eth0"]), elsewhere]).service(holding(1).ready_on(&["iris1"]));
    assert_eq!(format!("{:?}", world.announced("iris2")), r#"{10.20.30.1: Named({"eth0"})}"#);
}

#[test]
fn preferences() {
    let prefer = |weight, node: &str| PreferredNode { weight, preference: match_labels(&[("name", node)]) };
    let four = || World::new(&["edge-a", "edge-b", "worker-a", "worker-b"]);
    let svc = || holding(1).ready_on(&["worker-b"]);
    let edge_a = four().ads([ad("a", |it| it.preferred_node_selectors = vec![prefer(100, "edge-a")])]);
    assert_eq!(edge_a.service(svc()).announcers(), "edge-a");
    let several = four().ads([
        ad("ad1", |it| {
            it.node_selectors = vec![match_labels(&[("name", "edge-a")])];
            it.preferred_node_selectors = vec![prefer(100, "edge-a")];
        }),
        ad("ad2", |_| ()),
        ad("ad3", |it| {
            it.service_selectors = vec![match_labels(&[("app", "other")])];
            it.preferred_node_selectors = vec![prefer(1000, "worker-a")];
        }),
    ]);
    assert_eq!(several.service(svc()).announcers(), "edge-a");
    let edges = || {
        four().ads([ad("a", |it| {
            it.preferred_node_selectors = vec![prefer(50, "edge-a"), prefer(50, "edge-b")]
        })])
    };
    let mut without_a = edges().service(svc());
    without_a.members.remove("edge-a");
    assert_eq!(without_a.announcers(), "edge-b");
    assert_eq!(edges().service(svc()).announcers(), "edge-b", "a tie goes by digest");
    // Scores of several advertisements add up: a=100, b=50.
    let sum = four().ads([
        ad("a", |it| it.preferred_node_selectors = vec![prefer(70, "edge-a")]),
        ad("b", |it| it.preferred_node_selectors = vec![prefer(30, "edge-a"), prefer(90, "edge-b")]),
    ]);
    assert_eq!(sum.service(svc()).announcers(), "edge-a");
}

#[test]
fn every_address_has_one_announcer_and_both_nodes_get_some() {
    let mut world = two().everywhere();
    for last in 1..=255 {
        world = world.service(holding(last).ready_on(&["iris1"]));
    }
    let (a, b) = (world.announced("iris1"), world.announced("iris2"));
    assert_eq!(a.len() + b.len(), 255);
    assert!(a.keys().all(|address| !b.contains_key(address)));
    assert!(!a.is_empty() && !b.is_empty());
}

#[test]
fn a_shared_address_is_decided_once() {
    let local = |name: &str, nodes: &[&str]| {
        let port = if name == "a" { 80 } else { 81 };
        let service = service("ns", name).holding(&["10.20.30.1"]).shared("k").ports(&[("TCP", port)]);
        service.local(true).ready_on(nodes)
    };
    let three = || World::new(&["iris1", "iris2", "iris3"]).everywhere();
    let overlap = three().service(local("a", &["iris1", "iris2"])).service(local("b", &["iris1", "iris3"]));
    assert_eq!(overlap.announcers(), "iris1");
    assert_eq!(overlap.reasons("iris1"), ",");
    // No node in common: one of them all the same, and the plan says that somebody loses.
    let disjoint = three().service(local("a", &["iris1"])).service(local("b", &["iris2"]));
    assert_eq!(disjoint.announcers(), "iris2");
    let contested = |world: &World| {
        world.with_input("iris2", |input| elect(input, &world.services).values().all(|it| it.contested))
    };
    assert!(contested(&disjoint) && !contested(&overlap));
    assert_eq!(disjoint.reasons("iris1"), "notOwner,notOwner");
    // Who has no endpoints has no say.
    let idle = three().service(local("a", &["iris1"])).service(local("b", &[]));
    assert_eq!(idle.announcers(), "iris1");
}

#[test]
fn addresses_of_a_pool_that_is_left_out_go_on() {
    let mut world = two().ads([ad("a", |it| it.ip_address_pools = vec!["default".to_owned()])]);
    world.resources = world.resources.with_pools([pool("default", &["10.20.30.9-10.20.30.1"])]);
    assert!(world.config().pools().is_empty());
    let world = world.service(holding(1).from_pool("default").ready_on(&["iris1"]));
    expect(&world, "notOwner", "");
    let world = world.service(holding(2).from_pool("deleted").ready_on(&["iris1"]));
    expect(&world, "notOwner,ipNotAllowed", ",ipNotAllowed");
}

#[test]
fn what_the_wire_says_comes_first() {
    let world = two().everywhere().service(holding(1).ready_on(&["iris1"]));
    let address = IpAddr::from([10, 20, 30, 1]);
    let decision = |world: &World, node: &str, seen: Option<Seen>| {
        let wire = seen.map(|seen| (address, seen)).into_iter().collect();
        world.with_input(node, |input| {
            let plan = plan_service(input, &elect(input, &world.services), &wire, &world.services[0]);
            plan.layer2.unwrap().addresses.remove(&address).unwrap().decision
        })
    };
    let other = || Some(Seen::Elsewhere(Some("iris2".to_owned())));
    assert_eq!(decision(&world, "iris2", None), Err(Withheld::Claiming));
    assert_eq!(decision(&world, "iris1", Some(Seen::Here)), Ok(Interfaces::All));
    let elected = Withheld::NotElected { winner: Some("iris2".to_owned()) };
    assert_eq!(decision(&world, "iris1", other()), Err(elected));
    let conflict = decision(&world, "iris2", Some(Seen::Conflict(STRANGER))).unwrap_err();
    assert_eq!(
        (conflict.reason(Protocol::Layer2), conflict),
        ("addressConflict", Withheld::AddressConflict { mac: STRANGER })
    );
    // Handing over.
    let excluded = world.excluded("iris1");
    assert_eq!(decision(&excluded, "iris1", Some(Seen::Here)), Ok(Interfaces::All));
    assert_eq!(decision(&excluded, "iris1", other()), Err(Withheld::NodeExcluded));
}

#[test]
fn a_living_owner_keeps_its_turn_and_a_dead_one_loses_it() {
    let mut world = World::new(&["iris1", "iris2", "iris3"]).everywhere();
    for last in 1..=6 {
        world = world.service(holding(last).ready_on(&["iris1"]));
    }
    let owner = |node: &str| Seen::Elsewhere(Some(node.to_owned()));
    let wire: Wire = (1..=6).map(|last| (IpAddr::from([10, 20, 30, last]), owner("iris3"))).collect();
    let turns = |alive: bool, this_node: &str| {
        world.with_input(this_node, |input| {
            let mut members = input.members.clone();
            members.get_mut("iris3").unwrap().alive = alive;
            let input = PlanInput { members: &members, ..*input };
            let claims = claims(&input, &elect(&input, &world.services), &wire);
            claims.values().filter(|it| it.claim.turn == Some(0)).count()
        })
    };
    assert_eq!((turns(false, "iris1"), turns(false, "iris2")), (3, 3), "heirs share what a dead node had");
    assert_eq!(turns(true, "iris1") + turns(true, "iris2"), 6, "each address has one heir");
}

#[test]
fn a_cordon_counts_where_that_is_asked_for() {
    let mut world = two().everywhere().service(holding(1).ready_on(&["iris1"]));
    world.resources.nodes.get_mut("iris2").unwrap().cordoned = true;
    expect(&world, "notOwner", "");
    world.withdraw_on_cordon = true;
    expect(&world, "", "notOwner");
}

#[test]
fn where_no_node_is_eligible_each_says_why() {
    let mut world =
        two().ads([ad_on("a", "iris1")]).excluded("iris1").service(holding(1).ready_on(&["iris1"]));
    world.members.insert("iris3".to_owned());
    world.with_input("iris2", |input| {
        let elections = elect(input, &world.services);
        let (address, election) = elections.first_key_value().unwrap();
        let event = Event::NoEligibleNodes { address: *address, withheld: election.withheld.clone() };
        assert_eq!(
            event.to_string(),
            "no node can announce address 10.20.30.1: iris1: the node carries the label that excludes it from load \
             balancers; iris2: no L2Advertisement is for this pool, Service and node; iris3: no L2Advertisement is \
             for this pool, Service and node"
        );
    });
}

#[test]
fn an_annotation_lets_the_better_preempt() {
    for (value, expected) in [("true", true), ("false", false)] {
        let mut all = ad("a", |_| ());
        all.metadata.annotations = Some(labels(&[("ferrolb.io/preempt", value)]));
        let world = two().ads([all]).service(holding(1).ready_on(&["iris1"]));
        assert!(world.claims("iris1").values().all(|it| it.claim.preempt == expected));
    }
}

#[test]
fn statuses_and_events() {
    let world = two()
        .ads([ad("a", |it| it.interfaces = vec!["eth1".to_owned(), "eth0".to_owned()])])
        .service(holding(1).ready_on(&["iris1"]));
    let plan = |node| world.plans(node).pop_first().unwrap().1;
    let status = service_l2_status(&plan("iris2"), "iris2").unwrap();
    assert_eq!(status.node.as_deref(), Some("iris2"));
    assert_eq!(
        (status.service_namespace.as_deref(), status.service_name.as_deref()),
        (Some("ns"), Some("s1"))
    );
    let names: Vec<_> = status.interfaces.iter().map(|it| it.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["eth0", "eth1"]);
    assert_eq!(service_l2_status(&plan("iris1"), "iris1"), None);
    let all = two().everywhere().service(holding(1).ready_on(&["iris1"]));
    let plan = all.plans("iris2").pop_first().unwrap().1;
    assert_eq!(service_l2_status(&plan, "iris2").unwrap().interfaces, []);

    let assigned = Event::NodeAssigned { node: "iris2".to_owned(), protocol: Protocol::Layer2 };
    assert_eq!((assigned.reason(), assigned.is_warning()), ("nodeAssigned", false));
    assert_eq!(assigned.to_string(), r#"announcing from node "iris2" with protocol "layer2""#);
    let conflict = Event::AddressConflict { address: "10.20.30.1".parse().unwrap(), mac: STRANGER };
    assert_eq!((conflict.reason(), conflict.is_warning()), ("AddressConflict", true));
    assert!(conflict.to_string().contains("MAC 02:00:00:00:00:99"), "{conflict}");
    let failed = Event::AnnounceFailed { node: "iris2".to_owned(), address: "10.20.30.1".parse().unwrap() };
    assert_eq!((failed.reason(), failed.is_warning()), ("announceFailed", true));
    assert_eq!(
        failed.to_string(),
        r#"the interfaces specified by LB IP "10.20.30.1" doesn't exist in assigned node "iris2" with protocol "layer2""#
    );
}

/// Two pools, one a family, each with its own advertisements; a Service holds an address of both.
#[test]
fn each_address_of_a_pair_follows_its_own_pool() {
    let of = |name: &str, pool: &str| ad(name, |it| it.ip_address_pools = vec![pool.to_owned()]);
    let bgp_of = |name: &str, pool: &str, length: i64| {
        bgp_advertisement(
            name,
            BGPAdvertisementSpec {
                ip_address_pools: vec![pool.to_owned()],
                aggregation_length: length,
                ..Default::default()
            },
        )
    };
    let world = |ads: Vec<L2Advertisement>, bgp: Vec<BGPAdvertisement>| {
        let mut world = World::new(&["iris1"]).ads(ads);
        world.resources = world
            .resources
            .with_pools([pool("default", &["10.20.30.0/24"]), pool("six", &["fd00::/120"])])
            .with_bgp_peers([bgp_peer("router", "10.1.1.254")])
            .with_bgp_advertisements(bgp);
        world.service(service("ns", "s").holding(&["10.20.30.1", "fd00::1"]).ready_on(&["iris1"]))
    };
    let announced = |world: &World| {
        let plan = world.plans("iris1").pop_first().unwrap().1;
        let texts = |protocol| {
            plan.announced_by(protocol).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        (plan.pool.clone().unwrap(), texts(Protocol::Layer2), texts(Protocol::Bgp))
    };
    let both = world(
        vec![of("a", "default"), of("b", "six")],
        vec![bgp_of("a", "default", 24), bgp_of("b", "six", 32)],
    );
    let pair = "10.20.30.1 fd00::1".to_owned();
    assert_eq!(announced(&both), ("default,six".to_owned(), pair.clone(), pair));
    let routes: Vec<String> = both.routes("iris1")["router"].keys().map(ToString::to_string).collect();
    assert_eq!(routes, ["10.20.30.0/24", "fd00::1/128"]);
    // What only one pool is advertised for goes for that address, and the other says why not.
    let one = world(vec![of("b", "six")], vec![bgp_of("a", "default", 32)]);
    assert_eq!(announced(&one), ("default,six".to_owned(), "fd00::1".to_owned(), "10.20.30.1".to_owned()));
    let plan = one.plans("iris1").pop_first().unwrap().1;
    let why = |protocol, address: &str| plan.withheld_from(protocol, address.parse().unwrap()).cloned();
    assert_eq!(why(Protocol::Layer2, "10.20.30.1"), Some(Withheld::NoMatchingAdvertisement));
    assert_eq!(why(Protocol::Bgp, "fd00::1"), Some(Withheld::NodeNotSelected));
    assert_eq!(why(Protocol::Bgp, "10.20.30.1"), None);
    // A pool that is left out for an error goes on for its address.
    let mut broken = both;
    broken.resources = broken.resources.with_pools([pool("six", &["fd00::9-fd00::1"])]);
    broken.services.clear();
    let held = service("ns", "s").holding(&["10.20.30.1", "fd00::1"]).from_pool("default,six");
    assert_eq!(announced(&broken.service(held.ready_on(&["iris1"]))).1, "10.20.30.1 fd00::1");
}

/// A leader that was paused gave an address away that its successor had given.
#[test]
fn an_address_given_twice_is_announced_for_who_had_it_first() {
    let held =
        |name: &str, term| service("ns", name).holding(&["10.20.30.1"]).granted(term).ready_on(&["iris1"]);
    let mut world = two().everywhere().service(held("late", 1).local(true)).service(held("first", 2));
    world.resources = world
        .resources
        .with_bgp_peers([bgp_peer("router", "10.1.1.254")])
        .with_bgp_advertisements([bgp_advertisement("all", BGPAdvertisementSpec::default())]);
    // The one that goes has no say either: it would allow one node only.
    expect(&world, "addressGivenTwice,notOwner", "addressGivenTwice,");
    let late = &world.plans("iris1")[&world.services[0].key];
    let keeper = (*world.services[1].key).clone();
    let given_twice = Withheld::GivenTwice { keeper };
    assert_eq!(late.withheld(), Some(&given_twice));
    assert_eq!(late.bgp, Err(given_twice));
    assert!(world.plans("iris1")[&world.services[1].key].bgp.is_ok());
    // With an address that is its own, a Service goes on for that one.
    let pair = service("ns", "late").holding(&["10.20.30.1", "fd00::1"]).granted(1).ready_on(&["iris1"]);
    world.services[0] = pair.lb();
    let plans = world.plans("iris1");
    let late = plans[&world.services[0].key].bgp.as_ref().unwrap();
    assert_eq!(late.addresses, BTreeSet::from(["fd00::1".parse().unwrap()]));
    assert_eq!(late.withheld.len(), 1);
    // Who may share it is not in question.
    world.services[0] = held("late", 1).shared("k").ports(&[("TCP", 81)]).lb();
    world.services[1] = held("first", 2).shared("k").lb();
    assert_eq!(world.reasons("iris2"), ",");
}

/// The last Service that had an address is gone while a stranger uses it: the wire is asked on.
#[test]
fn an_address_in_conflict_is_asked_for_when_no_service_has_it() {
    let world = two().everywhere().service(holding(1).ready_on(&["iris1"]));
    let seen = |last: u8, seen| (IpAddr::from([10, 20, 30, last]), seen);
    let wire: Wire =
        [seen(1, Seen::Conflict(STRANGER)), seen(2, Seen::Conflict(STRANGER)), seen(3, Seen::Here)].into();
    let claims = |config: &World| {
        config.with_input("iris1", |input| claims(input, &elect(input, &config.services), &wire))
    };
    let of = claims(&world);
    assert_eq!(of.keys().map(ToString::to_string).collect::<Vec<_>>(), ["10.20.30.1", "10.20.30.2"]);
    let asked = &of[&IpAddr::from([10, 20, 30, 2])];
    assert_eq!((asked.claim.candidates.len(), asked.claim.turn), (0, Some(0)));
    // Not where no pool has it any more.
    let mut elsewhere = world;
    elsewhere.resources = elsewhere.resources.with_pools([pool("default", &["10.9.9.0/24"])]);
    assert!(claims(&elsewhere).is_empty());
}
