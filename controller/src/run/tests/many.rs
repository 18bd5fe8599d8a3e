//! Very many Services at once: `hack/bench controller`.

use super::*;
use crate::testing::crowd::Crowd;

/// Highest resident memory of this process, in KiB.
fn highest_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Fifty thousand wait when the controller starts. The API server is a thread of the same process and keeps next to
/// nothing, so that what is measured is the controller's.
#[tokio::test]
#[ignore = "a measurement, for a release build"]
async fn fifty_thousand_waiting_services() {
    const COUNT: usize = 50_000;
    let api = Api::default();
    pool(&api, "10.0.0.0/8");
    api.crowd(Crowd::new(COUNT, "default"));
    let (client, _gate) = api.attach().await;
    let (before, begin) = (highest_resident_kib(), Instant::now());
    let running = Running::start_with(&api, client, "controller-1", Times::default(), &[]);
    let mut first = None;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (served, writes) = api.served();
        if served > 0 && first.is_none() {
            first = Some((begin.elapsed(), highest_resident_kib()));
        }
        if served == COUNT {
            assert_eq!(writes, COUNT);
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(550), "{served} of {COUNT} served");
    }
    let all = begin.elapsed();
    until("the counters", || {
        api.get("ipaddresspools", NAMESPACE, "default")["status"]["assignedIPv4"] == COUNT
    })
    .await;
    let (first, with_first) = first.unwrap();
    let (mib, seconds) = (|kib: u64| kib / 1024, |time: Duration| time.as_secs_f64());
    println!(
        "{COUNT} waiting Services: the first has an address after {:.2} s, all after {:.1} s; memory at its highest, \
         MiB: {} before, {} with the first, {} with all",
        seconds(first),
        seconds(all),
        mib(before),
        mib(with_first),
        mib(highest_resident_kib()),
    );
    running.stop().await;
}
