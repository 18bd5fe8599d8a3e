//! The controller's command line.

use clap::Parser;
use ferrolb_runtime::CommonArgs;

/// Gives Services of type LoadBalancer addresses from IPAddressPools.
#[derive(Clone, Debug, Parser)]
#[command(name = "controller", version)]
pub struct Args {
    /// Options of every process.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Handle only Services of this spec.loadBalancerClass; default: only those without a class.
    #[arg(long, value_name = "CLASS", default_value = "")]
    pub lb_class: String,

    /// Name of the pod that this process runs in; it owns the controller's ConfigurationState.
    #[arg(long, value_name = "NAME", env = "METALLB_POD_NAME")]
    pub pod_name: String,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}
