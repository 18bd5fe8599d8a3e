//! False alarms on a machine that has too much to do, beside a pair of FRRs (hack/alarms).

use std::process::{Child, Command};
use std::sync::Barrier;

use super::*;

const FAST: &str = "receive-interval 50\n  transmit-interval 50";

fn fast() -> BfdProfile {
    BfdProfile { receive_interval: 50 * MS, transmit_interval: 50 * MS, ..BfdProfile::named("fast") }
}

/// Keeps every core busy twice over.
struct Load(Vec<Child>);

impl Load {
    fn begin() -> Self {
        let cores = std::thread::available_parallelism().unwrap().get();
        let busy = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..2 * cores).map(busy).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn downs(frr: &Frr, peer: &str) -> u64 {
    frr.counters(peer)["session-down"].as_u64().unwrap()
}

/// `WATCH_SECONDS` is how long it is watched.
#[test]
#[ignore = "takes minutes: hack/alarms"]
fn no_more_false_alarms_than_frr() {
    let seconds = std::env::var("WATCH_SECONDS").ok().and_then(|it| it.parse().ok()).unwrap_or(60);
    let (begin, end) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let barriers = (Arc::clone(&begin), Arc::clone(&end));
    let ours = std::thread::spawn(move || {
        let (sender, receiver) = std::sync::mpsc::channel();
        in_own_network(move || async move {
            let frr = Frr::start(&[("10.1.0.2", FAST)], "");
            let bench = Bench::new().await;
            bench.want([router("10.1.0.1", fast())]);
            bench.up(0).await;
            until("up at the router", || frr.bfd("10.1.0.2")["remote-transmit-interval"] == 50).await;
            barriers.0.wait();
            barriers.1.wait();
            sender.send(bench.reachability(0).failures + downs(&frr, "10.1.0.2")).unwrap();
        });
        receiver.recv().unwrap()
    });
    let barriers = (Arc::clone(&begin), Arc::clone(&end));
    let theirs = std::thread::spawn(move || {
        let (sender, receiver) = std::sync::mpsc::channel();
        in_own_network(move || async move {
            let far = Frr::start(&[("10.1.0.2", FAST)], "");
            let near = Frr::instead(&[("10.1.0.1", FAST)]);
            until("up", || near.bfd("10.1.0.1")["remote-transmit-interval"] == 50).await;
            until("up", || far.bfd("10.1.0.2")["remote-transmit-interval"] == 50).await;
            barriers.0.wait();
            barriers.1.wait();
            sender.send(downs(&near, "10.1.0.1") + downs(&far, "10.1.0.2")).unwrap();
        });
        receiver.recv().unwrap()
    });
    begin.wait();
    let load = Load::begin();
    std::thread::sleep(Duration::from_secs(seconds));
    drop(load);
    end.wait();
    let (ours, theirs) = (ours.join().unwrap(), theirs.join().unwrap());
    println!(
        "measured: {seconds} s of full load at 3 x 50 ms: {ours} sessions lost by us and FRR, {theirs} by FRR and FRR"
    );
    assert!(ours <= theirs, "{ours} and {theirs}");
}
