//! Connections that peers open: a router of bytes, FRR and BIRD.

use super::frr::table;
use super::*;
use crate::bgp::testing::bird::{BIRD, Bird};
use crate::bgp::testing::{Frr, ROUTER};

/// Where the speaker listens.
const PORT: u16 = 1790;
/// Where nothing listens: what the speaker dials there is refused.
const NOWHERE: u16 = 1;

async fn bench() -> Bench {
    let router = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Bench::listening(router, NonZeroU16::new(PORT)).await
}

fn at(address: &str, port: u16) -> Peer {
    peer(SocketAddr::new(address.parse().unwrap(), port))
}

/// A connection to the speaker from an address, once it listens.
async fn call(from: &str, password: Option<&str>) -> std::io::Result<Router> {
    let speaker = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
    let begun = std::time::Instant::now();
    loop {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::new(from.parse().unwrap(), 0).into())?;
        if let Some(password) = password {
            sys::set_tcp_md5(&socket, speaker.ip(), password)?;
        }
        let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
        match tokio::time::timeout(Duration::from_secs(2), socket.connect(speaker)).await {
            Ok(Ok(stream)) => return Ok(Router { stream }),
            Ok(Err(error)) if error.kind() != std::io::ErrorKind::ConnectionRefused => return Err(error),
            Ok(Err(error)) if begun.elapsed() > PATIENCE => return Err(error),
            Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(_) => return Err(std::io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Whether a connection is ended without a word, perhaps before whoever opened it has looked.
async fn is_refused(router: std::io::Result<Router>) -> bool {
    let Ok(mut router) = router else { return true };
    let mut byte = [0];
    let read = tokio::time::timeout(PATIENCE, router.stream.read(&mut byte)).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[test]
fn only_peers_are_answered_and_each_has_one_connection() {
    in_own_network(|| async {
        let bench = bench().await;
        bench.want(at("127.0.0.2", NOWHERE), routes([100]));
        let mut router = call("127.0.0.2", None).await.unwrap();
        assert!(is_refused(call("127.0.0.3", None).await).await, "a stranger");
        let updates = router.establish().await;
        assert!(updates[0].ends_with(&[32, 192, 168, 20, 100]));
        assert!(is_refused(call("127.0.0.2", None).await).await, "the session is established");
        assert_eq!(bench.session().unwrap().established, 1);
        // Who is no peer any more is told so, and then refused.
        bench.desired.send_replace(Some(Peers::new()));
        assert_eq!(router.read().await, Some((3, vec![6, 3])));
        drop(router);
        until("nobody listens", || std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_err()).await;
    });
}

#[test]
fn passwords_hold_for_those_who_connect() {
    in_own_network(|| async {
        let bench = bench().await;
        let with =
            |password: &str| Peer { password: Some(Password::new(password)), ..at("127.0.0.2", NOWHERE) };
        bench.want(with("right"), routes([100]));
        let mut router = call("127.0.0.2", Some("right")).await.unwrap();
        router.establish().await;
        for wrong in [None, Some("wrong")] {
            let error = call("127.0.0.2", wrong).await.err().map(|it| it.kind());
            assert_eq!(error, Some(std::io::ErrorKind::TimedOut), "{wrong:?}");
        }
        // Another password: another session, and the old one opens nothing any more.
        bench.want(with("other"), routes([100]));
        assert_eq!(router.read().await, Some((3, vec![6, 6])));
        drop(router);
        call("127.0.0.2", Some("other")).await.unwrap().establish().await;
        assert!(call("127.0.0.2", Some("right")).await.is_err());
        // A password that is still to come, and none at all.
        let missing = Peer { password_secret: Some("bgp".to_owned()), ..at("127.0.0.2", NOWHERE) };
        bench.want(missing, routes([100]));
        until("nobody listens", || std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_err()).await;
        bench.want(at("127.0.0.2", NOWHERE), routes([100]));
        call("127.0.0.2", None).await.unwrap().establish().await;
    });
}

/// FRR connects to the speaker, which it could not be dialled by; with password and GTSM.
#[test]
fn frr_that_cannot_be_dialled_connects() {
    in_own_network(|| async {
        let neighbor = format!(
            " neighbor 10.0.0.2 remote-as 64512\n no neighbor 10.0.0.2 passive\n neighbor 10.0.0.2 port {PORT}\n \
             neighbor 10.0.0.2 update-source {ROUTER}\n neighbor 10.0.0.2 password right\n \
             neighbor 10.0.0.2 ttl-security hops 1\n neighbor 10.0.0.2 timers connect 1"
        );
        let frr = Frr::start(&neighbor);
        let bench = bench().await;
        let router = Peer {
            source_address: "10.0.0.2".parse().ok(),
            password: Some(Password::new("right")),
            ..at(ROUTER, NOWHERE)
        };
        bench.want(router, table(&[("192.168.20.100/32", PathAttributes::default())]));
        frr.has(&["192.168.20.100/32"]).await;
        assert_eq!(frr.neighbor()["hostForeign"], "10.0.0.2");
        assert_eq!(frr.neighbor()["portForeign"], PORT);
    });
}

/// Both dial at the same time, whoever has the higher identifier: one session, which stays.
#[test]
fn frr_and_we_dial_each_other_and_one_session_stays() {
    for identifier in [Ipv4Addr::new(9, 9, 9, 9), Ipv4Addr::new(11, 11, 11, 11)] {
        in_own_network(move || async move {
            let neighbor = format!(
                " neighbor 10.0.0.2 remote-as 64512\n no neighbor 10.0.0.2 passive\n \
                 neighbor 10.0.0.2 port {PORT}\n neighbor 10.0.0.2 update-source {ROUTER}\n \
                 neighbor 10.0.0.2 timers connect 1"
            );
            let frr = Frr::start(&neighbor);
            let bench = bench().await;
            let router = Peer {
                source_address: "10.0.0.2".parse().ok(),
                router_id: Some(identifier),
                ..at(ROUTER, 179)
            };
            for _ in 0..3 {
                bench.want(router.clone(), table(&[("192.168.20.100/32", PathAttributes::default())]));
                frr.has(&["192.168.20.100/32"]).await;
                until("one connection", || connections() == 1).await;
                let begun = bench.session().map(|it| it.established);
                bench.want(router.clone(), table(&[("192.168.20.101/32", PathAttributes::default())]));
                frr.has(&["192.168.20.101/32"]).await;
                assert_eq!(bench.session().map(|it| it.established), begun, "it stays");
                frr.vtysh(&["clear bgp *"]);
                until("another session", || bench.session().map(|it| it.established) > begun).await;
            }
        });
    }
}

/// Connections between the two.
fn connections() -> usize {
    let all = std::process::Command::new("ss").args(["-Htn", "state", "established"]).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    // Both ends are here.
    all.lines().filter(|line| line.contains("10.0.0.2:")).count() / 2
}

#[test]
fn bird_that_cannot_be_dialled_connects() {
    in_own_network(|| async {
        let session = format!(
            "local {BIRD} as 64513; neighbor 10.0.1.2 port {PORT} as 64512; password \"right\"; ttl security on; \
             connect retry time 1; connect delay time 1; error wait time 1, 2;"
        );
        let channels = "passive off; ipv4 { import all; export none; };";
        let bird = Bird::over(channels, &session).await.with_ipv4();
        let bench = bench().await;
        let router = Peer { password: Some(Password::new("right")), ..at(BIRD, NOWHERE) };
        bench.want(router, table(&[("192.168.20.100/32", PathAttributes::default())]));
        bird.has(&["192.168.20.100/32"]).await;
        // It restarts, and connects again by itself.
        bird.birdc("restart speaker");
        until("a second session", || bench.session().is_some_and(|it| it.established == 2)).await;
        bird.has(&["192.168.20.100/32"]).await;
    });
}

#[test]
fn a_port_that_is_taken_is_tried_again() {
    in_own_network(|| async {
        let taken = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
        let bench = bench().await;
        bench.want(at("127.0.0.2", NOWHERE), routes([100]));
        until("it was tried", || bench.session().is_some_and(|it| it.last_error.is_some())).await;
        drop(taken);
        call("127.0.0.2", None).await.unwrap().establish().await;
    });
}
