//! HTTP as a client of the Service sees it: twenty requests a second, and which of them failed.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ferrolb_e2e::Lab;
use ferrolb_e2e::wire::now;

/// Between two requests.
const INTERVAL: Duration = Duration::from_millis(50);

/// When each request was sent, and whether it was answered within a second.
pub struct Requests(Vec<(f64, bool)>);

impl Requests {
    pub fn failed(&self) -> usize {
        self.0.iter().filter(|(_, answered)| !answered).count()
    }

    /// `3 of 200 failed, within 0.10 s`
    pub fn told(&self) -> String {
        let mut failed = self.0.iter().filter(|(_, answered)| !answered).map(|(at, _)| *at);
        let (first, last) = (failed.next(), failed.next_back());
        let within = first.map_or(0.0, |first| last.unwrap_or(first) - first);
        format!("{} of {} failed, within {within:.2} s", self.failed(), self.0.len())
    }
}

/// Asks in the background until told to stop. Each request is a connection of its own.
pub struct Curling {
    stop: Arc<AtomicBool>,
    asking: Option<JoinHandle<Vec<(f64, bool)>>>,
}

impl Curling {
    pub fn start(lab: &Lab, host: &str, address: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, url) = (Arc::clone(&stop), format!("http://{address}/hostname"));
        let host = lab.host(host).unwrap_or_else(|error| panic!("{error}"));
        let asking = std::thread::spawn(move || {
            let mut sent: Vec<(f64, Child)> = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let command = ["curl", "-s", "-o", "/dev/null", "--max-time", "1", &url];
                let curl = host.spawn(&command).unwrap_or_else(|error| panic!("{error}"));
                sent.push((now(), curl));
                std::thread::sleep(INTERVAL);
            }
            let ended = sent.into_iter().map(|(at, mut curl)| (at, curl.wait().is_ok_and(|it| it.success())));
            ended.collect()
        });
        Self { stop, asking: Some(asking) }
    }

    pub fn stop(mut self) -> Requests {
        self.stop.store(true, Ordering::Relaxed);
        Requests(self.asking.take().and_then(|it| it.join().ok()).unwrap_or_default())
    }
}
