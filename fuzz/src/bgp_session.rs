//! A BGP session over its life: a router that connects and answers as it likes, a driver that does what it is
//! told, and a clock. Each step is an octet, and for a message what it needs. In the end the router behaves
//! well: then the session must be established and the routes sent, whatever was before.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ferrolb_proto::bgp::notification::Notification;
use ferrolb_proto::bgp::session::{Event, Farewell, Input, Origin, Output, Session, State};
use ferrolb_proto::bgp::{AdjRibOut, Family, PathAttributes, Prefix};

use crate::bgp_wire::{drain, frame, next_hops, open, session};

/// From 10 ms up to three quarters of an hour: longer would only be slow.
const MOST_DOUBLED: u8 = 18;

static ZERO: OnceLock<Instant> = OnceLock::new();

pub(crate) fn run(data: &[u8]) {
    let [first, rest @ ..] = data else { return };
    let mut rest = rest;
    let mut world = World::new(*first);
    while let [step, after @ ..] = rest {
        rest = world.step(*step, after);
    }
    if !world.stopped {
        world.recovers();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Dialling,
    Open,
}

struct World {
    now: Instant,
    session: Session,
    ends: BTreeMap<Origin, End>,
    /// The router has connected, and the session is asked what to do.
    asking: bool,
    routes: u8,
    up: bool,
    stopped: bool,
}

impl World {
    fn new(settings: u8) -> Self {
        let now = *ZERO.get_or_init(Instant::now);
        let families = if settings & 1 == 0 { Family::ALL.into() } else { [Family::Ipv4Unicast].into() };
        let session = session(now, families, settings & 2 != 0);
        let ends = BTreeMap::new();
        Self { now, session, ends, asking: false, routes: 0, up: false, stopped: false }
    }

    fn step<'a>(&mut self, step: u8, rest: &'a [u8]) -> &'a [u8] {
        let origin = if step & 0x80 == 0 { Origin::Dialled } else { Origin::Accepted };
        let parameter = (step & 0x7f) / 10;
        match step & 0x7f {
            it if it % 10 == 0 => self.pass(Duration::from_millis(10 << (2 * parameter).min(MOST_DOUBLED))),
            it if it % 10 == 1 => self.connect(),
            it if it % 10 == 2 => self.answer(parameter != 0),
            it if it % 10 == 3 => self.receive(origin, &open(parameter.is_multiple_of(2))),
            it if it % 10 == 4 => self.receive(origin, &frame(4, &[])),
            it if it % 10 == 5 => return self.message(origin, parameter, rest),
            it if it % 10 == 6 => {
                if self.ends.get(&origin) == Some(&End::Open) {
                    self.ends.remove(&origin);
                    self.tell(Input::Closed(origin, "reset".to_owned()));
                }
            }
            it if it % 10 == 7 => self.want(parameter),
            it if it % 10 == 8 && parameter.is_multiple_of(2) => {
                self.tell(Input::PathDown("silence".to_owned()))
            }
            it if it % 10 == 8 => self.tell(Input::PathUp),
            _ => self.end(parameter),
        }
        rest
    }

    fn connect(&mut self) {
        self.asking = true;
        self.tell(Input::Accepted(next_hops()));
        assert!(!self.asking, "the router's connection is taken or refused");
    }

    /// Of the dialling, if something is dialled.
    fn answer(&mut self, connected: bool) {
        if self.ends.get(&Origin::Dialled) != Some(&End::Dialling) {
            return;
        }
        if connected {
            self.ends.insert(Origin::Dialled, End::Open);
            self.tell(Input::Connected(next_hops()));
        } else {
            self.ends.remove(&Origin::Dialled);
            self.tell(Input::DialFailed("refused".to_owned()));
        }
    }

    fn message<'a>(&mut self, origin: Origin, kind: u8, rest: &'a [u8]) -> &'a [u8] {
        let [length, after @ ..] = rest else { return &[] };
        let (body, after) = after.split_at(after.len().min((*length).into()));
        let message = if kind == 0 { body.to_vec() } else { frame(kind, body) };
        self.receive(origin, &message);
        after
    }

    fn receive(&mut self, origin: Origin, bytes: &[u8]) {
        if self.ends.get(&origin) == Some(&End::Open) {
            self.tell(Input::Received(origin, bytes));
        }
    }

    fn want(&mut self, routes: u8) {
        self.routes = routes;
        let prefix = |it| Prefix::around(Ipv4Addr::new(192, 168, 20, it).into(), 32);
        let attributes = Arc::new(PathAttributes::default());
        let all: AdjRibOut = (0..routes).filter_map(prefix).map(|it| (it, Arc::clone(&attributes))).collect();
        self.tell(Input::Desired(&Arc::new(all)));
    }

    fn end(&mut self, how: u8) {
        let farewell = match how {
            9 => Farewell::Silent,
            10 => Farewell::Said(Notification::shutdown("the end")),
            11 => Farewell::Eased(Notification::shutdown("the end")),
            // Mostly not: little comes after it.
            _ => return,
        };
        self.stopped = true;
        self.tell(Input::Stop(farewell));
    }

    fn tell(&mut self, input: Input<'_>) {
        self.session.handle_input(self.now, input);
        self.look();
        for origin in [Origin::Dialled, Origin::Accepted] {
            if self.ends.get(&origin) == Some(&End::Open) {
                self.session.handle_input(self.now, Input::Flushed(origin));
                self.look();
            }
        }
    }

    /// Time passes as a driver would let it: each timeout is told when it is due.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.session.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(next);
            self.session.handle_timeout(self.now);
            self.look();
            let after = self.session.next_timeout();
            assert!(after.is_none_or(|at| at > self.now), "a timeout that is over must not be due again");
        }
        self.now = end;
    }

    /// Does what the session says.
    fn look(&mut self) {
        for output in drain(&mut self.session) {
            match output {
                Output::Dial => {
                    let before = self.ends.insert(Origin::Dialled, End::Dialling);
                    assert_eq!(before, None, "one connection is dialled at a time");
                }
                Output::Accept => {
                    assert!(std::mem::take(&mut self.asking), "nobody asks");
                    let before = self.ends.insert(Origin::Accepted, End::Open);
                    assert_eq!(before, None, "the older one was to be closed");
                }
                Output::Refuse => assert!(std::mem::take(&mut self.asking), "nobody asks"),
                Output::Write(origin, _) => {
                    assert_eq!(self.ends.get(&origin), Some(&End::Open), "there is a connection");
                }
                Output::Close(origin) => {
                    assert!(self.ends.remove(&origin).is_some(), "there is something to close");
                }
                Output::Event(Event::Up(_)) => assert!(!std::mem::replace(&mut self.up, true)),
                Output::Event(Event::Down(_)) => assert!(std::mem::take(&mut self.up)),
                Output::Event(Event::Failed(_)) => assert!(!self.up, "an established session goes on"),
                Output::Event(Event::Ignored(_)) => assert!(self.up),
            }
        }
        assert_eq!(self.session.state() == State::Established, self.up, "each change is told");
        assert!(self.session.announced() <= usize::from(self.routes));
        let waits = self.session.next_timeout().is_some();
        // With a hold time of 0.
        let for_ever = self.up;
        assert!(waits || for_ever || self.session.is_stopped(), "whoever waits for nothing has ended");
        assert!(!self.session.is_stopped() || self.ends.is_empty(), "the end closes everything");
    }

    fn recovers(&mut self) {
        for origin in [Origin::Dialled, Origin::Accepted] {
            if self.ends.get(&origin) == Some(&End::Open) {
                self.ends.remove(&origin);
                self.tell(Input::Closed(origin, "reset".to_owned()));
            }
        }
        for _ in 0..4 {
            if self.ends.get(&Origin::Dialled) == Some(&End::Dialling) {
                break;
            }
            self.pass(Duration::from_secs(10));
        }
        self.answer(true);
        self.want(5);
        self.receive(Origin::Dialled, &open(true));
        self.receive(Origin::Dialled, &frame(4, &[]));
        assert_eq!((self.session.state(), self.session.announced()), (State::Established, 5));
    }
}
