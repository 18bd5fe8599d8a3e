//! Sessions with BIRD: what another router than FRR makes of our messages.

use ferrolb_proto::bgp::{Community, LargeCommunity};

use super::frr::table;
use super::*;
use crate::bgp::testing::bird::{BIRD, BIRD_V6, Bird};

/// Both families, each with all routes taken and none sent.
const BOTH: &str = "ipv4 { import all; export none; }; ipv6 { import all; export none; };";

fn router() -> Peer {
    Peer { dual_stack: true, ..peer(SocketAddr::new(BIRD.parse().unwrap(), 179)) }
}

fn tagged() -> PathAttributes {
    PathAttributes {
        local_preference: Some(300),
        communities: [Community::new(64512, 100), Community::new(65535, 65281)].into(),
        large_communities: [LargeCommunity { global: 64512, first: 1, second: 2 }].into(),
    }
}

#[test]
fn bird_has_what_the_plan_says_and_nothing_resets() {
    in_own_network(|| async {
        let bird = Bird::start(BOTH).await.with_ipv4();
        let bench = Bench::new().await;
        let plain = PathAttributes::default;
        bench.want(router(), table(&[("192.168.20.100/32", tagged()), ("fd00:20::100/128", plain())]));
        bird.established().await;
        bird.has(&["192.168.20.100/32", "fd00:20::100/128"]).await;
        let route = bird.route("192.168.20.100/32");
        for part in [
            "BGP.as_path: 64512",
            "BGP.next_hop: 10.0.1.2",
            "BGP.origin: IGP",
            "(64512,100)",
            "(65535,65281)",
            "BGP.large_community: (64512, 1, 2)",
            // What BIRD takes for granted: an external peer is told no preference.
            "BGP.local_pref: 100",
        ] {
            assert!(route.contains(part), "{part} in\n{route}");
        }
        assert!(bird.route("fd00:20::100/128").contains("BGP.next_hop: fd00:1::2"));
        // It asks again for all routes.
        let session = bird.session();
        for part in ["Route refresh", "4-octet AS numbers", "Neighbor AS:", "Hold timer:"] {
            assert!(session.contains(part), "{part} in\n{session}");
        }
        bird.birdc("reload in speaker");
        bench.want(router(), table(&[("192.168.20.0/24", plain()), ("fd00:20::100/128", plain())]));
        bird.has(&["192.168.20.0/24", "fd00:20::100/128"]).await;
        bench.want(router(), table(&[]));
        bird.has(&[]).await;
        until("nothing sent", || bench.session().is_some_and(|it| it.prefixes_sent == 0)).await;
        assert_eq!(bench.session().unwrap().established, 1, "edits and refreshes reset nothing");
    });
}

#[test]
fn bird_of_the_same_as_is_told_the_preference_over_ipv6() {
    in_own_network(|| async {
        let bird =
            Bird::over(BOTH, "local fd00:1::1 as 64513; neighbor fd00:1::2 internal;").await.with_ipv4();
        let bench = Bench::new().await;
        let over_ipv6 = peer(SocketAddr::new(BIRD_V6.parse().unwrap(), 179));
        let internal =
            Peer { my_asn: Asn(64513), remote_as: RemoteAs::Internal, dual_stack: true, ..over_ipv6 };
        bench.want(internal, table(&[("192.168.20.100/32", tagged()), ("fd00:20::100/128", tagged())]));
        bird.has(&["192.168.20.100/32", "fd00:20::100/128"]).await;
        for (prefix, next_hop) in [("192.168.20.100/32", "10.0.1.2"), ("fd00:20::100/128", "fd00:1::2")] {
            let route = bird.route(prefix);
            assert!(route.contains("BGP.local_pref: 300"), "{route}");
            assert!(route.contains(&format!("BGP.next_hop: {next_hop}")), "{route}");
        }
    });
}

