//! The lab itself: it comes up, its faults are real, what is in its way gets a clear message, and nothing
//! is left of it, however it ends.
//!
//! Each test has a network of its own, so none of them meets the lab that the other tests share.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which end by panicking")]

mod bench;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use ferrolb_e2e::Lab;
use ferrolb_e2e::layout::Layout;
use ferrolb_e2e::process::Process;
use ferrolb_e2e::progress::Progress;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;

use bench::{Bench, PROGRAM, apart, ip, text, until, usual_places};

/// Answers on every node's address.
const BACKEND: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "backend"}, "spec": {
    "hostNetwork": true, "nodeName": "k8s-node-2", "terminationGracePeriodSeconds": 0, "containers": [
    {"name": "a", "image": "docker.io/lab/agnhost:1", "args": ["netexec", "--http-port=8080"]},
    {"name": "b", "image": "docker.io/lab/agnhost:1", "args": ["netexec", "--http-port=8090", "--udp-port=8091"]}]}}"#;

#[test]
fn an_interrupted_up_removes_what_it_had_started() {
    apart(|bench| {
        let mut up = bench.up_half_way();
        let processes = bench.processes();
        assert!(processes.len() > 6, "{processes:?}");
        let pid = i32::try_from(up.id()).unwrap();
        Process::with_pid(pid).unwrap().signal(Signal::SIGINT);
        assert!(!up.wait().unwrap().success());
        bench.assert_nothing_left(&processes);
    });
}

#[test]
fn a_killed_up_takes_the_lab_along_and_down_removes_the_rest() {
    apart(|bench| {
        let mut up = bench.up_half_way();
        let processes = bench.processes();
        up.kill().unwrap();
        up.wait().unwrap();
        until("the processes to end", || !processes.iter().any(Process::is_alive));
        let said = bench.run(&["down"]);
        assert!(said.contains("nothing of it is left"), "{said}");
        bench.assert_nothing_left(&processes);
        assert!(bench.run(&["down"]).contains("No lab was up"));
    });
}

#[test]
fn the_cluster_works_its_faults_are_real_and_down_leaves_nothing() {
    apart(|bench| {
        let places = usual_places();
        bench.run(&["up"]);
        let again = Instant::now();
        bench.run(&["up"]);
        assert!(again.elapsed() < Duration::from_secs(5), "a second up starts the lab anew");

        let nodes = bench.run(&["kubectl", "get", "nodes", "--no-headers"]);
        assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), 3, "{nodes}");
        let backend = bench.dir().join("backend.json");
        fs::write(&backend, BACKEND).unwrap();
        bench.run(&["kubectl", "apply", "-f", backend.to_str().unwrap()]);
        bench.run(&["kubectl", "wait", "--for=condition=Ready", "pod/backend", "--timeout=60s"]);
        bench.run(&["kubectl", "logs", "backend", "-c", "a"]);
        hosts_are_told_apart(bench);
        cables_can_be_pulled(bench);
        frames_can_be_dropped(bench);
        the_api_server_can_be_taken_away(bench);
        another_lab_is_refused(bench);
        a_lab_in_use_stays(bench);

        let processes = bench.processes();
        assert!(processes.len() > 20, "{processes:?}");
        // Even without its own record.
        fs::remove_file(bench.dir().join("lab.json")).unwrap();
        bench.run(&["down"]);
        bench.assert_nothing_left(&processes);
        assert_eq!(usual_places(), places, "a daemon wrote to its usual place");
    });
}

