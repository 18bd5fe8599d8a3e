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
    #[error("invalid curve preference {name:?}: use {known}, or none for all of them")]
    Curve {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Twice the same.
    #[error("duplicate cipher suite {0:?}")]
    DuplicateSuite(String),
    /// Twice the same.
    #[error("duplicate curve preference {0:?}")]
    DuplicateCurve(String),
    /// Those of TLS 1.3 are not for choice, and it alone is spoken.
    #[error(
        "cipher suites cannot be configured with TLS 1.3: leave them out, or take VersionTLS12 as the lowest version"
    )]
    SuitesOfTls13,
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
        let wrong = |choice| match choice {
            Choice::Unknown(name) => PolicyError::Suite { name, known: names(&known, suite_name) },
            Choice::Twice(name) => PolicyError::DuplicateSuite(name),
        };
        let chosen = choose(suites, &known, |suite, name| suite_name(suite) == name).map_err(wrong)?;
        if min == MinVersion::Tls13 && chosen.iter().any(|suite| suite.tls13().is_none()) {
            return Err(PolicyError::SuitesOfTls13);
        }
        if !chosen.is_empty() {
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || chosen.contains(suite));
        }
        let known: Vec<&'static dyn SupportedKxGroup> = provider.kx_groups.clone();
        let is = |group: &&'static dyn SupportedKxGroup, name: &str| {
            group_name(group).eq_ignore_ascii_case(name) || name.parse() == Ok(u16::from(group.name()))
        };
        let wrong = |choice| match choice {
            Choice::Unknown(name) => PolicyError::Curve { name, known: names(&known, group_name) },
            Choice::Twice(name) => PolicyError::DuplicateCurve(name),
        };
        let chosen = choose(curves, &known, is).map_err(wrong)?;
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

fn names<T>(known: &[T], name_of: impl Fn(&T) -> String) -> String {
    known.iter().map(name_of).collect::<Vec<_>>().join(", ")
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
        let refused = |min, suites: &[&str], curves: &[&str]| {
            Policy::new(min, &texts(suites), &texts(curves)).unwrap_err().to_string()
        };
        let error = refused(MinVersion::Tls12, &["RC4"], &[]);
        assert!(error.starts_with("cipher suite \"RC4\"") && error.contains("TLS_ECDHE_ECDSA"), "{error}");
        for unknown in ["P-257", "99999", "-1", "0"] {
            let error = refused(MinVersion::Tls12, &[], &[unknown]);
            let begins = format!("invalid curve preference \"{unknown}\"");
            assert!(error.starts_with(&begins) && error.contains("X25519MLKEM768"), "{error}");
        }
        for twice in ["29", "X25519"] {
            let error = refused(MinVersion::Tls12, &[], &["29", twice]);
            assert_eq!(error, format!("duplicate curve preference \"{twice}\""));
        }
        let suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(
            refused(MinVersion::Tls12, &[suite, suite], &[]),
            format!("duplicate cipher suite \"{suite}\"")
        );
        let error = refused(MinVersion::Tls13, &[suite], &[]);
        assert!(error.starts_with("cipher suites cannot be configured with TLS 1.3"), "{error}");
    }
}
