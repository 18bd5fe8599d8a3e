//! Layer 2 on one link: answers for the addresses the link owns and tells the neighbours when it
//! comes to own one.
//!
//! ```text
//! Frame(bytes) ───────┐                        ┌─> Send { frame, cause: Answer | Announcement }
//! Own, Quiet, Disown ─┼─> Announcer ──poll────>┤
//! LinkAddress(..) ────┤   owned: ip -> Progress└─> Event(Ignored(why))
//! Announce, Reannounce┤   timers: (when, ip)
//! handle_timeout ─────┘
//! ```
//!
//! - A newly owned address is announced at once and 1, 2 and 4 s later, as a newly owned one again
//!   after each loss and after a change of the link's MAC. Losing one sends nothing.
//! - An address that is kept `Quiet` is answered for but not announced: its owner is handing it over.
//! - `Reannounce` tells the neighbours once more about all owned addresses, at most once a second;
//!   one that comes too early is kept until the second is over, not lost.
//! - Announcements are made when polled, so what waits is bounded by the owned set; answers wait in
//!   a queue of fixed length, which never fills while the driver drains after each input.
//!
//! Who owns what is decided by [`conflict`](crate::conflict). A frame, a timer or a change of one
//! address costs a look-up in the owned set; only `Reannounce` and a new MAC visit all of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use crate::answer::{Ignored, Question, Reply};
use crate::ethernet::{EtherType, Frame, Header, MacAddr};
use crate::{arp, ndp};

/// When a newly owned address is announced, counted from the moment it was gained.
const SCHEDULE: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// Shortest time between two rounds of `Reannounce`.
const REANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// Outcomes of frames that may wait to be polled.
const QUEUE: usize = 256;

/// The link's own addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkAddress {
    /// Its MAC, the one that answers carry.
    pub mac: MacAddr,
    /// Its IPv6 link-local address, the source of advertisements. Without one the link does not
    /// speak IPv6, and IPv6 addresses wait unannounced.
    pub link_local: Option<Ipv6Addr>,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A frame arrived on the link.
    Frame(&'a [u8]),
    /// The link owns this address: answer for it, and announce it unless that is done already.
    Own(IpAddr),
    /// Go on answering for an owned address, but announce it no more.
    Quiet(IpAddr),
    /// The link does not own this address any more.
    Disown(IpAddr),
    /// Announce an owned address once more, now.
    Announce(IpAddr),
    /// The link's own addresses, changed or not.
    LinkAddress(LinkAddress),
    /// A neighbour may have missed announcements: say again what is owned.
    Reannounce,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Put a frame on the link. The cause is for counters and logs, which are due only once the
    /// frame is out.
    Send {
        /// The exact bytes.
        frame: Frame,
        /// Why it is sent.
        cause: Cause,
    },
    /// Something to count or to log.
    Event(Event),
}

/// Why a frame is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked.
    Answer(Question),
    /// The link owns the address: one of the two gratuitous ARP frames, or the unsolicited
    /// neighbor advertisement.
    Announcement(IpAddr),
}

/// Something that happened without a frame to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A frame got no answer.
    Ignored(Ignored),
}

/// How far the announcement of an owned address is.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// `SCHEDULE[next]` comes at `at`; that pair is in `timers`.
    Announcing { since: Instant, next: usize, at: Instant },
    /// The schedule is done.
    Settled,
    /// IPv6 on a link without link-local address.
    NoSource,
    /// Answered for, not announced.
    Quiet,
}

/// The machine of one link.
#[derive(Debug)]
pub struct Announcer {
    link: LinkAddress,
    owned: BTreeMap<IpAddr, Progress>,
    timers: BTreeSet<(Instant, IpAddr)>,
    /// To announce when polled; a set, so times that were missed make one announcement.
    due: BTreeSet<IpAddr>,
    /// The second ARP frame of the announcement whose first was polled last.
    second: Option<(IpAddr, Frame)>,
    reannounced: Option<Instant>,
    reannounce_at: Option<Instant>,
    queue: VecDeque<Output>,
    dropped: u64,
}

impl Announcer {
    /// A link that owns nothing yet.
    pub fn new(link: LinkAddress) -> Self {
        Self {
            link,
            owned: BTreeMap::new(),
            timers: BTreeSet::new(),
            due: BTreeSet::new(),
            second: None,
            reannounced: None,
            reannounce_at: None,
            queue: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Takes what happened at `now`.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Frame(frame) => self.receive(frame),
            Input::Own(ip) => {
                if matches!(self.owned.get(&ip), None | Some(Progress::Quiet)) {
                    self.start(now, ip);
                }
            }
            Input::Quiet(ip) => {
                if self.owned.contains_key(&ip) {
                    self.silence(ip);
                    self.owned.insert(ip, Progress::Quiet);
                }
            }
            Input::Disown(ip) => {
                self.silence(ip);
                self.owned.remove(&ip);
            }
            Input::Announce(ip) => {
                if matches!(self.owned.get(&ip), Some(Progress::Announcing { .. } | Progress::Settled)) {
                    self.due.insert(ip);
                }
            }
            Input::LinkAddress(link) => self.relink(now, link),
            Input::Reannounce => {
                let earliest = self.reannounced.map_or(now, |last| now.max(last + REANNOUNCE_INTERVAL));
                self.reannounce_at.get_or_insert(earliest);
            }
        }
        self.handle_timeout(now);
    }

