//! A connection with a peer: being opened, open, or none.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use ferrolb_proto::bgp::NextHops;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::dial::DialError;

/// How long a last message may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);

/// An open connection, and the addresses of this node that lead traffic to it from there.
pub(super) type Opened = (TcpStream, NextHops);

type Dialling = Pin<Box<dyn Future<Output = Result<Opened, DialError>> + Send>>;

/// The connection.
#[derive(Default)]
pub(super) struct Wire {
    state: State,
    /// What is to be written.
    outbox: Vec<u8>,
}

#[derive(Default)]
enum State {
    #[default]
    Closed,
    Dialling(Dialling),
    Open(TcpStream),
}

/// What can be done with it.
pub(super) enum Ready {
    Dialled(Result<Opened, DialError>),
    Read,
    Write,
}

/// What came of that.
pub(super) enum Moved {
    /// So many bytes were read.
    Read(usize),
    /// Everything is written.
    Flushed,
    /// It is closed; how, in words.
    Closed(String),
}

impl Wire {
    pub(super) fn dial(
        &mut self,
        dialling: impl Future<Output = Result<Opened, DialError>> + Send + 'static,
    ) {
        self.state = State::Dialling(Box::pin(dialling));
    }

    pub(super) fn open(&mut self, stream: TcpStream) {
        self.state = State::Open(stream);
    }

    pub(super) fn write(&mut self, bytes: Vec<u8>) {
        self.outbox.extend(bytes);
    }

    /// Whether everything is written.
    pub(super) fn is_flushed(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Whether there is no connection.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Waits until something can be done.
    pub(super) async fn ready(&mut self) -> Ready {
        match &mut self.state {
            State::Closed => std::future::pending().await,
            State::Dialling(dialling) => {
                let dialled = dialling.as_mut().await;
                self.state = State::Closed;
                Ready::Dialled(dialled)
            }
            // What is wrong with it shows when it is read or written.
            State::Open(stream) => tokio::select! {
                _ = stream.readable() => Ready::Read,
                _ = stream.writable(), if !self.outbox.is_empty() => Ready::Write,
            },
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Option<Moved> {
        let State::Open(stream) = &self.state else { return None };
        let outcome = stream.try_read(buffer).map(|length| match length {
            0 => Moved::Closed("the peer closed it".to_owned()),
            length => Moved::Read(length),
        });
        self.moved(outcome.map(Some))
    }

    pub(super) fn flush(&mut self) -> Option<Moved> {
        let State::Open(stream) = &self.state else { return None };
        let outcome = stream.try_write(&self.outbox).map(|length| {
            self.outbox.drain(..length);
            self.outbox.is_empty().then_some(Moved::Flushed)
        });
        self.moved(outcome)
    }

    fn moved(&mut self, outcome: io::Result<Option<Moved>>) -> Option<Moved> {
        let moved = match outcome {
            Ok(moved) => moved,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Moved::Closed(error.to_string())),
        };
        if let Some(Moved::Closed(_)) = moved {
            *self = Self::default();
        }
        moved
    }

    /// Closes it. What waits to be written is what the peer is told last; the future ends when that is out.
    pub(super) fn close(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let Self { state, outbox } = std::mem::take(self);
        match state {
            State::Open(stream) if !outbox.is_empty() => Some(async move {
                // A peer that does not take them in time does without.
                let _ = tokio::time::timeout(FAREWELL, farewell(stream, &outbox)).await;
            }),
            State::Open(_) | State::Dialling(_) | State::Closed => None,
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