/// RFC 8950: the node has no IPv4 address towards the router, and IPv4 routes all the same.
#[test]
fn bird_takes_ipv4_routes_with_an_ipv6_next_hop() {
    in_own_network(|| async {
        let channels =
            "ipv4 { import all; export none; extended next hop on; }; ipv6 { import all; export none; };";
        let bird = Bird::over(channels, "local fd00:1::1 as 64513; neighbor fd00:1::2 external;").await;
        let bench = Bench::new().await;
        let over_ipv6 = peer(SocketAddr::new(BIRD_V6.parse().unwrap(), 179));
        let any = Peer { remote_as: RemoteAs::External, dual_stack: true, ..over_ipv6 };
        bench.want(any, table(&[("192.168.20.100/32", PathAttributes::default())]));
        bird.has(&["192.168.20.100/32"]).await;
        let route = bird.route("192.168.20.100/32");
        assert!(route.contains("BGP.next_hop: fd00:1::2"), "{route}");
    });
}

#[test]
fn bird_sees_the_local_as_and_checks_password_and_ttl() {
    in_own_network(|| async {
        let session =
            "local 10.0.1.1 as 64513; neighbor 10.0.1.2 as 64999; password \"right\"; ttl security on;";
        let bird = Bird::over(BOTH, session).await.with_ipv4();
        let bench = Bench::new().await;
        let with = |password: &str| Peer {
            local_asn: Some(Asn(64999)),
            password: Some(Password::new(password)),
            source_address: "10.0.1.2".parse().ok(),
            ..router()
        };
        bench.want(with("wrong"), table(&[]));
        assert!(bench.event("SessionFailed").await.contains("TCP MD5"));
        bench.want(with("right"), table(&[("192.168.20.100/32", PathAttributes::default())]));
        bird.has(&["192.168.20.100/32"]).await;
        let route = bird.route("192.168.20.100/32");
        assert!(route.contains("BGP.as_path: 64999\n"), "only the local AS stands in the path: {route}");
    });
}

#[test]
fn bird_keeps_the_routes_of_a_speaker_that_restarts_and_not_of_one_that_leaves() {
    in_own_network(|| async {
        let bird = Bird::start(BOTH).await.with_ipv4();
        let graceful = || Peer { graceful_restart: true, ..router() };
        let bench = Bench::new().await;
        bench.want(graceful(), table(&[("192.168.20.100/32", PathAttributes::default())]));
        bird.has(&["192.168.20.100/32"]).await;
        bench.bgp.leave(Departure::Restarting, PATIENCE).await;
        until("the end of the session", || !bird.session().contains("Established")).await;
        assert_eq!(bird.prefixes(), ["192.168.20.100/32"], "kept, although there is no session");

        let bench = Bench::new().await;
        bench.want(graceful(), table(&[("192.168.20.101/32", PathAttributes::default())]));
        bird.has(&["192.168.20.101/32"]).await;
        let leaving = tokio::spawn(bench.bgp.leave(Departure::Leaving(Leaving::NodeGoes), PATIENCE));
        until("the request to use other paths", || bird.route("192.168.20.101/32").contains("(65535,0)"))
            .await;
        leaving.await.unwrap();
        bird.has(&[]).await;
        let session = bird.session();
        assert!(session.contains("the node is being removed"), "{session}");
    });
}

#[test]
fn bird_restarts_and_the_session_comes_back_by_itself() {
    in_own_network(|| async {
        let bird = Bird::start(BOTH).await.with_ipv4();
        let bench = Bench::new().await;
        bench.want(router(), table(&[("192.168.20.100/32", PathAttributes::default())]));
        bird.has(&["192.168.20.100/32"]).await;
        bird.birdc("restart speaker");
        until("what it said", || {
            let said = bench.session().and_then(|it| it.last_notification_received);
            said.is_some_and(|it| it.starts_with("Cease"))
        })
        .await;
        until("a second session", || bench.session().is_some_and(|it| it.established == 2)).await;
        bird.has(&["192.168.20.100/32"]).await;
    });
}
