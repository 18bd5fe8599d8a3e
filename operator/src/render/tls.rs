//! What the HTTPS servers of all processes accept, as flags.

use ferrolb_api::v1beta1::{TlsConfig, TlsVersion};
use ferrolb_runtime::tls::{MinVersion, Policy};

use super::{Context, Refusal};

pub(super) fn flags(context: &Context<'_>) -> Vec<String> {
    let of_cluster = context.observed.openshift.as_ref().map(|openshift| &openshift.tls);
    let Some(tls) = context.metallb.spec.tls.as_ref().or(of_cluster) else { return Vec::new() };
    let version = tls.min_version.map(|version| match version {
        TlsVersion::Tls12 => "--tls-min-version=VersionTLS12".to_owned(),
        TlsVersion::Tls13 => "--tls-min-version=VersionTLS13".to_owned(),
    });
    let list = |flag: &str, list: &[String]| {
        let names: Vec<_> = list.iter().map(|name| name.trim()).collect();
        (!list.is_empty()).then(|| format!("--{flag}={}", names.join(",")))
    };
    let suites = list("tls-cipher-suites", &tls.cipher_suites);
    [suites, list("tls-curve-preferences", &tls.curves), version].into_iter().flatten().collect()
}

/// What a server of ours would make of it.
pub(super) fn policy(tls: Option<&TlsConfig>) -> Result<Policy, Refusal> {
    let Some(tls) = tls else { return Ok(Policy::default()) };
    let min = match tls.min_version {
        Some(TlsVersion::Tls12) => MinVersion::Tls12,
        Some(TlsVersion::Tls13) | None => MinVersion::Tls13,
    };
    Policy::new(min, &tls.cipher_suites, &tls.curves).map_err(Refusal::Tls)
}
