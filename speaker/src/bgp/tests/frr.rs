//! Sessions with FRR's bgpd: what a real router makes of our messages.

use super::*;
use crate::bgp::testing::{Frr, ROUTER};

pub(super) fn router() -> Peer {
    // Both addresses are of this host.
    let source_address = "10.0.0.2".parse().ok();
    Peer { dual_stack: true, source_address, ..peer(SocketAddr::new(ROUTER.parse().unwrap(), 179)) }
}

pub(super) fn table(routes: &[(&str, PathAttributes)]) -> Arc<AdjRibOut> {
    let route = |(text, attributes): &(&str, PathAttributes)| {
        let (address, length) = text.split_once('/').unwrap();
        let prefix = Prefix::around(address.parse().unwrap(), length.parse().unwrap()).unwrap();
        (prefix, Arc::new(attributes.clone()))
    };
    Arc::new(routes.iter().map(route).collect())
}

#[test]
fn frr_has_what_the_plan_says_and_nothing_resets() {
    in_own_network(|| async {
        let frr = Frr::start(" neighbor 10.0.0.2 remote-as 64512");
        let bench = Bench::new().await;
        let plain = PathAttributes::default;
        let tagged = PathAttributes {
            local_preference: Some(300),
            communities: [ferrolb_proto::bgp::Community::new(64512, 100)].into(),
            large_communities: [ferrolb_proto::bgp::LargeCommunity { global: 64512, first: 1, second: 2 }]
                .into(),
        };
        bench.want(router(), table(&[("192.168.20.100/32", tagged), ("fd00:20::100/128", plain())]));
        frr.established().await;
        frr.has(&["192.168.20.100/32", "fd00:20::100/128"]).await;
        let path = frr.show("ipv4 unicast 192.168.20.100/32")["paths"][0].clone();
        assert_eq!(path["community"]["string"], "64512:100");
        assert_eq!(path["largeCommunity"]["string"], "64512:1:2");
        assert_eq!((&path["aspath"]["string"], &path["origin"]), (&"64512".into(), &"IGP".into()));
        assert_eq!(path["nexthops"][0]["ip"], "10.0.0.2");
        assert!(path["locPrf"].is_null(), "an external peer is told no preference");
        let path = frr.show("ipv6 unicast fd00:20::100/128")["paths"][0].clone();
        assert_eq!(path["nexthops"][0]["ip"], "fd00::2");

        bench.want(router(), table(&[("192.168.20.0/24", plain()), ("fd00:20::100/128", plain())]));
        frr.has(&["192.168.20.0/24", "fd00:20::100/128"]).await;
        bench.want(router(), table(&[]));
        frr.has(&[]).await;
        let neighbor = frr.neighbor();
        assert_eq!(neighbor["connectionsEstablished"], 1, "edits reset nothing");
        let stats = &neighbor["messageStats"];
        // A route and an end of each family; a route for another; a withdrawal of each family.
        assert_eq!((&stats["updatesRecv"], &stats["notificationsRecv"]), (&8.into(), &0.into()), "{stats}");
        for family in ["ipv4Unicast", "ipv6Unicast"] {
            assert!(!neighbor["addressFamilyInfo"][family].is_null(), "{family} is not negotiated");
        }
    });
}

#[test]
fn frr_of_the_same_as_is_told_the_preference() {
    in_own_network(|| async {
        let frr = Frr::start(" neighbor 10.0.0.2 remote-as 64513");
        let bench = Bench::new().await;
        let internal = || Peer { my_asn: Asn(64513), ..router() };
        let preferred = PathAttributes { local_preference: Some(300), ..PathAttributes::default() };
        let routes = [("192.168.20.100/32", preferred), ("192.168.20.101/32", PathAttributes::default())];
        bench.want(internal(), table(&routes));
        frr.has(&["192.168.20.100/32", "192.168.20.101/32"]).await;
        let path = |last: u8| frr.show(&format!("ipv4 unicast 192.168.20.{last}/32"))["paths"][0].clone();
        assert_eq!((&path(100)["locPrf"], &path(101)["locPrf"]), (&300.into(), &100.into()));
        assert_eq!(path(100)["aspath"]["string"], "Local");
    });
}

#[test]
fn frr_keeps_the_routes_of_a_speaker_that_restarts() {
    in_own_network(|| async {
        let neighbor = " bgp graceful-restart\n neighbor 10.0.0.2 remote-as 64512\n neighbor 10.0.0.2 graceful-restart-helper";
        let frr = Frr::start(neighbor);
        let graceful = || Peer { graceful_restart: true, ..router() };
        let bench = Bench::new().await;
        bench.want(graceful(), table(&[("192.168.20.100/32", PathAttributes::default())]));
        frr.has(&["192.168.20.100/32"]).await;
        bench.bgp.leave(Departure::Restarting, PATIENCE).await;
        until("the end of the session", || frr.neighbor()["bgpState"] != "Established").await;
        assert_eq!(frr.prefixes(), ["192.168.20.100/32"], "kept, although there is no session");

        // Back, with another table: at its end what is not in it goes.
        let bench = Bench::new().await;
        bench.want(graceful(), table(&[("192.168.20.101/32", PathAttributes::default())]));
        frr.has(&["192.168.20.101/32"]).await;
    });
}

#[test]
fn frr_prefers_other_paths_before_the_routes_of_a_speaker_that_leaves_go() {
    in_own_network(|| async {
        let frr = Frr::start(" neighbor 10.0.0.2 remote-as 64512");
        let bench = Bench::new().await;
        let route = ("192.168.20.100/32", PathAttributes::default());
        bench.want(router(), table(&[route]));
        frr.has(&["192.168.20.100/32"]).await;
        let leaving = tokio::spawn(bench.bgp.leave(Departure::Leaving(Leaving::NodeGoes), PATIENCE));
        until("the request to use other paths", || {
            let path = frr.show("ipv4 unicast 192.168.20.100/32")["paths"][0].clone();
            path["community"]["string"] == "graceful-shutdown" && path["locPrf"] == 0
        })
        .await;
        leaving.await.unwrap();
        frr.has(&[]).await;
        let neighbor = frr.neighbor();
        assert_eq!(neighbor["lastNotificationReason"], "Cease/Administrative Shutdown");
        assert_eq!(neighbor["lastShutdownDescription"], "the node is being removed");
    });
}

#[test]
fn passwords_must_agree() {
    in_own_network(|| async {
        let frr = Frr::start(" neighbor 10.0.0.2 remote-as 64512\n neighbor 10.0.0.2 password right");
        let bench = Bench::new().await;
        let with = |password: Option<&str>| Peer { password: password.map(Password::new), ..router() };
        bench.want(with(Some("wrong")), table(&[]));
        assert!(bench.event("SessionFailed").await.contains("TCP MD5"));
        bench.want(with(Some("right")), table(&[]));
        frr.established().await;
    });
}

#[test]
fn ten_thousand_routes_arrive() {
    in_own_network(|| async {
        let frr = Frr::start(" neighbor 10.0.0.2 remote-as 64512");
        let bench = Bench::new().await;
        let attributes = Arc::new(PathAttributes::default());
        let prefix = |it: u32| Prefix::around(Ipv4Addr::from(0x0a01_0000 + it).into(), 32).unwrap();
        let routes: AdjRibOut = (0..10_000).map(|it| (prefix(it), Arc::clone(&attributes))).collect();
        bench.want(router(), Arc::new(routes));
        let received = || frr.neighbor()["addressFamilyInfo"]["ipv4Unicast"]["acceptedPrefixCounter"].clone();
        until("10,000 routes", || received() == 10_000).await;
    });
}
