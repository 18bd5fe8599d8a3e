//! Two sessions and the network between them: both dial, bytes arrive late and in pieces, connections
//! collide and break, routes change meanwhile. Once the faults are over, each has exactly the other's routes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::bgp::testing::apply;

/// Milliseconds that anything takes.
const DELAY: Duration = Duration::from_millis(40);

struct Side {
    session: Session,
    /// Whether the other side can connect.
    listens: bool,
    dialled: Option<usize>,
    accepted: Option<usize>,
    /// What asks to be accepted.
    asking: Option<usize>,
    ups: usize,
}

impl Side {
    fn new(now: Instant, settings: Settings, listens: bool, seed: u64) -> Self {
        let session = Session::new(now, settings, 30 * SECOND, seed);
        Self { session, listens, dialled: None, accepted: None, asking: None, ups: 0 }
    }

    fn origin(&self, connection: usize) -> Option<Origin> {
        let dialled = (self.dialled == Some(connection)).then_some(Origin::Dialled);
        dialled.or((self.accepted == Some(connection)).then_some(Origin::Accepted))
    }

    fn connection(&mut self, origin: Origin) -> &mut Option<usize> {
        match origin {
            Origin::Dialled => &mut self.dialled,
            Origin::Accepted => &mut self.accepted,
        }
    }
}

/// What is on its way to a side.
enum Arrival {
    Syn(usize),
    Answer(usize),
    Refusal(usize),
    Bytes(usize, Vec<u8>),
    End(usize),
}

struct Wire {
    now: Instant,
    sides: [Side; 2],
    piece: usize,
    arriving: VecDeque<(Instant, usize, Arrival)>,
    /// By connection: what each side was announced on it.
    tables: Vec<[BTreeMap<Vec<u8>, Vec<u8>>; 2]>,
}

impl Wire {
    fn new(now: Instant, seed: u64, piece: usize, listens: [bool; 2]) -> Self {
        let sides = [
            Side::new(now, settings(1, 2), listens[0], seed),
            Side::new(now, settings(2, 1), listens[1], !seed),
        ];
        Self { now, sides, piece, arriving: VecDeque::new(), tables: Vec::new() }
    }

    /// Every connection breaks; what is on its way is lost.
    fn cut(&mut self) {
        self.arriving.clear();
        for side in &mut self.sides {
            side.asking = None;
            for origin in [Origin::Dialled, Origin::Accepted] {
                if side.connection(origin).take().is_some() {
                    side.session.handle_input(self.now, Input::Closed(origin, "cut".to_owned()));
                }
            }
        }
        self.settle();
    }

