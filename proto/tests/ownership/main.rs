//! Who owns an address, simulated: the real machines of three to eight nodes on one virtual segment with
//! one virtual clock, under random faults.
//!
//! ```text
//! seed ─> script: faults by time ─┐
//!                                 ├─> World: machines, wire, membership, API ──> Laws ─> Violation
//! rules that are in force ────────┘
//! ```
//!
//! A violation prints the script, each change of ownership, and the seed that makes it again.
//! `hack/simulate` runs as many traces as it is told.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod laws;
mod random;
mod script;
mod world;

use world::{InForce, World};

/// Runs traces with seeds from `first` on; the first that breaks a law.
fn search(first: u64, traces: u64, rules: InForce) -> Option<(u64, String)> {
    (first..first + traces).find_map(|seed| World::run(seed, rules).err().map(|story| (seed, story)))
}

/// The short run.
#[test]
fn one_answers_and_nothing_moves_unasked() {
    if let Some((seed, story)) = search(0, 100, InForce::default()) {
        panic!("seed {seed}:\n{story}");
    }
}

/// All rules but one.
fn without(rule: &str) -> InForce {
    let mut rules = InForce::default();
    let switch = match rule {
        "claim" => &mut rules.machine.claim,
        "start" => &mut rules.machine.start,
        "crash" => &mut rules.machine.crash,
        "planned" => &mut rules.machine.planned,
        "conflict" => &mut rules.machine.conflict,
        "hold" => &mut rules.hold,
        "generation" => &mut rules.machine.generation,
        other => panic!("{other} is no rule"),
    };
    *switch = false;
    rules
}

/// The long run: `hack/simulate TRACES [SEED [WITHOUT]]`.
#[test]
#[ignore = "takes minutes; hack/simulate runs it"]
#[expect(clippy::disallowed_methods, reason = "the time that the run takes is for its reader")]
fn long_run() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().map_or(default, |text| text.parse().expect(name));
    let (traces, first) = (number("TRACES", 10_000), number("SEED", 1));
    let rules = std::env::var("WITHOUT").map_or_else(|_| InForce::default(), |rule| without(&rule));
    let began = std::time::Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = traces.div_ceil(threads);
    let found = std::thread::scope(|scope| {
        let runs: Vec<_> =
            (0..threads).map(|n| scope.spawn(move || search(first + n * share, share, rules))).collect();
        runs.into_iter().find_map(|run| run.join().unwrap())
    });
    let seconds = began.elapsed().as_secs();
    println!("{} traces from seed {first} in {seconds} s", share * threads);
    if let Some((seed, story)) = found {
        panic!("seed {seed}:\n{story}");
    }
}

/// The second: the API server comes back, says wrongly that a node is gone, and goes away again before it knows
/// better. The third: a frame that was four seconds under way silences the only owner.
#[test]
fn traces_that_broke_a_law_once() {
    for seed in [23_212, 1_026_393, 394_094] {
        if let Err(story) = World::run(seed, InForce::default()) {
            panic!("seed {seed}:\n{story}");
        }
    }
}

/// Each rule is needed: without it a trace breaks a law that it keeps with all rules.
#[test]
fn no_rule_can_be_spared() {
    let all = InForce::default();
    for (rule, seed) in [
        ("claim", 1),
        ("start", 1),
        ("crash", 10),
        ("planned", 8),
        ("conflict", 0),
        ("hold", 4),
        ("generation", 1550),
    ] {
        assert!(
            World::run(seed, without(rule)).is_err(),
            "trace {seed} does not show what rule {rule} is for"
        );
        if let Err(story) = World::run(seed, all) {
            panic!("with all rules, seed {seed}:\n{story}");
        }
    }
}
