//! Breaking things on purpose, and mending them.

use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::error::{Attempt, LabError, Result};
use crate::lab::Lab;
use crate::lock::Lock;
use crate::namespaces::{Depth, inside};
use crate::network::batch;
use crate::process::Process;
use crate::progress::{Progress, Seen};
use crate::state::State;
use crate::topology::{Role, with_role};
use crate::{down, up};

/// The program that `api` faults are about.
const API_SERVER: &str = "kube-apiserver";

impl Lab {
    /// Pulls a host's cable: it loses its carrier, and no frame passes either way.
    ///
    /// # Errors
    /// No host is called so.
    pub fn cut(&self, host: &str) -> Result<()> {
        self.set_port(host, "down")
    }

    /// Plugs the cable in again.
    ///
    /// # Errors
    /// No host is called so.
    pub fn heal(&self, host: &str) -> Result<()> {
        self.set_port(host, "up")
    }

    fn set_port(&self, host: &str, state: &str) -> Result<()> {
        let port = self.host(host)?.name();
        inside(&self.lan()?, Depth::Network, || batch(&format!("link set {port} {state}\n")))
    }

    /// Drops what two hosts send each other to a TCP or UDP port, both ways.
    ///
    /// # Errors
    /// No host is called so.
    pub fn block(&self, a: &str, b: &str, port: u16) -> Result<()> {
        let (a, b) = self.pair(a, b)?;
        let rules = both_ways(a, b).map(|(from, to)| {
            let ports = format!("meta l4proto {{ tcp, udp }} th dport {port}");
            format!(
                "iifname \"{from}\" oifname \"{to}\" {ports} drop comment \"{}\"",
                block_name(from, to, port)
            )
        });
        self.unblock(a, b, port)?;
        self.add_rules(&rules)
    }

    /// Lets them through again.
    ///
    /// # Errors
    /// No host is called so.
    pub fn unblock(&self, a: &str, b: &str, port: u16) -> Result<()> {
        let (a, b) = self.pair(a, b)?;
        self.remove_rules(&both_ways(a, b).map(|(from, to)| block_name(from, to, port)))
    }

    /// Drops a share of all frames between two hosts, both ways, with the carrier up; 0 heals, 100 is
    /// a partition.
    ///
    /// # Errors
    /// No host is called so.
    pub fn loss(&self, a: &str, b: &str, percent: u8) -> Result<()> {
        let (a, b) = self.pair(a, b)?;
        self.remove_rules(&both_ways(a, b).map(|(from, to)| loss_name(from, to)))?;
        if percent == 0 {
            return Ok(());
        }
        self.add_rules(&both_ways(a, b).map(|(from, to)| {
            // nftables refuses a comparison that always holds.
            let dice =
                if percent < 100 { format!("numgen random mod 100 < {percent}") } else { String::new() };
            format!("iifname \"{from}\" oifname \"{to}\" {dice} drop comment \"{}\"", loss_name(from, to))
        }))
    }

    /// Undoes every fault: cables in, no frame dropped, the API server running.
    ///
    /// # Errors
    /// The lab is gone.
    pub fn heal_all(&self, progress: &Progress) -> Result<()> {
        for host in up::host_names() {
            self.heal(&host)?;
        }
        self.nft(&format!("table bridge {TABLE}\ndelete table bridge {TABLE}\n"))?;
        self.api_resume()?;
        if self.api_process().is_some_and(|process| !process.is_alive()) {
            self.api_start(progress)?;
        }
        Ok(())
    }

    fn pair(&self, a: &str, b: &str) -> Result<(&'static str, &'static str)> {
        Ok((self.host(a)?.name(), self.host(b)?.name()))
    }

    /// Adds rules to a chain that sees every frame the bridge passes on.
    fn add_rules(&self, rules: &[String]) -> Result<()> {
        let mut script = format!(
            "table bridge {TABLE} {{\nchain {CHAIN} {{ type filter hook forward priority 0; policy accept; }}\n}}\n"
        );
        for rule in rules {
            script.push_str(&format!("add rule bridge {TABLE} {CHAIN} {rule}\n"));
        }
        self.nft(&script).map(drop)
    }

