//! What BFD says of the path to a peer.

use ferrolb_proto::bgp::session::Input;
use tokio::sync::watch;

use crate::bfd::{Reachability, Reachable};

/// The path, as it was last looked at.
pub(super) struct Path {
    peer: String,
    reachable: watch::Receiver<Reachable>,
    seen: Option<Reachability>,
}

impl Path {
    pub(super) fn new(peer: &str, reachable: watch::Receiver<Reachable>) -> Self {
        Self { peer: peer.to_owned(), reachable, seen: None }
    }

    /// How the BFD session stands, if there is one.
    pub(super) fn state(&self) -> Option<&'static str> {
        let up = self.reachable.borrow().get(&self.peer)?.up;
        Some(if up { "Up" } else { "Down" })
    }

    /// Waits until something changes: with what the session has to know of it, if anything. Failures are
    /// counted, so that none is missed that was over before anybody looked.
    pub(super) async fn news(&mut self) -> Option<Input<'static>> {
        loop {
            if self.reachable.changed().await.is_err() {
                // BFD has ended; the session goes on without.
                return std::future::pending().await;
            }
            let now = self.reachable.borrow_and_update().get(&self.peer).copied();
            if now == self.seen {
                continue;
            }
            // What was before this session, or before BFD was wanted, is no news.
            let before = std::mem::replace(&mut self.seen, now);
            let (Some(before), Some(now)) = (before, now) else { return None };
            if now.failures > before.failures {
                let why = now.last.map(|it| it.to_string()).unwrap_or_default();
                return Some(Input::PathDown(why));
            }
            return (now.up && !before.up).then_some(Input::PathUp);
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_proto::bfd::session::Down;
    use futures::FutureExt;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_failure_is_missed_and_nothing_else_is_one() {
        let (sender, receiver) = watch::channel(Reachable::new());
        let mut path = Path::new("router", receiver.clone());
        let mut news = |up, failures| {
            let last = (failures > 0).then_some(Down::Expired(Duration::from_millis(150)));
            sender.send_replace([("router".to_owned(), Reachability { up, failures, last })].into());
            path.news().now_or_never().flatten()
        };
        assert!(news(false, 0).is_none(), "not up yet");
        assert!(matches!(news(true, 0), Some(Input::PathUp)));
        let Some(Input::PathDown(why)) = news(true, 1) else { panic!("down and up again unseen") };
        assert_eq!(why, "nothing was heard for 150 ms");
        assert!(news(false, 1).is_none(), "taken down by an administrator");
        assert!(matches!(news(true, 1), Some(Input::PathUp)));
        let mut of_next_session = Path::new("router", receiver);
        assert!(of_next_session.news().now_or_never().flatten().is_none(), "it did not lose anything");
        assert_eq!(of_next_session.state(), Some("Up"));
        sender.send_replace(Reachable::new());
        assert!(path.news().now_or_never().flatten().is_none(), "BFD is not wanted any more");
        assert_eq!(path.state(), None);
    }
}
