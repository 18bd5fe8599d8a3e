//! Figures: `hack/bench bgp`. Each prints what it measured; the limits are generous.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::frr::router;
use super::*;
use crate::bgp::testing::Frr;

const ROUTES: u32 = 10_000;
const RUNS: usize = 5;
/// Of this process in `/proc/self/stat` (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

fn many() -> Arc<AdjRibOut> {
    let attributes = Arc::new(PathAttributes::default());
    let prefix = |it: u32| Prefix::around(Ipv4Addr::from(0x0a01_0000 + it).into(), 32).unwrap();
    Arc::new((0..ROUTES).map(|it| (prefix(it), Arc::clone(&attributes))).collect())
}

/// From the last look at which there was no session until the router has all routes, in milliseconds.
async fn time_to_all(frr: &Frr, neighbor: &str) -> u128 {
    let mut without_session = Instant::now();
    loop {
        let looked = Instant::now();
        let seen = frr.show(&format!("neighbors {neighbor}"))[neighbor].clone();
        if seen["bgpState"] != "Established" {
            without_session = looked;
        } else if seen["addressFamilyInfo"]["ipv4Unicast"]["acceptedPrefixCounter"] == ROUTES {
            return without_session.elapsed().as_millis();
        }
        assert!(without_session.elapsed() < PATIENCE, "{seen}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// GoBGP with the same routes, told to have a session when it is asked to.
struct GoBgp {
    daemon: Child,
    folder: tempfile::TempDir,
}

impl GoBgp {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let config = "[global.config]\nas = 64512\nrouter-id = \"10.0.0.3\"\nport = -1\n\
            [[neighbors]]\n[neighbors.config]\nneighbor-address = \"10.0.0.1\"\npeer-as = 64513\nadmin-down = true\n\
            [neighbors.transport.config]\nlocal-address = \"10.0.0.3\"\n\
            [neighbors.timers.config]\nconnect-retry = 1\nidle-hold-time-after-reset = 1\n\
            [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"ipv4-unicast\"\n";
        std::fs::write(path("gobgpd.toml"), config).unwrap();
        std::fs::write(path("routes.mrt"), table_dump()).unwrap();
        let daemon = Command::new("gobgpd")
            .args(["-f", &path("gobgpd.toml"), "--api-hosts", "127.0.0.1:50051"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("gobgpd of the Debian package gobgpd");
        let gobgp = Self { daemon, folder };
        until("gobgpd", || gobgp.gobgp(&["global"]).is_some()).await;
        gobgp.gobgp(&["mrt", "inject", "global", "routes.mrt"]).expect("routes");
        let all =
            || gobgp.gobgp(&["global", "rib", "summary"]).is_some_and(|it| it.contains(&ROUTES.to_string()));
        until("its routes", all).await;
        gobgp
    }

    fn gobgp(&self, arguments: &[&str]) -> Option<String> {
        let gobgp = Command::new("gobgp").args(arguments).current_dir(&self.folder).output().unwrap();
        gobgp.status.success().then(|| String::from_utf8_lossy(&gobgp.stdout).into_owned())
    }
}

impl Drop for GoBgp {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// The routes as a dump of a table (RFC 6396 §4.3).
fn table_dump() -> Vec<u8> {
    let record = |subtype: u16, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[0; 4][..], &13u16.to_be_bytes(), &subtype.to_be_bytes(), &length, body].concat()
    };
    let peer =
        [&[10, 0, 0, 3, 0, 0, 0, 1, 2][..], &[10, 0, 0, 3], &[10, 0, 0, 3], &64512u32.to_be_bytes()].concat();
    let attributes = [0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4, 10, 0, 0, 3];
    // When gobgp is done the daemon leaves out what is still in its queue: that are some of the first again.
    let routes = (0..ROUTES).chain(0..ROUTES / 2).map(|it| {
        let prefix = (0x0a01_0000 + it).to_be_bytes();
        let entry = [&[0, 1, 0, 0, 0, 0, 0, 0, 0, 14][..], &attributes].concat();
        record(2, &[&it.to_be_bytes()[..], &[32], &prefix, &entry].concat())
    });
    [record(1, &peer)].into_iter().chain(routes).flatten().collect()
}

#[test]
#[ignore = "a measurement: hack/bench bgp"]
fn ten_thousand_routes_beside_gobgp() {
    in_own_network(|| async {
        let other = " neighbor 10.0.0.3 remote-as 64512\n neighbor 10.0.0.3 passive\n neighbor 10.0.0.3 solo\n \
                     neighbor 10.0.0.2 remote-as 64512\n address-family ipv4 unicast\n  neighbor 10.0.0.3 activate\n \
                     exit-address-family";
        let frr = Frr::start(other);
        crate::testing::ip("addr add 10.0.0.3/32 dev lo");
        let gobgp = GoBgp::start().await;
        let routes = many();
        for run in 1..=RUNS {
            let bench = Bench::new().await;
            bench.want(router(), Arc::clone(&routes));
            let ours = time_to_all(&frr, "10.0.0.2").await;
            bench.bgp.leave(Departure::Restarting, PATIENCE).await;
            until("no session", || frr.neighbor()["bgpState"] != "Established").await;
            gobgp.gobgp(&["neighbor", "10.0.0.1", "enable"]).expect("enabled");
            let theirs = time_to_all(&frr, "10.0.0.3").await;
            gobgp.gobgp(&["neighbor", "10.0.0.1", "disable"]).expect("disabled");
            println!(
                "measured: run {run}: 10,000 routes from session up until FRR has them: {ours} ms, GoBGP {theirs} ms"
            );
        }
    });
}

/// The pages that this process holds, in MiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

/// Processor time of this process, in seconds.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// Each peer of this name with the same router and routes.
fn peers(bench: &Bench, names: std::ops::Range<usize>, routes: &Arc<AdjRibOut>) {
    let desired = |_| DesiredPeer { peer: bench.peer(), uid: String::new(), routes: Arc::clone(routes) };
    let all = names.map(|it| (format!("router-{it}"), desired(it)));
    bench.desired.send_replace(Some(all.collect()));
}

/// Takes sessions and answers every KEEPALIVE with one, as the router of all of them.
async fn answer(listener: TcpListener) {
    loop {
        let mut router = Router { stream: listener.accept().await.unwrap().0 };
        tokio::spawn(async move {
            router.read().await;
            router.open(64513).await;
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = router.stream.read(&mut bytes).await {
                // A KEEPALIVE is a message alone once the routes are in.
                if length == 19 {
                    router.write(4, &[]).await;
                }
            }
        });
    }
}

async fn with_sessions(count: usize, routes: Arc<AdjRibOut>) -> Bench {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(answer(listener));
    // The bench's own listener is not used: the address is that of the other one.
    let mut bench = Bench::new().await;
    bench.address = address;
    peers(&bench, 0..count, &routes);
    let wanted = routes.len() as i64;
    until("all sessions", || {
        let sessions = bench.sessions.borrow();
        let up =
            |it: &&BGPSessionStatus| it.state == BGPSessionState::Established && it.prefixes_sent == wanted;
        sessions.as_ref().is_some_and(|all| all.values().filter(up).count() == count)
    })
    .await;
    bench
}

#[tokio::test]
#[ignore = "a measurement: hack/bench bgp"]
async fn memory_with_ten_thousand_routes_to_three_peers() {
    let _bench = with_sessions(3, many()).await;
    let resident = resident();
    println!("measured: {resident} MiB with 10,000 routes to 3 peers, the routers included");
    assert!(resident < 60, "{resident} MiB");
}

#[tokio::test]
#[ignore = "a measurement: hack/bench bgp"]
async fn a_thousand_idle_sessions() {
    let _bench = with_sessions(1000, Arc::default()).await;
    let (began, before) = (Instant::now(), processor_time());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let share = (processor_time() - before) / began.elapsed().as_secs_f64() * 100.0;
    println!(
        "measured: 1,000 idle sessions with 30 s between KEEPALIVEs: {share:.2} % of a core, both ends together"
    );
    assert!(share < 2.0, "{share} %");
}
