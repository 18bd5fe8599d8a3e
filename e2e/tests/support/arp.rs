//! ARP as a host of the LAN asks it: requests by broadcast, and what the wire says of them.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ferrolb_e2e::wire::{Frame, exchanges};
use ferrolb_e2e::{Host, Lab, Wire};

use super::until;

/// Between two requests.
const INTERVAL: Duration = Duration::from_millis(100);

/// Broadcast requests, and who answered each: sends `count` of them from a host, ten a second.
pub fn ask(lab: &Lab, host: &str, address: &str, count: u32) -> Vec<BTreeSet<String>> {
    let wire = record(lab);
    let asker = lab.host(host).unwrap_or_else(|error| panic!("{error}"));
    let sent: Vec<Child> = (0..count).map(|_| send_one(&asker, address)).collect();
    for mut arping in sent {
        let _ = arping.wait();
    }
    let frames = wire.stop();
    exchanges(&frames, host, address.parse().unwrap()).into_iter().map(|it| it.answered_by).collect()
}

fn record(lab: &Lab) -> Wire {
    lab.record().unwrap_or_else(|error| panic!("{error}"))
}

/// A process for each request: arping sends one a second at most, and counts answers to others' requests
/// as its own.
fn send_one(host: &Host, address: &str) -> Child {
    let command = ["arping", "-q", "-b", "-c", "1", "-w", "1", "-I", host.spec.nic(), address];
    let arping = host.spawn(&command).unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(INTERVAL);
    arping
}

/// Waits until one node answers a broadcast request of a host, and says which.
pub fn answered_by(lab: &Lab, host: &str, address: &str, limit: Duration) -> String {
    until(&format!("an ARP answer for {address}"), limit, || {
        let nodes: BTreeSet<String> = ask(lab, host, address, 1).into_iter().flatten().collect();
        match Vec::from_iter(nodes).as_slice() {
            [one] => Ok(one.clone()),
            other => Err(format!("answers of {other:?}")),
        }
    })
}

/// Asks ten times a second in the background, with the wire recorded, until told to stop.
pub struct Asking {
    stop: Arc<AtomicBool>,
    asking: Option<JoinHandle<()>>,
    wire: Option<Wire>,
}

impl Asking {
    pub fn start(lab: &Lab, host: &str, address: &str) -> Self {
        let wire = Some(record(lab));
        let stop = Arc::new(AtomicBool::new(false));
        let (told, address) = (Arc::clone(&stop), address.to_owned());
        let host = lab.host(host).unwrap_or_else(|error| panic!("{error}"));
        let asking = std::thread::spawn(move || {
            let mut sent: Vec<Child> = Vec::new();
            while !told.load(Ordering::Relaxed) {
                sent.push(send_one(&host, &address));
                sent.retain_mut(|arping| !matches!(arping.try_wait(), Ok(Some(_))));
            }
            for mut arping in sent {
                let _ = arping.wait();
            }
        });
        Self { stop, asking: Some(asking), wire }
    }

    /// Ends; gives all frames.
    pub fn stop(mut self) -> Vec<Frame> {
        self.end();
        self.wire.take().map(Wire::stop).unwrap_or_default()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.end();
    }
}
