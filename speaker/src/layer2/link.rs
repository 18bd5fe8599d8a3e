//! The task of one link: frames and time into the [`Announcer`], frames out.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ferrolb_proto::announcer::{Announcer, Cause, Event, Input, LinkAddress, Output};
use ferrolb_proto::answer::{Ignored, Question};
use ferrolb_proto::decode::{Decoded, decode};
use ferrolb_proto::ethernet::{Frame, MacAddr};
use tokio::sync::watch;

use super::ndp_socket::NdpSocket;
use super::packet_socket::{BUFFER, PacketSocket};
use crate::metrics::Metrics;

/// What a link is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// How it is addressed.
    pub(super) address: LinkAddress,
    /// What it answers for.
    pub(super) owned: BTreeSet<IpAddr>,
    /// Whether this speaker is about to end: it goes on answering for each address until another node
    /// is heard to announce it.
    pub(super) handing_over: bool,
}

/// The open sockets of a link.
pub(super) struct Sockets {
    arp: PacketSocket,
    ndp: NdpSocket,
}

impl Sockets {
    pub(super) fn open(interface: u32) -> io::Result<Self> {
        Ok(Self { arp: PacketSocket::arp(interface)?, ndp: NdpSocket::open(interface)? })
    }
}

/// The task.
pub(super) struct LinkTask {
    interface: String,
    sockets: Sockets,
    announcer: Announcer,
    /// What is done now; `wanted` is what it follows.
    desired: Desired,
    wanted: watch::Receiver<Desired>,
    metrics: Arc<Metrics>,
}

impl LinkTask {
    pub(super) fn new(
        interface: String,
        sockets: Sockets,
        wanted: watch::Receiver<Desired>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let desired = wanted.borrow().clone();
        let announcer = Announcer::new(desired.address);
        Self { interface, sockets, announcer, desired, wanted, metrics }
    }

    /// Runs until nobody wants it any more, everything is handed over, or a socket fails.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let (mut arp, mut ndp) = ([0; BUFFER], [0; BUFFER]);
        self.follow();
        loop {
            self.drain();
            if self.desired.handing_over && self.desired.owned.is_empty() {
                return Ok(());
            }
            tokio::select! {
                length = self.sockets.arp.receive(&mut arp) => self.receive(&arp[..length?]),
                length = self.sockets.ndp.receive(&mut ndp) => self.receive(&ndp[..length?]),
                () = sleep_until(self.announcer.next_timeout()) => {
                    self.announcer.handle_timeout(Instant::now());
                }
                changed = self.wanted.changed() => match changed {
                    Ok(()) => self.follow(),
                    Err(_) => return Ok(()),
                },
            }
        }
    }

    fn follow(&mut self) {
        self.desired.clone_from(&self.wanted.borrow_and_update());
        let now = Instant::now();
        self.announcer.handle_input(now, Input::LinkAddress(self.desired.address));
        self.announcer.handle_input(now, Input::Owned(&self.desired.owned));
        self.drain();
        // After the announcements, which nothing may delay. Without a link-local address IPv6 is not
        // spoken, so there is nothing to listen for.
        let nothing = BTreeSet::new();
        let listen = if self.desired.address.link_local.is_some() { &self.desired.owned } else { &nothing };
        if let Err(error) = self.sockets.ndp.listen_for(listen) {
            let interface = &self.interface;
            tracing::warn!(op = "joinMulticastGroup", interface, %error, "IPv6 requests may go unheard");
        }
    }

    fn receive(&mut self, frame: &[u8]) {
        if self.desired.handing_over
            && let Some(ip) = announced_by_another(frame, self.desired.address.mac)
            && self.desired.owned.remove(&ip)
        {
            tracing::debug!(event = "handedOver", interface = self.interface, %ip, "another node announces it");
            self.announcer.handle_input(Instant::now(), Input::Owned(&self.desired.owned));
            return;
        }
        self.announcer.handle_input(Instant::now(), Input::Frame(frame));
    }

    fn drain(&mut self) {
        while let Some(output) = self.announcer.poll_output() {
            match output {
                Output::Send { frame, cause: Cause::Answer(question) } => self.answer(&frame, question),
                Output::Send { frame, cause: Cause::Announcement(ip) } => match self.send(&frame, ip) {
                    Ok(()) => self.metrics.gratuitous(ip),
                    Err(error) => {
                        let interface = &self.interface;
                        tracing::debug!(op = "gratuitousAnnounce", interface, %ip, %error, "announcement was not sent");
                    }
                },
                Output::Event(Event::Ignored(Ignored::NotOwned(question))) => tracing::trace!(
                    op = "arpRequestIgnore",
                    interface = self.interface,
                    ip = %question.ip,
                    senderIP = %question.requester_ip,
                    reason = "notOwned",
                    "request for an address that is not announced here"
                ),
                Output::Event(Event::Ignored(_)) => {}
            }
        }
    }

    fn answer(&self, frame: &Frame, question: Question) {
        let Question { ip, requester_ip, requester_mac } = question;
        if let Err(error) = self.send(frame, ip) {
            self.metrics.question(ip, false);
            let interface = &self.interface;
            tracing::debug!(op = "answer", interface, %ip, %error, "answer was not sent");
            return;
        }
        self.metrics.question(ip, true);
        let interface = &self.interface;
        let (mac, sender, sender_mac) = (self.desired.address.mac, requester_ip, requester_mac);
        if ip.is_ipv4() {
            tracing::debug!(
                interface,
                %ip,
                senderIP = %sender,
                senderMAC = %sender_mac,
                responseMAC = %mac,
                "got ARP request for service IP, sending response"
            );
        } else {
            tracing::debug!(
                interface,
                %ip,
                senderIP = %sender,
                senderLLAddr = %sender_mac,
                responseMAC = %mac,
                "got NDP request for service IP, sending response"
            );
        }
    }

    fn send(&self, frame: &Frame, about: IpAddr) -> io::Result<()> {
        match about {
            IpAddr::V4(_) => self.sockets.arp.send(frame),
            IpAddr::V6(_) => self.sockets.ndp.send(frame),
        }
    }
}

pub(super) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// The address that a frame from another host announces to everybody.
fn announced_by_another(frame: &[u8], own: MacAddr) -> Option<IpAddr> {
    match decode(frame)? {
        Decoded::Arp { packet, .. } => {
            let gratuitous = packet.sender_ip == packet.target_ip && packet.sender_mac != own;
            gratuitous.then_some(packet.sender_ip.into())
        }
        Decoded::NeighborAdvertisement { ethernet, advertisement, .. } => {
            let mac = advertisement.target_mac.unwrap_or(ethernet.source);
            (advertisement.overrides && mac != own).then_some(advertisement.target.into())
        }
        Decoded::NeighborSolicitation { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_proto::{arp, ndp};

    use super::*;

    const OWN: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 2]);

    #[test]
    fn another_nodes_announcements_are_recognised_and_our_own_are_not() {
        let (v4, v6) = ("10.0.0.200".parse().unwrap(), "fd00::200".parse().unwrap());
        let link_local = "fe80::2".parse().unwrap();
        for frame in arp::gratuitous(OTHER, v4) {
            assert_eq!(announced_by_another(&frame, OWN), Some(v4.into()));
            assert_eq!(announced_by_another(&frame, OTHER), None);
        }
        let frame = ndp::unsolicited(OTHER, link_local, v6);
        assert_eq!(announced_by_another(&frame, OWN), Some(v6.into()));
        assert_eq!(announced_by_another(&frame, OTHER), None);
        assert_eq!(announced_by_another(&[0; 60], OWN), None);
    }
}
