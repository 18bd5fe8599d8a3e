//! The log level that a ConfigMap sets, followed while the process runs: nobody restarts for it.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher;

use super::{LevelHandle, parse_level};
use crate::args::Level;
use crate::readiness::Readiness;
use crate::shutdown::Shutdown;
use crate::watch::Watches;

/// Key of the ConfigMap whose value is the level.
pub const LOG_LEVEL_KEY: &str = "logLevel";

/// Sets `handle` to what the ConfigMap says, each time that it says something else, until the shutdown.
/// While it says nothing, `otherwise` holds.
pub(crate) async fn follow(
    client: Client,
    namespace: String,
    name: String,
    otherwise: Level,
    handle: LevelHandle,
    shutdown: Shutdown,
) {
    // Nobody waits for a log level, so the process's readiness does not depend on it.
    let watches = Watches::new(Readiness::default(), shutdown.clone());
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let store = watches.add_with(Api::<ConfigMap>::namespaced(client, &namespace), only);
    let mut changed = watches.changed();
    let mut present = Present { level: otherwise, said: None };
    loop {
        tokio::select! {
            () = changed.next() => {}
            () = shutdown.requested() => return,
        }
        let said =
            store.get(&namespace, &name).and_then(|map| map.data.as_ref()?.get(LOG_LEVEL_KEY).cloned());
        match present.hear(said, otherwise) {
            None => {}
            Some(Ok(level)) => match handle.set(level) {
                Ok(()) => tracing::info!(event = "logLevelChanged", logLevel = ?level, "log level changed"),
                Err(error) => tracing::warn!(op = "setLogLevel", %error, "log level not changed"),
            },
            Some(Err(error)) => tracing::warn!(op = "setLogLevel", configMap = name, error, "log level kept"),
        }
    }
}

/// What the ConfigMap said last, and the level that came of it.
struct Present {
    level: Level,
    said: Option<String>,
}

impl Present {
    /// The level to set, if it is to be another; or what is wrong with what was said.
    fn hear(&mut self, said: Option<String>, otherwise: Level) -> Option<Result<Level, String>> {
        if said == self.said {
            return None;
        }
        let level = said.as_deref().map_or(Ok(otherwise), parse_level);
        self.said = said;
        match level {
            Ok(level) if level == self.level => None,
            Ok(level) => {
                self.level = level;
                Some(Ok(level))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_set_once_and_what_is_no_level_changes_nothing() {
        let mut present = Present { level: Level::Info, said: None };
        let mut hear = |said: Option<&str>| present.hear(said.map(Into::into), Level::Info);
        assert_eq!(hear(None), None);
        assert_eq!(hear(Some("info")), None, "it is so already");
        assert_eq!(hear(Some("debug")), Some(Ok(Level::Debug)));
        assert_eq!(hear(Some("debug")), None);
        assert!(hear(Some("loud")).unwrap().unwrap_err().contains("use all, debug, info"));
        assert_eq!(hear(Some("loud")), None, "told once");
        assert_eq!(hear(Some("debug")), None, "it was never left");
        assert_eq!(hear(None), Some(Ok(Level::Info)), "the ConfigMap is gone: the flag's");
    }
}