    /// Takes the time. A call that comes late announces once, not once for each time missed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, ip)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            self.due.insert(ip);
            if let Some(progress) = self.owned.get_mut(&ip) {
                *progress = progress.advance();
                if let Progress::Announcing { at, .. } = *progress {
                    self.timers.insert((at, ip));
                }
            }
        }
        if self.reannounce_at.is_some_and(|at| at <= now) {
            self.reannounce_at = None;
            self.reannounced = Some(now);
            let announced = self.owned.iter().filter(|(_, it)| !matches!(it, Progress::Quiet));
            self.due.extend(announced.map(|(ip, _)| *ip));
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|&(at, _)| at);
        timer.into_iter().chain(self.reannounce_at).min()
    }

    /// The next effect. Answers come before announcements: somebody is waiting for them.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.queue.pop_front() {
            return Some(output);
        }
        let announce = |ip, frame| Output::Send { frame, cause: Cause::Announcement(ip) };
        if let Some((ip, frame)) = self.second.take() {
            return Some(announce(ip, frame));
        }
        while let Some(ip) = self.due.pop_first() {
            match (ip, self.link.link_local) {
                (IpAddr::V4(v4), _) => {
                    let [request, reply] = arp::gratuitous(self.link.mac, v4);
                    self.second = Some((ip, reply));
                    return Some(announce(ip, request));
                }
                (IpAddr::V6(v6), Some(link_local)) => {
                    return Some(announce(ip, ndp::unsolicited(self.link.mac, link_local, v6)));
                }
                // Announced when the link gets one.
                (IpAddr::V6(_), None) => {}
            }
        }
        None
    }

    /// Whether the link answers for nothing.
    pub fn is_empty(&self) -> bool {
        self.owned.is_empty()
    }

    /// How many outcomes of frames were lost because the driver did not drain.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn receive(&mut self, frame: &[u8]) {
        let output = match self.respond(frame) {
            Ok(Reply { frame, question }) => Output::Send { frame, cause: Cause::Answer(question) },
            Err(ignored) => Output::Event(Event::Ignored(ignored)),
        };
        if self.queue.len() < QUEUE {
            self.queue.push_back(output);
        } else {
            self.dropped += 1;
        }
    }

    fn respond(&self, frame: &[u8]) -> Result<Reply, Ignored> {
        let LinkAddress { mac, link_local } = self.link;
        match Header::parse(frame)?.ethertype {
            EtherType::ARP => arp::respond(frame, mac, |ip| self.owned.contains_key(&IpAddr::V4(ip))),
            EtherType::IPV6 => {
                let link_local = link_local.ok_or(Ignored::NoLinkLocal)?;
                ndp::respond(frame, mac, link_local, |ip| self.owned.contains_key(&IpAddr::V6(ip)))
            }
            other => Err(Ignored::OtherProtocol(other)),
        }
    }

    fn relink(&mut self, now: Instant, link: LinkAddress) {
        let before = std::mem::replace(&mut self.link, link);
        // Caches hold the MAC. Another link-local address only changes who says so.
        let mac_changed = before.mac != link.mac;
        let ipv6_changed = before.link_local.is_some() != link.link_local.is_some();
        let restart = |ip: IpAddr| mac_changed || (ip.is_ipv6() && ipv6_changed);
        let announced = self.owned.iter().filter(|(_, it)| !matches!(it, Progress::Quiet));
        let restarted: Vec<IpAddr> = announced.map(|(ip, _)| *ip).filter(|ip| restart(*ip)).collect();
        for ip in restarted {
            self.start(now, ip);
        }
    }

    /// Begins the schedule of an owned address, from wherever it was.
    fn start(&mut self, now: Instant, ip: IpAddr) {
        self.silence(ip);
        let progress = if ip.is_ipv6() && self.link.link_local.is_none() {
            Progress::NoSource
        } else {
            self.timers.insert((now, ip));
            Progress::Announcing { since: now, next: 0, at: now }
        };
        self.owned.insert(ip, progress);
    }

    /// Takes back every announcement of `ip` that is not yet out.
    fn silence(&mut self, ip: IpAddr) {
        if let Some(&Progress::Announcing { at, .. }) = self.owned.get(&ip) {
            self.timers.remove(&(at, ip));
        }
        self.due.remove(&ip);
        self.second.take_if(|(second, _)| *second == ip);
    }
}

impl Progress {
    /// What follows after one announcement.
    fn advance(self) -> Self {
        match self {
            Self::Announcing { since, next, .. } => match SCHEDULE.get(next + 1) {
                Some(&offset) => Self::Announcing { since, next: next + 1, at: since + offset },
                None => Self::Settled,
            },
            Self::Settled => Self::Settled,
            Self::NoSource => Self::NoSource,
            Self::Quiet => Self::Quiet,
        }
    }
}

#[cfg(test)]
mod tests;
