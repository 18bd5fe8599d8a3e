//! FRR's bgpd, alone in the network namespace of a test.

pub(crate) mod bird;

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::testing::{ip, until};

/// Its address, on the loopback interface beside the speaker's 10.0.0.2 and fd00::2.
pub(crate) const ROUTER: &str = "10.0.0.1";

/// bgpd without zebra: it installs nothing, and says what it was sent.
pub(crate) struct Frr {
    bgpd: Child,
    folder: tempfile::TempDir,
}

impl Frr {
    /// With these lines in its `router bgp 64513`.
    pub(crate) fn start(neighbor: &str) -> Self {
        ip("addr add 10.0.0.1/32 dev lo");
        ip("addr add 10.0.0.2/32 dev lo");
        ip("addr add fd00::2/128 dev lo");
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "router bgp 64513\n bgp router-id {ROUTER}\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n \
             neighbor 10.0.0.2 passive\n neighbor 10.0.0.2 solo\n{neighbor}\n \
             address-family ipv4 unicast\n  neighbor 10.0.0.2 activate\n exit-address-family\n \
             address-family ipv6 unicast\n  neighbor 10.0.0.2 activate\n exit-address-family\n"
        );
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("bgpd.conf"), config).unwrap();
        let bgpd = Command::new("/usr/lib/frr/bgpd")
            .args(["--no_zebra", "--no_kernel", "--skip_runas", "--listenon", ROUTER, "--vty_port", "0"])
            .args(["--config_file", &path("bgpd.conf"), "--pid_file", &path("bgpd.pid")])
            .args(["--vty_socket", &path("")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bgpd of the Debian package frr (hack/setup)");
        Self { bgpd, folder }
    }

    pub(crate) fn vtysh(&self, commands: &[&str]) -> String {
        let mut vtysh = Command::new("vtysh");
        vtysh.arg("--vty_socket").arg(self.folder.path()).env("VTYSH_HISTFILE", "/dev/null");
        for command in commands {
            vtysh.args(["-c", command]);
        }
        String::from_utf8(vtysh.output().unwrap().stdout).unwrap()
    }

    pub(crate) fn show(&self, what: &str) -> Value {
        serde_json::from_str(&self.vtysh(&[&format!("show bgp {what} json")])).unwrap_or_default()
    }

    pub(crate) fn neighbor(&self) -> Value {
        self.show("neighbors 10.0.0.2")["10.0.0.2"].clone()
    }

    pub(crate) async fn established(&self) {
        until("Established", || self.neighbor()["bgpState"] == "Established").await;
    }

    /// The prefixes that it has, IPv4 first.
    pub(crate) fn prefixes(&self) -> Vec<String> {
        let of = |family: &str| -> Vec<String> {
            let table = self.show(&format!("{family} unicast"));
            table["routes"].as_object().map(|routes| routes.keys().cloned().collect()).unwrap_or_default()
        };
        [of("ipv4"), of("ipv6")].concat()
    }

    pub(crate) async fn has(&self, expected: &[&str]) {
        until(&format!("{expected:?}"), || self.prefixes() == expected).await;
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        let _ = self.bgpd.kill();
        let _ = self.bgpd.wait();
    }
}
