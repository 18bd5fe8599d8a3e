//! `kubectl ferrolb bgp`

use anyhow::{Context, ensure};
use clap::ValueEnum;
use ferrolb_api::v1alpha1::{BGPSession, BGPSessionStatus};
use ferrolb_api::v1beta2::BGPPeer;
use ferrolb_api::well_known::DEFAULT_NAMESPACE;
use k8s_openapi::jiff::Timestamp;

use crate::bgp::{concerns, detail, summary};
use crate::cluster::Access;

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// BGPPeer to show in detail, by its name or address; default: a line for each session.
    #[arg(value_name = "PEER")]
    peer: Option<String>,

    /// Sessions of this node only.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// How to print them.
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Output,

    /// Namespace of the peers.
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,

    #[command(flatten)]
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    /// A list with the status of each BGPSession.
    Json,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let own = Some(args.namespace.as_str());
    let sessions: Vec<BGPSession> = args.access.list("bgpsessions.v1alpha1.ferrolb.io", own)?;
    let peers: Vec<BGPPeer> = args.access.list("bgppeers.v1beta2.metallb.io", own)?;
    let mut sessions: Vec<BGPSessionStatus> = sessions.into_iter().filter_map(|it| it.status).collect();
    sessions.retain(|it| args.node.as_ref().is_none_or(|node| it.node == *node));
    sessions.sort_by(|a, b| (&a.peer, &a.node).cmp(&(&b.peer, &b.node)));
    let mut names: Vec<String> = peers.into_iter().filter_map(|it| it.metadata.name).collect();
    if let Some(peer) = &args.peer {
        sessions.retain(|it| concerns(it, peer));
        names.retain(|it| it == peer);
        ensure!(
            !sessions.is_empty() || !names.is_empty(),
            "there is no BGPPeer {peer} in namespace {}, and none with this address has a session",
            args.namespace
        );
    }
    match (args.output, &args.peer) {
        (Output::Json, _) => {
            println!("{}", serde_json::to_string_pretty(&sessions).context("cannot write JSON")?);
        }
        (Output::Text, Some(_)) => print!("{}", detail(&sessions, &names, Timestamp::now())),
        (Output::Text, None) => print!("{}", summary(&sessions, &names, Timestamp::now())),
    }
    Ok(())
}
