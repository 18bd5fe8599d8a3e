//! A check of an installation from inside the cluster: every workload is ready, and a wrong pool is
//! refused by the webhook. Nothing is stored.

use std::time::Duration;

use anyhow::bail;
use ferrolb_api::well_known::object;
use ferrolb_runtime::Process;
use ferrolb_runtime::write::{self, WriteError};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::Api;

use crate::platform::explain;
use crate::reach;
use crate::status::{Rollout, Workloads, rollouts};

/// Time that an installation may take to settle.
const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_secs(1);

/// Succeeds once everything is there; after [`LIMIT`] fails with what is not.
pub(crate) async fn run(process: &Process) -> anyhow::Result<()> {
    let attempts = async {
        let mut last = String::new();
        loop {
            match look(process).await {
                Ok(()) => return,
                Err(missing) if missing != last => {
                    tracing::info!(op = "verify", missing, "not yet");
                    last = missing;
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = attempts => {
            tracing::info!(event = "verified", "everything is ready, and the webhook answers");
            Ok(())
        }
        () = tokio::time::sleep(LIMIT) => bail!("not everything was there within {} s, see above", LIMIT.as_secs()),
        () = process.shutdown.requested() => bail!("ended before everything was there"),
    }
}

/// What is missing.
async fn look(process: &Process) -> Result<(), String> {
    let (client, namespace) = (process.client.clone(), process.namespace.as_str());
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let daemon_sets: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let read = |error: WriteError| explain(&error);
    let controller = write::bounded(deployments.get_opt(object::CONTROLLER)).await.map_err(read)?;
    let webhook = write::bounded(deployments.get_opt(object::WEBHOOK)).await.map_err(read)?;
    let speaker = write::bounded(daemon_sets.get_opt(object::SPEAKER)).await.map_err(read)?;
    let workloads =
        Workloads { controller: controller.as_ref(), webhook: webhook.as_ref(), speaker: speaker.as_ref() };
    let waiting: Vec<String> = rollouts(workloads, &[])
        .iter()
        .filter(|rollout| !rollout.is_ready())
        .map(Rollout::to_string)
        .collect();
    if !waiting.is_empty() {
        return Err(waiting.join("; "));
    }
    reach::ask(&Api::namespaced(client, namespace)).await
}