    fn desire(&mut self, side: usize, routes: &Arc<AdjRibOut>) {
        self.sides[side].session.handle_input(self.now, Input::Desired(routes));
        self.settle();
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let timeouts = self.sides.iter().filter_map(|side| side.session.next_timeout());
            let next = timeouts.chain(self.arriving.front().map(|it| it.0)).min();
            let Some(next) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            for side in &mut self.sides {
                side.session.handle_timeout(self.now);
            }
            self.settle();
            while let Some((_, side, arrival)) = self.arriving.pop_front_if(|it| it.0 <= self.now) {
                self.arrive(side, arrival);
                self.settle();
            }
        }
        self.now = end;
    }

    fn arrive(&mut self, index: usize, arrival: Arrival) {
        let now = self.now;
        let hops = next_hops(u8::try_from(index + 1).unwrap());
        let side = &mut self.sides[index];
        match arrival {
            Arrival::Syn(connection) if side.listens => {
                side.asking = Some(connection);
                side.session.handle_input(now, Input::Accepted(hops));
                // The kernel answers before anybody is asked.
                self.send(1 - index, Arrival::Answer(connection));
            }
            Arrival::Syn(connection) => self.send(1 - index, Arrival::Refusal(connection)),
            Arrival::Answer(connection) if side.dialled == Some(connection) => {
                side.session.handle_input(now, Input::Connected(hops));
            }
            Arrival::Answer(connection) => self.send(1 - index, Arrival::End(connection)),
            Arrival::Refusal(connection) => {
                if side.dialled.take_if(|it| *it == connection).is_some() {
                    side.session.handle_input(now, Input::DialFailed("refused".to_owned()));
                }
            }
            Arrival::Bytes(connection, bytes) => {
                if let Some(origin) = side.origin(connection) {
                    side.session.handle_input(now, Input::Received(origin, &bytes));
                }
            }
            Arrival::End(connection) => {
                if let Some(origin) = side.origin(connection) {
                    *side.connection(origin) = None;
                    side.session.handle_input(now, Input::Closed(origin, "end of stream".to_owned()));
                }
            }
        }
    }

    fn send(&mut self, to: usize, arrival: Arrival) {
        self.arriving.push_back((self.now + DELAY, to, arrival));
    }

    /// Carries out what the sessions want, until they want nothing.
    fn settle(&mut self) {
        for index in [0, 1, 0] {
            while let Some(output) = self.sides[index].session.poll_output() {
                self.perform(index, output);
            }
        }
    }

    fn perform(&mut self, index: usize, output: Output) {
        let side = &mut self.sides[index];
        match output {
            Output::Dial => {
                assert!(side.dialled.is_none(), "one connection is dialled at a time");
                let connection = self.tables.len();
                side.dialled = Some(connection);
                self.tables.push(Default::default());
                self.send(1 - index, Arrival::Syn(connection));
            }
            Output::Accept => {
                assert!(side.accepted.is_none(), "the older one was to be closed");
                side.accepted = side.asking.take();
            }
            Output::Refuse => {
                let connection = side.asking.take().unwrap();
                self.send(1 - index, Arrival::End(connection));
            }
            Output::Write(origin, bytes) => {
                let connection = side.connection(origin).unwrap();
                if bytes[18] == message::UPDATE {
                    apply(&mut self.tables[connection][1 - index], std::slice::from_ref(&bytes));
                }
                side.session.handle_input(self.now, Input::Flushed(origin));
                for piece in bytes.chunks(self.piece) {
                    self.send(1 - index, Arrival::Bytes(connection, piece.to_vec()));
                }
            }
            Output::Close(origin) => {
                let connection = side.connection(origin).take().unwrap();
                self.send(1 - index, Arrival::End(connection));
            }
            Output::Event(Event::Up(_)) => side.ups += 1,
            Output::Event(Event::Ignored(why)) => panic!("{why}"),
            Output::Event(Event::Down(_) | Event::Failed(_)) => {}
        }
    }

    /// What a side was announced on the one connection that is left; none if there is another number of them.
    fn table(&self, index: usize) -> Option<usize> {
        let side = &self.sides[index];
        let connection = side.dialled.xor(side.accepted)?;
        Some(self.tables[connection][index].len())
    }
}

#[test]
fn two_sessions_stay_up_for_hours_and_say_little() {
    let mut wire = Wire::new(zero(), 1, 4096, [true, true]);
    wire.desire(0, &routes(5));
    wire.run(4 * 3600 * SECOND);
    for side in &wire.sides {
        assert_eq!((side.session.state(), side.ups), (State::Established, 1));
    }
    assert_eq!((wire.table(1), wire.sides[0].session.updates_sent()), (Some(5), 1));
}

#[derive(Clone, Debug)]
enum Step {
    Run(u64),
    Cut,
    Desire(usize, u8),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_any_faults_each_side_has_the_routes_of_the_other(
        seed: u64,
        piece in 1usize..200,
        listens in prop_oneof![Just([true, false]), Just([false, true]), Just([true, true])],
        steps in proptest::collection::vec(
            prop_oneof![
                (1u64..20_000).prop_map(Step::Run),
                Just(Step::Cut),
                (0usize..2, 0u8..20).prop_map(|(side, count)| Step::Desire(side, count)),
            ],
            1..40,
        ),
    ) {
        let mut wire = Wire::new(zero(), seed, piece, listens);
        let mut wanted = [0, 0];
        for step in steps {
            match step {
                Step::Run(milliseconds) => wire.run(Duration::from_millis(milliseconds)),
                Step::Cut => wire.cut(),
                Step::Desire(side, count) => {
                    wanted[side] = usize::from(count);
                    wire.desire(side, &routes(count));
                }
            }
        }
        wire.run(120 * SECOND);
        for (side, other) in [(0, 1), (1, 0)] {
            prop_assert_eq!(wire.sides[side].session.state(), State::Established);
            prop_assert_eq!(wire.sides[side].session.announced(), wanted[side]);
            prop_assert_eq!(wire.table(other), Some(wanted[side]));
        }
    }
}
