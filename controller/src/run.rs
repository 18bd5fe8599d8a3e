//! The one loop: wait for a change, make a pass, wait again. Passes are made under the Lease only.

use std::time::Duration;

use anyhow::Context;
use ferrolb_api::well_known::object;
use ferrolb_core::node;
use ferrolb_runtime::Process;
use ferrolb_runtime::lease::{Lease, Timing};
use kube::Api;
use kube::runtime::watcher;

use crate::args::Args;
use crate::metrics::Metrics;
use crate::reconcile::{Controller, Stores};
use crate::reporter::Reporter;

/// After a pass in which a write failed.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until the shutdown.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    let Process { client, namespace, readiness, shutdown, .. } = process.clone();
    let watches = process.watches();
    let stores = Stores {
        services: watches.add(Api::all(client.clone())),
        pools: watches.add(Api::namespaced(client.clone(), &namespace)),
        l2_advertisements: watches.add(Api::namespaced(client.clone(), &namespace)),
        bgp_advertisements: watches.add(Api::namespaced(client.clone(), &namespace)),
        bgp_peers: watches.add(Api::namespaced(client.clone(), &namespace)),
        bfd_profiles: watches.add(Api::namespaced(client.clone(), &namespace)),
        communities: watches.add(Api::namespaced(client.clone(), &namespace)),
        nodes: watches.add_pruned(Api::all(client.clone()), watcher::Config::default(), node::prune),
        namespaces: watches.add(Api::all(client.clone())),
        states: watches.add(Api::namespaced(client.clone(), &namespace)),
    };
    let metrics = Metrics::register(&process.metrics).context("cannot register metrics")?;
    let reporter = Reporter::start(client.clone(), &args.pod_name);
    let mut controller = Controller::new(client.clone(), &namespace, &args, stores, metrics, reporter);
    let mut changed = watches.changed();

    tokio::select! {
        () = readiness.wait() => {}
        () = shutdown.requested() => return Ok(()),
    }
    let lease = Lease::contend(
        client,
        &namespace,
        object::CONTROLLER_LEASE,
        &args.pod_name,
        Timing::default(),
        shutdown.clone(),
    );
    let mut held = lease.held();
    let mut retry = false;
    while !shutdown.begun() {
        tokio::select! {
            () = held.acquired() => {}
            () = shutdown.requested() => break,
        }
        retry = controller.pass(&held).await || retry;
        tokio::select! {
            () = changed.next() => {}
            () = tokio::time::sleep(RETRY), if retry => retry = false,
            () = held.lost() => {}
            () = shutdown.requested() => break,
        }
    }
    lease.released().await;
    Ok(())
}
