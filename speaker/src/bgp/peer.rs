//! The task of one peer: bytes, time and routes into the [`Session`], bytes out.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrolb_proto::bgp::session::{Farewell, Input, Output, Session};
use ferrolb_proto::bgp::{AdjRibOut, NextHops};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::dial::{DialError, dial};
use super::path::Path;
use super::settings::{Blueprint, Dial};
use super::telling::Telling;

/// What is read at a time.
const BUFFER: usize = 16 * 1024;
/// How long a last message may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);

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
    wire: Wire,
    /// What is to be written; new routes are looked at only when all of it is out.
    outbox: Vec<u8>,
    /// Whether orders came that were not followed yet.
    ordered: bool,
}

type Dialled = Result<(TcpStream, NextHops), DialError>;

enum Wire {
    Closed,
    Dialling(Pin<Box<dyn Future<Output = Dialled> + Send>>),
    Open(TcpStream),
}

/// What the wire reports.
enum Reported {
    Dialled(Dialled),
    Read(usize),
    Written(usize),
    Closed(String),
}

impl PeerTask {
    pub(super) fn new(
        blueprint: &Blueprint,
        orders: watch::Receiver<Orders>,
        path: Path,
        telling: Telling,
    ) -> Self {
        let longest_retry = orders.borrow().longest_retry;
        let session = Session::new(Instant::now(), blueprint.settings.clone(), longest_retry, rand::random());
        Self {
            dial: blueprint.dial.clone(),
            session,
            orders,
            path,
            telling,
            wire: Wire::Closed,
            outbox: Vec::new(),
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
                reported = self.wire.next(&mut buffer, &self.outbox) => self.take(reported, &buffer),
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
        } else if self.outbox.is_empty() {
            self.session.set_longest_retry(orders.longest_retry);
            self.session.handle_input(Instant::now(), Input::Desired(&orders.routes));
        } else {
            return;
        }
        drop(orders);
        self.ordered = false;
    }

    fn take(&mut self, reported: Reported, buffer: &[u8]) {
        let now = Instant::now();
        match reported {
            Reported::Dialled(Ok((stream, next_hops))) => {
                self.wire = Wire::Open(stream);
                self.session.handle_input(now, Input::Connected(next_hops));
            }
            Reported::Dialled(Err(error)) => {
                self.wire = Wire::Closed;
                self.session.handle_input(now, Input::DialFailed(error.to_string()));
            }
            Reported::Read(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                self.session.handle_input(now, Input::Received(bytes));
            }
            Reported::Written(length) => {
                self.outbox.drain(..length);
                if self.outbox.is_empty() {
                    self.session.handle_input(now, Input::Flushed);
                }
            }
            Reported::Closed(how) => {
                self.wire = Wire::Closed;
                self.outbox.clear();
                self.session.handle_input(now, Input::Closed(how));
            }
        }
    }

    async fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Dial => self.wire = Wire::Dialling(Box::pin(dial(self.dial.clone()))),
                Output::Write(bytes) => self.outbox.extend(bytes),
                Output::Close => self.close().await,
                Output::Event(event) => self.telling.event(&event),
            }
        }
    }

    /// Closes the connection; what waits to be written is what the peer is told last.
    async fn close(&mut self) {
        let wire = std::mem::replace(&mut self.wire, Wire::Closed);
        let last_words = std::mem::take(&mut self.outbox);
        if let Wire::Open(stream) = wire
            && !last_words.is_empty()
        {
            // A peer that does not take them in time does without.
            let _ = tokio::time::timeout(FAREWELL, farewell(stream, &last_words)).await;
        }
    }
}

impl Wire {
    async fn next(&mut self, buffer: &mut [u8], outbox: &[u8]) -> Reported {
        match self {
            Self::Closed => std::future::pending().await,
            Self::Dialling(dialling) => Reported::Dialled(dialling.as_mut().await),
            Self::Open(stream) => loop {
                let outcome = tokio::select! {
                    ready = stream.readable() => {
                        ready.and_then(|()| stream.try_read(buffer)).map(|length| match length {
                            0 => Reported::Closed("the peer closed it".to_owned()),
                            length => Reported::Read(length),
                        })
                    }
                    ready = stream.writable(), if !outbox.is_empty() => {
                        ready.and_then(|()| stream.try_write(outbox)).map(Reported::Written)
                    }
                };
                match outcome {
                    Ok(reported) => return reported,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Reported::Closed(error.to_string()),
                }
            },
        }
    }
}

/// Writes, says that nothing more comes, and waits until the peer has closed too: closing while it still
/// sends would reset the connection, and the last words could be lost with it.
async fn farewell(mut stream: TcpStream, last_words: &[u8]) -> io::Result<()> {
    stream.write_all(last_words).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
