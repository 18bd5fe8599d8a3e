//! What a server accepts of its clients: the lowest version of TLS, cipher suites of TLS 1.2, groups of
//! the key exchange. Those of TLS 1.3 are all good, and not for choice.

use std::sync::Arc;

use clap::ValueEnum;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::{NamedGroup, SupportedCipherSuite, SupportedProtocolVersion, version};

/// The lowest version of TLS, as flags of Kubernetes spell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MinVersion {
    /// TLS 1.2.
    #[value(name = "VersionTLS12")]
    Tls12,
    /// TLS 1.3.
    #[default]
    #[value(name = "VersionTLS13", alias = "")]
    Tls13,
}

/// What is accepted; by default TLS 1.3 only, as MetalLB's default is.
#[derive(Clone, Debug)]
pub struct Policy {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
}

/// Why there is no such policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Nothing that we have.
    #[error("cipher suite {name:?} is not supported: use {known}, or none for all of them")]
    Suite {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Nothing that we have.
    #[error("curve {name:?} is not supported: use {known}, or none for all of them")]
    Curve {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Twice the same.
    #[error("{0:?} stands there twice")]
    Twice(String),
}

impl Default for Policy {
    fn default() -> Self {
        Self { provider: Arc::new(aws_lc_rs::default_provider()), versions: versions(MinVersion::default()) }
    }
}

impl Policy {
    /// From `min` up, of the suites only those named and of the groups (by name or IANA's number) only
    /// those named, in that order. Empty lists are everything.
    pub fn new(min: MinVersion, suites: &[String], curves: &[String]) -> Result<Self, PolicyError> {
        let mut provider = aws_lc_rs::default_provider();
        let known: Vec<SupportedCipherSuite> = provider.cipher_suites.clone();
        let chosen = choose(suites, &known, |suite, name| suite_name(suite) == name).map_err(|problem| {
            problem.into_error(&known, suite_name, |name, known| PolicyError::Suite { name, known })
        })?;
        if !chosen.is_empty() {
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || chosen.contains(suite));
        }
        let known: Vec<&'static dyn SupportedKxGroup> = provider.kx_groups.clone();
        let is = |group: &&'static dyn SupportedKxGroup, name: &str| {
            group_name(group).eq_ignore_ascii_case(name) || name.parse() == Ok(u16::from(group.name()))
        };
        let chosen = choose(curves, &known, is).map_err(|problem| {
            problem.into_error(&known, group_name, |name, known| PolicyError::Curve { name, known })
        })?;
        if !chosen.is_empty() {
            provider.kx_groups = chosen;
        }
        Ok(Self { provider: Arc::new(provider), versions: versions(min) })
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.provider)
    }

    pub(super) fn versions(&self) -> &[&'static SupportedProtocolVersion] {
        &self.versions
    }
}

fn versions(min: MinVersion) -> Vec<&'static SupportedProtocolVersion> {
    match min {
        MinVersion::Tls12 => vec![&version::TLS13, &version::TLS12],
        MinVersion::Tls13 => vec![&version::TLS13],
    }
}

enum Choice {
    Unknown(String),
    Twice(String),
}

impl Choice {
    fn into_error<T>(
        self,
        known: &[T],
        name_of: impl Fn(&T) -> String,
        unknown: impl Fn(String, String) -> PolicyError,
    ) -> PolicyError {
        match self {
            Self::Unknown(name) => unknown(name, known.iter().map(name_of).collect::<Vec<_>>().join(", ")),
            Self::Twice(name) => PolicyError::Twice(name),
        }
    }
}

fn choose<T: Copy>(names: &[String], known: &[T], is: impl Fn(&T, &str) -> bool) -> Result<Vec<T>, Choice> {
    let mut places = Vec::new();
    // An empty option stands for an empty list.
    for name in names.iter().filter(|name| !name.trim().is_empty()) {
        let place =
            known.iter().position(|it| is(it, name.trim())).ok_or_else(|| Choice::Unknown(name.clone()))?;
        if places.contains(&place) {
            return Err(Choice::Twice(name.clone()));
        }
        places.push(place);
    }
    Ok(places.into_iter().filter_map(|place| known.get(place).copied()).collect())
}

/// IANA's name.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

/// The name that Go's and OpenSSL's users know.
fn group_name(group: &&'static dyn SupportedKxGroup) -> String {
    match group.name() {
        NamedGroup::secp256r1 => "P-256".into(),
        NamedGroup::secp384r1 => "P-384".into(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn suites_of_tls_1_3_stay_and_those_of_1_2_are_chosen() {
        let one = texts(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"]);
        let policy = Policy::new(MinVersion::Tls12, &one, &[]).unwrap();
        let of_tls12 = policy.provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        assert_eq!(of_tls12.map(suite_name).collect::<Vec<_>>(), one[..1]);
        assert!(policy.provider.cipher_suites.len() > 2, "every suite of TLS 1.3");
        assert_eq!(policy.versions.len(), 2);
        assert_eq!(Policy::default().versions.len(), 1);
    }

    #[test]
    fn an_empty_option_is_everything() {
        let policy = Policy::new(MinVersion::Tls12, &texts(&[""]), &texts(&[" "])).unwrap();
        assert_eq!(policy.provider.cipher_suites.len(), aws_lc_rs::default_provider().cipher_suites.len());
    }

    #[test]
    fn groups_are_named_or_numbered_and_keep_their_order() {
        let policy = Policy::new(MinVersion::Tls13, &[], &texts(&["24", "x25519", "P-256"])).unwrap();
        let numbers: Vec<u16> = policy.provider.kx_groups.iter().map(|group| group.name().into()).collect();
        assert_eq!(numbers, [24, 29, 23]);
    }

    #[test]
    fn what_there_is_not_is_named_with_what_there_is() {
        let error = Policy::new(MinVersion::Tls12, &texts(&["RC4"]), &[]).unwrap_err().to_string();
        assert!(error.starts_with("cipher suite \"RC4\"") && error.contains("TLS_ECDHE_ECDSA"), "{error}");
        let error = Policy::new(MinVersion::Tls12, &[], &texts(&["P-257"])).unwrap_err().to_string();
        assert!(error.contains("X25519MLKEM768"), "{error}");
        assert_eq!(
            Policy::new(MinVersion::Tls12, &[], &texts(&["29", "X25519"])).unwrap_err(),
            PolicyError::Twice("X25519".into())
        );
    }
}
