//! The session with one router: the state machine of RFC 5880 §6.8.
//!
//! ```text
//! Received(packet) · Echoed(bytes) ─┐              ┌─> Send(packet) · SendEcho(payload)
//! Settings · AdminDown ─────────────┼─> Session ───┤
//! handle_timeout ───────────────────┘              └─> Event(Up · Down)
//!
//!            the other side says        Down            Down, Init          Init, Up
//! Down ────────────────────────────> Init (Down)      Up (Init)       Up (Init), stay (Up)
//!   ^                                                                        │
//!   └──── detection time over · echo failed · the other side Down (Up) · AdminDown
//! ```
//!
//! The driver gives packets that [`Demux`](super::demux::Demux) found to be of this session. It gives all
//! that have arrived before it tells the time: a process that was kept waiting must not take its own delay
//! for silence.

mod echo;
mod exchange;
mod remote;
mod timing;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::packet::{ControlPacket, Diagnostic, Discriminator, State};
use crate::jitter::Jitter;
use echo::Echo;
pub use echo::discriminator as echoed_discriminator;
pub use exchange::{Down, EchoPayload, Event, Input, Output, Settings};
use remote::Remote;
use timing::{Interval, Poll};

/// RFC 5880 §6.8.3: who is not up sends no more often than this.
const SLOW: Duration = Duration::from_secs(1);

/// The session. Variables have the names that the RFC gives them in §6.8.1, without `bfd.`.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    local_discriminator: Discriminator,
    state: State,
    diagnostic: Diagnostic,
    remote: Remote,
    desired_min_tx: Interval,
    required_min_rx: Interval,
    poll: Poll,
    echo: Option<Echo>,
    /// When the last packet that counts arrived; none once the other side is forgotten.
    heard_at: Option<Instant>,
    sent_at: Instant,
    next_tx: Instant,
    /// The interval that `next_tx` was reckoned with.
    pace: Duration,
    /// Until when others are told that this end is wanted no more.
    ends_at: Option<Instant>,
    jitter: Jitter,
    /// Distinguishes our echo packets from what a stranger makes up.
    nonce: u64,
    outputs: VecDeque<Output>,
}

impl Session {
    /// A session that begins at `now`.
    pub fn new(now: Instant, local_discriminator: Discriminator, settings: Settings, seed: u64) -> Self {
        let slow = settings.transmit_interval.max(SLOW);
        Self {
            settings,
            local_discriminator,
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            remote: Remote::default(),
            desired_min_tx: Interval::new(slow),
            required_min_rx: Interval::new(settings.receive_interval),
            poll: Poll::Idle,
            echo: None,
            heard_at: None,
            sent_at: now,
            next_tx: now,
            pace: slow,
            ends_at: None,
            jitter: Jitter::new(seed),
            nonce: !seed,
            outputs: VecDeque::new(),
        }
    }

