//! What `why` says first, for each reason why a Service has no address or no node announces it.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use ferrolb_api::v1beta1::{BGPAdvertisementSpec, IPAddressPool, L2AdvertisementSpec, ServiceAllocation};
use ferrolb_core::allocator::by_key;
use ferrolb_core::config::compile;
use ferrolb_core::explain::{Chain, Cluster, Explainer, NodeVerdict, Told, Verdict};
use ferrolb_core::planner::{Event, Withheld};
use ferrolb_core::resources::Resources;
use ferrolb_core::testing::{
    ServiceBuilder, bgp_advertisement, bgp_peer, endpoint, l2_advertisement, labels, match_labels, node,
    pool, service,
};

struct Case {
    resources: Resources,
    cluster: Cluster,
    service: ServiceBuilder,
    events: Vec<Told>,
}

fn l2(change: impl FnOnce(&mut L2AdvertisementSpec)) -> Resources {
    let mut spec = L2AdvertisementSpec::default();
    change(&mut spec);
    pools([pool("lan", &["10.0.0.0/30", "fd00::/126"])])
        .with_l2_advertisements([l2_advertisement("all", spec)])
}

fn pools(pools: impl IntoIterator<Item = IPAddressPool>) -> Resources {
    Resources::default()
        .with_pools(pools)
        .with_nodes([node("n1", &[("name", "n1")]), node("n2", &[("name", "n2")])])
}

fn case(resources: Resources, service: ServiceBuilder) -> Case {
    let cluster = Cluster {
        speakers: [("n1".to_owned(), true), ("n2".to_owned(), true)].into(),
        controller_ready: true,
        ..Cluster::default()
    };
    Case { resources, cluster, service, events: Vec::new() }
}

/// A Service with an address and an endpoint.
fn holding() -> ServiceBuilder {
    service("demo", "web").holding(&["10.0.0.1"]).from_pool("lan").ready_on(&["n1"])
}

impl Case {
    fn with(mut self, change: impl FnOnce(&mut Cluster)) -> Self {
        change(&mut self.cluster);
        self
    }

    fn nodes(mut self, change: impl Fn(&mut ferrolb_core::node::Node)) -> Self {
        self.resources.nodes.values_mut().for_each(change);
        self
    }

    fn other(mut self, other: ServiceBuilder) -> Self {
        let other = other.lb();
        self.cluster.services.extend(by_key([other]));
        self
    }

    fn told(mut self, reason: &str, message: &str) -> Self {
        self.events.push(Told { reason: reason.into(), message: message.into(), warning: true });
        self
    }

    fn owners(self, owners: &[&str]) -> Self {
        let key = (*self.service.clone().lb().key).clone();
        let owners: BTreeSet<String> = owners.iter().map(|it| (*it).to_owned()).collect();
        self.with(|cluster| drop(cluster.layer2.insert(key, owners)))
    }

    fn chain(mut self) -> Chain {
        self.cluster.compiled = compile(&self.resources);
        self.cluster.nodes = self.resources.nodes;
        let service = self.service.lb();
        if service.is_handled_by(self.cluster.class.as_deref()) {
            self.cluster.services.extend(by_key([service.clone()]));
        }
        Explainer::new(&self.cluster).chain(&service, &self.events)
    }

    /// Object and field of line one.
    #[track_caller]
    fn says(self, object_and_field: &str, remedy: &str) {
        match self.chain().verdict {
            Verdict::Blocked(step) => {
                assert_eq!(format!("{}, {}", step.object, step.field), object_and_field, "{step}");
                assert!(step.remedy.contains(remedy), "{step}");
                assert_eq!(step.to_string().lines().count(), 1);
            }
            announced => panic!("{announced:?}"),
        }
    }
}

const REQUEST: &str = "Service demo/web, metadata.annotations[metallb.io/loadBalancerIPs]";
const REQUESTED: &str = "metallb.io/loadBalancerIPs";

fn web() -> ServiceBuilder {
    service("demo", "web")
}

