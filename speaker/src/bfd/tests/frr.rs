//! FRR's zebra, bfdd and bgpd at the other end of a link, in a network of their own.

use std::process::{Child, Command, Stdio};

use super::*;

/// 10.1.0.1 and fd01::1; the speaker is 10.1.0.2 and fd01::2.
pub(super) struct Frr {
    daemons: Vec<Child>,
    folder: tempfile::TempDir,
    /// Its network, where that is not the test's.
    namespace: Option<String>,
}

impl Frr {
    /// With these BFD peers, each with its configuration, and with this besides.
    pub(super) fn start(peers: &[(&str, &str)], besides: &str) -> Self {
        Self::start_with(&[], peers, besides)
    }

    /// And with more addresses.
    pub(super) fn start_with(addresses: &[String], peers: &[(&str, &str)], besides: &str) -> Self {
        // A process whose network it is.
        let holder = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn().unwrap();
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let namespace = format!("/proc/{}/ns/net", holder.id());
        let begun = Instant::now();
        while std::fs::read_link(&namespace).is_ok_and(|it| it == own) {
            assert!(begun.elapsed() < PATIENCE, "a network of its own");
            std::thread::yield_now();
        }
        ip(&format!("link add near type veth peer name far netns {}", holder.id()));
        let folder = tempfile::tempdir().unwrap();
        let frr = Self { daemons: vec![holder], folder, namespace: Some(namespace) };
        ip("addr add 10.1.0.2/24 dev near");
        ip("addr add fd01::2/64 dev near nodad");
        ip("link set near up");
        for command in ["link set lo up", "addr add 10.1.0.1/24 dev far", "addr add fd01::1/64 dev far nodad"]
        {
            frr.run(&[&["ip"], &command.split(' ').collect::<Vec<_>>()[..]].concat());
        }
        for address in addresses {
            frr.run(&["ip", "addr", "add", &format!("{address}/32"), "dev", "far"]);
        }
        frr.run(&["ip", "link", "set", "far", "up"]);
        frr.begin(peers, besides)
    }

    /// At the speaker's end of the link, in its stead.
    pub(super) fn instead(peers: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { daemons: Vec::new(), folder, namespace: None }.begin(peers, "")
    }

    /// A command in the router's network.
    fn command(&self, program: &str) -> Command {
        match &self.namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut nsenter = Command::new("nsenter");
                nsenter.arg(format!("--net={namespace}")).arg(program);
                nsenter
            }
        }
    }

    fn begin(mut self, peers: &[(&str, &str)], besides: &str) -> Self {
        let mut config = format!("hostname router\n{besides}\nbfd\n");
        for (peer, settings) in peers {
            config.push_str(&format!(" peer {peer}\n  {settings}\n  no shutdown\n exit\n"));
        }
        std::fs::write(self.path("frr.conf"), config).unwrap();
        let owned = Command::new("chown").args(["-R", "frr:frr", &self.path("")]).status().unwrap();
        assert!(owned.success());
        for daemon in ["zebra", "bfdd", "bgpd"] {
            let mut command = self.command(&format!("/usr/lib/frr/{daemon}"));
            command.args(["--config_file", &self.path("frr.conf"), "--pid_file", &self.path(daemon)]);
            command.args([
                "--socket",
                &self.path("zserv.api"),
                "--vty_socket",
                &self.path(""),
                "--vty_port",
                "0",
            ]);
            if daemon == "bfdd" {
                command.args(["--bfdctl", &self.path("bfdctl.sock")]);
            }
            command.stdout(Stdio::null()).stderr(Stdio::null());
            self.daemons.push(command.spawn().expect("the Debian package frr (hack/setup)"));
            // The others look for zebra once a while only.
            let (begun, socket) = (Instant::now(), self.path("zserv.api"));
            while !std::path::Path::new(&socket).exists() {
                assert!(begun.elapsed() < PATIENCE, "{daemon} does not start");
                std::thread::sleep(10 * MS);
            }
        }
        self
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs something in the router's network.
    pub(super) fn run(&self, command: &[&str]) {
        let [program, arguments @ ..] = command else { panic!("no command") };
        assert!(self.command(program).args(arguments).status().unwrap().success(), "{command:?}");
    }

    /// What something says in the router's network.
    pub(super) fn output(&self, command: &[&str]) -> String {
        let [program, arguments @ ..] = command else { panic!("no command") };
        String::from_utf8(self.command(program).args(arguments).output().unwrap().stdout).unwrap()
    }

    pub(super) fn vtysh(&self, commands: &[&str]) -> String {
        let mut vtysh = Command::new("vtysh");
        vtysh.arg("--vty_socket").arg(self.folder.path()).env("VTYSH_HISTFILE", "/dev/null");
        for command in commands {
            vtysh.args(["-c", command]);
        }
        String::from_utf8(vtysh.output().unwrap().stdout).unwrap()
    }

    pub(super) fn configure(&self, commands: &[&str]) {
        self.vtysh(&[&["configure terminal"], commands].concat());
    }

    pub(super) fn show(&self, what: &str) -> Value {
        serde_json::from_str(&self.vtysh(&[&format!("show {what} json")])).unwrap_or_default()
    }

    fn of_peer(&self, what: &str, peer: &str) -> Value {
        let all = self.show(what);
        all.as_array().and_then(|all| all.iter().find(|it| it["peer"] == peer)).cloned().unwrap_or_default()
    }

    /// What it says of the session with an address.
    pub(super) fn bfd(&self, peer: &str) -> Value {
        self.of_peer("bfd peers", peer)
    }

    pub(super) fn counters(&self, peer: &str) -> Value {
        self.of_peer("bfd peers counters", peer)
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