    /// Takes what happened at `now`.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Received(packet) => self.receive(now, packet),
            Input::Echoed(payload) => {
                if let Some(echo) = &mut self.echo {
                    echo.returned(now, self.local_discriminator, self.nonce, payload);
                }
            }
            Input::Settings(settings) => {
                self.settings = settings;
                self.settle(now);
            }
            Input::AdminDown => self.end(now),
        }
    }

    /// Takes the time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.detect_at().is_some_and(|at| at <= now) {
            self.expire(now);
        }
        if let Some(echo) = &self.echo
            && let Some(silence) = echo.failed(now, self.settings.detect_mult)
        {
            self.go_down(now, Diagnostic::ECHO_FUNCTION_FAILED, Down::EchoFailed(silence));
        }
        if self.sends_periodically(now) && self.next_tx <= now {
            self.send_periodic(now);
        }
        if let Some(echo) = &mut self.echo
            && echo.next <= now
        {
            let payload = echo.send(now, self.local_discriminator, self.nonce, &mut self.jitter);
            self.outputs.push_back(Output::SendEcho(payload));
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let next_tx = self.sends_periodically(self.next_tx).then_some(self.next_tx);
        let echo = self.echo.as_ref();
        let echo_next = echo.map(|it| it.next);
        let echo_fails = echo.and_then(|it| it.fails_at(self.settings.detect_mult));
        [next_tx, self.detect_at(), echo_next, echo_fails, self.ends_at].into_iter().flatten().min()
    }

    /// The next effect.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The state it is in.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it was taken down and has told the other side for long enough.
    pub fn is_stopped(&self, now: Instant) -> bool {
        self.ends_at.is_some_and(|at| at <= now)
    }

    /// RFC 5880 §6.8.7: the interval between packets, before jitter.
    pub fn transmit_interval(&self) -> Duration {
        self.desired_min_tx.in_force.max(self.remote.required_min_rx)
    }

    /// RFC 5880 §6.8.4: how long the other side may be silent; none before it was heard.
    pub fn detection_time(&self) -> Option<Duration> {
        let interval = self.required_min_rx.in_force.max(self.remote.desired_min_tx);
        self.heard_at.map(|_| interval * u32::from(self.remote.detect_mult))
    }

    /// Whether echo packets are being sent.
    pub fn is_echoing(&self) -> bool {
        self.echo.is_some()
    }

    fn detect_at(&self) -> Option<Instant> {
        Some(self.heard_at? + self.detection_time()?)
    }

    /// RFC 5880 §6.8.6, from where the session is selected.
    fn receive(&mut self, now: Instant, packet: &ControlPacket) {
        if self.is_stopped(now) {
            return;
        }
        self.remote = Remote::of(packet);
        self.heard_at = Some(now);
        if packet.is_final && self.poll.answered() {
            self.desired_min_tx.agreed();
            self.required_min_rx.agreed();
        }
        match (self.state, packet.state) {
            (State::AdminDown, _) => {
                self.settle(now);
                return;
            }
            (State::Init | State::Up, State::AdminDown) => {
                self.go_down(now, Diagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN, Down::RemoteAdminDown);
            }
            (State::Up, State::Down) => {
                let why = Down::Signaled(packet.diagnostic);
                self.go_down(now, Diagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN, why);
            }
            (State::Down, State::Down) => self.go(now, State::Init),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => self.go_up(now),
            (State::Down, State::AdminDown | State::Up)
            | (State::Init, State::Down)
            | (State::Up, State::Init | State::Up) => {}
        }
        self.settle(now);
        if packet.poll {
            let answer = ControlPacket { poll: false, is_final: true, ..self.packet() };
            self.outputs.push_back(Output::Send(answer));
        }
    }

    fn go(&mut self, now: Instant, state: State) {
        self.state = state;
        self.settle(now);
        // RFC 5880 §6.8.7: what changed is told at once.
        if self.may_send() {
            self.send_periodic(now);
        }
    }

    fn go_up(&mut self, now: Instant) {
        self.diagnostic = Diagnostic::NONE;
        self.outputs.push_back(Output::Event(Event::Up));
        self.go(now, State::Up);
    }

    fn go_down(&mut self, now: Instant, diagnostic: Diagnostic, why: Down) {
        let was_up = self.state == State::Up;
        self.diagnostic = diagnostic;
        self.poll = Poll::Idle;
        if was_up {
            self.outputs.push_back(Output::Event(Event::Down(why)));
        }
        self.go(now, State::Down);
    }

    /// Nothing was heard for the detection time.
    fn expire(&mut self, now: Instant) {
        let silence = self.detection_time().unwrap_or_default();
        // RFC 5880 §6.8.1: whoever is there next may be another.
        self.heard_at = None;
        self.remote = Remote::default();
        match self.state {
            State::Init | State::Up => {
                let why = Down::Expired(silence);
                self.go_down(now, Diagnostic::CONTROL_DETECTION_TIME_EXPIRED, why);
            }
            State::Down | State::AdminDown => self.settle(now),
        }
    }

    /// RFC 5880 §6.8.16: the other side is told for as long as it would take to notice silence.
    fn end(&mut self, now: Instant) {
        if self.ends_at.is_some() {
            return;
        }
        self.ends_at = Some(now + self.detection_time().unwrap_or_default());
        if self.state == State::Up {
            self.outputs.push_back(Output::Event(Event::Down(Down::AdminDown)));
        }
        self.diagnostic = Diagnostic::ADMINISTRATIVELY_DOWN;
        self.poll = Poll::Idle;
        self.go(now, State::AdminDown);
    }

    /// Brings echo function, intervals and pace in line with settings, state and the other side.
    fn settle(&mut self, now: Instant) {
        let both_up = self.state == State::Up && self.remote.state == State::Up;
        // RFC 5880 §6.8.9: never where the other side returns nothing.
        let returned = both_up && !self.remote.required_min_echo_rx.is_zero();
        match self.settings.echo_interval.filter(|_| returned) {
            Some(interval) => {
                let interval = interval.max(self.remote.required_min_echo_rx);
                self.echo.get_or_insert_with(|| Echo::new(now, interval)).interval = interval;
            }
            None => self.echo = None,
        }
        let (mut tx, mut rx) = (self.settings.transmit_interval, self.settings.receive_interval);
        if self.state != State::Up {
            tx = tx.max(SLOW);
        }
        if self.echo.is_some() {
            // RFC 5880 §6.8.3: echo packets tell enough.
            rx = rx.max(SLOW);
        }
        let changed = [self.desired_min_tx.want(tx), self.required_min_rx.want(rx)].contains(&true);
        if self.state == State::Up {
            // RFC 5880 §6.8.3: slower only when the other side knows.
            self.desired_min_tx.at_once_if_shorter();
            self.required_min_rx.at_once_if_longer();
            if changed {
                self.poll.begin();
            }
        } else {
            // Nobody relies on the old ones any more.
            self.desired_min_tx.agreed();
            self.required_min_rx.agreed();
        }
        let pace = self.transmit_interval();
        if pace != self.pace {
            // RFC 5880 §6.8.3: from the last packet on.
            self.pace = pace;
            self.next_tx = self.sent_at + self.jitter.apply(pace);
        }
    }

    /// RFC 5880 §6.8.7: who is passive is silent until spoken to.
    fn may_send(&self) -> bool {
        !self.settings.passive || self.remote.discriminator.is_some()
    }

    /// RFC 5880 §6.8.7.
    fn sends_periodically(&self, now: Instant) -> bool {
        let both_up = self.state == State::Up && self.remote.state == State::Up;
        let is_silenced = self.remote.demand && both_up && !self.poll.is_running();
        let is_wanted = !self.remote.required_min_rx.is_zero();
        self.may_send() && is_wanted && !is_silenced && !self.is_stopped(now)
    }

    fn send_periodic(&mut self, now: Instant) {
        self.outputs.push_back(Output::Send(self.packet()));
        self.poll.sent();
        self.sent_at = now;
        self.next_tx = now + self.jitter.apply(self.pace);
    }

    fn packet(&self) -> ControlPacket {
        ControlPacket {
            diagnostic: self.diagnostic,
            state: self.state,
            poll: self.poll.is_running(),
            is_final: false,
            // It ends with the process that speaks BGP.
            control_plane_independent: false,
            demand: false,
            detect_mult: self.settings.detect_mult,
            my_discriminator: self.local_discriminator,
            your_discriminator: self.remote.discriminator,
            desired_min_tx: self.desired_min_tx.advertised,
            required_min_rx: self.required_min_rx.advertised,
            required_min_echo_rx: self.settings.echo_interval.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
