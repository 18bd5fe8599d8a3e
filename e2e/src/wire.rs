//! The wire of the lab: a record of every ARP and NDP frame that crosses the LAN, with the time and the
//! host that sent it, so that a test can state a law over all of them rather than one reply.
//!
//! The bridge itself is listened to, promiscuously: it sees what any two hosts say to each other. Frames
//! are read with the product's own parsers; what they discard is not recorded.

mod capture;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrolb_proto::arp::Operation;
use ferrolb_proto::decode::{Decoded, decode};
use ferrolb_proto::ethernet::MacAddr;

use crate::error::{Attempt, Result};
use crate::lab::Lab;
use crate::namespaces::{Depth, inside};
use crate::topology::{BRIDGE, HOSTS};

/// Frames on their way through the capture buffer still arrive within this time.
const TRAILING: Duration = Duration::from_millis(300);

/// A recorder at work.
#[derive(Debug)]
pub struct Wire {
    tcpdump: Child,
    frames: Option<JoinHandle<Vec<Frame>>>,
}

/// A frame of the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Seconds since the epoch.
    pub at: f64,
    /// Host that sent it, by its hardware address; none for a stranger.
    pub host: Option<&'static str>,
    /// What it says.
    pub says: Decoded,
}

/// What a frame is about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Who has it?
    Question,
    /// I have it, said to the one who asked.
    Answer,
    /// I have it, said to everybody unasked.
    Announcement,
}

impl Wire {
    /// Begins to record; returns when frames are recorded.
    ///
    /// # Errors
    /// The lab is gone, or tcpdump cannot be started.
    pub fn start(lab: &Lab) -> Result<Self> {
        let mut tcpdump = inside(&lab.lan()?, Depth::Network, || {
            Command::new("tcpdump")
                .args(["--immediate-mode", "-U", "-n", "-i", BRIDGE, "-w", "-", "arp or icmp6"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .attempt(|| "run tcpdump".to_owned())
        })?;
        let said = tcpdump.stderr.take().map(BufReader::new);
        let mut lines = said.into_iter().flat_map(BufRead::lines).map_while(std::result::Result::ok);
        if !lines.any(|line| line.contains("listening on")) {
            return Err(std::io::ErrorKind::BrokenPipe).attempt(|| "listen to the bridge".to_owned());
        }
        let output = tcpdump.stdout.take();
        let frames = std::thread::spawn(move || {
            // What else it says must be read, or it would wait for that.
            std::thread::spawn(move || lines.for_each(drop));
            let Some(output) = output else { return Vec::new() };
            capture::packets(BufReader::new(output))
                .filter_map(|(at, bytes)| Frame::read(at, &bytes))
                .collect()
        });
        Ok(Self { tcpdump, frames: Some(frames) })
    }

    /// Ends, and gives the frames in order.
    #[must_use]
    pub fn stop(mut self) -> Vec<Frame> {
        sleep(TRAILING);
        self.end();
        self.frames.take().and_then(|frames| frames.join().ok()).unwrap_or_default()
    }

    fn end(&mut self) {
        // It may have ended by itself, with the lab.
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.end();
    }
}

impl Lab {
    /// Records the wire from now on.
    ///
    /// # Errors
    /// The lab is gone, or tcpdump cannot be started.
    pub fn record(&self) -> Result<Wire> {
        Wire::start(self)
    }
}

impl Frame {
    fn read(at: f64, bytes: &[u8]) -> Option<Self> {
        let says = decode(bytes)?;
        let (Decoded::Arp { ethernet, .. }
        | Decoded::NeighborSolicitation { ethernet, .. }
        | Decoded::NeighborAdvertisement { ethernet, .. }) = &says;
        let host = HOSTS.iter().find(|host| MacAddr::new(host.mac()) == ethernet.source);
        Some(Self { at, host: host.map(|host| host.name), says })
    }

    /// What the frame is about this address, if anything.
    #[must_use]
    pub fn about(&self, address: IpAddr) -> Option<Role> {
        match (&self.says, address) {
            (Decoded::Arp { ethernet, packet }, IpAddr::V4(address)) => {
                let (own, target) = (packet.sender_ip == address, packet.target_ip == address);
                match packet.operation {
                    _ if own && target => Some(Role::Announcement),
                    Operation::Request => target.then_some(Role::Question),
                    Operation::Reply if own && ethernet.destination.is_multicast() => {
                        Some(Role::Announcement)
                    }
                    Operation::Reply => own.then_some(Role::Answer),
                    Operation::Other(_) => None,
                }
            }
            (Decoded::NeighborSolicitation { solicitation, .. }, IpAddr::V6(address)) => {
                (solicitation.target == address).then_some(Role::Question)
            }
            (Decoded::NeighborAdvertisement { ethernet, advertisement, .. }, IpAddr::V6(address)) => {
                let announced = ethernet.destination.is_multicast();
                let role = if announced { Role::Announcement } else { Role::Answer };
                (advertisement.target == address).then_some(role)
            }
            _ => None,
        }
    }
}

/// A question of a host, and who answered it before its next one.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// When it was asked: seconds since the epoch.
    pub at: f64,
    /// Hosts that answered.
    pub answered_by: BTreeSet<String>,
}

/// The questions of a host about an address, each with its answers.
#[must_use]
pub fn exchanges(frames: &[Frame], asker: &str, address: IpAddr) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for frame in frames {
        match frame.about(address) {
            Some(Role::Question) if frame.host == Some(asker) => {
                exchanges.push(Exchange { at: frame.at, answered_by: BTreeSet::new() });
            }
            Some(Role::Answer) => {
                if let Some(last) = exchanges.last_mut() {
                    last.answered_by.insert(frame.host.unwrap_or("a stranger").to_owned());
                }
            }
            _ => {}
        }
    }
    exchanges
}

