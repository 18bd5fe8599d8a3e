//! Telling people what goes on, and waiting for conditions.
//!
//! Every wait of the lab goes through [`Progress::wait`]: it polls, says every five seconds that it
//! still waits, and ends at once on Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Attempt, LabError, Result};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(100);
/// How long nothing may be said.
const SILENCE: Duration = Duration::from_secs(5);

/// Where a command is, and whether the user wants it to end.
#[derive(Debug, Clone)]
pub struct Progress {
    begin: Instant,
    quiet: bool,
    interrupted: Arc<AtomicBool>,
}

impl Progress {
    /// One that speaks on standard error.
    #[must_use]
    pub fn new() -> Self {
        Self { begin: Instant::now(), quiet: false, interrupted: Arc::default() }
    }

    /// One that says nothing.
    #[must_use]
    pub fn quiet() -> Self {
        Self { quiet: true, ..Self::new() }
    }

    /// From now on Ctrl-C, a closed terminal and SIGTERM end waits instead of the process.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn catch_signals(self) -> Result<Self> {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&self.interrupted))
                .attempt(|| "catch signals".to_owned())?;
        }
        Ok(self)
    }

    /// Time since the command began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Says something, with the time since the command began.
    pub fn say(&self, text: impl AsRef<str>) {
        if !self.quiet {
            eprintln!("[{:5.1} s] {}", self.elapsed().as_secs_f32(), text.as_ref());
        }
    }

    /// Ends the command if the user wants that.
    ///
    /// # Errors
    /// The user does.
    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Looks at a condition until it holds.
    ///
    /// # Errors
    /// It does not within `limit`, the user interrupts, or `look` fails for good.
    pub fn wait<T>(
        &self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut() -> Result<Seen<T>>,
    ) -> Result<T> {
        let begin = Instant::now();
        let mut spoken = begin;
        loop {
            self.check()?;
            let seen = match look()? {
                Seen::Yes(value) => return Ok(value),
                Seen::NotYet(seen) => seen,
            };
            if begin.elapsed() >= limit {
                return Err(LabError::TimedOut { what: what.to_owned(), after: begin.elapsed(), seen });
            }
            if spoken.elapsed() >= SILENCE {
                self.say(format!("still waiting for {what} ({} s)", begin.elapsed().as_secs()));
                spoken = Instant::now();
            }
            sleep(POLL);
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

/// What a look at a condition found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<T> {
    /// It holds.
    Yes(T),
    /// It does not; this is what there is instead.
    NotYet(String),
}

impl Seen<()> {
    /// Yes if `holds`.
    #[must_use]
    pub fn when(holds: bool) -> Self {
        if holds { Self::Yes(()) } else { Self::NotYet(String::new()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_what_it_saw_last() {
        let error = Progress::quiet()
            .wait::<()>("rain", Duration::ZERO, || Ok(Seen::NotYet("sun".to_owned())))
            .unwrap_err();
        assert_eq!(error.to_string(), "Waited 0 s in vain for rain.\nsun");
    }

    #[test]
    fn an_interrupted_wait_ends() {
        let progress = Progress::quiet();
        progress.interrupted.store(true, Ordering::Relaxed);
        let error = progress.wait("anything", Duration::MAX, || Ok(Seen::when(false))).unwrap_err();
        assert!(matches!(error, LabError::Interrupted));
    }
}
