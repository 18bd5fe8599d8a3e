//! Two sessions and the wire between them: packets are lost, late, doubled and in another order. Once the
//! faults are over, both are up at the intervals of both; once the wire is cut, both are down in time.

use proptest::prelude::*;

use super::*;
use crate::bfd::packet::tests::packets;

struct Side {
    session: Session,
    /// Packets on their way to this side.
    arriving: Vec<(Instant, ControlPacket)>,
    ups: usize,
    downs: usize,
    sent: usize,
}

/// How the wire treats packets.
#[derive(Debug, Clone, Copy)]
struct Wire {
    loss_percent: u32,
    double_percent: u32,
    longest_delay_ms: u32,
}

const SOUND: Wire = Wire { loss_percent: 0, double_percent: 0, longest_delay_ms: 1 };
const CUT: Wire = Wire { loss_percent: 100, ..SOUND };

struct World {
    now: Instant,
    sides: [Side; 2],
    random: u64,
}

impl World {
    fn new(settings: [Settings; 2], seed: u64) -> Self {
        let now = zero();
        let side = |number: u32, settings| Side {
            session: Session::new(
                now,
                Discriminator::new(number).unwrap(),
                settings,
                seed ^ u64::from(number),
            ),
            arriving: Vec::new(),
            ups: 0,
            downs: 0,
            sent: 0,
        };
        Self { now, sides: [side(1, settings[0]), side(2, settings[1])], random: seed }
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) as u32) % limit.max(1)
    }

    fn run(&mut self, wire: Wire, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle(wire);
            let next = self.sides.iter().flat_map(|side| {
                side.session.next_timeout().into_iter().chain(side.arriving.iter().map(|it| it.0))
            });
            let Some(next) = next.min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            for side in &mut self.sides {
                let now = self.now;
                for (_, packet) in side.arriving.extract_if(.., |it| it.0 <= now) {
                    side.session.handle_input(now, Input::Received(&packet));
                }
                side.session.handle_timeout(now);
            }
        }
        self.now = end;
    }

    fn settle(&mut self, wire: Wire) {
        for index in 0..2 {
            while let Some(output) = self.sides[index].session.poll_output() {
                match output {
                    Output::Send(packet) => {
                        self.sides[index].sent += 1;
                        let copies = 1 + usize::from(self.below(100) < wire.double_percent);
                        for _ in 0..copies {
                            if self.below(100) >= wire.loss_percent {
                                let delay = (1 + self.below(wire.longest_delay_ms)) * MS;
                                self.sides[1 - index].arriving.push((self.now + delay, packet));
                            }
                        }
                    }
                    Output::SendEcho(payload) => {
                        self.sides[index].session.handle_input(self.now, Input::Echoed(&payload));
                    }
                    Output::Event(Event::Up) => self.sides[index].ups += 1,
                    Output::Event(Event::Down(_)) => self.sides[index].downs += 1,
                }
            }
        }
    }

    fn states(&self) -> [State; 2] {
        [self.sides[0].session.state(), self.sides[1].session.state()]
    }
}

fn arbitrary_settings() -> impl Strategy<Value = Settings> {
    (10u32..1000, 10u32..1000, 2u8..8, any::<bool>()).prop_map(|(tx, rx, mult, echo)| Settings {
        transmit_interval: tx * MS,
        receive_interval: rx * MS,
        detect_mult: NonZeroU8::new(mult).unwrap(),
        passive: false,
        echo_interval: echo.then_some(50 * MS),
    })
}

fn arbitrary_wire() -> impl Strategy<Value = Wire> {
    (0u32..60, 0u32..30, 1u32..200).prop_map(|(loss_percent, double_percent, longest_delay_ms)| Wire {
        loss_percent,
        double_percent,
        longest_delay_ms,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_all_faults_both_are_up_as_agreed_and_after_a_cut_both_are_down_in_time(
        a in arbitrary_settings(), b in arbitrary_settings(), edited in arbitrary_settings(),
        faulty in arbitrary_wire(), passive in any::<bool>(), seed in any::<u64>(),
    ) {
        let mut world = World::new([a, Settings { passive, ..b }], seed);
        world.run(faulty, 20_000 * MS);
        world.sides[0].session.handle_input(world.now, Input::Settings(edited));
        world.run(faulty, 20_000 * MS);
        // A poll takes an interval, one that was overtaken by another two.
        world.run(SOUND, 30_000 * MS);
        prop_assert_eq!(world.states(), [State::Up, State::Up]);
        let downs = [world.sides[0].downs, world.sides[1].downs];
        let sent = [world.sides[0].sent, world.sides[1].sent];
        world.run(SOUND, 20_000 * MS);
        prop_assert_eq!([world.sides[0].downs, world.sides[1].downs], downs, "no false alarm on a sound wire");
        for (index, side) in world.sides.iter().enumerate() {
            let interval = side.session.transmit_interval();
            let theirs = &world.sides[1 - index].session;
            let mult = u32::from(side.session.settings.detect_mult.get());
            prop_assert_eq!(theirs.detection_time(), Some(interval * mult), "as agreed");
            prop_assert_eq!(side.session.poll, Poll::Idle);
            let expected = 20_000.0 / interval.as_millis() as f64;
            let sent = (side.sent - sent[index]) as f64;
            prop_assert!(sent >= expected.floor() && sent <= expected / 0.75 + 2.0, "{} for {}", sent, expected);
        }
        let longest = world.sides.iter().filter_map(|side| side.session.detection_time()).max().unwrap();
        world.run(CUT, longest + MS);
        prop_assert_eq!(world.states(), [State::Down, State::Down]);
        prop_assert!(world.sides.iter().all(|side| side.ups == side.downs));
    }

    /// Packets that are well-formed and mean anything at all, at any time: it stays a machine that can be
    /// driven, and ups and downs alternate.
    #[test]
    fn any_packets_leave_a_machine_that_goes_on(
        settings in arbitrary_settings(),
        packets in proptest::collection::vec((0u32..2000, packets()), 0..50),
    ) {
        let mut now = zero();
        let mut session = Session::new(now, number(1), settings, 7);
        let mut is_up = false;
        for (wait, packet) in packets {
            now += wait * MS;
            hears(&mut session, now, packet);
            session.handle_timeout(now);
            let mut outputs = 0;
            while let Some(output) = session.poll_output() {
                outputs += 1;
                if let Output::Event(event) = output {
                    prop_assert_ne!(event == Event::Up, is_up);
                    is_up = event == Event::Up;
                }
            }
            prop_assert!(outputs <= 8, "{} outputs at once", outputs);
            prop_assert_eq!(session.state() == State::Up, is_up);
            // What is due is done: it does not ask to be called again for the same moment.
            prop_assert!(session.next_timeout().is_none_or(|at| at > now));
        }
    }
}

/// The speaker dies and comes back with another discriminator.
#[test]
fn a_side_that_comes_back_as_another_is_taken_back() {
    let mut world = World::new([settings(), settings()], 7);
    world.run(SOUND, 5_000 * MS);
    assert_eq!(world.states(), [State::Up, State::Up]);
    world.sides[1].session = Session::new(world.now, Discriminator::new(9).unwrap(), settings(), 8);
    world.run(SOUND, 5_000 * MS);
    assert_eq!(world.states(), [State::Up, State::Up]);
    assert_eq!((world.sides[0].ups, world.sides[0].downs), (2, 1));
}
