//! What goes wrong on the way to a router or in it: what it is told, what people are told, and that the
//! session comes back by itself.

use super::*;

impl Bench {
    /// Why the last session or try ended.
    async fn last_error(&self, beginning: &str) {
        let error = || self.session().and_then(|it| it.last_error).unwrap_or_default();
        until(beginning, || error().starts_with(beginning)).await;
    }

    /// The next try leads to a session with all routes.
    async fn recovers(&self) {
        let mut router = self.accept().await;
        assert_eq!(router.establish().await.len(), 1);
        until("a session", || {
            self.session().is_some_and(|it| it.state == BGPSessionState::Established && it.prefixes_sent == 1)
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_no_bgp_is_answered_and_named() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    router.read().await.unwrap();
    router.stream.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n").await.unwrap();
    assert_eq!(router.read().await, Some((3, vec![1, 1])), "Connection Not Synchronized");
    assert_eq!(router.read().await, None);
    drop(router);
    bench.last_error("the peer broke a rule of BGP").await;
    bench.recovers().await;
}

#[tokio::test]
async fn a_message_that_ends_too_early_is_answered_in_an_established_session() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    router.establish().await;
    // A route of 24 bits with one octet.
    router.write(2, &[0, 0, 0, 0, 24, 10]).await;
    assert_eq!(router.read().await, Some((3, vec![3, 10])), "Invalid Network Field");
    drop(router);
    bench.last_error("the peer broke a rule of BGP").await;
    bench.recovers().await;
}

#[tokio::test]
async fn a_silent_router_is_told_that_the_hold_timer_expired() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    router.read().await.unwrap();
    // It offers the shortest hold time that there is (RFC 4271 §4.2), and then says nothing more.
    router.write(1, &[4, 0xfc, 1, 0, 3, 192, 168, 10, 1, 0]).await;
    router.write(4, &[]).await;
    let last = loop {
        match router.read().await.expect("a NOTIFICATION before the end") {
            (2 | 4, _) => {}
            other => break other,
        }
    };
    assert_eq!(last, (3, vec![4, 0]), "Hold Timer Expired");
    drop(router);
    bench.last_error("hold timer expired").await;
    let session = bench.session().unwrap();
    assert_eq!(session.last_notification_sent.as_deref(), Some("Hold Timer Expired"));
    bench.recovers().await;
}

#[tokio::test]
async fn a_storm_of_resets_is_survived_with_growing_pauses() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut tries = Vec::new();
    for _ in 0..4 {
        let router = bench.accept().await;
        tries.push(std::time::Instant::now());
        // Nothing is sent any more, and what was is forgotten: a reset.
        socket2::SockRef::from(&router.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
    // It may be seen as early as the connection is made.
    let error = || bench.session().and_then(|it| it.last_error).unwrap_or_default();
    until("a reset", || error().contains("reset")).await;
    let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[2] > pauses[0], "{pauses:?}");
    bench.recovers().await;
}

/// The router's host is gone without a word; what it was is answered by a reset later.
#[tokio::test]
async fn a_router_that_takes_connections_and_says_nothing_is_left_when_it_closes() {
    let bench = Bench::new().await;
    bench.want(bench.peer(), routes([100]));
    let mut router = bench.accept().await;
    assert_eq!(router.read().await.unwrap().0, 1, "an OPEN");
    assert_eq!(bench.session().unwrap().state, BGPSessionState::Connect, "no session without the other OPEN");
    drop(router);
    bench.last_error("connection closed").await;
    bench.recovers().await;
}

#[tokio::test]
async fn one_bad_router_disturbs_no_other() {
    let bench = Bench::new().await;
    let unreachable = peer("192.0.2.1:179".parse().unwrap());
    let desired = |peer| DesiredPeer { peer, uid: "peer-uid".to_owned(), routes: routes([100]) };
    let both = [("bad".to_owned(), desired(unreachable)), ("router".to_owned(), desired(bench.peer()))];
    bench.desired.send_replace(Some(both.into()));
    bench.recovers().await;
    let bad = bench.sessions.borrow().as_ref().unwrap()["bad"].clone();
    assert_eq!(bad.state, BGPSessionState::Connect);
}