fn hosts_are_told_apart(bench: &Bench) {
    assert_eq!(bench.run(&["exec", "router", "hostname"]).trim(), "router");
    assert_eq!(bench.output(&["exec", "client", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let links = bench.run(&["exec", "k8s-node-2", "ip", "-br", "link"]);
    assert!(links.contains("52:54:00:3a:10:21"), "{links}");
    assert!(bench.run(&["exec", "router", "vtysh", "-c", "show bgp summary"]).contains("64512"));
    for url in ["http://192.168.10.21:8080/hostname", "http://[fd00:10::21]:8080/hostname"] {
        assert_eq!(bench.run(&["exec", "client", "curl", "-sf", "-m", "5", url]), "k8s-node-2");
    }
    let unknown = bench.refused(&["exec", "moon", "true"]);
    assert!(unknown.contains("No host is called \"moon\"") && unknown.contains("client"), "{unknown}");
}

fn cables_can_be_pulled(bench: &Bench) {
    let url = "http://192.168.10.21:8080/hostname";
    bench.run(&["cut", "k8s-node-2"]);
    assert!(!bench.answers(url), "a node without a cable answers");
    let carrier = bench.run(&["exec", "k8s-node-2", "ip", "-br", "link", "show", "ens18"]);
    assert!(carrier.contains("NO-CARRIER"), "{carrier}");
    bench.run(&["heal", "k8s-node-2"]);
    until("the healed node to answer", || bench.answers(url));
}

fn frames_can_be_dropped(bench: &Bench) {
    let (blocked, open) = ("http://192.168.10.21:8080/hostname", "http://192.168.10.21:8090/hostname");
    bench.run(&["block", "client", "k8s-node-2", "8080"]);
    // Once more must not need to be undone twice.
    bench.run(&["block", "k8s-node-2", "client", "8080"]);
    assert!(!bench.answers(blocked), "a blocked port answers");
    assert!(bench.answers(open), "another port is blocked too");
    bench.run(&["unblock", "client", "k8s-node-2", "8080"]);
    assert!(bench.answers(blocked), "an unblocked port does not answer");

    bench.run(&["loss", "client", "k8s-node-2", "100"]);
    assert!(!bench.answers(open), "all frames are lost, and an answer came");
    assert!(bench.output(&["exec", "router", "curl", "-sf", "-m", "2", open]).status.success());
    bench.run(&["loss", "client", "k8s-node-2", "0"]);
    until("frames to pass again", || bench.answers(open));
    bench.run(&["loss", "client", "k8s-node-2", "30"]);
    // No name is looked up and no retry hides a lost frame; 200 of 200 or 0 of 200 do not happen by chance.
    let pings = bench.output(&[
        "exec",
        "client",
        "ping",
        "-q",
        "-i",
        "0.01",
        "-c",
        "200",
        "-W",
        "1",
        "192.168.10.21",
    ]);
    let lost: f64 = text(&pings)
        .split_once("% packet loss")
        .and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{}", text(&pings)));
    assert!(lost > 20.0 && lost < 80.0, "30 % each way lost {lost} % of the answers");
    bench.run(&["loss", "client", "k8s-node-2", "0"]);
}

fn the_api_server_can_be_taken_away(bench: &Bench) {
    let get = ["kubectl", "get", "--raw", "/readyz", "--request-timeout=2s"];
    bench.run(&["api", "stop"]);
    assert!(bench.refused(&get).contains("refused"), "a stopped API server");
    bench.run(&["api", "start"]);
    bench.run(&get);
    bench.run(&["api", "pause"]);
    assert!(!bench.refused(&get).contains("refused"), "a paused API server takes connections");
    bench.run(&["api", "resume"]);
    until("the API server to go on", || bench.output(&get).status.success());
}

fn another_lab_is_refused(bench: &Bench) {
    let other = bench.folder.path().join("other");
    let output = bench.command(&["up"]).env("FERROLB_LAB", &other).output().unwrap();
    let said = text(&output);
    assert!(!output.status.success() && said.contains(&bench.dir().display().to_string()), "{said}");
    assert!(!other.exists(), "a refused lab left its folder");
}

fn a_lab_in_use_stays(bench: &Bench) {
    let lab = Lab::open(&Layout::new(Some(bench.dir()), None)).unwrap();
    let quiet = Progress::quiet();
    let session = lab.hold("a test", &quiet, Duration::ZERO).unwrap();
    let said = bench.refused(&["down"]);
    assert!(said.contains(&format!("a test (process {})", std::process::id())), "{said}");
    let second = lab.hold("another test", &quiet, Duration::ZERO).unwrap_err().to_string();
    assert!(second.contains("a test"), "{second}");
    drop(session);
    lab.hold("another test", &quiet, Duration::ZERO).unwrap();
}

#[test]
fn whoever_may_not_is_told_so() {
    apart(|bench| {
        // The program may be where only root can read.
        let program = bench.folder.path().join("ferrolb-lab");
        fs::copy(PROGRAM, &program).unwrap();
        fs::set_permissions(bench.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for verb in ["up", "down"] {
            let output = Command::new(&program).arg(verb).uid(65_534).gid(65_534).output().unwrap();
            let said = text(&output);
            assert!(!output.status.success() && said.contains("you are user 65534"), "{said}");
            assert!(said.contains("sudo"), "no remedy: {said}");
        }
    });
}

#[test]
fn what_is_missing_or_in_the_way_is_named_and_left_alone() {
    apart(|bench| {
        let up = |change: &dyn Fn(&mut Command)| {
            let mut command = bench.command(&["up"]);
            change(&mut command);
            let output = command.output().unwrap();
            assert!(!output.status.success(), "{}", text(&output));
            text(&output)
        };
        let said = up(&|command| {
            command.env("FERROLB_TOOLS", "/nowhere/bin");
        });
        assert!(said.contains("/nowhere/bin") && said.contains("hack/setup"), "{said}");
        let said = up(&|command| {
            command.env("FERROLB_LAB", "/run/lab");
        });
        assert!(said.contains("/run/lab") && said.contains("FERROLB_LAB"), "{said}");

        ip("link add flb0 type veth peer name flb1");
        let said = up(&|_| {});
        assert!(said.contains("interface named flb0"), "{said}");
        bench.run(&["down"]);
        ip("link del flb0");

        ip("link add vpn type veth peer name vpn1");
        ip("link set vpn up");
        ip("addr add 192.168.10.77/25 dev vpn");
        let said = up(&|_| {});
        assert!(said.contains("192.168.10") && said.contains("192.168.10.0/24"), "{said}");
        ip("link del vpn");

        let small = bench.folder.path().join("small");
        fs::create_dir(&small).unwrap();
        mount(Some("tmpfs"), &small, Some("tmpfs"), MsFlags::empty(), Some("size=8m")).unwrap();
        let said = up(&|command| {
            command.env("FERROLB_LAB", small.join("lab"));
        });
        assert!(said.contains("MiB free"), "{said}");
        nix::mount::umount(&small).unwrap();

        assert!(bench.refused(&["status"]).contains("hack/lab up"));
        assert!(!bench.dir().exists(), "a refused up left its folder");
    });
}

#[test]
fn two_at_a_time_are_one_too_many() {
    apart(|bench| {
        let mut up = bench.up_half_way();
        for verb in ["up", "down"] {
            let said = bench.refused(&[verb]);
            assert!(said.contains(&format!("hack/lab up (process {})", up.id())), "{said}");
        }
        up.kill().unwrap();
        up.wait().unwrap();
        bench.run(&["down"]);
    });
}