#[test]
fn each_refusal_names_what_to_change() {
    let all = || l2(|_| ());
    let asks = |address: &str| web().annotations(&[(REQUESTED, address)]);
    case(pools([]), web()).says("IPAddressPool, spec.addresses", "create one");
    case(all(), web().cluster(&[])).says("Service demo/web, spec.clusterIP", "anew");
    case(all(), web().policy("RequireDualStack")).says("Service demo/web, spec.clusterIPs", "anew");
    case(all(), web().cluster(&["x"])).says("Service demo/web, spec.clusterIPs", "anew");
    case(all(), asks("10.0.0.1").load_balancer_ip("10.0.0.1"))
        .says("Service demo/web, spec.loadBalancerIP", "remove it");
    case(all(), web().load_balancer_ip("x")).says("Service demo/web, spec.loadBalancerIP", "write one");
    case(all(), asks("x")).says(REQUEST, "one IP address");
    case(all(), asks("10.0.0.1,10.0.0.2")).says(REQUEST, "of each family");
    let requested = format!("{REQUEST} (or spec.loadBalancerIP)");
    case(all(), asks("fd00::1")).says(&requested, "spec.ipFamilies");
    case(all(), asks("10.9.9.9")).says(&requested, "lan");
    case(
        pools([pool("lan", &["10.0.0.0/30"]), pool("other", &["10.1.0.0/30"])]),
        asks("10.0.0.1").annotations(&[("metallb.io/address-pool", "other")]),
    )
    .says("Service demo/web, metadata.annotations[metallb.io/address-pool]", "remove it");
    case(all(), asks("10.0.0.2"))
        .with(|cluster| cluster.conflicts = BTreeSet::from(["10.0.0.2".parse().unwrap()]))
        .says(&requested, "remove the address from the host");
    let from = |name: &str| web().annotations(&[("metallb.io/address-pool", name)]);
    case(all(), from("none")).says("Service demo/web, metadata.annotations[metallb.io/address-pool]", "lan");
    case(pools([pool("bad", &["10.0.0.9-10.0.0.1"])]), from("bad"))
        .says("IPAddressPool bad, spec.addresses[0]", "");
    let full = || pools([pool("tiny", &["10.0.0.1/32"])]);
    let taken = || service("demo", "a").holding(&["10.0.0.1"]).from_pool("tiny");
    case(full(), from("tiny")).other(taken()).says("IPAddressPool tiny, spec.addresses", "add addresses");
    case(full(), web()).other(taken()).says("IPAddressPool tiny, spec.addresses", "add addresses");
    case(pools([pool("six", &["fd00::/126"])]), from("six"))
        .says("IPAddressPool six, spec.addresses", "IPv4");
    case(pools([pool("six", &["fd00::/126"])]), web()).says("IPAddressPool six, spec.addresses", "IPv4");
    let dual =
        |service: ServiceBuilder| service.cluster(&["10.96.0.1", "fd01::1"]).policy("RequireDualStack");
    case(full(), dual(from("tiny"))).says("IPAddressPool tiny, spec.addresses", "IPv6");
    let mut manual = pool("manual", &["10.0.0.0/30"]);
    manual.spec.auto_assign = false;
    case(pools([manual]), web()).says("IPAddressPool manual, spec.autoAssign", "address-pool: manual");
    let mut theirs = pool("theirs", &["10.0.0.0/30"]);
    theirs.spec.service_allocation =
        Some(ServiceAllocation { namespaces: vec!["other".into()], ..Default::default() });
    case(pools([theirs.clone()]), web())
        .says("IPAddressPool theirs, spec.serviceAllocation", "namespace demo");
    case(pools([theirs]), from("theirs"))
        .says("IPAddressPool theirs, spec.serviceAllocation", "namespace demo");
    let other = service("demo", "a").holding(&["10.0.0.1"]).from_pool("lan");
    case(all(), asks("10.0.0.1").shared("k"))
        .other(other.clone())
        .says("Service demo/web, metadata.annotations[metallb.io/allow-shared-ip]", "same value");
    case(all(), asks("10.0.0.1").shared("k"))
        .other(other.shared("k"))
        .says("Service demo/web, spec.ports", "TCP/80");
    case(all(), holding().granted(1).holding(&["10.9.9.9"]))
        .told("IPAllocated", "x")
        .told("StatusContested", "y")
        .says("Service demo/web, spec.loadBalancerClass", "class");
}

