//! ARP as a host of the LAN sees it: requests sent by broadcast, and every frame about an address, with
//! the time and the sending MAC.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrolb_e2e::{Host, Lab};

use super::until;

/// A frame about the address under watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Seconds since the epoch.
    pub at: f64,
    /// Who sent it (Ethernet source).
    pub source: String,
    /// Request or reply.
    pub reply: bool,
    /// Whether it went to everybody.
    pub broadcast: bool,
    /// Whether sender and target are the address itself.
    pub gratuitous: bool,
}

/// Records every ARP frame about an address that a host sees.
pub struct Recorder {
    tcpdump: Child,
    frames: Option<JoinHandle<Vec<Frame>>>,
}

impl Recorder {
    /// Starts on a host; returns when frames are recorded.
    pub fn start(host: &Host, address: &str) -> Self {
        let nic = host.spec.nic();
        let filter = format!("arp and host {address}");
        let command = ["tcpdump", "-U", "-l", "-tt", "-e", "-n", "-i", nic, &filter];
        let mut tcpdump = host.spawn(&command).unwrap_or_else(|error| panic!("{error}"));
        let said = tcpdump.stderr.take().map(BufReader::new);
        let output = tcpdump.stdout.take().map(BufReader::new);
        // It says "listening on …" when it does.
        let mut lines = said.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        assert!(lines.any(|line| line.contains("listening on")), "tcpdump does not start");
        let address = address.to_owned();
        let frames = std::thread::spawn(move || {
            // The rest of what it says must be read, or it would wait for that.
            std::thread::spawn(move || lines.for_each(drop));
            let lines = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
            lines.filter_map(|line| parse(&line, &address)).collect()
        });
        Self { tcpdump, frames: Some(frames) }
    }

    /// Ends, and gives the frames in order.
    pub fn stop(mut self) -> Vec<Frame> {
        // Frames on their way through the capture buffer still arrive.
        std::thread::sleep(Duration::from_millis(300));
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
        self.frames.take().and_then(|it| it.join().ok()).unwrap_or_default()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

fn parse(line: &str, address: &str) -> Option<Frame> {
    // 1790000000.123456 52:54:00:3a:10:14 > ff:ff:ff:ff:ff:ff, ethertype ARP …: Reply A is-at MAC, …
    let mut words = line.split_whitespace();
    let at = words.next()?.parse().ok()?;
    let source = words.next()?.to_owned();
    let destination = words.nth(1)?.trim_end_matches(',').to_owned();
    let reply = line.contains(&format!("Reply {address} is-at"));
    let broadcast = destination == "ff:ff:ff:ff:ff:ff";
    let gratuitous = (reply && broadcast) || line.contains(&format!("tell {address},"));
    (reply || line.contains("Request who-has")).then_some(Frame { at, source, reply, broadcast, gratuitous })
}

/// Now, on the clock of the frames.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Between two requests.
const INTERVAL: Duration = Duration::from_millis(100);

/// Broadcast requests, and who answered each: sends `count` of them from a host, ten a second.
pub fn ask(host: &Host, address: &str, count: u32) -> Vec<BTreeSet<String>> {
    let recorder = Recorder::start(host, address);
    let sent: Vec<Child> = (0..count).map(|_| send_one(host, address)).collect();
    for mut arping in sent {
        let _ = arping.wait();
    }
    answers(&recorder.stop(), &mac_of(host))
}

/// A process for each request: arping sends one a second at most, and counts answers to others' requests
/// as its own.
fn send_one(host: &Host, address: &str) -> Child {
    let command = ["arping", "-q", "-b", "-c", "1", "-w", "1", "-I", host.spec.nic(), address];
    let arping = host.spawn(&command).unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(INTERVAL);
    arping
}

/// For each request of the host with this MAC: the MACs that answered before the next one.
pub fn answers(frames: &[Frame], own: &str) -> Vec<BTreeSet<String>> {
    let mut answers: Vec<BTreeSet<String>> = Vec::new();
    for frame in frames {
        if frame.source == own && !frame.reply {
            answers.push(BTreeSet::new());
        } else if frame.reply && !frame.broadcast {
            if let Some(last) = answers.last_mut() {
                last.insert(frame.source.clone());
            }
        }
    }
    answers
}

/// The MAC of a host's interface.
pub fn mac_of(host: &Host) -> String {
    ferrolb_e2e::topology::mac_text(host.spec.mac())
}

/// The node with this MAC.
pub fn node_of(lab: &Lab, mac: &str) -> Option<String> {
    let nodes = lab.nodes().unwrap_or_else(|error| panic!("{error}"));
    nodes.iter().find(|node| mac_of(node) == mac).map(|node| node.name().to_owned())
}

/// Waits until somebody answers one broadcast request, and says who.
pub fn answered_by(lab: &Lab, host: &Host, address: &str, limit: Duration) -> String {
    until(&format!("an ARP answer for {address}"), limit, || {
        let macs: BTreeSet<String> = ask(host, address, 1).into_iter().flatten().collect();
        let nodes: Vec<_> = macs.iter().map(|mac| node_of(lab, mac).unwrap_or_else(|| mac.clone())).collect();
        match nodes.as_slice() {
            [one] => Ok(one.clone()),
            other => Err(format!("answers of {other:?}")),
        }
    })
}

/// Asks ten times a second in the background until told to stop.
pub struct Asking {
    stop: Arc<AtomicBool>,
    asking: Option<JoinHandle<()>>,
    recorder: Option<Recorder>,
    own: String,
}

impl Asking {
    pub fn start(host: &Host, address: &str) -> Self {
        let recorder = Some(Recorder::start(host, address));
        let stop = Arc::new(AtomicBool::new(false));
        let (own, told, host, address) = (mac_of(host), Arc::clone(&stop), host.clone(), address.to_owned());
        let asking = std::thread::spawn(move || {
            let mut sent: Vec<Child> = Vec::new();
            while !told.load(Ordering::Relaxed) {
                sent.push(send_one(&host, &address));
                sent.retain_mut(|arping| !matches!(arping.try_wait(), Ok(Some(_))));
            }
            for mut arping in sent {
                let _ = arping.wait();
            }
        });
        Self { stop, asking: Some(asking), recorder, own }
    }

    /// Ends; gives all frames and the MAC that asked.
    pub fn stop(mut self) -> (Vec<Frame>, String) {
        self.end();
        let frames = self.recorder.take().map(Recorder::stop).unwrap_or_default();
        (frames, self.own.clone())
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.end();
    }
}
