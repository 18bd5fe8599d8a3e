//! The speaker's life: everything is started, then the agent plans until the shutdown, then the node's
//! addresses are handed over.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ferrolb_api::v1beta1::LeaseTimes;
use ferrolb_api::well_known::{object, reporter};
use ferrolb_core::departure::Departure;
use ferrolb_runtime::Process;
use ferrolb_runtime::event::EventQueue;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher;
use tokio::sync::watch;

use crate::agent::{self, Agent};
use crate::args::{Args, Mode};
use crate::bfd::{self, Bfd, Reachable};
use crate::bgp::{self, Bgp, Routers};
use crate::departure::Asking;
use crate::layer2::{Layer2, Standings};
use crate::links::{self, EXCLUDE_FILE, Excluded, Links};
use crate::members::{self, Membership, lease};
use crate::metrics::{BfdMetrics, Metrics};
use crate::secrets::Secrets;
use crate::status::Writer;
use crate::stores::{Stores, prune_pod};

/// Longest time to go on answering after the others were told that this speaker leaves.
const HAND_OVER: Duration = Duration::from_secs(2);

/// Longest time to take leave of BGP peers.
const LEAVE: Duration = Duration::from_secs(4);

/// Runs the speaker.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    // Before anything is waited for: a speaker that has hardly begun must not pass for ready.
    let (sockets, settled) =
        (process.readiness.condition("layer 2 sockets"), process.readiness.condition("membership"));
    let metrics = Arc::new(Metrics::register(&process.metrics)?);
    let excluded = Excluded::read(Path::new(EXCLUDE_FILE))
        .context("failed to parse announcedInterfacesToExclude from configMap")?;
    let links =
        links::watch(excluded).await.context("cannot learn the network interfaces from the kernel")?;
    let (orders, ordered) = watch::channel(None);
    let (see, standings) = watch::channel(Standings::default());
    let (peers, desired) = watch::channel(None);
    let (report, reported) = watch::channel(None);
    let (reach, reachable) = watch::channel(Reachable::new());
    let (standing, sessions) = watch::channel(None);
    let (routers, found) = watch::channel(Routers::default());

    let layer2 = Layer2::start(links.clone(), ordered, see, Arc::clone(&metrics), sockets)
        .context("cannot start the thread of layer 2")?;
    let events = EventQueue::start(process.client.clone(), reporter::SPEAKER, args.node_name.clone());
    let mut bfd = Bfd::start(
        desired.clone(),
        found,
        reach,
        bfd::Context {
            namespace: process.namespace.clone(),
            node: args.node_name.clone(),
            metrics: BfdMetrics::register(&process.metrics)?,
            events: events.clone(),
        },
    )
    .context("cannot start the thread of BFD")?;
    let bgp = Bgp::start(
        desired,
        bgp::Context {
            namespace: process.namespace.clone(),
            node: args.node_name.clone(),
            metrics: Arc::clone(&metrics),
            events,
            reachable,
            sessions: standing,
            routers,
            listen: args.bgp_listen_port,
        },
    );
    let membership = membership(&args, &process, links.clone(), &metrics).await?;
    let watches = process.watches();
    let agent = Agent {
        settings: agent::Settings {
            node: args.node_name.clone(),
            class: args.lb_class.clone().filter(|class| !class.is_empty()),
            ignore_exclude_label: args.ignore_exclude_lb,
            withdraw_on_cordon: args.withdraw_on_cordon,
        },
        stores: Stores::watch(&watches, &process.client, &process.namespace),
        changed: watches.changed(),
        members: membership.as_ref().map(Membership::view),
        settled,
        links,
        secrets: Secrets::start(process.client.clone(), &process.namespace),
        metrics: Arc::clone(&metrics),
        orders,
        standings,
        pages: process.pages.clone(),
        peers,
        report,
    };
    let writer = Writer {
        client: process.client.clone(),
        namespace: process.namespace.clone(),
        node: args.node_name.clone(),
        pod: args.pod_name.clone(),
        report: reported,
        sessions,
        metrics,
    };
    tokio::spawn(writer.run(process.watches(), process.shutdown.clone()));

    agent.run(process.shutdown.clone()).await;
    // The others learn that they are to take over; meanwhile this node answers on, and falls silent for
    // each address when another node announces it.
    let leave = async {
        if let Some(membership) = membership {
            membership.leave().await;
            tracing::info!(op = "shutdown", "left the membership");
        }
    };
    let asking = Asking {
        client: process.client,
        namespace: process.namespace,
        node: args.node_name,
        pod: args.pod_name,
    };
    let leave_peers = async {
        let departure = asking.departure().await;
        match departure {
            // Before the connections close: a router that loses both at once would take it for a failure.
            Departure::Restarting => {
                bfd.admin_down().await;
                tokio::join!(bgp.leave(departure, LEAVE), bfd.ended(LEAVE));
            }
            // The routes go first, while their path is still watched.
            Departure::Leaving(_) => {
                bgp.leave(departure, LEAVE).await;
                bfd.ended(LEAVE).await;
            }
        }
    };
    tokio::join!(layer2.hand_over(HAND_OVER), leave, leave_peers);
    Ok(())
}

