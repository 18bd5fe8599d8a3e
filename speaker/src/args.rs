//! The command line of the speaker, with MetalLB's names.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};
use ferrolb_api::well_known::port;
use ferrolb_runtime::CommonArgs;

/// Announces the addresses of Services of type LoadBalancer from this node: answers ARP (IPv4) and
/// Neighbor Discovery (IPv6) for those that this node owns.
#[derive(Clone, Debug, Parser)]
#[command(name = "speaker", version)]
pub struct Args {
    /// Options that every process has.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Name of the Node this speaker runs on.
    #[arg(long, value_name = "NAME", env = "METALLB_NODE_NAME")]
    pub node_name: String,

    /// Name of the pod this speaker runs in; it owns the status objects that the speaker writes.
    #[arg(long, value_name = "NAME", env = "METALLB_POD_NAME")]
    pub pod_name: String,

    /// Address on which speakers learn of each other (the pod's). Empty: no membership; then every Node
    /// counts as alive, and speakers must run on all of them.
    #[arg(long, value_name = "ADDRESS", env = "METALLB_ML_BIND_ADDR", default_value = "")]
    pub ml_bindaddr: BindAddress,

    /// UDP port of the membership traffic, the same on every node.
    #[arg(long, value_name = "PORT", env = "METALLB_ML_BIND_PORT", default_value_t = port::MEMBERLIST)]
    pub ml_bindport: u16,

    /// Labels of the speakers' pods, as a label selector. Empty: no membership.
    #[arg(long, value_name = "SELECTOR", env = "METALLB_ML_LABELS", default_value = "")]
    pub ml_labels: String,

    /// Directory of the Secret whose entry `secretkey` encrypts the membership traffic. Without it,
    /// anybody on the network can take part.
    #[arg(long, value_name = "DIR", env = "METALLB_ML_SECRET_KEY_PATH")]
    pub ml_secret_key_path: Option<PathBuf>,

    /// How speakers learn which of them live; the same on all of them.
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub membership: Mode,

    /// With --membership=lease: a node whose Lease was not renewed for so long is dead. Default 15s.
    #[arg(long, value_name = "DURATION")]
    pub lease_duration: Option<String>,

    /// With --membership=lease: a node whose Lease was not renewed for so long is suspected, and its addresses
    /// are asked for. Default 5s.
    #[arg(long, value_name = "DURATION")]
    pub lease_renew_deadline: Option<String>,

    /// With --membership=lease: how often this node's Lease is renewed. Default 2s.
    #[arg(long, value_name = "DURATION")]
    pub lease_retry_period: Option<String>,

    /// Only Services of this spec.loadBalancerClass; default: only those without a class.
    #[arg(long, value_name = "CLASS")]
    pub lb_class: Option<String>,

    /// Announce from nodes labelled node.kubernetes.io/exclude-from-external-load-balancers too.
    #[arg(long)]
    pub ignore_exclude_lb: bool,

    /// TCP port on which BGP peers of this node may connect, besides being dialled; 179 for routers that dial
    /// only that one. A port below 1024 needs the capability NET_BIND_SERVICE. Default: none may.
    #[arg(long, value_name = "PORT")]
    pub bgp_listen_port: Option<NonZeroU16>,

    /// Give the addresses of this node away while it is cordoned (spec.unschedulable). The same on all
    /// speakers.
    #[arg(long)]
    pub withdraw_on_cordon: bool,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// A way to learn who lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// From each other, by UDP.
    #[default]
    Gossip,
    /// By a Lease of each node.
    Lease,
}

/// An address, or none where the text is empty (an environment variable that is set but empty).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress(pub Option<IpAddr>);

impl FromStr for BindAddress {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|address| Self(Some(address))) }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_are_sound_documented_and_refused_by_name() {
        let command = Args::command();
        command.clone().debug_assert();
        assert!(command.get_arguments().all(|argument| argument.get_help().is_some()));
        let known = ["speaker", "--node-name=n", "--pod-name=p", "--ml-labels=a=b"];
        let args = Args::try_parse_from(known).unwrap();
        assert_eq!((args.ml_bindaddr, args.ml_bindport), (BindAddress(None), 7946));
        let error = Args::try_parse_from(known.into_iter().chain(["--no-such"])).unwrap_err();
        assert!(error.to_string().contains("--no-such"), "{error}");
        let error = Args::try_parse_from(known.into_iter().chain(["--ml-bindaddr=x"])).unwrap_err();
        assert!(error.to_string().contains("--ml-bindaddr"), "{error}");
        let args = Args::try_parse_from(known.into_iter().chain(["--ml-bindaddr=fd00::1"])).unwrap();
        assert_eq!(args.ml_bindaddr, BindAddress("fd00::1".parse().ok()));
    }
}