#[test]
fn who_is_no_concern_of_ours_or_only_waits_is_told_so() {
    let all = || l2(|_| ());
    case(all(), web().kind("ClusterIP")).says("Service demo/web, spec.type", "LoadBalancer");
    case(all(), web())
        .with(|it| it.class = Some("ours".into()))
        .says("Service demo/web, spec.loadBalancerClass", "ours");
    case(all(), web()).says("Deployment controller, status.readyReplicas", "logs");
    case(all(), web())
        .with(|it| it.controller_ready = false)
        .says("Deployment controller, status.readyReplicas", "describe");
}

#[test]
fn each_reason_of_a_node_names_what_to_change() {
    let all = || l2(|_| ());
    let status = "Service demo/web, status.loadBalancer.ingress";
    case(all(), holding().holding(&["host.example"])).says(status, "who wrote");
    case(all(), holding().holding(&["10.9.9.9"])).says(status, "IPAddressPool");
    let idle = service("demo", "web").holding(&["10.0.0.1"]).from_pool("lan");
    case(all(), idle.clone()).says("Service demo/web, spec.selector", "pods");
    let unready = idle.endpoints([endpoint("n1", Some(false), Some(false))]);
    case(all(), unready).says("Service demo/web, spec.selector", "ready");
    case(pools([pool("lan", &["10.0.0.0/30"])]), holding())
        .says("L2Advertisement, spec.ipAddressPools", "create an L2Advertisement");
    case(l2(|it| it.ip_address_pools = vec!["lam".into()]), holding())
        .says("L2Advertisement all, spec.ipAddressPools", "lam");
    case(l2(|it| it.service_selectors = vec![match_labels(&[("a", "b")])]), holding())
        .says("L2Advertisement all, spec.serviceSelectors", "label the Service");
    case(
        l2(|it| it.service_selectors = vec![match_labels(&[("a", "b")])]),
        holding().labels(&[("a", "b")]).shared("k"),
    )
    .says("Service demo/web, metadata.annotations[metallb.io/allow-shared-ip]", "serviceSelectors");
    case(l2(|it| it.node_selectors = vec![match_labels(&[("name", "n9")])]), holding())
        .says("L2Advertisement all, spec.nodeSelectors", "label one");
    let exclude = "node.kubernetes.io/exclude-from-external-load-balancers";
    case(all(), holding())
        .nodes(|it| it.labels.extend(labels(&[(exclude, "")])))
        .says(&format!("Node n1, metadata.labels[{exclude}]"), &format!("kubectl label node n1 {exclude}-"));
    case(all(), holding())
        .nodes(|it| it.cordoned = true)
        .with(|it| it.withdraw_on_cordon = true)
        .says("Node n1, spec.unschedulable", "kubectl uncordon n1");
    case(all(), holding())
        .nodes(|it| it.network_unavailable = true)
        .says("Node n1, status.conditions[NetworkUnavailable]", "network");
    case(all(), service("demo", "web").holding(&["10.0.0.1"]).local(true).ready_on(&["n9"]))
        .says("Service demo/web, spec.externalTrafficPolicy", "Cluster");
    case(l2(|it| it.interfaces = vec!["eth9".into()]), holding())
        .told(Event::ANNOUNCE_FAILED, "x")
        .says("L2Advertisement all, spec.interfaces", "connected interface");
    let stranger = "another host with MAC 02:00:00:00:00:09, which is no speaker, uses address 10.0.0.1";
    case(all(), holding()).told(Event::ADDRESS_CONFLICT, stranger).says(status, "02:00:00:00:00:09");
    case(all(), holding()).says("DaemonSet speaker, pod on node n1, status", "two seconds");
    case(all(), holding())
        .with(|it| it.speakers.values_mut().for_each(|ready| *ready = false))
        .says("DaemonSet speaker, pod on node n1, status.conditions[Ready]", "log");
    case(all(), holding())
        .with(|it| it.speakers.clear())
        .says("MetalLB metallb, spec.nodeSelector", "taints");
}

