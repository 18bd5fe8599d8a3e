//! The task of one link: plans, frames and time into the [`Claimant`], frames and standings out.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ferrolb_proto::announcer::{Cause, LinkAddress};
use ferrolb_proto::answer::{Ignored, Question};
use ferrolb_proto::conflict::{Claimant, Event, Input, Output, Plan, Rules, Standing};
use ferrolb_proto::ethernet::Frame;
use tokio::sync::watch;

use super::Standings;
use super::ndp_socket::NdpSocket;
use crate::metrics::Metrics;
use crate::packet_socket::{BUFFER, PacketSocket};

/// What a link is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// How it is addressed.
    pub(super) address: LinkAddress,
    /// What is planned, once anything is.
    pub(super) plan: Option<Plan>,
    /// Whether this speaker is about to end: it goes on answering for each address until another node
    /// is heard to announce it.
    pub(super) leaving: bool,
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
    index: u32,
    interface: String,
    sockets: Sockets,
    machine: Claimant,
    /// What is done now; `wanted` is what it follows.
    desired: Desired,
    wanted: watch::Receiver<Desired>,
    owned: BTreeSet<IpAddr>,
    metrics: Arc<Metrics>,
    standings: Arc<watch::Sender<Standings>>,
}

impl LinkTask {
    pub(super) fn new(
        index: u32,
        interface: String,
        sockets: Sockets,
        wanted: watch::Receiver<Desired>,
        metrics: Arc<Metrics>,
        standings: Arc<watch::Sender<Standings>>,
    ) -> Self {
        let desired = wanted.borrow().clone();
        let machine = Claimant::new(desired.address, Rules::default());
        let owned = BTreeSet::new();
        Self { index, interface, sockets, machine, desired, wanted, owned, metrics, standings }
    }

    /// Runs until nobody wants it any more, everything is handed over, or a socket fails.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let (mut arp, mut ndp) = ([0; BUFFER], [0; BUFFER]);
        self.follow();
        loop {
            self.drain();
            if self.desired.leaving && self.machine.is_silent() {
                return Ok(());
            }
            tokio::select! {
                length = self.sockets.arp.receive(&mut arp) => self.receive(&arp[..length?]),
                length = self.sockets.ndp.receive(&mut ndp) => self.receive(&ndp[..length?]),
                () = sleep_until(self.machine.next_timeout()) => {
                    self.machine.handle_timeout(Instant::now());
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
        self.machine.handle_input(now, Input::LinkAddress(self.desired.address));
        if self.desired.leaving {
            self.machine.handle_input(now, Input::Leave);
        }
        if let Some(plan) = &self.desired.plan {
            self.machine.handle_input(now, Input::Plan(plan.clone()));
        }
        self.drain();
        self.listen();
    }

    /// Joins the groups in which owned addresses are asked for, and those that this node is about to take.
    /// After the announcements, which nothing may delay. Without a link-local address IPv6 is not spoken,
    /// so there is nothing to listen for.
    fn listen(&mut self) {
        let claims = self.desired.plan.iter().flat_map(|plan| &plan.claims);
        let wanted = claims
            .filter(|(_, claim)| claim.turn == Some(0))
            .map(|(ip, _)| *ip)
            .chain(self.owned.iter().copied());
        let speaks_ipv6 = self.desired.address.link_local.is_some();
        let wanted: BTreeSet<IpAddr> = wanted.filter(|ip| ip.is_ipv6() && speaks_ipv6).collect();
        if let Err(error) = self.sockets.ndp.listen_for(&wanted) {
            let interface = &self.interface;
            tracing::warn!(op = "joinMulticastGroup", interface, %error, "IPv6 requests may go unheard");
        }
    }

    fn receive(&mut self, frame: &[u8]) {
        self.machine.handle_input(Instant::now(), Input::Frame(frame));
    }

    fn drain(&mut self) {
        let mut owned_ipv6 = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Send { frame, cause: Some(Cause::Answer(question)), .. } => {
                    self.answer(&frame, question)
                }
                Output::Send { frame, about, cause } => match self.send(&frame, about) {
                    Ok(()) if cause.is_some() => self.metrics.gratuitous(about),
                    Ok(()) => self.metrics.probed(),
                    Err(error) => {
                        let interface = &self.interface;
                        tracing::debug!(op = "gratuitousAnnounce", interface, ip = %about, %error, "frame was not sent");
                    }
                },
                Output::Event(event) => owned_ipv6 |= self.happened(event),
            }
        }
        if owned_ipv6 {
            self.listen();
        }
    }

    /// Acts on what happened. Says whether other IPv6 addresses are owned than before.
    fn happened(&mut self, event: Event) -> bool {
        let interface = &self.interface;
        match event {
            Event::Standing(ip, standing) => {
                let owned = standing == Some(Standing::Owner);
                let changed = if owned { self.owned.insert(ip) } else { self.owned.remove(&ip) };
                if changed {
                    self.metrics.count(ip, owned);
                }
                let index = self.index;
                self.standings.send_modify(|standings| standings.set(ip, index, standing));
                return changed && ip.is_ipv6();
            }
            Event::Claimed(ip, after) => {
                self.metrics.took_over(after);
                let milliseconds = after.as_millis() as u64;
                tracing::debug!(event = "claimed", interface, %ip, milliseconds, "nobody else has it, announcing");
            }
            Event::Contested(ip, mac) => {
                self.metrics.contested();
                let mac = mac.to_string();
                tracing::info!(event = "contested", interface, %ip, mac, "another host announces the address");
            }
            Event::Ignored(Ignored::NotOwned(question)) => tracing::trace!(
                op = "arpRequestIgnore",
                interface,
                ip = %question.ip,
                senderIP = %question.requester_ip,
                reason = "notOwned",
                "request for an address that is not announced here"
            ),
            Event::Ignored(_) => {}
        }
        false
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

/// However the task ends: what the link saw is not seen any more.
impl Drop for LinkTask {
    fn drop(&mut self) {
        for ip in &self.owned {
            self.metrics.count(*ip, false);
        }
        let index = self.index;
        self.standings.send_modify(|standings| standings.forget(index));
    }
}
