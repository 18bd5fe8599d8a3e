//! Command line of the webhook.

use std::path::PathBuf;

use clap::Parser;
use ferrolb_api::well_known::{object, port};
use ferrolb_runtime::CommonArgs;

use crate::files::Files;

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

    /// Folder with a certificate that somebody else makes: tls.crt and tls.key, read again when they change.
    /// It is presented instead of one of our own, and the Secret is not used. Without --cert-ca, whoever
    /// makes it also tells the API server whom to trust (caBundle), as cert-manager and OLM do.
    #[arg(long, value_name = "FOLDER")]
    pub cert_dir: Option<PathBuf>,

    /// File with the authority of the certificate in --cert-dir, which is then told to the API server.
    #[arg(long, value_name = "FILE", requires = "cert_dir")]
    pub cert_ca: Option<PathBuf>,

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

    /// Where the certificate is, if somebody else makes it.
    pub(crate) fn files(&self) -> Option<Files> {
        let folder = self.cert_dir.clone()?;
        Some(Files { folder, authority: self.cert_ca.clone() })
    }

    /// Whether the API server learns from us whom to trust.
    pub(crate) fn tells_authority(&self) -> bool {
        self.cert_dir.is_none() || self.cert_ca.is_some()
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
    fn a_certificate_of_others_is_left_to_them_unless_the_authority_is_given() {
        let parse = |flags: &[&str]| Args::try_parse_from([&["ferrolb-webhook"], flags].concat());
        let own = parse(&[]).unwrap();
        assert!(own.files().is_none() && own.tells_authority());
        let theirs = parse(&["--cert-dir=/c"]).unwrap();
        assert!(theirs.files().unwrap().authority.is_none() && !theirs.tells_authority());
        assert!(parse(&["--cert-dir=/c", "--cert-ca=/c/ca.crt"]).unwrap().tells_authority());
        assert!(parse(&["--cert-ca=/c/ca.crt"]).is_err());
    }

    #[test]
    fn an_unknown_flag_is_refused_by_name() {
        let error = Args::try_parse_from(["ferrolb-webhook", "--webhook-prot=1"]).unwrap_err();
        assert!(error.to_string().contains("--webhook-prot"), "{error}");
    }
}