    fn remove_rules(&self, names: &[String]) -> Result<()> {
        // No table yet: nothing to remove.
        let Ok(listing) = self.nft(&format!("list chain bridge {TABLE} {CHAIN}\n")) else { return Ok(()) };
        let script: String = handles(&listing, names)
            .iter()
            .map(|handle| format!("delete rule bridge {TABLE} {CHAIN} handle {handle}\n"))
            .collect();
        self.nft(&script).map(drop)
    }

    /// Runs nft in the LAN's namespace.
    fn nft(&self, script: &str) -> Result<String> {
        inside(&self.lan()?, Depth::Network, || {
            use std::io::Write as _;
            let mut child = Command::new("nft")
                .args(["--handle", "--file", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .attempt(|| "run nft".to_owned())?;
            if let Some(mut input) = child.stdin.take() {
                input.write_all(script.as_bytes()).attempt(|| "tell nft what to do".to_owned())?;
            }
            let output = child.wait_with_output().attempt(|| "wait for nft".to_owned())?;
            crate::host::succeeded(&format!("nft with {script:?}"), output)
        })
    }

    /// As written down last: another process may have started it anew.
    fn api_process(&self) -> Option<Process> {
        let state = State::read(&self.layout).ok().flatten()?;
        state.daemons.get(&api_name()).map(|daemon| daemon.process)
    }

    /// Ends the API server: connections are refused until [`Lab::api_start`].
    ///
    /// # Errors
    /// It does not end.
    pub fn api_stop(&self) -> Result<()> {
        self.api_process().map_or(Ok(()), |process| down::end(&process).map(drop))
    }

    /// Starts the API server again and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub fn api_start(&self, progress: &Progress) -> Result<()> {
        let lock = Lock::take(&self.layout.lock(), "hack/lab api start")?;
        let gone = || LabError::NotUp { dir: self.layout.dir.clone() };
        let mut state = State::read(&self.layout)?.ok_or_else(gone)?;
        let old = state.daemons.get(&api_name()).ok_or_else(gone)?;
        if !old.process.is_alive() {
            let host = self.host(with_role(Role::ControlPlane).name)?;
            let (name, daemon, mut child) = host.daemon(&old.command)?;
            // Its end must be noticed, by this process as long as there is one: the kernel waits for that.
            std::thread::spawn(move || child.wait());
            state.daemons.insert(name, daemon);
            state.write(&self.layout)?;
        }
        drop(lock);
        progress.wait("the API server", Duration::from_secs(60), || Ok(Seen::when(self.api_answers())))
    }

    /// Freezes the API server: connections hang until [`Lab::api_resume`].
    ///
    /// # Errors
    /// None at present; a dead API server cannot be frozen and is left alone.
    pub fn api_pause(&self) -> Result<()> {
        self.api_process().map(|process| process.signal(Signal::SIGSTOP));
        Ok(())
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// None at present.
    pub fn api_resume(&self) -> Result<()> {
        self.api_process().map(|process| process.signal(Signal::SIGCONT));
        Ok(())
    }
}

/// The nftables table of all faults, and its only chain.
const TABLE: &str = "faults";
const CHAIN: &str = "forward";

fn api_name() -> String {
    format!("{}-{API_SERVER}", with_role(Role::ControlPlane).name)
}

fn both_ways(a: &'static str, b: &'static str) -> [(&'static str, &'static str); 2] {
    [(a, b), (b, a)]
}

fn block_name(from: &str, to: &str, port: u16) -> String {
    format!("block {from} {to} {port}")
}

fn loss_name(from: &str, to: &str) -> String {
    format!("loss {from} {to}")
}

/// The handles of the rules with one of these comments in what `nft --handle list` prints.
fn handles(listing: &str, names: &[String]) -> Vec<u64> {
    let named = |line: &&str| names.iter().any(|name| line.contains(&format!("comment \"{name}\"")));
    listing
        .lines()
        .filter(named)
        .filter_map(|line| line.rsplit_once("# handle ")?.1.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_their_whole_name() {
        let listing = "\t\tiifname \"a\" oifname \"b\" drop comment \"block a b 80\" # handle 4\n\
                       \t\tiifname \"a\" oifname \"b\" drop comment \"block a b 8080\" # handle 5\n\
                       \t\tiifname \"b\" oifname \"a\" drop comment \"loss b a\" # handle 16\n";
        assert_eq!(handles(listing, &["block a b 80".to_owned()]), [4]);
        assert_eq!(handles(listing, &["loss b a".to_owned(), "loss a b".to_owned()]), [16]);
    }
}
