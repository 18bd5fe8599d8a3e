//! Asks the API server, when the speaker was told to end, whether it will be back.

use std::fmt::Debug;
use std::time::Duration;

use ferrolb_core::departure::{Answer, Departure, Facts, daemon_set_of};
use ferrolb_runtime::write::{self, WriteError};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

/// Longest time to wait for all answers: a speaker that cannot know leaves as one that will be back.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who asks.
pub(crate) struct Asking {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) node: String,
    pub(crate) pod: String,
}

impl Asking {
    /// What becomes of this speaker.
    pub(crate) async fn departure(&self) -> Departure {
        let client = || self.client.clone();
        let pod = async {
            let pod = get(Api::namespaced(client(), &self.namespace), &self.pod).await;
            let daemon_set = match daemon_set_of(&pod) {
                Some(name) => get(Api::namespaced(client(), &self.namespace), &name).await,
                None => Answer::Unknown,
            };
            (pod, daemon_set)
        };
        let ((pod, daemon_set), node, namespace) =
            tokio::join!(pod, get(Api::all(client()), &self.node), get(Api::all(client()), &self.namespace),);
        let departure = Facts { pod, daemon_set, node, namespace }.departure();
        tracing::info!(op = "shutdown", "the speaker ends: {departure}");
        departure
    }
}

async fn get<K: Clone + DeserializeOwned + Debug>(api: Api<K>, name: &str) -> Answer<K> {
    match write::bounded_by(PATIENCE / 2, api.get(name)).await {
        Ok(object) => Answer::There(Box::new(object)),
        Err(error) if error.is_not_found() => Answer::Gone,
        Err(error) if is_refusal(&error) => Answer::Refused,
        Err(_) => Answer::Unknown,
    }
}

fn is_refusal(error: &WriteError) -> bool {
    matches!(error.code(), Some(401 | 403))
}