/// The first frame after `since` in which a host announces an address.
#[must_use]
pub fn first_announcement<'a>(
    frames: &'a [Frame],
    host: &str,
    address: IpAddr,
    since: f64,
) -> Option<&'a Frame> {
    frames.iter().find(|frame| {
        frame.at > since && frame.host == Some(host) && frame.about(address) == Some(Role::Announcement)
    })
}

/// Now, on the clock of the frames.
#[must_use]
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_proto::arp::{self, ArpPacket};

    const ADDRESS: &str = "192.168.10.200";

    fn mac(name: &str) -> MacAddr {
        MacAddr::new(HOSTS.iter().find(|host| host.name == name).unwrap().mac())
    }

    fn question(at: f64, from: &str) -> Frame {
        let packet = ArpPacket {
            operation: Operation::Request,
            sender_mac: mac(from),
            sender_ip: "192.168.10.50".parse().unwrap(),
            target_mac: MacAddr::ZERO,
            target_ip: ADDRESS.parse().unwrap(),
        };
        Frame::read(at, &packet.frame(mac(from), MacAddr::BROADCAST)).unwrap()
    }

    fn answer(at: f64, from: &str, to: &str) -> Frame {
        let packet = ArpPacket {
            operation: Operation::Reply,
            sender_mac: mac(from),
            sender_ip: ADDRESS.parse().unwrap(),
            target_mac: mac(to),
            target_ip: "192.168.10.50".parse().unwrap(),
        };
        Frame::read(at, &packet.frame(mac(from), mac(to))).unwrap()
    }

    #[test]
    fn questions_answers_and_announcements_are_told_apart_and_put_together() {
        let address = ADDRESS.parse().unwrap();
        let announced = arp::gratuitous(mac("k8s-node-2"), ADDRESS.parse().unwrap());
        let mut frames = vec![
            question(1.0, "client"),
            answer(1.1, "k8s-node-1", "client"),
            question(2.0, "client"),
            answer(2.1, "k8s-node-1", "client"),
            answer(2.2, "k8s-node-2", "client"),
            question(3.0, "router"),
            question(4.0, "client"),
        ];
        frames.extend(announced.iter().map(|frame| Frame::read(5.0, frame).unwrap()));
        let answered: Vec<usize> =
            exchanges(&frames, "client", address).iter().map(|it| it.answered_by.len()).collect();
        assert_eq!(answered, [1, 2, 0]);
        let first = first_announcement(&frames, "k8s-node-2", address, 4.0).unwrap();
        assert_eq!((first.at, first.host), (5.0, Some("k8s-node-2")));
        assert!(first_announcement(&frames, "k8s-node-1", address, 0.0).is_none());
        assert_eq!(frames[0].about("192.168.10.201".parse().unwrap()), None);
    }
}