/// The reason of the node that came farthest counts, not that of the first.
#[test]
fn the_nearest_node_says_what_is_missing() {
    let only_n2 = l2(|it| it.node_selectors = vec![match_labels(&[("name", "n2")])]);
    case(only_n2, holding().local(true)).says("Service demo/web, spec.externalTrafficPolicy", "pods");
}

#[test]
fn bgp_names_peers_and_what_is_missing() {
    let ad = |change: &dyn Fn(&mut BGPAdvertisementSpec)| {
        let mut spec = BGPAdvertisementSpec::default();
        change(&mut spec);
        pools([pool("lan", &["10.0.0.0/30"])]).with_bgp_advertisements([bgp_advertisement("ad", spec)])
    };
    let with_peer = |resources: Resources| resources.with_bgp_peers([bgp_peer("tor", "10.2.2.254")]);
    case(ad(&|_| ()), holding()).says("BGPPeer, spec.nodeSelectors", "create a BGPPeer");
    case(with_peer(ad(&|it| it.service_selectors = vec![match_labels(&[("a", "b")])])), holding())
        .says("BGPAdvertisement ad, spec.serviceSelectors", "label the Service");
    case(with_peer(ad(&|it| it.node_selectors = vec![match_labels(&[("name", "n9")])])), holding())
        .says("BGPAdvertisement ad, spec.nodeSelectors", "label one");
    let chain = case(with_peer(ad(&|_| ())), holding()).chain();
    let both: BTreeSet<String> = ["n1", "n2"].map(str::to_owned).into();
    assert_eq!(chain.verdict, Verdict::Announced { layer2: BTreeSet::new(), bgp: both });
    assert_eq!(chain.bgp["n1"], NodeVerdict::Announces(vec!["tor".to_owned()]));
}

#[test]
fn the_chain_of_a_service_that_is_reached() {
    let chain = case(l2(|_| ()), holding()).owners(&["n2"]).chain();
    let owner: BTreeSet<String> = ["n2".to_owned()].into();
    assert_eq!(chain.verdict, Verdict::Announced { layer2: owner, bgp: BTreeSet::new() });
    assert_eq!((chain.pools, chain.refusal), (vec!["lan".to_owned()], None));
    assert_eq!(chain.layer2["n2"], NodeVerdict::Announces(()));
    let other = Withheld::NotElected { winner: Some("n2".into()) };
    assert_eq!(chain.layer2["n1"], NodeVerdict::Withheld(other));
    let names: Vec<String> = chain.advertisements.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["L2Advertisement \"all\""]);
}

/// A wish that cannot be had beside an address that works is a remark.
#[test]
fn what_is_missing_beside_an_address_is_a_remark() {
    let dual = service("demo", "web")
        .cluster(&["10.96.0.1", "fd01::1"])
        .policy("PreferDualStack")
        .holding(&["10.0.0.1"])
        .from_pool("four")
        .ready_on(&["n1"]);
    let resources = pools([pool("four", &["10.0.0.0/30"])])
        .with_l2_advertisements([l2_advertisement("all", Default::default())]);
    let chain = case(resources, dual).owners(&["n1"]).chain();
    assert!(matches!(chain.verdict, Verdict::Announced { .. }));
    let remarks: Vec<String> =
        chain.remarks.iter().map(|it| format!("{}, {}", it.object, it.field)).collect();
    assert_eq!(remarks, ["IPAddressPool four, spec.addresses"]);
    assert_eq!(chain.refusal.map(|(reason, _)| reason).as_deref(), Some("OneFamily"));
}
