//! What many sessions cost.

use super::*;

const SESSIONS: usize = 100;

/// Ticks of the processor (a hundredth of a second) that the thread of BFD has used.
fn ticks() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let of_bfd = stats.filter_map(|stat| {
        let (name, fields) = stat.rsplit_once(')')?;
        let fields: Vec<u64> = fields.split_whitespace().skip(12).map_while(|it| it.parse().ok()).collect();
        name.ends_with("(bfd").then(|| fields[..2].iter().sum::<u64>())
    });
    of_bfd.sum()
}

/// `WATCH_SECONDS` is how long it is measured.
#[test]
#[ignore = "measures, and must be alone: hack/alarms"]
fn a_hundred_sessions_cost_little() {
    in_own_network(|| async {
        // Of one pair of addresses the router has one session.
        let pairs = (1..=SESSIONS).map(|last| (format!("10.1.1.{last}"), format!("10.1.2.{last}")));
        let (addresses, own): (Vec<String>, Vec<String>) = pairs.unzip();
        let pairs = addresses.iter().zip(&own);
        let peers: Vec<String> = pairs.map(|(it, own)| format!("{own} local-address {it}")).collect();
        let peers: Vec<(&str, &str)> = peers.iter().map(|it| (it.as_str(), "")).collect();
        let frr = Frr::start_with(&addresses, &peers, "");
        frr.run(&["ip", "route", "add", "10.1.2.0/24", "dev", "far"]);
        for address in &own {
            ip(&format!("addr add {address}/32 dev near"));
        }
        ip("route add 10.1.1.0/24 dev near");
        let bench = Bench::new().await;
        let peer = |(address, own): (&String, &String)| Peer {
            source_address: own.parse().ok(),
            ..router(address, BfdProfile::named("default"))
        };
        bench.want(addresses.iter().zip(&own).map(peer));
        let up = || (0..SESSIONS).filter(|index| bench.reachability(*index).up).count();
        until("all sessions are up", || up() == SESSIONS).await;
        let seconds = std::env::var("WATCH_SECONDS").ok().and_then(|it| it.parse().ok()).unwrap_or(2);
        let (before, begun) = (ticks(), Instant::now());
        let mut reachable = bench.reachable.clone();
        let failed = reachable.wait_for(|it| it.values().any(|it| it.failures > 0));
        let failed = tokio::time::timeout(Duration::from_secs(seconds), failed).await;
        assert!(failed.is_err(), "a false alarm");
        let share = (ticks() - before) as f64 / begun.elapsed().as_secs_f64();
        println!("measured: {SESSIONS} sessions at 3 x 300 ms use {share:.1} % of a core (this build)");
        // Built without optimisation.
        assert!(share < 50.0, "{share} %");
    });
}
