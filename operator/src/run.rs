//! The operator's task: wait for a change, for the lease, for the end.
//!
//! ```text
//! watches ─ Changed ┐
//! back-off ─────────┼→ Reconciler::pass, while the lease is held
//! lease ─ Held ─────┘
//! ```

use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use ferrolb_api::well_known::{object, reporter};
use ferrolb_runtime::event::EventQueue;
use ferrolb_runtime::lease::{Held, Lease, Timing};
use ferrolb_runtime::log::chain;
use ferrolb_runtime::watch::Changed;
use ferrolb_runtime::{CommonArgs, Process, Shutdown};

use crate::image::ImageReference;
use crate::memberlist;
use crate::metrics::Metrics;
use crate::platform::Platform;
use crate::reconcile::{Next, Reconciler};
use crate::render::{Certificate, Installer, Settings, manager};
use crate::verify;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the first of several changes waits for the others.
const BURST: Duration = Duration::from_millis(50);

/// The operator of FerroLB: installs what the MetalLB object asks for, and keeps it so.
#[derive(Clone, Debug, Parser)]
#[command(name = "manager", version)]
pub struct Args {
    #[command(flatten)]
    common: CommonArgs,

    /// Image of everything that is installed. Default: the image of the operator's own pod.
    #[arg(long, value_name = "IMAGE", env = "OPERAND_IMAGE")]
    image: Option<ImageReference>,

    /// Name of the operator's own pod.
    #[arg(long, value_name = "NAME", env = "METALLB_POD_NAME")]
    pod_name: Option<String>,

    /// Secret with a certificate for the webhook (tls.crt, tls.key) that cert-manager, OLM or you make,
    /// instead of one that the webhook makes itself. Whoever makes it tells the API server whom to trust.
    #[arg(long, value_name = "NAME", env = "WEBHOOK_CERT_SECRET")]
    webhook_cert_secret: Option<String>,

    /// The webhook tells the API server whom to trust, by ca.crt of --webhook-cert-secret.
    #[arg(long, requires = "webhook_cert_secret", env = "WEBHOOK_CERT_CA")]
    webhook_cert_ca: bool,

    /// Instead of everything else: put a key into the Secret metallb-memberlist if it has none, and end.
    /// An init container of installations without the operator does this.
    #[arg(long)]
    make_memberlist_key: bool,

    /// Instead of everything else: check that the product is installed and that the API server reaches
    /// its webhook, and end. `helm test` does this.
    #[arg(long)]
    verify: bool,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// Runs until the shutdown.
pub async fn run(args: Args, process: Process) -> anyhow::Result<()> {
    if args.make_memberlist_key {
        return memberlist::make(&process).await;
    }
    if args.verify {
        return verify::run(&process).await;
    }
    let watches = process.watches();
    let platform = Platform::watch(&process, &watches);
    let image = match args.image {
        Some(image) => image,
        None => {
            let read = own_image(&platform, args.pod_name.as_deref());
            tokio::select! {
                image = read => image?,
                () = process.shutdown.requested() => return Ok(()),
            }
        }
    };
    tracing::info!(%image, namespace = process.namespace, "image of the operands");
    let settings = Settings {
        installer: Installer::Operator,
        namespace: process.namespace.clone(),
        image,
        version: crate::VERSION.into(),
        certificate: args
            .webhook_cert_secret
            .map(|secret| Certificate { secret, tell_authority: args.webhook_cert_ca }),
    };

    let identity = args.pod_name.unwrap_or_else(|| format!("process-{}", std::process::id()));
    let shutdown = process.shutdown.clone();
    let lease = Lease::contend(
        process.client.clone(),
        &process.namespace,
        object::OPERATOR_LEASE,
        &identity,
        Timing::default(),
        shutdown.clone(),
    );
    let events = EventQueue::start(process.client.clone(), reporter::OPERATOR, identity);
    let metrics = Metrics::register(&process.metrics).context("cannot register metrics")?;
    let mut reconciler = Reconciler::new(platform, settings, lease.held(), events, metrics);
    let mut held = lease.held();
    loop {
        tokio::select! {
            () = shutdown.requested() => break,
            () = async { process.readiness.wait().await; held.acquired().await } => {}
        }
        reconciler.take_over();
        lead(&mut reconciler, watches.changed(), held.clone(), &shutdown).await;
    }
    lease.released().await;
    Ok(())
}

/// Passes after each change, and after failures, until the lease is lost or the end comes.
async fn lead(reconciler: &mut Reconciler, mut changed: Changed, mut held: Held, shutdown: &Shutdown) {
    let mut pause = None;
    loop {
        let retry = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = held.lost() => return,
            // Statuses of very many Services change together: a pass for all of them.
            () = changed.next() => tokio::time::sleep(BURST).await,
            () = retry => {}
        }
        pause = match reconciler.pass().await {
            Next::OnChange => None,
            Next::Retry => Some(pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE))),
        };
    }
}

async fn own_image(platform: &Platform, pod: Option<&str>) -> anyhow::Result<ImageReference> {
    let pod =
        pod.context("which image to install? Give --image, or --pod-name to install the operator's own")?;
    let mut pause = FIRST_PAUSE;
    let image = loop {
        match platform.own_image(pod, manager::CONTAINER).await {
            Ok(image) => {
                break image.with_context(|| format!("pod {pod} has no container {}", manager::CONTAINER))?;
            }
            // An answer will be the same next time; without one the API server is away, and ending would
            // only make the kubelet wait longer and longer before it starts this process again.
            Err(error) if error.code().is_some_and(|code| code < 500) => {
                return Err(error).with_context(|| format!("cannot read the image of the own pod {pod}"));
            }
            Err(error) => {
                tracing::warn!(op = "startup", pod, error = chain(&error), "own image not read, retrying");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    image.parse().with_context(|| format!("the operator's own image {image} cannot be installed"))
}
