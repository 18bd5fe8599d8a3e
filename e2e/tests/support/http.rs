//! HTTP as a client of the Service sees it: twenty requests a second, and what became of each.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ferrolb_e2e::Lab;
use ferrolb_e2e::wire::now;

/// Between two requests.
const INTERVAL: Duration = Duration::from_millis(50);
/// What curl ends with when a connection that was open is reset (CURLE_GOT_NOTHING, CURLE_RECV_ERROR).
const RESET: [i32; 2] = [52, 56];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    /// The connection was open and was reset, as one is that the next node's kube-proxy does not know.
    Reset,
    /// Not answered in time, or refused.
    Failed,
}

/// When each request was sent, and what became of it.
pub struct Requests(Vec<(f64, Outcome)>);

impl Requests {
    fn count(&self, outcome: Outcome) -> usize {
        self.0.iter().filter(|(_, it)| *it == outcome).count()
    }

    /// `3 of 200 failed, within 0.10 s; 1 reset`
    pub fn told(&self) -> String {
        let mut failed = self.0.iter().filter(|(_, it)| *it == Outcome::Failed).map(|(at, _)| *at);
        let (first, last) = (failed.next(), failed.next_back());
        let within = first.map_or(0.0, |first| last.unwrap_or(first) - first);
        let (failed, reset) = (self.count(Outcome::Failed), self.count(Outcome::Reset));
        format!("{failed} of {} failed, within {within:.2} s; {reset} reset", self.0.len())
    }

    /// None failed, in whatever way.
    pub fn assert_answered(&self) {
        let answered = self.count(Outcome::Answered);
        assert!(answered > 0 && answered == self.0.len(), "{}", self.told());
    }
}

/// Asks in the background until told to stop. Each request is a connection of its own.
pub struct Curling {
    stop: Arc<AtomicBool>,
    asking: Option<JoinHandle<Vec<(f64, Outcome)>>>,
}

impl Curling {
    /// A request counts as answered within a second.
    pub fn start(lab: &Lab, host: &str, address: &str) -> Self {
        Self::with_patience(lab, host, address, 1)
    }

    /// The same within so many seconds.
    pub fn with_patience(lab: &Lab, host: &str, address: &str, seconds: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, url) = (Arc::clone(&stop), format!("http://{address}/hostname"));
        let max_time = seconds.to_string();
        let host = lab.host(host).unwrap_or_else(|error| panic!("{error}"));
        let asking = std::thread::spawn(move || {
            let mut sent: Vec<(f64, Child)> = Vec::new();
            let mut ended = Vec::new();
            let outcome = |mut curl: Child| match curl.wait().ok().and_then(|it| it.code()) {
                Some(0) => Outcome::Answered,
                Some(code) if RESET.contains(&code) => Outcome::Reset,
                _ => Outcome::Failed,
            };
            while !told.load(Ordering::Relaxed) {
                let command = ["curl", "-s", "-o", "/dev/null", "--max-time", &max_time, &url];
                let curl = host.spawn(&command).unwrap_or_else(|error| panic!("{error}"));
                sent.push((now(), curl));
                std::thread::sleep(INTERVAL);
                // As many as may still be under way; the others wait to be reaped.
                while sent.first_mut().is_some_and(|(_, curl)| matches!(curl.try_wait(), Ok(Some(_)))) {
                    let (at, curl) = sent.remove(0);
                    ended.push((at, outcome(curl)));
                }
            }
            ended.extend(sent.into_iter().map(|(at, curl)| (at, outcome(curl))));
            ended
        });
        Self { stop, asking: Some(asking) }
    }

    /// No more requests; what became of those before.
    pub fn stop(mut self) -> Requests {
        self.stop.store(true, Ordering::Relaxed);
        Requests(self.asking.take().and_then(|it| it.join().ok()).unwrap_or_default())
    }
}

impl Drop for Curling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