/// Takes part in the membership, if the arguments say how.
async fn membership(
    args: &Args,
    process: &Process,
    links: watch::Receiver<Links>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Membership>> {
    if args.membership == Mode::Lease {
        return membership_by_leases(args, process, links, metrics).map(Some);
    }
    let Some(address) = args.ml_bindaddr.0.filter(|_| !args.ml_labels.is_empty()) else {
        tracing::info!(
            op = "startup",
            "no address or labels of members: every node counts as alive, so speakers must run on all nodes"
        );
        return Ok(None);
    };
    let watches = process.watches();
    let pods: Api<Pod> = Api::namespaced(process.client.clone(), &process.namespace);
    let speakers = watcher::Config::default().labels(&args.ml_labels);
    let settings = members::Settings {
        node: args.node_name.clone(),
        pod: args.pod_name.clone(),
        address: SocketAddr::new(address.to_canonical(), args.ml_bindport),
        secret: secret(args.ml_secret_key_path.as_deref())?,
        secret_file: secret_file(args.ml_secret_key_path.as_deref()),
    };
    let pods = watches.add_pruned(pods, speakers, prune_pod);
    Ok(Some(Membership::start(settings, pods, watches.changed(), links, Arc::clone(metrics)).await?))
}

/// Takes part by a Lease of this node.
fn membership_by_leases(
    args: &Args,
    process: &Process,
    links: watch::Receiver<Links>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Membership> {
    anyhow::ensure!(
        !args.ml_labels.is_empty(),
        "--membership=lease needs --ml-labels, the labels of the speakers' pods"
    );
    let [duration, deadline, period] =
        [&args.lease_duration, &args.lease_renew_deadline, &args.lease_retry_period].map(|it| it.as_deref());
    let times = LeaseTimes::new(duration, deadline, period)
        .context("wrong times of Leases (--lease-duration, --lease-renew-deadline, --lease-retry-period)")?;
    let settings = lease::Settings {
        node: args.node_name.clone(),
        pod: args.pod_name.clone(),
        namespace: process.namespace.clone(),
        pod_labels: args.ml_labels.clone(),
        times,
    };
    let client = process.client.clone();
    Ok(Membership::by_leases(settings, client, &process.watches(), links, Arc::clone(metrics)))
}

/// The file with the secret that speakers share.
fn secret_file(directory: Option<&Path>) -> Option<PathBuf> {
    let directory = directory.filter(|it| !it.as_os_str().is_empty())?;
    Some(directory.join(object::MEMBERLIST_SECRET_KEY))
}

/// The secret that speakers share, or an empty one, by which anybody can take part.
fn secret(directory: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let Some(file) = secret_file(directory) else {
        tracing::warn!(op = "startup", "no membership secret: whoever reaches the port can take part");
        return Ok(Vec::new());
    };
    let secret = std::fs::read(&file)
        .with_context(|| format!("cannot read the membership secret {}", file.display()))?;
    anyhow::ensure!(!secret.is_empty(), "the membership secret {} is empty", file.display());
    Ok(secret)
}

#[cfg(test)]
mod tests;
