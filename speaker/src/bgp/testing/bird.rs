//! BIRD at the other end of a link: a network namespace of its own, as a router has.

use std::process::{Child, Command, Stdio};

use crate::testing::{ip, until};

/// Its address; the speaker has 10.0.1.2 and fd00:1::2.
pub(crate) const BIRD: &str = "10.0.1.1";
/// Its IPv6 address.
pub(crate) const BIRD_V6: &str = "fd00:1::1";

/// bird: nothing is installed, it says what it was sent.
pub(crate) struct Bird {
    bird: Child,
    folder: tempfile::TempDir,
}

impl Bird {
    /// With these lines in its protocol `speaker`, whose neighbor is `10.0.1.2` unless they say another.
    pub(crate) async fn start(speaker: &str) -> Self {
        Self::over(speaker, "local 10.0.1.1 as 64513; neighbor 10.0.1.2 as 64512;").await
    }

    /// With this session.
    pub(crate) async fn over(speaker: &str, session: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "router id {BIRD};\nprotocol device {{ scan time 1; }}\n\
             protocol bgp speaker {{\n {session}\n passive on;\n {speaker}\n}}\n"
        );
        std::fs::write(path("bird.conf"), config).unwrap();
        let bird = Command::new("unshare")
            .args(["--net", "--", "bird", "-f", "-c", &path("bird.conf"), "-s", &path("bird.ctl")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bird of the Debian package bird2 (hack/setup)");
        let process = bird.id().to_string();
        let bird = Self { bird, folder };
        // It listens once it is where it belongs.
        until("BIRD", || !bird.birdc("show status").is_empty()).await;
        ip(&format!("link add flb0 type veth peer name flb1 netns {process}"));
        let inside = |arguments: &str| {
            let arguments = format!("--target {process} --net ip {arguments}");
            let output = Command::new("nsenter").args(arguments.split_whitespace()).output().unwrap();
            assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        };
        for arguments in
            ["addr add 10.0.1.1/24 dev flb1", "addr add fd00:1::1/64 dev flb1 nodad", "link set flb1 up"]
        {
            inside(arguments);
        }
        ip("addr add fd00:1::2/64 dev flb0 nodad");
        ip("link set flb0 up");
        bird
    }

    /// The speaker's end has an IPv4 address too.
    pub(crate) fn with_ipv4(self) -> Self {
        ip("addr add 10.0.1.2/24 dev flb0");
        self
    }

    pub(crate) fn birdc(&self, command: &str) -> String {
        let birdc = Command::new("birdc")
            .arg("-s")
            .arg(self.folder.path().join("bird.ctl"))
            .args(command.split_whitespace())
            .output()
            .unwrap();
        if birdc.status.success() { String::from_utf8(birdc.stdout).unwrap() } else { String::new() }
    }

    pub(crate) fn session(&self) -> String {
        self.birdc("show protocols all speaker")
    }

    pub(crate) async fn established(&self) {
        until("Established", || self.session().contains("BGP state:          Established")).await;
    }

    /// All that it says of a route.
    pub(crate) fn route(&self, prefix: &str) -> String {
        self.birdc(&format!("show route all for {prefix}"))
    }

    /// The prefixes that it has, IPv4 first.
    pub(crate) fn prefixes(&self) -> Vec<String> {
        let all = self.birdc("show route");
        let first = |line: &str| line.split_whitespace().next().map(ToOwned::to_owned);
        all.lines()
            .filter(|line| !line.starts_with([' ', '\t']))
            .filter_map(first)
            .filter(|it| it.contains('/'))
            .collect()
    }

    pub(crate) async fn has(&self, expected: &[&str]) {
        until(&format!("{expected:?}"), || self.prefixes() == expected).await;
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.bird.kill();
        let _ = self.bird.wait();
    }
}
