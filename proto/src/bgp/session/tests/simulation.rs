//! Two sessions and the wire between them: bytes arrive late and in pieces, connections break, routes
//! change meanwhile. Once the faults are over, each has exactly the other's routes.

use proptest::prelude::*;

use super::*;
use crate::bgp::testing::apply;

/// Milliseconds that bytes take.
const DELAY: u64 = 40;

struct Side {
    session: Session,
    dialling: bool,
    connected: bool,
    /// Bytes on their way to this side, and when they arrive.
    arriving: VecDeque<(Instant, Vec<u8>)>,
    /// What the other side has announced here.
    table: BTreeMap<Vec<u8>, Vec<u8>>,
    ups: usize,
}

impl Side {
    fn new(now: Instant, settings: Settings, seed: u64) -> Self {
        let session = Session::new(now, settings, 30 * SECOND, seed);
        let (arriving, table) = (VecDeque::new(), BTreeMap::new());
        Self { session, dialling: false, connected: false, arriving, table, ups: 0 }
    }
}

struct Wire {
    now: Instant,
    sides: [Side; 2],
    piece: usize,
}

impl Wire {
    fn new(now: Instant, seed: u64, piece: usize) -> Self {
        let sides = [Side::new(now, settings(1, 2), seed), Side::new(now, settings(2, 1), !seed)];
        Self { now, sides, piece }
    }

    /// The connection of both breaks; what is on its way is lost.
    fn cut(&mut self) {
        for side in &mut self.sides {
            side.arriving.clear();
            if std::mem::take(&mut side.connected) {
                side.session.handle_input(self.now, Input::Closed("cut".to_owned()));
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
            let next = self.sides.iter().flat_map(|side| {
                side.session.next_timeout().into_iter().chain(side.arriving.front().map(|it| it.0))
            });
            let Some(next) = next.min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            for side in &mut self.sides {
                side.session.handle_timeout(self.now);
                while let Some((_, bytes)) = side.arriving.pop_front_if(|it| it.0 <= self.now) {
                    side.session.handle_input(self.now, Input::Received(&bytes));
                }
            }
        }
        self.now = end;
    }

    /// Carries out what the sessions want, until they want nothing.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            for index in 0..2 {
                while let Some(output) = self.sides[index].session.poll_output() {
                    busy = true;
                    self.perform(index, output);
                }
            }
            if self.sides.iter().all(|side| side.dialling) {
                busy = true;
                for (host, side) in (1..).zip(&mut self.sides) {
                    (side.dialling, side.connected) = (false, true);
                    side.arriving.clear();
                    side.table.clear();
                    side.session.handle_input(self.now, Input::Connected(next_hops(host)));
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn perform(&mut self, index: usize, output: Output) {
        let [a, b] = &mut self.sides;
        let (here, there) = if index == 0 { (a, b) } else { (b, a) };
        match output {
            Output::Dial => here.dialling = true,
            Output::Write(bytes) => {
                if bytes[18] == message::UPDATE {
                    apply(&mut there.table, std::slice::from_ref(&bytes));
                }
                let at = self.now + Duration::from_millis(DELAY);
                there.arriving.extend(bytes.chunks(self.piece).map(|piece| (at, piece.to_vec())));
                here.session.handle_input(self.now, Input::Flushed);
            }
            Output::Close => {
                here.dialling = false;
                if std::mem::take(&mut here.connected) && std::mem::take(&mut there.connected) {
                    // What was written before arrives before the end.
                    for (_, bytes) in std::mem::take(&mut there.arriving) {
                        there.session.handle_input(self.now, Input::Received(&bytes));
                    }
                    there.session.handle_input(self.now, Input::Closed("end of stream".to_owned()));
                }
            }
            Output::Event(Event::Up(_)) => here.ups += 1,
            Output::Event(Event::Ignored(why)) => panic!("{why}"),
            Output::Event(Event::Down(_) | Event::Failed(_)) => {}
        }
    }
}

#[test]
fn two_sessions_stay_up_for_hours_and_say_little() {
    let mut wire = Wire::new(zero(), 1, 4096);
    wire.desire(0, &routes(5));
    wire.run(4 * 3600 * SECOND);
    for side in &wire.sides {
        assert_eq!((side.session.state(), side.ups), (State::Established, 1));
    }
    assert_eq!((wire.sides[1].table.len(), wire.sides[0].session.updates_sent()), (5, 1));
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
        steps in proptest::collection::vec(
            prop_oneof![
                (1u64..20_000).prop_map(Step::Run),
                Just(Step::Cut),
                (0usize..2, 0u8..20).prop_map(|(side, count)| Step::Desire(side, count)),
            ],
            1..40,
        ),
    ) {
        let mut wire = Wire::new(zero(), seed, piece);
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
            prop_assert_eq!(wire.sides[other].table.len(), wanted[side]);
        }
    }
}
