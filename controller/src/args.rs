//! The controller's command line.

use clap::{ArgAction, Parser, ValueEnum};
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

    /// Options of MetalLB's controller that stand for work of other processes here.
    #[command(flatten)]
    pub(crate) foreign: ForeignArgs,
}

/// Accepted so that the arguments of a MetalLB manifest start this process too.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Accepted for compatibility")]
pub(crate) struct ForeignArgs {
    /// Only `enabled` and `disabled`: webhooks are served by a process of their own.
    #[arg(long, value_name = "MODE", value_enum)]
    webhook_mode: Option<WebhookMode>,
    #[arg(long, value_name = "NAME", hide = true)]
    ml_secret_name: Option<String>,
    #[arg(long, value_name = "NAME", hide = true)]
    deployment: Option<String>,
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pprof_bind_address: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    disable_cert_rotation: Option<bool>,
    #[arg(long, value_name = "DIR", hide = true)]
    cert_dir: Option<String>,
    #[arg(long, value_name = "NAME", hide = true)]
    cert_service_name: Option<String>,
    #[arg(long, value_name = "NAME", hide = true)]
    webhook_secret: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    webhook_http2: Option<bool>,
}

/// What of `--webhook-mode` makes sense for a process that serves no webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WebhookMode {
    Enabled,
    Disabled,
}

impl ForeignArgs {
    /// The given options that change nothing, each with who does that work.
    pub(crate) fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let (operator, webhook) = ("the operator makes the memberlist Secret", "it is the webhook's");
        [
            (set(&self.ml_secret_name), "--ml-secret-name", operator),
            (set(&self.deployment), "--deployment", operator),
            (set(&self.pprof_bind_address), "--pprof-bind-address", "there is no Go runtime to profile"),
            (self.webhook_mode.is_some(), "--webhook-mode", webhook),
            (self.disable_cert_rotation == Some(true), "--disable-cert-rotation", webhook),
            (set(&self.cert_dir), "--cert-dir", webhook),
            (set(&self.cert_service_name), "--cert-service-name", webhook),
            (set(&self.webhook_secret), "--webhook-secret", webhook),
            (self.webhook_http2 == Some(true), "--webhook-http2", webhook),
        ]
        .into_iter()
        .filter_map(|(given, flag, why)| given.then_some((flag, why)))
        .collect()
    }
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from([&["controller", "--pod-name=controller-1"], arguments].concat())
    }

    #[test]
    fn arguments_of_metallb_manifests_are_accepted() {
        let args = parse(&[
            "--port=9120",
            "--log-level=info",
            "--namespace=metallb-system",
            "--health-probe-port=17472",
            "--lb-class=example.org/lb",
            "--webhook-mode=enabled",
            "--ml-secret-name=memberlist",
            "--deployment=controller",
            "--disable-cert-rotation=false",
            "--cert-service-name=metallb-webhook-service",
            "--webhook-http2",
            "--tls-min-version=VersionTLS13",
            "--tls-cipher-suites=",
            "--metrics-cert-dir=/etc/metrics",
            "--pprof-bind-address=",
            "--cert-dir=",
            "--webhook-secret=",
            "--kubeconfig=",
        ])
        .unwrap();
        assert_eq!(args.lb_class, "example.org/lb");
        let without: Vec<&str> = args.foreign.without_effect().into_iter().map(|(flag, _)| flag).collect();
        assert_eq!(
            without,
            ["--ml-secret-name", "--deployment", "--webhook-mode", "--cert-service-name", "--webhook-http2"]
        );
        assert!(parse(&[]).unwrap().foreign.without_effect().is_empty());
        assert!(parse(&["--webhook-mode=onlywebhook"]).is_err());
    }
}
