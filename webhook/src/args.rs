//! Command line of the webhook.

use clap::Parser;
use ferrolb_api::well_known::{object, port};
use ferrolb_runtime::CommonArgs;

/// Answers the API server's admission reviews of FerroLB's configuration.
#[derive(Clone, Debug, Parser)]
#[command(name = "ferrolb-webhook", version)]
pub struct Args {
    /// Options of every process.
    #[command(flatten)]
    pub common: CommonArgs,

    /// HTTPS port of the admission reviews.
    #[arg(long, value_name = "PORT", default_value_t = port::WEBHOOK)]
    pub webhook_port: u16,

    /// Service through which the API server reaches this process: the name in the certificate.
    #[arg(long, value_name = "NAME", default_value = object::WEBHOOK_SERVICE)]
    pub cert_service_name: String,

    /// Secret with the authority and the serving certificate. It is made, filled and renewed as needed.
    #[arg(long, value_name = "NAME", default_value = object::WEBHOOK_SECRET)]
    pub webhook_secret: String,

    /// ValidatingWebhookConfiguration whose webhooks are told the authority (caBundle). It is never
    /// created.
    #[arg(long, value_name = "NAME", default_value = object::WEBHOOK_CONFIGURATION)]
    pub webhook_configuration: String,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

impl Args {
    /// Names for which the certificate must be good, in the given namespace of the Service.
    pub(crate) fn dns_names(&self, namespace: &str) -> Vec<String> {
        let service = &self.cert_service_name;
        vec![format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_names_that_the_operator_renders() {
        let args = Args::try_parse_from(["ferrolb-webhook"]).unwrap();
        assert_eq!(args.webhook_port, 9443);
        assert_eq!(args.webhook_secret, "metallb-webhook-cert");
        assert_eq!(args.webhook_configuration, "metallb-webhook-configuration");
        assert_eq!(
            args.dns_names("metallb-system"),
            [
                "metallb-webhook-service.metallb-system.svc",
                "metallb-webhook-service.metallb-system.svc.cluster.local"
            ]
        );
    }

    #[test]
    fn an_unknown_flag_is_refused_by_name() {
        let error = Args::try_parse_from(["ferrolb-webhook", "--webhook-prot=1"]).unwrap_err();
        assert!(error.to_string().contains("--webhook-prot"), "{error}");
    }
}
