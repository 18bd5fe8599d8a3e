//! The task of one peer: bytes, time and routes into the [`Session`], bytes out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_proto::bgp::AdjRibOut;
use ferrolb_proto::bgp::session::{Farewell, Input, Origin, Output, Session};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use super::dial::dial;
use super::path::Path;
use super::settings::{Blueprint, Dial};
use super::telling::Telling;
use super::unnumbered::Routers;
use super::wire::{Moved, Opened, Ready, Wire};

/// What is read at a time.
const BUFFER: usize = 16 * 1024;

/// What a session is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Orders {
    /// Routes that the peer is to have.
    pub(super) routes: Arc<AdjRibOut>,
    /// Longest pause between two tries.
    pub(super) longest_retry: Duration,
    /// End, in this way.
    pub(super) stop: Option<Farewell>,
}

/// The task.
pub(super) struct PeerTask {
    dial: Dial,
    session: Session,
    orders: watch::Receiver<Orders>,
    path: Path,
    telling: Telling,
    /// Routers that were found, for a peer that is named by its interface.
    routers: watch::Receiver<Routers>,
    /// Connections that the peer opened.
    callers: mpsc::Receiver<Opened>,
    /// One that the session is asked about.
    asking: Option<TcpStream>,
    /// The connection that was dialled.
    dialled: Wire,
    /// The one that was accepted.
    accepted: Wire,
    /// Whether orders came that were not followed yet: new routes are looked at only when all that was to
    /// be written before is out.
    ordered: bool,
}

impl PeerTask {
    pub(super) fn new(
        blueprint: &Blueprint,
        orders: watch::Receiver<Orders>,
        path: Path,
        telling: Telling,
        (routers, callers): (watch::Receiver<Routers>, mpsc::Receiver<Opened>),
    ) -> Self {
        let longest_retry = orders.borrow().longest_retry;
        let session = Session::new(Instant::now(), blueprint.settings.clone(), longest_retry, rand::random());
        Self {
            dial: blueprint.dial.clone(),
            session,
            orders,
            path,
            telling,
            routers,
            callers,
            asking: None,
            dialled: Wire::default(),
            accepted: Wire::default(),
            ordered: true,
        }
    }

    /// Runs until it is told to stop.
    pub(super) async fn run(mut self) {
        let mut buffer = vec![0; BUFFER];
        let mut orders_end = false;
        loop {
            self.follow();
            self.drain().await;
            self.telling.observe(&self.session, self.orders.borrow().routes.len(), self.path.state());
            if self.session.is_stopped() {
                return;
            }
            tokio::select! {
                ready = self.dialled.ready() => self.act(Origin::Dialled, ready, &mut buffer),
                ready = self.accepted.ready() => self.act(Origin::Accepted, ready, &mut buffer),
                Some((stream, next_hops)) = self.callers.recv() => {
                    self.asking = Some(stream);
                    self.session.handle_input(Instant::now(), Input::Accepted(next_hops));
                }
                () = sleep_until(self.session.next_timeout()) => {
                    self.session.handle_timeout(Instant::now());
                }
                news = self.path.news() => if let Some(news) = news {
                    self.session.handle_input(Instant::now(), news);
                },
                changed = self.orders.changed(), if !orders_end => {
                    self.ordered = true;
                    orders_end = changed.is_err();
                    if orders_end && self.orders.borrow().stop.is_none() {
                        // Nobody is left to give orders.
                        self.session.handle_input(Instant::now(), Input::Stop(Farewell::Silent));
                    }
                }
            }
        }
    }

    fn follow(&mut self) {
        if !self.ordered {
            return;
        }
        let orders = self.orders.borrow_and_update();
        if let Some(farewell) = &orders.stop {
            self.session.handle_input(Instant::now(), Input::Stop(farewell.clone()));
        } else if self.dialled.is_flushed() && self.accepted.is_flushed() {
            self.session.set_longest_retry(orders.longest_retry);
            self.session.handle_input(Instant::now(), Input::Desired(&orders.routes));
        } else {
            return;
        }
        drop(orders);
        self.ordered = false;
    }

    fn wire(&mut self, origin: Origin) -> &mut Wire {
        match origin {
            Origin::Dialled => &mut self.dialled,
            Origin::Accepted => &mut self.accepted,
        }
    }

    fn act(&mut self, origin: Origin, ready: Ready, buffer: &mut [u8]) {
        let now = Instant::now();
        let wire = self.wire(origin);
        let moved = match ready {
            Ready::Dialled(Ok((stream, next_hops))) => {
                wire.open(stream);
                return self.session.handle_input(now, Input::Connected(next_hops));
            }
            Ready::Dialled(Err(error)) => {
                return self.session.handle_input(now, Input::DialFailed(error.to_string()));
            }
            Ready::Read => wire.read(buffer),
            Ready::Write => wire.flush(),
        };
        match moved {
            Some(Moved::Read(length)) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                self.session.handle_input(now, Input::Received(origin, bytes));
            }
            Some(Moved::Flushed) => self.session.handle_input(now, Input::Flushed(origin)),
            Some(Moved::Closed(how)) => self.session.handle_input(now, Input::Closed(origin, how)),
            None => {}
        }
    }

    async fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Dial => self.dialled.dial(dial(self.dial.clone(), self.routers.clone())),
                Output::Accept => {
                    if let Some(stream) = self.asking.take() {
                        self.accepted.open(stream);
                    }
                }
                Output::Refuse => self.asking = None,
                Output::Write(origin, bytes) => self.wire(origin).write(bytes),
                Output::Close(origin) => {
                    let farewell = self.wire(origin).close();
                    let is_last = self.dialled.is_closed() && self.accepted.is_closed();
                    match farewell {
                        // A peer that still has it must not find another one beside it.
                        Some(farewell) if is_last => farewell.await,
                        // The other connection is not to wait.
                        Some(farewell) => drop(tokio::spawn(farewell)),
                        None => {}
                    }
                }
                Output::Event(event) => self.telling.event(&event),
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
