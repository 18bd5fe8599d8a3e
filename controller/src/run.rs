//! The one loop: wait for a change, make a pass, wait again. Passes are made under the Lease only; a
//! process without it follows the configuration and waits for its turn.

use std::time::Duration;

use anyhow::Context;
use ferrolb_api::well_known::object;
use ferrolb_core::node;
use ferrolb_runtime::Process;
use ferrolb_runtime::lease::{Lease, Timing};
use ferrolb_runtime::shutdown::Shutdown;
use kube::Api;
use kube::runtime::watcher;

use crate::args::Args;
use crate::arrivals::Arrivals;
use crate::metrics::Metrics;
use crate::reconcile::{Controller, Stores};
use crate::reporter::Reporter;
use crate::stored::Stored;
use crate::writer::Limits;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// Of the election: after a crash another process leads within this duration and a look.
    lease: Timing,
    /// Of a status write, which is begun only if it is over before that.
    limits: Limits,
}

impl Default for Times {
    fn default() -> Self {
        let lease = Timing {
            duration: Duration::from_secs(10),
            renew_deadline: Duration::from_secs(8),
            retry_period: Duration::from_secs(2),
        };
        Self { lease, limits: Limits::default() }
    }
}

/// Runs until the shutdown.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    run_with(args, process, Times::default()).await
}

async fn run_with(args: Args, process: Process, times: Times) -> anyhow::Result<()> {
    let Process { client, namespace, readiness, shutdown, .. } = process.clone();
    let watches = process.watches();
    let stores = Stores {
        services: watches.add_read(Api::all(client.clone()), Stored::read),
        pools: watches.add(Api::namespaced(client.clone(), &namespace)),
        reservations: watches.add(Api::namespaced(client.clone(), &namespace)),
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
    let arrivals = Arrivals::follow(watches.changed());
    for (flag, why) in args.foreign.without_effect() {
        tracing::warn!(op = "startup", flag, "this option has no effect: {why}");
    }
    let mut controller = Controller::new(
        client.clone(),
        &namespace,
        &args,
        times.limits,
        stores,
        (arrivals.clone(), shutdown.clone()),
        (metrics, reporter),
    );

    tokio::select! {
        () = readiness.wait() => {}
        () = shutdown.requested() => return Ok(()),
    }
    // The Lease is given back when the last write is over, not when the end is asked for.
    let end_of_lease = Shutdown::default();
    let lease = Lease::contend(
        client,
        &namespace,
        object::CONTROLLER_LEASE,
        &args.pod_name,
        times.lease,
        end_of_lease.clone(),
    );
    lead_or_stand_by(&mut controller, &lease, arrivals, &shutdown).await;
    end_of_lease.begin();
    lease.released().await;
    Ok(())
}

async fn lead_or_stand_by(
    controller: &mut Controller,
    lease: &Lease,
    mut arrivals: Arrivals,
    shutdown: &Shutdown,
) {
    let (held, mut gained, mut gone) = (lease.held(), lease.held(), lease.held());
    while !shutdown.begun() {
        let leads = held.now();
        let next = if leads {
            controller.pass(&held).await
        } else {
            controller.stand_by();
            None
        };
        tokio::select! {
            () = arrivals.next() => {}
            () = tokio::time::sleep(next.unwrap_or_default()), if next.is_some() => {}
            () = gained.acquired(), if !leads => {}
            () = gone.lost(), if leads => {}
            () = shutdown.requested() => {}
        }
    }
}

#[cfg(test)]
mod tests;
