//! BFD: a session over its life, with a clock. Each step is an octet and what it needs: a packet as bytes,
//! one that is sound but for what the input says, time that passes, an echo that returns, other settings.

use std::num::{NonZeroU8, NonZeroU32};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ferrolb_proto::bfd::demux::{Arrival, Demux, Path};
use ferrolb_proto::bfd::packet::{ControlPacket, Discriminator, State};
use ferrolb_proto::bfd::session::{EchoPayload, Event, Input, Output, Session, Settings};

const OURS: Discriminator = NonZeroU32::MIN;
const ROUTER: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

static ZERO: OnceLock<Instant> = OnceLock::new();

pub(crate) fn run(data: &[u8]) {
    let [first, rest @ ..] = data else { return };
    let mut rest = rest;
    let mut world = World::new(*first);
    while let [step, after @ ..] = rest {
        rest = world.step(*step, after);
        world.look();
    }
}

struct World {
    now: Instant,
    session: Session,
    demux: Demux,
    up: bool,
    ended: bool,
    echo: Option<EchoPayload>,
    /// So many timeouts more are told: a long time at a fast pace would only be slow.
    timeouts: u32,
}

/// Of one input.
const TIMEOUTS: u32 = 2000;

impl World {
    fn new(settings: u8) -> Self {
        let now = *ZERO.get_or_init(Instant::now);
        let mut demux = Demux::default();
        demux.insert(OURS, Path { remote: ROUTER, local: None, device: None, multihop: false }, 255);
        let session = Session::new(now, OURS, wanted(settings), 1);
        Self { now, session, demux, up: false, ended: false, echo: None, timeouts: TIMEOUTS }
    }

    fn step<'a>(&mut self, step: u8, rest: &'a [u8]) -> &'a [u8] {
        match step % 6 {
            0 => {
                let (packet, after) = rest.split_at(rest.len().min(24));
                self.packet(packet);
                after
            }
            1 => {
                let (fields, after) = rest.split_at(rest.len().min(6));
                self.packet(&sound(fields));
                after
            }
            2 => {
                // From no time to longer than any detection time.
                let time = Duration::from_millis(1 << (step / 6 % 20));
                self.pass(time);
                rest
            }
            3 => {
                let forged = rest.get(..16).and_then(|it| EchoPayload::try_from(it).ok());
                let payload = if step & 0x80 == 0 { self.echo } else { forged };
                if let Some(payload) = payload {
                    self.session.handle_input(self.now, Input::Echoed(&payload));
                }
                rest
            }
            4 => {
                self.session.handle_input(self.now, Input::Settings(wanted(step / 6)));
                rest
            }
            // Rarely: nothing much happens after it.
            _ if step > 0xf0 => {
                self.ended = true;
                self.session.handle_input(self.now, Input::AdminDown);
                rest
            }
            _ => rest,
        }
    }

    fn packet(&mut self, bytes: &[u8]) {
        let Ok(packet) = ControlPacket::parse(bytes) else { return };
        assert_eq!(ControlPacket::parse(&packet.bytes()), Ok(packet), "what is read can be written");
        let arrival =
            Arrival { source: ROUTER, destination: ROUTER, ttl: 255, device: None, multihop: false };
        let found = self.demux.find(&packet, arrival);
        let is_ours = packet.your_discriminator.is_none_or(|it| it == OURS);
        assert_eq!(found.is_ok(), is_ours);
        assert!(self.demux.find(&packet, Arrival { ttl: 254, ..arrival }).is_err(), "from further away");
        if is_ours {
            self.session.handle_input(self.now, Input::Received(&packet));
        }
    }

    /// Time passes as a driver would let it: each timeout is told when it is due.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        // How often the time was told without its going on: a change may make another timeout due at once.
        let mut still = 0;
        while self.timeouts > 0 {
            self.timeouts -= 1;
            self.look();
            let Some(next) = self.session.next_timeout().filter(|at| *at <= end) else { break };
            still = if next > self.now { 0 } else { still + 1 };
            assert!(still < 4, "a timeout that is over must not be due again and again");
            self.now = self.now.max(next);
            self.session.handle_timeout(self.now);
            if self.session.is_stopped(self.now) {
                break;
            }
        }
        self.now = end;
        self.session.handle_timeout(self.now);
    }

    /// Takes what the session says.
    fn look(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(packet) => {
                    assert_eq!(ControlPacket::parse(&packet.bytes()), Ok(packet));
                    assert!(!(packet.poll && packet.is_final), "RFC 5880 §6.8.7: never both");
                    assert_eq!(packet.my_discriminator, OURS);
                }
                Output::SendEcho(payload) => {
                    assert!(self.up, "echo packets only while up");
                    self.echo = Some(payload);
                }
                Output::Event(Event::Up) => {
                    assert!(!self.up && !self.ended, "up once, and never after the end");
                    self.up = true;
                }
                Output::Event(Event::Down(_)) => {
                    assert!(self.up, "only what is up goes down");
                    self.up = false;
                }
            }
        }
        assert_eq!(self.session.state() == State::Up, self.up, "each change is told");
    }
}

fn wanted(bits: u8) -> Settings {
    let interval = |bits: u8| Duration::from_millis([10, 50, 300, 60_000][usize::from(bits & 3)]);
    Settings {
        transmit_interval: interval(bits),
        receive_interval: interval(bits >> 2),
        detect_mult: NonZeroU8::new(1 + (bits >> 4 & 3)).unwrap_or(NonZeroU8::MIN),
        passive: bits & 0x40 != 0,
        echo_interval: (bits & 0x80 != 0).then(|| interval(bits >> 1)),
    }
}

/// A packet that is read for sure: flags, multiplier, whom it names, and three intervals by their length.
fn sound(fields: &[u8]) -> Vec<u8> {
    let field = |index: usize| fields.get(index).copied().unwrap_or_default();
    // Neither authenticated nor multipoint.
    let flags = field(0) & !5;
    let micros = |index: usize| (1u32 << (field(index) & 31)).to_be_bytes();
    let names = u32::from(flags & 0x80 != 0 || field(1) & 1 != 0).to_be_bytes();
    let start = [0x20, flags, (field(1) >> 1).max(1), 24, 0, 0, 0, 7];
    [&start[..], &names, &micros(2), &micros(3), &micros(4)].concat()
}
