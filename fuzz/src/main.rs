//! Fuzz targets: what is thrown at them must neither crash nor break a law that the target states.
//! `hack/fuzz TARGET SECONDS` builds this with libFuzzer's coverage and runs one of them.
//!
//! To add one: a module with a function over bytes, a line in [`TARGETS`], and a folder of its name in
//! `seeds/` with a few inputs of the kind that are meant, one a file. A crash becomes a seed.

#![no_main]

mod bfd;
mod bgp_messages;
mod bgp_session;
mod bgp_wire;
mod ranges;
mod selectors;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 5] = [
    ("bfd", bfd::run),
    ("bgp_messages", bgp_messages::run),
    ("bgp_session", bgp_session::run),
    ("ranges", ranges::run),
    ("selectors", selectors::run),
];

/// The one that the environment names: the command line is libFuzzer's.
const VARIABLE: &str = "FERROLB_FUZZ_TARGET";

static CHOSEN: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        let wanted = std::env::var(VARIABLE).unwrap_or_default();
        let Some((_, target)) = TARGETS.iter().find(|(name, _)| *name == wanted) else {
            let names = TARGETS.map(|(name, _)| name).join(", ");
            eprintln!("there is no fuzz target {wanted:?}; {VARIABLE} must be one of: {names}");
            std::process::exit(2);
        };
        CHOSEN.get_or_init(|| *target);
    },
    |data: &[u8]| {
        if let Some(target) = CHOSEN.get() {
            target(data);
        }
    }
);
